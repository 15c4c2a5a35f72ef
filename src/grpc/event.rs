//! The events of calls, as their caller receives them.

use super::error::CallError;

/// The identifier of a call of one [`Client`](super::Client), which never reuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(super) u64);

/// An event of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A unary call ended, with the reply or an error.
    Finished {
        /// The call.
        call: CallId,
        /// The octets of the reply, or the error.
        result: Result<Vec<u8>, CallError>,
    },
    /// A message was received on a server-streaming call.
    Message {
        /// The call.
        call: CallId,
        /// The octets of the message.
        message: Vec<u8>,
    },
    /// A server-streaming call ended.
    Closed {
        /// The call.
        call: CallId,
        /// `Ok` if the server ended the call with the status OK, or the error.
        result: Result<(), CallError>,
    },
}
