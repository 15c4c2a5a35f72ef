//! The API of the daemon: HTTP/1.1 on a Unix socket, for commands, scripts and scrapers.
//!
//! All of this folder is pure: octets and times are arguments, requests are returned as values. The
//! module never reads a clock, opens a socket or starts a thread; `daemon` carries the octets, and
//! passes in the functions that read facts about processes ([`View`]).
//!
//! ```text
//!  receive()                                     pending_output(), sent()
//!      |                                                        ^
//!      v                                                        |
//!    input --> Request --> route --> Call --> answer ------> output
//!      |                     |         |        ^               ^
//!      |                     |         |      View              |
//!      |                     |         |        v               |
//!      |                     |         +---> follow ------------+
//!      +---- 4xx, 505 -------+--------> response ---------------+
//! ```
//!
//! A connection has one request and one response, which is rendered as a whole and has a limited
//! length. Two kinds of responses have no end of their own: the one to a client that holds devices,
//! and the ones that follow changes. Those are rendered as fast as the client reads, so a client
//! that does not read takes a bounded amount of memory.
//!
//! Reading order: `request` parses the head of a request, `response` encodes responses,
//! `connection` is the state machine of one client, with its deadlines. `route` converts a
//! [`Request`] to a [`Call`], or to the response that refuses it. `answer` renders the response to
//! a call from a [`View`] of the daemon, with `json` or `metrics`; `follow` renders the responses
//! that follow changes. `server` manages the clients. `event_log` keeps the newest [`Event`]s for
//! readers. `counters` has the counts and the [`Histogram`]s, and `metrics` renders them in the
//! text format of Prometheus (`exposition`).

mod answer;
mod connection;
mod counters;
mod event_log;
mod exposition;
mod follow;
mod json;
pub mod metrics;
mod process;
mod request;
mod response;
mod route;
mod server;
mod view;

pub use connection::Connection;
pub use counters::{CLIENTS, Counters, Histogram};
pub use event_log::{Event, EventLog, KeptEvent};
pub(crate) use metrics::REVISION;
pub use process::{PeerFacts, ProcessFacts};
pub use request::{Method, Request};
pub use response::{ContentType, Response, Status};
pub use route::{Call, Change, Selection, route};
pub use server::{Access, ClientId, Server};
pub use view::{Daemon, View};
