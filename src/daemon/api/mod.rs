//! The API socket: the side of the daemon, and the side of the commands that query it.
//!
//! - [`server`]: accepts clients in the loop, and serves them with [`crate::api`];
//! - [`listener`], [`exchange`]: open the sockets, and read from and write to one client;
//! - [`client`]: connects a command to the daemon; [`command`]: runs the program of `plugind with`.

#[cfg(feature = "cli")]
pub mod client;
#[cfg(feature = "cli")]
mod command;
mod exchange;
pub(super) mod listener;
pub(super) mod server;
