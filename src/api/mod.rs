//! The API of the daemon: HTTP/1.1 on a Unix socket, for commands, scripts and scrapers.
//!
//! Pure: octets and times are arguments, requests are returned as values. The module never reads a
//! clock, opens a socket or starts a thread; `daemon` carries the octets.
//!
//! ```text
//!  receive()                                                    pending(), sent()
//!      |                                                                ^
//!      v                                                                |
//!    input --> request --> Request --> route --> Call --> answer --> output
//!                 |                      |                  ^           ^
//!                 |                      |                 View         |
//!                 +------ 4xx, 505 ------+------> response -------------+
//! ```
//!
//! One request of a client is answered at a time. What the client sends meanwhile stays in the
//! kernel, and so does everything while more than [`API_OUTPUT`](crate::config::API_OUTPUT) waits
//! to be written. So a client that does not read, or that sends thousands of requests at once, is
//! slowed down, and its memory is bounded.
//!
//! Reading order: `request` finds the end of a head and parses it, `response` writes heads and
//! bodies, `connection` is the state machine of one client, with its deadlines. `route` makes a
//! [`Call`] of a [`Request`], or the response that refuses it. `answer` renders the response to a
//! call from a [`View`] of the daemon, a piece in each turn, as `json` or `metrics`. `server` has
//! the clients. `event_log` keeps the newest events for readers. `counters` counts with
//! `histogram`, and `metrics` shows that (`families`) in the format of Prometheus (`exposition`).

mod answer;
mod connection;
mod counters;
mod event;
mod event_log;
mod exposition;
mod families;
mod histogram;
mod json;
pub mod metrics;
mod process;
mod request;
mod response;
mod route;
mod server;
mod view;

pub use connection::Connection;
pub use counters::{CLIENTS, Counters};
pub use event::Event;
pub use event_log::{EventLog, KeptEvent};
pub use histogram::Histogram;
pub(crate) use metrics::REVISION;
pub use process::ProcessFacts;
pub use request::{Method, Request};
pub use response::{ContentType, Response, Status};
pub use route::{Call, Change, Selection, route};
pub use server::{Access, ClientId, Done, Refused, Server};
pub use view::{Daemon, View};
