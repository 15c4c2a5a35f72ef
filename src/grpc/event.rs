//! What happens to calls, as whoever makes them sees it.
//!
//! Pure.

use super::error::CallError;

/// Names one call of one [`Client`](super::Client); never reused within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// The first call of a client.
    pub(super) const FIRST: Self = Self(0);

    /// The call that is made after this one.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What happened to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A call ended: with the reply's message, or without one.
    Finished {
        /// Which call.
        call: CallId,
        /// The reply's octets, or why there is none.
        result: Result<Vec<u8>, CallError>,
    },
    /// A message came on a stream.
    Message {
        /// Which stream.
        call: CallId,
        /// The message's octets.
        message: Vec<u8>,
    },
    /// A stream ended.
    Closed {
        /// Which stream.
        call: CallId,
        /// That the server had nothing more to say, or why it ended otherwise.
        result: Result<(), CallError>,
    },
}
