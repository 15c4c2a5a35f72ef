//! Binary metadata: fields whose names end in `-bin` and whose values are base64.
//!
//! A value that is not base64 is dropped without affecting the others. Decoding never needs more
//! memory than the encoded value.

use crate::http2::Fields;

/// Returns the octets of every valid value of a field, in order.
///
/// gRPC: "Implementations MUST split Binary-Headers on "," before decoding the Base64-encoded
/// values": a list may be sent in one field or in many.
pub(super) fn decode_values<'a>(
    fields: &'a Fields,
    name: &'a [u8],
) -> impl Iterator<Item = Vec<u8>> + use<'a> {
    let lists = fields.get_all(name);
    let values = lists.flat_map(|list| list.split(|&octet| octet == b','));
    values.filter_map(decode)
}

/// Encodes a value for sending.
///
/// gRPC: "Implementations MUST accept padded and un-padded values and should emit un-padded
/// values."
pub(super) fn encode(octets: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity((octets.len() * 4).div_ceil(3));
    for group in octets.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bits);
        for digit in 0..=group.len() {
            encoded.push(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]);
        }
    }
    encoded
}

/// Decodes a value, padded or not; returns `None` if it is not base64.
fn decode(value: &[u8]) -> Option<Vec<u8>> {
    let digits = strip_padding(value)?;
    let mut octets = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for &digit in group {
            bits = (bits << 6) | digit_value(digit)?;
        }
        let [_, group_octets @ ..] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        octets.extend_from_slice(&group_octets[..group.len() - 1]);
    }
    Some(octets)
}

/// Removes the padding of a value; returns `None` if the number of digits or the padding is
/// invalid.
fn strip_padding(value: &[u8]) -> Option<&[u8]> {
    let padding = value.iter().rev().take_while(|&&octet| octet == b'=');
    let digits = &value[..value.len() - padding.count()];
    let is_padded = digits.len() < value.len();
    let fits = match digits.len() % 4 {
        0 => !is_padded,
        1 => false,
        _ => !is_padded || value.len() == digits.len().next_multiple_of(4),
    };
    fits.then_some(digits)
}

/// Returns the value of a digit, or `None` if the octet is not a digit of base64.
fn digit_value(digit: u8) -> Option<u32> {
    let number = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(number.into())
}

/// The digits of base64 (RFC 4648 §4).
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_octets_survive_encoding_and_decoding() {
        let octets: Vec<u8> = (0..=255).collect();
        for length in 0..=octets.len() {
            let encoded = encode(&octets[..length]);
            assert!(encoded.iter().all(|digit| DIGITS.contains(digit)));
            assert_eq!(decode(&encoded).as_deref(), Some(&octets[..length]));
        }
    }

    /// RFC 4648 §10.
    #[test]
    fn the_vectors_of_rfc_4648_are_decoded_with_and_without_padding() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (octets, padded) in vectors {
            let bare = padded.trim_end_matches('=');
            assert_eq!(
                decode(padded.as_bytes()).as_deref(),
                Some(octets.as_bytes())
            );
            assert_eq!(decode(bare.as_bytes()).as_deref(), Some(octets.as_bytes()));
            assert_eq!(encode(octets.as_bytes()), bare.as_bytes());
        }
    }

    #[test]
    fn values_that_are_not_base64_are_dropped() {
        let broken = [
            "Z",
            "Zm9vY",
            "Zg=",
            "Zg===",
            "Zm8==",
            "Zm9v=",
            "=",
            "====",
            "Z=g=",
            "Zm9-",
            "Zm_v",
            "Zm 9",
            " Zm9v",
            "Zm\u{f6}v",
        ];
        for value in broken {
            assert_eq!(decode(value.as_bytes()), None, "{value:?}");
        }
    }
}
