//! What the benchmark and its plugins say to each other: a line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::Moment;

/// What the plugins are to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// So many come one after the other, each after its pause; each goes when it has been told that
    /// it is registered. Answered by [`Answer::Told`].
    OneByOne { pauses: Vec<Duration> },
    /// So many come as fast as they can, and stay; beside them so many sockets on which nobody
    /// listens any more. Answered by [`Answer::Listening`], then by [`Answer::Told`].
    AtOnce { live: usize, dead: usize },
}

/// What the plugins say.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// All sockets are there.
    Listening,
    /// All plugins that came have been told that they are registered.
    Told(Vec<Life>),
}

/// What one plugin has seen.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Life {
    /// When it began to listen.
    pub(crate) listened: Moment,
    /// When NotifyRegistrationStatus reached it.
    pub(crate) told: Moment,
}

impl Life {
    /// How long the plugin waited.
    pub(crate) fn wait(&self) -> Duration {
        self.told.since(self.listened)
    }
}

/// From the first plugin that listened until the last one was told.
pub(crate) fn wall(lives: &[Life]) -> Duration {
    let first = lives.iter().map(|life| life.listened).min();
    let last = lives.iter().map(|life| life.told).max();
    let both = last.zip(first);
    both.map_or(Duration::ZERO, |(last, first)| last.since(first))
}
