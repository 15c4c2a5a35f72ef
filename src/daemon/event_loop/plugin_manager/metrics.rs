//! The metrics of the plugin manager.

use super::PluginManager;
use crate::api::metrics::{self, Sources};
use crate::daemon::process::usage;
use crate::handler::Inventory;

impl PluginManager {
    /// Returns the metrics in the text format of Prometheus, version 0.0.4. `inventory` is that of
    /// the built-in handlers, if these are used.
    pub fn metrics(&self, inventory: Option<&Inventory>) -> Vec<u8> {
        metrics::render(&Sources {
            manager: &self.manager,
            watch: &self.watch,
            counters: &self.counters,
            inventory,
            process: usage::read_own(),
        })
    }
}
