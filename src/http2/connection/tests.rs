//! Tests of what RFC 9113 requires of a connection, from the peer's side of the wire.
//!
//! Six tests are marked as "missed by conformance suites": they check behaviour that one HTTP/2
//! client got wrong although it passed every case of such a suite.

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
