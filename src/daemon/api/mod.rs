//! The API socket: the side of the daemon, and the side of the commands that query it.
//!
//! - [`server`]: accepts clients in the loop, and serves them with [`crate::api`];
//! - [`listener`], [`exchange`]: the listening socket, and the connection of one client;
//! - [`calendar`], [`ready`]: what a response says about time, and whether the daemon is ready;
//! - [`client`], [`command`]: the connection of a command, and what the command runs meanwhile.

mod calendar;
#[cfg(feature = "cli")]
pub mod client;
#[cfg(feature = "cli")]
mod command;
mod exchange;
pub(super) mod listener;
pub(super) mod ready;
pub(super) mod server;
