//! Waits for an attacker's conditions, for as long as there is a daemon to attack.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::timerfd::TimerFd;
use plugind::proto::pluginregistration::RegistrationStatus;

use crate::support::plugin::Plugin;
use crate::support::ticks::ticks;

/// The steps of an attacker, with a pause between them.
pub(crate) struct Steps<'a> {
    over: &'a AtomicBool,
    clock: TimerFd,
}

impl<'a> Steps<'a> {
    /// Returns steps that last until the attack is over.
    pub(crate) fn new(over: &'a AtomicBool) -> Self {
        let clock = ticks(PAUSE);
        Self { over, clock }
    }

    /// Waits until the attack is over.
    pub(crate) fn last(over: &'a AtomicBool) {
        let steps = Self::new(over);
        while steps.next() {}
    }

    /// Waits for the next step. Returns `false` once the attack is over.
    pub(crate) fn next(&self) -> bool {
        self.clock.wait().unwrap();
        !self.over.load(Ordering::Relaxed)
    }

    /// Waits until `answer` returns a value. Returns `None` if the attack is over before that.
    pub(crate) fn until<T>(&self, mut answer: impl FnMut() -> Option<T>) -> Option<T> {
        while self.next() {
            if let Some(answer) = answer() {
                return Some(answer);
            }
        }
        None
    }

    /// Waits until the plugin is notified that it is registered, unless the attack is over before
    /// that.
    pub(crate) fn until_registered(&self, plugin: &Plugin) -> Option<()> {
        let is_registered = |status: RegistrationStatus| status.plugin_registered.then_some(());
        self.until(|| plugin.try_notified().and_then(is_registered))
    }
}

/// The time from one step to the next.
const PAUSE: Duration = Duration::from_millis(10);
