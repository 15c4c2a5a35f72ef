//! The binary: the daemon around the plugin manager, and the commands that look at a node.
//!
//! - [`run`], [`reload`], [`config_file`]: starts the daemon, follows its configuration, ends it;
//! - [`sd_notify`]: notifies the service manager;
//! - [`probe`], [`doctor`], [`simulate`]: the shell of the commands of these names.

pub mod config_file;
pub mod doctor;
pub mod probe;
pub(super) mod reload;
pub(super) mod run;
pub(super) mod sd_notify;
pub mod simulate;

pub use self::run::{Daemon, Load, handlers, missing};
