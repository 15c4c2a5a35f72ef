//! The number of fields of a message, without decoding it.
//!
//! Pure.

use prost::DecodeError;
use prost::encoding::{DecodeContext, decode_key, skip_field};

/// Returns the number of fields on the first level of a message.
///
/// An empty entry of a list costs the sender two octets and the receiver a hundred: a message that
/// may be large is counted before it is decoded.
pub(super) fn count_fields(mut message: &[u8]) -> Result<usize, DecodeError> {
    let mut count = 0;
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message)?;
        skip_field(wire_type, tag, &mut message, DecodeContext::default())?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::v1beta1::{Device, ListAndWatchResponse};

    #[test]
    fn the_fields_of_a_message_are_counted_without_reading_them() {
        let devices = vec![Device::default(); 5];
        let message = ListAndWatchResponse { devices }.encode_to_vec();
        assert_eq!(message.len(), 10);
        assert_eq!(count_fields(&message), Ok(5));
        assert_eq!(count_fields(&[]), Ok(0));
        assert!(count_fields(&[0x0a, 9]).is_err(), "it is cut");
        assert!(count_fields(&[0x0c]).is_err(), "no group was begun");
    }
}
