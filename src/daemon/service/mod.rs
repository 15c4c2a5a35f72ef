//! The binary: the daemon around the plugin manager, and the commands that look at a node.
//!
//! - [`run`], [`reload`], [`config_file`]: the run of the daemon, and its configuration;
//! - [`sandbox`]: drops the privileges that the daemon does not need once it has started;
//! - [`sd_notify`]: notifies the service manager;
//! - [`probe`], [`doctor`], [`simulate`]: what the commands of these names do.

#[cfg(feature = "cli")]
pub mod config_file;
#[cfg(feature = "cli")]
pub mod doctor;
mod handlers;
#[cfg(feature = "cli")]
pub mod probe;
#[cfg(feature = "cli")]
pub(super) mod reload;
#[cfg(feature = "cli")]
pub(super) mod run;
#[cfg(feature = "cli")]
pub(super) mod sandbox;
#[cfg(feature = "cli")]
pub(super) mod sd_notify;
#[cfg(feature = "cli")]
pub mod simulate;

pub use self::handlers::handlers;
#[cfg(feature = "cli")]
pub use self::run::{Daemon, Load, path_problems};
