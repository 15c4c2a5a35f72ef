//! Decodes the result of a call: returns the message, or the reason for the failure in the words of
//! grpc-go, which plugins are notified with.

use std::path::Path;

use prost::Message;

use super::{CallFailure, Reason, wording};
use crate::grpc::Code;

/// Decodes the reply to a call to `endpoint`, or returns the error in grpc-go's words. A reply of
/// more than `limit` octets is an error.
pub(super) fn decode<M: Message + Default>(
    endpoint: &Path,
    result: Result<Vec<u8>, CallFailure>,
    limit: usize,
) -> Result<M, Reason> {
    let reply = result.map_err(|error| Reason::new(wording::rpc_error(&error, endpoint)))?;
    if reply.len() > limit {
        let words = wording::too_large_text(reply.len() as u64, limit);
        return Err(Reason::new(wording::status(
            Code::ResourceExhausted,
            &words,
        )));
    }
    let message = M::decode(&*reply);
    message.map_err(|error| {
        let words = format!("grpc: failed to unmarshal the received message: {error}");
        Reason::new(wording::status(Code::Internal, &words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1beta1::ListAndWatchResponse;

    #[test]
    fn a_reply_that_is_wrong_is_refused_in_grpc_go_s_words() {
        let refused = |reply: Vec<u8>| {
            let message = decode::<ListAndWatchResponse>(Path::new("/p/a.sock"), Ok(reply), 4);
            message.expect_err("it is refused").as_str().to_owned()
        };
        let cut = refused(vec![0x0a]);
        let words = "rpc error: code = Internal desc = grpc: failed to unmarshal the received \
                     message: ";
        assert!(cut.starts_with(words), "{cut:?}");
        let large = refused(vec![0; 5]);
        let words = "rpc error: code = ResourceExhausted desc = \
                     grpc: received message larger than max (5 vs. 4)";
        assert_eq!(large, words);
        let fitting = vec![0x0a, 2, 0x0a, 0];
        let message = decode::<ListAndWatchResponse>(Path::new("/p/a.sock"), Ok(fitting), 4);
        assert_eq!(message.expect("4 octets are allowed").devices.len(), 1);
    }
}
