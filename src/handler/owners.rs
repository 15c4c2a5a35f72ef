//! The plugin for which each effect was asked for.
//!
//! Pure. For handlers that keep an effect pending for every plugin: an event names its effect, but
//! the handler's state is kept by the plugins' registration sockets.

use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

use super::{Context, EffectId};

/// The pending effects, each with its plugin's registration socket.
#[derive(Debug, Default)]
pub(super) struct Owners {
    sockets: LiteMap<EffectId, Arc<Path>>,
}

/// The effects that are pending for one plugin.
pub(super) type Effects = [Option<EffectId>; 2];

impl Owners {
    /// Removes an effect that has an event. Returns its plugin's registration socket. If the effect
    /// is still pending, [`Owners::set`] has to record it again.
    pub(super) fn take(&mut self, effect: EffectId) -> Option<Arc<Path>> {
        self.sockets.remove(&effect)
    }

    /// Records that these effects are pending for the plugin with that socket.
    pub(super) fn set(&mut self, effects: Effects, socket: &Arc<Path>) {
        for effect in effects.into_iter().flatten() {
            self.sockets.insert(effect, socket.clone());
        }
    }

    /// Removes these effects: their events are ignored, unless the effects are recorded again.
    pub(super) fn forget(&mut self, effects: Effects) {
        for effect in effects.into_iter().flatten() {
            self.sockets.remove(&effect);
        }
    }

    /// Returns the number of pending effects.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Removes and cancels these effects.
    pub(super) fn cancel(&mut self, effects: Effects, context: &mut Context<'_>) {
        self.forget(effects);
        for effect in effects.into_iter().flatten() {
            context.cancel(effect);
        }
    }
}
