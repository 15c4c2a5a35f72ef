//! Plugins of other types, which the user names: they are only registered and listed.

use std::sync::Arc;

use super::{Answer, Context, Plugin, PluginHandler, Store};

/// A handler that accepts every plugin and keeps a list of the registered ones.
#[derive(Debug, Default)]
pub struct GenericHandler {
    plugins: Store<Plugin>,
}

impl GenericHandler {
    /// Returns the registered plugins, which stay readable after the handler has been given away.
    pub fn plugins(&self) -> Store<Plugin> {
        self.plugins.clone()
    }
}

impl PluginHandler for GenericHandler {
    fn validate(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn register(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.plugins.set(plugin.clone());
        Answer::YES
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.plugins.remove(plugin);
        Answer::YES
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) {
        self.plugins.promote(plugin);
    }
}
