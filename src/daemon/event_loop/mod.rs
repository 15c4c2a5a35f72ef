//! The plugin manager in its poll loop.
//!
//! - [`plugin_manager`]: the value that an embedder drives, and its turn;
//! - [`connections`]: the connections to plugins, by id, and the processes behind them;
//! - [`device_plugins`]: `kubelet.sock`, and the device plugins that call it;
//! - [`report`]: the log lines about directories.

pub(super) mod connections;
pub(super) mod device_plugins;
pub(super) mod plugin_manager;
pub(super) mod report;

pub(super) use self::device_plugins::remedy;
pub use self::plugin_manager::PluginManager;
