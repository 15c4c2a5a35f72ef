//! What only a real kernel can show: directories that move, vanish and are covered by others;
//! inotify that overflows, runs out of watches, or is not to be had; processes that are killed.
//!
//! Limits and mounts belong to the whole machine, so the tests that change them run in namespaces
//! of their own ([`inside`]): no privilege is needed, and nobody else notices. Where the system
//! does not allow that, they are reported as skipped.

#[path = "../support/inside.rs"]
mod inside;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/plugin.rs"]
mod plugin;
#[path = "../support/skip.rs"]
mod skip;
#[path = "../support/watches.rs"]
mod watches;

mod aliases;
mod bare;
mod crowds;
mod exchange;
mod limits;
mod locks;
mod mounts;
mod moves;
mod processes;
mod roots;
mod stalled;
