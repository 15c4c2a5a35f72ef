//! Settings that are changed at run time. Plugins that a change does not concern stay as they are.

use super::{PluginManager, registrations};
use crate::api::Response;
use crate::config::{HandlerConfig, OnDown, PathMap};
use crate::handler::{self, Inventory};
use crate::manager;

impl PluginManager {
    /// Sets the mapping of endpoint paths that plugins report from their own mount namespaces.
    /// Connections stay open.
    pub fn set_path_map(&mut self, path_map: &PathMap) {
        let path_map = registrations::map_to_itself(path_map, self.device_plugins_dir());
        self.mounts.set_named_dirs(&self.dirs, &path_map);
        self.manager.set_path_map(path_map);
        if let Some(links) = &mut self.links {
            links.compare_all(self.clock.now());
        }
        self.handle_input(manager::Input::Reconsider);
    }

    /// Sets the treatment of registered plugins that are down, including those that are down
    /// already.
    pub fn set_on_down(&mut self, on_down: OnDown) {
        self.manager.set_on_down(on_down);
        self.handle_input(manager::Input::Reconsider);
    }

    /// Sets the memory budget: the number of octets that may be held for all plugins together.
    /// Octets that are already held stay. Afterwards, a list that would exceed the budget is
    /// rejected, and a connection that would exceed the budget loses its calls.
    pub fn set_memory_budget(&mut self, octets: usize) {
        self.manager.set_memory_budget(octets);
        self.handle_input(manager::Input::Reconsider);
    }

    /// Changes the built-in handlers from one configuration to another, and shows their inventory
    /// through the API.
    pub(crate) fn change_handlers(
        &mut self,
        inventory: &mut Inventory,
        before: &HandlerConfig,
        after: &HandlerConfig,
    ) {
        let now = self.clock.now();
        let change = |table: &mut _| handler::change_handlers(table, inventory, before, after);
        self.manager.change_handlers(change, now);
        self.drain_manager(now);
        self.set_inventory(inventory.clone());
    }

    /// Emits the event of a reload, and responds to the clients that wait for it.
    pub(crate) fn finish_reload(&mut self, event: manager::event::EventKind, response: &Response) {
        let now = self.clock.now();
        self.manager.emit_daemon_event(event);
        self.drain_manager(now);
        self.api.answer_reload(response, now);
    }
}
