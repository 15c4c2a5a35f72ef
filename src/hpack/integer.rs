//! Integers with a prefix: RFC 7541 §5.1.
//!
//! An integer starts in the low bits of an octet, whose high bits identify what the integer is for,
//! and continues in the following octets, seven bits at a time.

use super::Error;

/// Removes an integer with a prefix of `prefix_bits` (1 to 8) from the front of `input` and returns
/// it. The high bits of the first octet are ignored.
#[inline]
pub(super) fn decode(input: &mut &[u8], prefix_bits: u32) -> Result<usize, Error> {
    let max_prefix = max_prefix(prefix_bits);
    let prefix = usize::from(next_octet(input)? & max_prefix);
    // RFC 7541 §5.1: "If the integer value is small enough, i.e., strictly less than 2^N-1, it is
    // encoded within the N-bit prefix."
    if prefix < usize::from(max_prefix) {
        return Ok(prefix);
    }
    let mut value = prefix;
    for position in 0..MAX_CONTINUATION_OCTETS {
        let octet = next_octet(input)?;
        value += usize::from(octet & !CONTINUES) << (7 * position);
        if octet & CONTINUES == 0 {
            return Ok(value);
        }
    }
    // RFC 7541 §5.1: "Integer encodings that exceed implementation limits -- in value or octet
    // length -- MUST be treated as decoding errors."
    Err(Error::IntegerTooLong)
}

/// Appends `value` with a prefix of `prefix_bits` (1 to 8). The bits of the first octet above the
/// prefix are set to `high_bits`.
#[inline]
pub(super) fn encode(value: usize, prefix_bits: u32, high_bits: u8, out: &mut Vec<u8>) {
    let max_prefix = max_prefix(prefix_bits);
    debug_assert_eq!(
        high_bits & max_prefix,
        0,
        "the prefix belongs to the integer"
    );
    let Some(rest) = value.checked_sub(usize::from(max_prefix)) else {
        out.push(high_bits | value.to_le_bytes()[0]);
        return;
    };
    out.push(high_bits | max_prefix);
    encode_rest(rest, out);
}

/// Appends the part of a value that does not fit the prefix.
fn encode_rest(mut rest: usize, out: &mut Vec<u8>) {
    while rest >= usize::from(CONTINUES) {
        out.push(CONTINUES | rest.to_le_bytes()[0]);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

/// Returns the value of a prefix whose bits are all set, which means that the integer continues in
/// the following octets.
pub(super) const fn max_prefix(prefix_bits: u32) -> u8 {
    u8::MAX >> (u8::BITS - prefix_bits)
}

#[inline]
fn next_octet(input: &mut &[u8]) -> Result<u8, Error> {
    let (&first, rest) = input.split_first().ok_or(Error::Truncated)?;
    *input = rest;
    Ok(first)
}

/// The bit of an octet after the prefix that is set if another octet follows.
const CONTINUES: u8 = 0x80;

/// The number of octets that may follow the prefix. Together with the prefix this makes five, the
/// usual limit: enough for 2^28, which is far above any accepted block, and few enough that the sum
/// cannot overflow 32 bits.
const MAX_CONTINUATION_OCTETS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_all(octets: &[u8], prefix_bits: u32) -> Result<usize, Error> {
        let mut rest = octets;
        let value = decode(&mut rest, prefix_bits)?;
        assert_eq!(rest, [0u8; 0], "octets left over");
        Ok(value)
    }

    fn encoded(value: usize, prefix_bits: u32) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value, prefix_bits, 0, &mut out);
        out
    }

    #[test]
    fn c_1_1_ten_fits_a_five_bit_prefix() {
        assert_eq!(decode_all(&[0b0000_1010], 5), Ok(10));
        assert_eq!(encoded(10, 5), [0b0000_1010]);
    }

    #[test]
    fn c_1_2_1337_needs_two_more_octets() {
        let octets = [0b0001_1111, 0b1001_1010, 0b0000_1010];
        assert_eq!(decode_all(&octets, 5), Ok(1337));
        assert_eq!(encoded(1337, 5), octets);
    }

    #[test]
    fn c_1_3_42_starts_at_an_octet_boundary() {
        assert_eq!(decode_all(&[0b0010_1010], 8), Ok(42));
        assert_eq!(encoded(42, 8), [0b0010_1010]);
    }

    #[test]
    fn bits_above_the_prefix_are_ignored_when_decoding() {
        assert_eq!(decode_all(&[0b1110_1010], 5), Ok(10));
        let mut out = Vec::new();
        encode(31, 5, 0b0010_0000, &mut out);
        assert_eq!(out, [0b0011_1111, 0]);
    }

    #[test]
    fn every_prefix_decodes_what_it_encoded() {
        for prefix_bits in 1..=8 {
            for value in (0..2000).chain([16_383, 16_384, 0x0fff_ffff]) {
                assert_eq!(
                    decode_all(&encoded(value, prefix_bits), prefix_bits),
                    Ok(value)
                );
            }
        }
    }

    #[test]
    fn an_integer_that_ends_early_is_truncated() {
        assert_eq!(decode_all(&[], 7), Err(Error::Truncated));
        assert_eq!(decode_all(&[0x7f], 7), Err(Error::Truncated));
        assert_eq!(decode_all(&[0x7f, 0xff], 7), Err(Error::Truncated));
    }

    #[test]
    fn five_octets_are_the_most_whatever_their_value() {
        assert_eq!(
            decode_all(&[0xff, 0xff, 0xff, 0xff, 0x7f], 8),
            Ok(255 + (1 << 28) - 1)
        );
        assert_eq!(decode_all(&[0xff, 0x80, 0x80, 0x80, 0x00], 8), Ok(255));
        let too_long: [&[u8]; 3] = [
            &[0xff, 0x80, 0x80, 0x80, 0x80, 0x00],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f],
            &[
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ],
        ];
        for octets in too_long {
            assert_eq!(decode_all(octets, 8), Err(Error::IntegerTooLong));
        }
    }
}
