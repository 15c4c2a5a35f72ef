//! Processes: the programs of handlers, peers, and this one.
//!
//! - [`programs`], [`child`]: start programs, and report how they end;
//! - [`peer_groups`]: checks the groups of a peer process;
//! - [`signals`], [`descriptors`]: read the signals to this process, and raise its limit on
//!   descriptors;
//! - [`passed`]: takes the sockets that the service manager has passed to this process;
//! - [`usage`]: reads what this process uses, and facts about the processes of plugins.

pub(super) mod child;
pub(super) mod descriptors;
pub(super) mod passed;
pub(super) mod peer_groups;
pub(super) mod programs;
pub(super) mod signals;
pub(super) mod usage;
