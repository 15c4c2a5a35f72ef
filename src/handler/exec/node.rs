//! The volume limit and the topology of CSI drivers that have a program.
//!
//! With `--csi-node-info`, NodeGetInfo is called after the registration of such a driver, and then
//! periodically. When the reply has changed, the program is run again.

use std::sync::Arc;

use crate::handler::csi::{self, node};
use crate::handler::{CallFailure, Context, Event, Plugin, Store};

/// The drivers on which NodeGetInfo is called periodically.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    periods: node::Periods,
    known: Store<Known>,
}

/// A driver, and its latest valid reply, if there is one.
#[derive(Clone, Debug)]
struct Known {
    plugin: Arc<Plugin>,
    driver: Option<csi::Driver>,
}

impl Nodes {
    pub(super) fn new(periods: node::Periods) -> Self {
        let known = Store::default();
        Self { periods, known }
    }

    /// Calls NodeGetInfo on a driver that was just registered, if the driver has a period.
    pub(super) fn start_asking(&self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        if self.periods.find(&plugin.name).is_some() {
            self.known.set(Known {
                plugin: plugin.clone(),
                driver: None,
            });
            node::call_node_get_info(plugin, context);
        }
    }

    pub(super) fn promote(&self, plugin: &Plugin) {
        self.known.promote(plugin);
    }

    pub(super) fn remove(&self, plugin: &Plugin) {
        self.known.remove(plugin);
    }

    /// Returns the driver that the latest valid reply describes, or `None` if there is none yet.
    pub(super) fn find(&self, plugin: &Plugin) -> Option<csi::Driver> {
        self.known.with(plugin, |known| known.driver.clone())?
    }

    /// Handles an event of a driver. Returns whether the program has to be run again.
    pub(super) fn handle_event(
        &self,
        event: Event,
        plugin: &Arc<Plugin>,
        context: &mut Context<'_>,
    ) -> bool {
        match event {
            Event::Called { result, .. } => {
                self.periods.schedule_call(plugin, context);
                self.apply_reply(plugin, result, context)
            }
            Event::TimerFired { .. } => {
                node::call_node_get_info(plugin, context);
                false
            }
            _ => false, // No other effects are requested for a driver.
        }
    }

    /// Records a reply. Returns whether the driver is the current one of its name and its reply has
    /// changed.
    fn apply_reply(
        &self,
        plugin: &Arc<Plugin>,
        result: Result<Vec<u8>, CallFailure>,
        context: &mut Context<'_>,
    ) -> bool {
        let is_changed = self.known.with(plugin, |known| {
            node::apply_reply(plugin, &mut known.driver, result, context)
        });
        let current = self.known.get(&plugin.name);
        let is_current = current.is_some_and(|known| known.plugin.has_socket_of(plugin));
        is_current && is_changed == Some(true)
    }
}

impl AsRef<Plugin> for Known {
    fn as_ref(&self) -> &Plugin {
        &self.plugin
    }
}
