//! The metrics of the plugin manager.

use super::PluginManager;
use crate::api::metrics::{Cursor, Sources};
use crate::daemon::process_metrics;
use crate::handler::Inventory;

impl PluginManager {
    /// Returns the metrics as text for Prometheus, in its format 0.0.4. `inventory` is that of the
    /// built-in handlers, if these are used. With thousands of plugins, the text has a megabyte and
    /// takes milliseconds.
    pub fn metrics(&self, inventory: Option<&Inventory>) -> Vec<u8> {
        let process = process_metrics::read();
        let sources = Sources {
            manager: &self.manager,
            watch: &self.watch,
            counters: &self.counters,
            inventory,
            process: process.as_ref(),
        };
        let (mut cursor, mut text) = (Cursor::default(), Vec::new());
        while cursor.next(&sources, &mut text) {}
        text
    }
}
