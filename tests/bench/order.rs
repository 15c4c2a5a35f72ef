//! The messages between the benchmark and its plugins: a line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::Moment;

/// An order to the plugins.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Plugins appear one after the other, each after its pause; each ends when the same time has
    /// passed since it was notified that it is registered. Answered by [`Answer::Told`].
    OneByOne { pauses: Vec<Duration> },
    /// `live` plugins appear as fast as they can, and stay, beside `dead` sockets on which nothing
    /// listens. Answered by [`Answer::Listening`], then by [`Answer::Told`].
    AtOnce { live: usize, dead: usize },
    /// A device plugin registers itself, after a pause, and stays. Answered by [`Answer::Told`].
    Register,
}

/// An answer of the plugins.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// All sockets exist.
    Listening,
    /// All plugins that appeared have been notified that they are registered.
    Told(Vec<Life>),
}

/// The times of one plugin. For a plugin that registers itself, the time before it connects to
/// `kubelet.sock`, and that of the reply.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Life {
    /// The time at which it began to listen.
    pub(crate) listened: Moment,
    /// The time at which NotifyRegistrationStatus arrived.
    pub(crate) told: Moment,
}

impl Life {
    /// Returns how long the plugin waited.
    pub(crate) fn wait(&self) -> Duration {
        self.told.since(self.listened)
    }
}

/// Returns the time from the first plugin that listened until the last one was notified.
pub(crate) fn wall(lives: &[Life]) -> Duration {
    let first = lives.iter().map(|life| life.listened).min();
    let last = lives.iter().map(|life| life.told).max();
    let both = last.zip(first);
    both.map_or(Duration::ZERO, |(last, first)| last.since(first))
}
