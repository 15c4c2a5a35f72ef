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
//! # Driving a connection
//!
//! Whoever has a stream of octets, a clock and a loop can drive a [`Connection`]; it needs nothing
//! else. [`Time`](crate::time::Time) is how long it is since a moment of the caller's choice. What
//! moves octets and lets time pass are the methods of [`Endpoint`], which gRPC's ends have, too. A
//! turn of the loop is this:
//!
//! 1. read into [`recv_buf`](Endpoint::recv_buf) and say [`received`](Endpoint::received); an
//!    empty one means: not now. When the peer has closed the stream, or it broke, say
//!    [`eof`](Endpoint::eof) instead;
//! 2. take events with [`poll_event`](Connection::poll_event) until there are none;
//! 3. write of [`transmit`](Endpoint::transmit) what the stream takes, and say
//!    [`sent`](Endpoint::sent);
//! 4. wait for the stream, at most until [`poll_timeout`](Endpoint::poll_timeout), and then call
//!    [`handle_timeout`](Endpoint::handle_timeout); early does no harm.
//!
//! The order does not matter, only that step 2 follows each of the others: any of them may lead to
//! events, and an event to something to write.
//!
//! An event names its stream; its fields and octets are borrowed until the next call. What is to
//! happen is said at any time: [`open`](Connection::open) (clients),
//! [`send_headers`](Connection::send_headers), [`send_data`](Connection::send_data),
//! [`reset`](Connection::reset), [`shutdown`](Connection::shutdown). Of these, what does not fit
//! now is not taken: the answer is `Later`, or how much was taken, and the rest is offered again
//! after the next event or [`sent`](Endpoint::sent). The octets of [`Event::Data`] are given back
//! with [`consume`](Connection::consume) when they are used up, or the peer can send no more.
//!
//! The last event is [`Event::Closed`]. Whatever goes wrong before it costs one stream
//! ([`Event::Failed`]; it is reset already) or the connection, never the caller: nothing panics on
//! what a peer does, and what a connection holds has the bounds that stand in
//! [`config`](crate::config). What is in [`transmit`](Endpoint::transmit) after the end is the
//! goodbye that tells the peer why.
//!
//! # Example
//!
//! A request and its answer, with both ends in one place and the octets carried by hand:
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
//!         if let Event::Request { stream, fields, end_stream: true } = event {
//!             assert_eq!(fields.get(b":path"), Some(&b"/greeting"[..]));
//!             // So soon after the beginning there is room for all of it.
//!             let _ = server.send_headers(stream, &[(":status", b"200")], false, now);
//!             server.send_data(stream, b"hello", true, now);
//!         }
//!     }
//!     carry(&mut server, &mut client, now);
//!     while let Some(event) = client.poll_event(now) {
//!         match event {
//!             Event::Data { stream, data, end_stream } => {
//!                 answer.extend_from_slice(data);
//!                 is_complete = end_stream;
//!                 let octets = data.len();
//!                 client.consume(stream, octets, now);
//!             }
//!             Event::Head { stream, status, .. } => assert_eq!((stream, status), (asked, 200)),
//!             other => panic!("{other:?} is no part of this answer"),
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
//! Read in this order: `endpoint` and [`connection`] (the verbs), `preface` (how it begins),
//! `frame` (octets), `stream` (the states), `flow` (windows), `fields` (what a header may be),
//! `patience` (what is too much), [`error`] (who is wrong).

// Frames, settings and codes are called what their specifications call them.
#![allow(clippy::doc_markdown)]

pub mod connection;
pub mod error;

mod block;
mod deframer;
mod endpoint;
mod fields;
mod flow;
mod frame;
mod kind;
mod outbox;
mod patience;
mod preamble;
mod preface;
mod role;
mod settings;
mod stream;
mod stream_id;
mod streams;
#[cfg(test)]
pub(crate) mod testing;

pub use connection::{Connection, Event, HeadersError, OpenError, Taken};
pub use endpoint::{Endpoint, carry};
pub use error::{
    Awaited, ConnectionError, ErrorCode, Excess, GoneAway, Malformed, StreamError, Violation,
};
pub use fields::Fields;
pub use kind::Kind;
pub use preamble::Preamble;
pub use settings::Settings;
pub use stream_id::StreamId;

// With these a header block is written whose fields are always the same.
pub(crate) use crate::hpack::{Encoded, Encoder};
