//! The sentences of RFC 9113 that a connection obeys, from the peer's side of the wire.
//!
//! Six tests name themselves as of the six: what they ask, a client was seen to get wrong while it
//! passed every case of a conformance suite.

mod closing;
mod flow;
mod headers;
mod hostile;
mod hostile_clients;
mod limits;
mod server;
mod settings;
mod split;
mod streams;
