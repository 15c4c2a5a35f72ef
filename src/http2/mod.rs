//! HTTP/2 framing and connection management: RFC 9113, as a client and as a server.
//!
//! Pure: octets and moments come in as arguments, octets to write and events come out of buffers
//! that have bounds. It never reads a clock, opens a socket, starts a thread, or knows what a
//! message means.
//!
//! ```text
//!  recv_buf(), received()                                     transmit(), sent()
//!        |                                                            ^
//!        v                                                            |
//!    deframer --> frame --> connection --(answers)---------------> outbox
//!                            |  block --> hpack --> fields            ^
//!                            |  streams --> stream --> flow           |
//!                            v                                        |
//!                      poll_event() --> Event      open(), send_headers(), send_data(), reset()
//! ```
//!
//! There is no queue of events: [`Connection::poll_event`] takes one frame out of the buffer at a
//! time, and only while there is room to answer it. A caller that does not ask stops the peer, not
//! the process.
//!
//! Read in this order: [`connection`] (the verbs), `frame` (octets), `stream` (the states), `flow`
//! (windows), `fields` (what a header may be), `patience` (what is too much), [`error`] (who is
//! wrong).

// Frames, settings and codes are called what their specifications call them.
#![allow(clippy::doc_markdown)]

pub mod connection;
pub mod error;

mod block;
mod deframer;
mod fields;
mod flow;
mod frame;
mod outbox;
mod patience;
mod preamble;
mod role;
mod settings;
mod stream;
mod streams;
#[cfg(test)]
pub(crate) mod testing;

pub use connection::{Connection, Event, HeadersError, OpenError, Taken};
pub use error::{
    Awaited, ConnectionError, ErrorCode, Excess, GoneAway, Malformed, StreamError, Violation,
};
pub use fields::Fields;
pub use frame::Kind;
pub use preamble::Preamble;
pub use settings::Settings;
pub use stream::StreamId;
