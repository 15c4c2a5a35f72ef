//! The API socket: the daemon's side, and the side of the commands that ask it.
//!
//! - [`server`]: accepts clients in the loop, and answers them from [`crate::api`];
//! - [`listener`], [`exchange`]: its socket, and one client with its request;
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
