//! Which plugin an effect was asked for.
//!
//! Pure. For handlers that keep something going for every plugin: an event names its effect, and
//! what is going on is kept by the plugins' registration sockets.

use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

use super::{Context, EffectId};

/// The effects that have not come to an end, each with its plugin's registration socket.
#[derive(Debug, Default)]
pub(super) struct Owners {
    sockets: LiteMap<EffectId, Arc<Path>>,
}

/// What is waited for because of one plugin.
pub(super) type Effects = [Option<EffectId>; 2];

impl Owners {
    /// Something has come of an effect: whose it is. Whoever goes on to wait for it says so anew.
    pub(super) fn take(&mut self, effect: EffectId) -> Option<Arc<Path>> {
        self.sockets.remove(&effect)
    }

    /// The plugin behind that socket waits for these effects.
    pub(super) fn set(&mut self, effects: Effects, socket: &Arc<Path>) {
        for effect in effects.into_iter().flatten() {
            self.sockets.insert(effect, socket.clone());
        }
    }

    /// What comes of these effects is nobody's any more, unless they are set anew.
    pub(super) fn forget(&mut self, effects: Effects) {
        for effect in effects.into_iter().flatten() {
            self.sockets.remove(&effect);
        }
    }

    /// How many effects there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Takes these effects back.
    pub(super) fn cancel(&mut self, effects: Effects, context: &mut Context<'_>) {
        self.forget(effects);
        for effect in effects.into_iter().flatten() {
            context.cancel(effect);
        }
    }
}
