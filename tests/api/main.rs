//! The API of the built binary: its socket, its clients, and what they see and change.

#[path = "../support/binary.rs"]
mod binary;
#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../support/node.rs"]
mod embedder;
#[path = "../support/inside.rs"]
mod inside;
#[path = "../support/plugin.rs"]
mod plugin;
#[path = "../support/simulated.rs"]
mod simulated;
#[path = "../support/skip.rs"]
mod skip;
#[path = "../support/timed.rs"]
mod timed;

mod changes;
mod client;
mod clients;
mod devices;
mod embedded;
mod node;
mod socket;
mod transcript;
