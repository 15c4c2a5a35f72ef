//! The binary: the daemon around the plugin manager, and the commands that look at a node.
//!
//! - [`run`], [`reload`], [`config_file`]: starts the daemon, follows its configuration, ends it;
//! - [`sandbox`]: what the daemon gives up once it has started;
//! - [`sd_notify`]: notifies the service manager;
//! - [`probe`], [`doctor`], [`simulate`]: the shell of the commands of these names.

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
pub use self::run::{Daemon, Load, missing};
