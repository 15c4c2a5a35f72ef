//! The view of an operator, which is built from the events of the manager alone: it must agree with
//! what the manager knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use plugind::handler::Plugin;
use plugind::manager::event::EventKind;
use plugind::manager::{Manager, PluginEvent};

use crate::restored::Restored;
use crate::world::awaited_sockets;

/// The registered plugins, as the events since the last start have reported them.
#[derive(Debug, Default)]
pub(super) struct Operator {
    registered: BTreeMap<Arc<Path>, Arc<Plugin>>,
    /// The sockets of the plugins that are down.
    down: BTreeSet<Arc<Path>>,
}

impl Operator {
    /// Accepts events, and checks that each follows from those before.
    pub(super) fn accept(&mut self, events: Vec<PluginEvent>) {
        for event in events {
            let (Some(socket), Some(plugin)) = (&event.socket, &event.plugin) else {
                continue;
            };
            match event.kind {
                EventKind::Registered { .. } => {
                    assert!(event.attempt > 0, "{event}");
                    let before = self.registered.insert(socket.clone(), plugin.clone());
                    assert_eq!(before, None, "{event}: it was registered before");
                }
                EventKind::Deregistered | EventKind::NotUndone(_) => {
                    // A plugin that was restored, or not notified yet, may be deregistered, too.
                    let before = self.registered.remove(socket);
                    assert!(before.is_none_or(|it| it == *plugin), "{event}");
                    self.down.remove(socket);
                }
                EventKind::Down { .. } => {
                    assert_eq!(self.registered.get(socket), Some(plugin), "{event}");
                    assert!(self.down.insert(socket.clone()), "{event}: reported before");
                }
                EventKind::Up => assert!(self.down.remove(socket), "{event}: it was up"),
                EventKind::Promoted => {
                    assert_eq!(self.registered.get(socket), Some(plugin), "{event}");
                }
                _ => {}
            }
        }
    }

    /// Checks that the events have reported all that the manager knows about the sockets on which
    /// no operation runs. Those that `awaited` has were registered before a restart.
    pub(super) fn check(&self, manager: &Manager, awaited: &Restored) {
        let restored = awaited_sockets(manager);
        for socket in manager.sockets() {
            let path = socket.path();
            if socket.operation_state().is_some() || restored.contains(path) {
                continue;
            }
            let registered = socket.registered();
            if registered.is_some_and(|it| awaited.has_announced(&it.plugin)) {
                continue;
            }
            let plugin = registered.map(|it| &it.plugin);
            assert_eq!(self.registered.get(path), plugin, "{path:?}");
            let is_down = registered.is_some_and(|it| it.health.down_since().is_some());
            assert_eq!(self.down.contains(path), is_down, "{path:?} is down");
        }
        for path in self.registered.keys() {
            assert!(manager.socket(path).is_some(), "{path:?} was deregistered");
        }
    }
}
