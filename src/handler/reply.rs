//! From what a call brought to a message, or to the reason that its plugin is told.
//!
//! Pure.

use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};

use super::{CallFailure, Reason};

/// The reply to the method of that name as a message, or why there is none; a reply of more than
/// `limit` octets is none.
pub(super) fn read<M: Message + Default>(
    method: &str,
    result: Result<Vec<u8>, CallFailure>,
    limit: usize,
) -> Result<M, Reason> {
    let reply = result.map_err(|error| Reason::new(format!("{method} failed: {error}")))?;
    if reply.len() > limit {
        let words = format!("the reply to {method} is larger than {limit} octets");
        return Err(Reason::new(words));
    }
    let message = M::decode(&*reply);
    message.map_err(|error| Reason::new(format!("the reply to {method} is no such reply: {error}")))
}

/// Returns how many fields a message has on its first level, or `None` if it is not a message.
///
/// An empty entry of a list costs its sender two octets and its reader a hundred: what may be large
/// is counted before it is decoded.
pub(super) fn count_fields(mut message: &[u8]) -> Option<usize> {
    // By reference, as it is decoded: the same code serves.
    let mut message = &mut message;
    let mut count = 0;
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message).ok()?;
        if wire_type == WireType::EndGroup {
            return None;
        }
        skip_field(wire_type, tag, &mut message, DecodeContext::default()).ok()?;
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1beta1::{Device, ListAndWatchResponse};

    #[test]
    fn the_fields_of_a_message_are_counted_without_reading_them() {
        let devices = vec![Device::default(); 5];
        let message = ListAndWatchResponse { devices }.encode_to_vec();
        assert_eq!(message.len(), 10);
        assert_eq!(count_fields(&message), Some(5));
        assert_eq!(count_fields(&[]), Some(0));
        assert_eq!(count_fields(&[0x0a, 9]), None, "it is cut");
        assert_eq!(count_fields(&[0x0c]), None, "no group was begun");
    }

    #[test]
    fn what_is_no_reply_is_named() {
        let reason = read::<ListAndWatchResponse>("ListAndWatch", Ok(vec![0x0a]), 4);
        let reason = reason.expect_err("it is cut");
        let words = "the reply to ListAndWatch is no such reply: ";
        assert!(reason.as_str().starts_with(words), "{reason:?}");
        let reason = read::<ListAndWatchResponse>("ListAndWatch", Ok(vec![0; 5]), 4);
        let words = "the reply to ListAndWatch is larger than 4 octets";
        assert_eq!(reason.expect_err("it is large").as_str(), words);
    }
}
