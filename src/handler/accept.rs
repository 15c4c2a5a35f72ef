//! A handler that accepts every plugin, and does nothing else.
//!
//! It is meant for types that need no work on this node, and for experiments. The manager lists the
//! accepted plugins, as it does for all handlers.

use std::sync::Arc;

use super::{Answer, Context, Plugin, PluginHandler};

/// A handler that accepts every plugin of its types.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptHandler;

impl PluginHandler for AcceptHandler {
    fn validate(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn register(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn deregister(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }
}
