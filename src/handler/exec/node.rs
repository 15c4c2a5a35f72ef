//! The volume limit and the topology of CSI drivers that have a program.
//!
//! If the user wants that, such a driver is asked with NodeGetInfo after its registration, and then
//! in its period. When its reply differs from the one before, the program is run again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::escape;
use crate::handler::csi::{self, node};
use crate::handler::{CallFailure, Context, Event, EventType, Plugin, Reason, Store};

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

/// The reply, as the program reads it: with the keys that a record of the API has.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeFacts {
    node_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_volumes: Option<u64>,
    topology: BTreeMap<String, String>,
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

    /// Returns the latest reply of a driver.
    pub(super) fn find(&self, plugin: &Plugin) -> Option<NodeFacts> {
        self.known.with(plugin, |known| {
            let driver = known.driver.clone()?;
            Some(NodeFacts {
                node_id: driver.node_id,
                max_volumes: driver.max_volumes,
                topology: driver.topology.into_iter().collect(),
            })
        })?
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
        let updated = self.known.with(plugin, |known| {
            let old = known.driver.replace(node::read(plugin, result)?);
            let is_changed = old.is_some() && old != known.driver;
            Ok::<_, Reason>(
                known
                    .driver
                    .as_ref()
                    .filter(|_| is_changed)
                    .map(ToString::to_string),
            )
        });
        match updated {
            Some(Ok(Some(driver))) => {
                let message = format!("node information has changed {driver}");
                context.emit(plugin, EventType::Normal, "NodeInfoChanged", message);
                let current = self.known.get(&plugin.name);
                current.is_some_and(|known| known.plugin.has_socket_of(plugin))
            }
            Some(Err(why)) => {
                let why = escape::text(why.as_str());
                log::debug!("{plugin}: node information was not received again: {why}");
                false
            }
            Some(Ok(None)) | None => false,
        }
    }
}

impl AsRef<Plugin> for Known {
    fn as_ref(&self) -> &Plugin {
        &self.plugin
    }
}
