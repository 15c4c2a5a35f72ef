//! The volume limit and the topology of CSI drivers that have a program.
//!
//! If the user wants that, such a driver is asked with NodeGetInfo after its registration, and then
//! in its period. When its reply differs from the one before, the program is run again.

use std::sync::Arc;

use crate::handler::csi::{self, node};
use crate::handler::{CallFailure, Context, Event, Plugin, Store};

/// The drivers that are asked.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    periods: node::Periods,
    known: Store<Known>,
}

/// A driver, and its latest reply.
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

    /// Asks a driver that was just registered, if it is to be asked.
    pub(super) fn registered(&self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        if self.periods.find(&plugin.name).is_some() {
            self.known.set(Known {
                plugin: plugin.clone(),
                driver: None,
            });
            node::ask(plugin, context);
        }
    }

    pub(super) fn promoted(&self, plugin: &Plugin) {
        self.known.promote(plugin);
    }

    pub(super) fn deregistered(&self, plugin: &Plugin) {
        self.known.remove(plugin);
    }

    /// Returns the latest reply of a driver, as the program reads it.
    pub(super) fn find(&self, plugin: &Plugin) -> Option<csi::NodeFacts> {
        let facts = |known: &mut Known| known.driver.as_ref().map(csi::Driver::facts);
        self.known.with(plugin, facts)?
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
                self.periods.ask_later(plugin, context);
                self.replied(plugin, result, context)
            }
            Event::TimerFired { .. } => {
                node::ask(plugin, context);
                false
            }
            _ => false, // Other effects of a driver are never asked for.
        }
    }

    /// Applies a reply. Returns whether the current driver of its name replied something else than
    /// before.
    fn replied(
        &self,
        plugin: &Arc<Plugin>,
        result: Result<Vec<u8>, CallFailure>,
        context: &mut Context<'_>,
    ) -> bool {
        let is_changed = self.known.with(plugin, |known| {
            node::replied(plugin, &mut known.driver, result, context)
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
