//! The messages between the benchmark and its plugins: a line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An order to the plugins, which is answered with a [`Life`] of each plugin that appeared, when
/// all have been notified that they are registered. [`Order::Come`] is answered without one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Plugins appear one after the other, each after its pause; each ends when the same time has
    /// passed since it was notified that it is registered.
    OneByOne { pauses: Vec<Duration> },
    /// This many plugins appear as fast as they can, and stay.
    AtOnce(usize),
    /// The same, but is answered when they listen.
    Come(usize),
    /// Waits for those that came.
    UntilTold,
}

/// The times of one plugin, as [`now`](super::clock::now) returns them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Life {
    /// The time at which it began to listen.
    pub(crate) listened: Duration,
    /// The time at which NotifyRegistrationStatus arrived.
    pub(crate) told: Duration,
}

impl Life {
    /// Returns how long the plugin waited.
    pub(crate) fn wait(&self) -> Duration {
        self.told.saturating_sub(self.listened)
    }
}

/// Returns the time from the first plugin that listened until the last one was notified.
pub(crate) fn wall(lives: &[Life]) -> Duration {
    let first = lives.iter().map(|life| life.listened).min();
    let last = lives.iter().map(|life| life.told).max();
    let both = last.zip(first);
    both.map_or(Duration::ZERO, |(last, first)| last.saturating_sub(first))
}
