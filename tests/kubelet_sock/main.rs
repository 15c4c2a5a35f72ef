//! Device plugins that announce themselves to the built binary, as they do with kubelet.

#[path = "../support/binary.rs"]
mod binary;
#[path = "../support/caller.rs"]
mod caller;
#[path = "../api/client.rs"]
#[allow(dead_code, reason = "a part of it is enough")]
mod client;
#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../support/exposition.rs"]
mod exposition;
#[path = "../support/frames.rs"]
mod frames;
#[path = "../support/inside.rs"]
mod inside;
#[path = "../support/simulated.rs"]
mod simulated;
#[path = "../support/skip.rs"]
mod skip;

mod crowds;
mod directory;
mod endpoints;
mod lists;
mod mounts;
mod node;
mod plugin;
mod programs;
mod restarts;
mod start;
mod views;
