//! The sentences of RFC 9113 that a connection obeys, from the peer's side of the wire.

mod closing;
mod flow;
mod headers;
mod hostile;
mod limits;
mod server;
mod settings;
mod split;
mod streams;
