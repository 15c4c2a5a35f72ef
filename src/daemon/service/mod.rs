//! What the program adds to the plugin manager: the daemon as a process, and the commands that work
//! without a daemon. Only [`handlers()`] is for embedders as well.
//!
//! - [`handlers()`]: creates the handlers that a configuration describes;
//! - [`config_file`]: reads the configuration file;
//! - [`run`]: sets up the daemon, and runs it until a signal ends it;
//! - [`reload`]: reads the configuration again, and applies what has changed;
//! - [`sandbox`]: drops the privileges that the daemon does not need once it has started;
//! - [`sd_notify`]: notifies the service manager;
//! - [`probe`]: calls plugins as the daemon would, without registering them;
//! - [`doctor`]: examines a node and probes its plugins, and changes nothing;
//! - [`simulate`]: runs a simulated plugin on real sockets.

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
pub use self::reload::Load;
#[cfg(feature = "cli")]
pub use self::run::{Daemon, path_problems};
