//! From what a call brought to a message, or to the reason that its plugin is told.
//!
//! Pure.

use prost::Message;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1beta1::ListAndWatchResponse;

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
