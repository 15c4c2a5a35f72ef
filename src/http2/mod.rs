//! HTTP/2 framing and connection management: RFC 9113, as a client and as a server.
//!
//! The module is pure: octets and times are passed in as arguments; events and octets to write are
//! taken out of bounded buffers. It never reads a clock, opens a socket, starts a thread, or
//! interprets a message.
//!
//! ```text
//!  recv_buf(), received()                                     transmit(), sent()
//!        |                                                            ^
//!        v                                                            |
//!    deframer ------------> connection --(answers)---------------> outbox
//!                            |  block --> hpack --> fields            ^
//!                            |  streams --> stream --> flow           |
//!                            v                                        |
//!                      poll_event() --> Event      open(), send_headers(), send_data(), reset()
//! ```
//!
//! Events are not queued: [`Connection::poll_event`] takes one frame out of the buffer at a time,
//! and only while there is room to answer the frame. A caller that does not poll slows the peer
//! down; memory does not grow.
//!
//! # Driving a connection
//!
//! A [`Connection`] needs a stream of octets, a clock and a loop, and nothing else.
//! [`Time`](crate::time::Time) counts from a moment of the caller's choice. The methods that move
//! octets and pass the time are those of [`Endpoint`], which the two ends of gRPC also implement.
//! One turn of the loop:
//!
//! 1. read into [`recv_buf`](Endpoint::recv_buf) and report the count with
//!    [`received`](Endpoint::received); an empty buffer means not to read now. If the peer has
//!    closed the stream, or the stream broke, call [`eof`](Endpoint::eof) instead;
//! 2. take events with [`poll_event`](Connection::poll_event) until it returns `None`;
//! 3. write as much of [`transmit`](Endpoint::transmit) as the stream accepts, and report the count
//!    with [`sent`](Endpoint::sent);
//! 4. wait for the stream, at most until [`poll_timeout`](Endpoint::poll_timeout), and then call
//!    [`handle_timeout`](Endpoint::handle_timeout); an early call is harmless.
//!
//! The order of the steps does not matter, as long as step 2 follows each of the others: any of
//! them may lead to events, and handling an event may queue octets to write.
//!
//! An event names its stream; [`fields`](Connection::fields) and [`content`](Connection::content)
//! return its fields and content until the next call of `poll_event`. These methods may be called
//! at any time: [`open`](Connection::open) (clients), [`send_headers`](Connection::send_headers),
//! [`send_data`](Connection::send_data), [`reset`](Connection::reset),
//! [`shutdown`](Connection::shutdown). The first three do not queue what does not fit: they return
//! `Later`, or how much was taken. The caller offers the rest again after each
//! [`sent`](Endpoint::sent), and when step 2 is done: a WINDOW_UPDATE or SETTINGS that makes room
//! is not an event. The octets of [`Event::Data`] are released with
//! [`consume`](Connection::consume) after use; otherwise the peer's flow-control window runs out.
//!
//! The last event is [`Event::Closed`]. A failure ends either one stream ([`Event::Failed`]; the
//! stream is already reset) or the connection. Nothing that a peer does causes a panic, and the
//! memory of a connection is bounded by the limits in [`config`](crate::config). After the end,
//! [`transmit`](Endpoint::transmit) returns the last octets to write, such as a GOAWAY with the
//! reason.
//!
//! # Example
//!
//! A request and its response, with both ends in one program that carries the octets:
//!
//! ```
//! use plugind::http2::{Connection, Event, carry};
//! use plugind::time::Time;
//!
//! # fn main() -> Result<(), plugind::http2::OpenError> {
//! let now = Time::ZERO; // Here, no time passes.
//! let (mut client, mut server) = (Connection::client(now), Connection::server(now));
//!
//! let request: [(&str, &[u8]); 4] = [
//!     (":method", b"GET"),
//!     (":scheme", b"http"),
//!     (":path", b"/greeting"),
//!     (":authority", b"localhost"),
//! ];
//! let asked = client.open(&request, true, now)?;
//!
//! let mut answer = Vec::new();
//! let mut is_complete = false;
//! while !is_complete {
//!     carry(&mut client, &mut server, now);
//!     while let Some(event) = server.poll_event(now) {
//!         if let Event::Request { stream, end_stream: true } = event {
//!             assert_eq!(server.fields().get(b":path"), Some(&b"/greeting"[..]));
//!             // Almost nothing was queued before, so all of this fits.
//!             let _ = server.send_headers(stream, &[(":status", b"200")], false, now);
//!             server.send_data(stream, b"hello", true, now);
//!         }
//!     }
//!     carry(&mut server, &mut client, now);
//!     while let Some(event) = client.poll_event(now) {
//!         match event {
//!             Event::Data { stream, end_stream } => {
//!                 answer.extend_from_slice(client.content());
//!                 is_complete = end_stream;
//!                 client.consume(stream, client.content().len(), now);
//!             }
//!             Event::Response { stream, status, .. } => {
//!                 assert_eq!((stream, status), (asked, 200));
//!             }
//!             other => panic!("{other:?} is not part of this answer"),
//!         }
//!     }
//! }
//! assert_eq!(answer, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! The examples `request` and `serve` in `tests/examples/` are a client and a server on real
//! sockets; conformance suites can be run against both.
//!
//! # Inside
//!
//! Read in this order: `endpoint` and [`connection`] (the methods), `preface` (the first octets),
//! `frame` (octets to values), `stream` (the states), `flow` (windows), `fields` (what a header may
//! contain), `flood` (flood limits), [`error`] (errors and their codes).

// Frames, settings and codes have the names that their specifications give them.
#![allow(clippy::doc_markdown)]

pub mod connection;
pub mod error;

mod block;
mod deframer;
mod endpoint;
mod fields;
mod flood;
mod flow;
mod frame;
mod frame_type;
mod other_protocol;
mod outbox;
mod preface;
mod settings;
mod stream;
mod stream_id;
mod streams;
#[cfg(test)]
pub(crate) mod testing;

pub use connection::{Connection, Event, HeadersError, OpenError, Taken};
pub use endpoint::{Endpoint, carry};
pub use error::{
    Awaited, ConnectionError, ErrorCode, Excess, GoAwayReceived, Malformed, StreamError, Violation,
    WindowError,
};
pub use fields::Fields;
pub use frame_type::FrameType;
pub use other_protocol::OtherProtocol;
pub use settings::Settings;
pub use stream_id::StreamId;

// Used to write header blocks with fields that are always the same.
pub(crate) use crate::hpack::{Encoded, Encoder};

/// The memory that a buffer keeps while it is empty (octets): several times an ordinary response.
const KEPT_OCTETS: usize = 1024;
