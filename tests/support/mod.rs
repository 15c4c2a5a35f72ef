//! What several suites use: the built binary and its daemon ([`daemon`], [`process`]), plugins,
//! peers and callers on real sockets, and what a machine may lack.

#![allow(
    dead_code,
    unused_macros,
    reason = "each test binary uses a part of it"
)]

pub(crate) mod binary;
pub(crate) mod bind;
pub(crate) mod caller;
pub(crate) mod canned;
pub(crate) mod client;
pub(crate) mod daemon;
pub(crate) mod exposition;
pub(crate) mod frames;
pub(crate) mod grpc;
pub(crate) mod inside;
pub(crate) mod kubelet;
pub(crate) mod node;
pub(crate) mod pipe;
pub(crate) mod plugin;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod seccomp;
pub(crate) mod simulated;
pub(crate) mod skip;
pub(crate) mod text;
pub(crate) mod ticks;
pub(crate) mod timed;
pub(crate) mod trusted;
pub(crate) mod until;
pub(crate) mod watches;
#[macro_use]
pub(crate) mod without;
