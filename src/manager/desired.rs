//! A socket that exists: an entry of the desired state of the world.
//!
//! An operation finds out which plugin listens on the socket, unless the plugin has announced
//! itself.

use std::sync::Arc;
use std::time::Duration;

use super::failure::{Failure, Refusal};
use super::ids::Process;
use super::messages::AnnouncementId;
use crate::backoff::Backoff;
use crate::config::{BACKOFF, Distrust, FIRST_MINUTE, REDIAL, REDIAL_PERIOD};
use crate::handler::{DialError, Plugin};
use crate::time::Time;
use crate::watch::Identity;

/// A socket that exists, or a plugin that has announced itself, and the progress of the
/// registration.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// The identity of the socket or announcement, which distinguishes it from others at the same
    /// path.
    pub identity: Identity,
    /// The announcement, if the plugin has announced itself; otherwise the watch has found the
    /// socket. Boxed, because few plugins announce themselves.
    pub(super) announced: Option<Box<Announced>>,
    /// The time at which this process first saw the socket.
    pub found: Time,
    /// Whether the socket existed when the daemon started.
    pub(super) existed_at_start: bool,
    /// The time since which the plugin has to be registered: the socket was found, or a plugin has
    /// left the actual state at its path.
    pub(super) wanted_since: Time,
    /// The backoff after failed attempts.
    pub backoff: RetryDelay,
    /// The failure of the last attempt; `None` before the first attempt, after a success, and after
    /// a result of a dry run.
    pub last_failure: Option<Box<Failure>>,
    /// The result of a dry run, once there is one: the plugin that would be registered, or the
    /// refusal.
    pub observed: Option<Box<Result<Arc<Plugin>, Refusal>>>,
    /// The reported reasons why its plugin would be refused in strict mode.
    pub distrust: Box<[Distrust]>,
    /// The plugin that was refused last, if it has described itself.
    pub(super) refused: Option<Arc<Plugin>>,
    /// The refusal of which that plugin was notified.
    pub(super) notified: Option<Box<Refusal>>,
    /// The number of attempts to register its plugin.
    pub attempts: u32,
    /// The plugin that was registered through this socket before a restart, until it is registered
    /// again or deregistered.
    pub restored: Option<Arc<Plugin>>,
    /// The plugin that was registered at its path before, and the user ID of that plugin's process.
    pub(super) predecessor: Option<Box<(Arc<Plugin>, u32)>>,
    /// The time reserved for its next dial, because it refused the last connection, or the time at
    /// which an operator has requested a retry.
    pub(super) redial_at: Option<Time>,
    /// Whether a retry was requested since the last attempt began. If that attempt fails, the next
    /// one follows without a delay.
    pub(super) is_retried: bool,
    /// Whether the socket is retried when another plugin of the name is deregistered or down.
    pub(super) is_blocked: bool,
}

impl Desired {
    /// Returns whether the result of a dry run is final.
    pub(super) fn is_observation_final(&self, now: Time) -> bool {
        let observed = self.observed.as_deref();
        observed.is_some_and(|found| found.is_ok() || self.found + FIRST_MINUTE <= now)
    }

    /// Returns whether this plugin is not notified of this refusal, because it was notified of the
    /// same one last, and once is enough (`is_notified_once`).
    pub(super) fn is_notification_redundant(
        &self,
        plugin: Option<&Arc<Plugin>>,
        refusal: &Refusal,
    ) -> bool {
        refusal.is_notified_once()
            && self.notified.as_deref() == Some(refusal)
            && self.refused.as_ref() == plugin
    }

    /// Records that its plugin was registered. Returns the plugin that was registered at its path
    /// before, with the user ID of that plugin's process.
    pub(super) fn record_registered(&mut self) -> Option<Box<(Arc<Plugin>, u32)>> {
        self.backoff.reset();
        self.last_failure = None;
        self.refused = None;
        self.notified = None;
        self.restored = None;
        self.is_blocked = false;
        self.predecessor.take()
    }

    /// Records the failure of an attempt, and sets the backoff. Returns whether the failure is new:
    /// the last attempt before, if there was one, had another result.
    pub(super) fn record_failed(&mut self, failure: &Failure, now: Time) -> bool {
        let is_refused = *failure == Failure::Dial(DialError::Refused);
        if std::mem::take(&mut self.is_retried) {
            self.backoff.reset();
        } else if failure.is_persistent() && self.found + FIRST_MINUTE <= now {
            // Waiting does not change the plugin's answer.
            self.backoff.set_delay(now, BACKOFF.cap);
        } else if is_refused && now < self.found + REDIAL_PERIOD {
            self.backoff.record_failure_with(REDIAL, now);
        } else {
            // mutation: a failed registration is tried again at once
            self.backoff.record_failure(now);
        }
        let is_news = self.last_failure.as_deref() != Some(failure);
        self.last_failure = Some(Box::new(failure.clone()));
        is_news
    }

    /// Records the result of a dry run. The plugin is asked again only if it is refused early,
    /// because it may not be ready yet. Returns whether the result has changed.
    pub(super) fn record_observed(
        &mut self,
        found: &Result<Arc<Plugin>, Refusal>,
        plugin: Option<&Arc<Plugin>>,
        now: Time,
    ) -> bool {
        self.refused = plugin.filter(|_| found.is_err()).cloned();
        self.notified = None;
        if found.is_ok() {
            self.backoff.reset();
        } else {
            self.backoff.record_failure(now);
        }
        self.last_failure = None;
        let before = self.observed.replace(Box::new(found.clone()));
        before.as_deref() != Some(found)
    }
}

/// The announcement of a plugin.
#[derive(Clone, Debug)]
pub(super) struct Announced {
    /// The plugin, as it described itself.
    pub(super) plugin: Arc<Plugin>,
    /// The process that called, if the daemon can see it.
    pub(super) caller: Option<Process>,
    /// The call, until it is answered.
    pub(super) call: Option<AnnouncementId>,
}

/// The time of the last failure, and the delay until the next attempt: [`BACKOFF`], like kubelet's
/// `exponentialbackoff`, unless another rule applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryDelay {
    /// Boxed, because there is one for every socket and most have never failed.
    failed: Option<Box<(Time, Duration)>>,
}

impl RetryDelay {
    /// Records that an attempt failed at `now`.
    pub fn record_failure(&mut self, now: Time) {
        self.record_failure_with(BACKOFF, now);
    }

    /// Records that an attempt failed at `now`. The delay of the next attempt follows `rule`.
    pub fn record_failure_with(&mut self, rule: Backoff, now: Time) {
        self.set_delay(now, rule.next_pause(self.delay()));
    }

    /// Sets the delay of the next attempt after `now`, whatever the delay was before.
    pub(super) fn set_delay(&mut self, now: Time, delay: Duration) {
        self.failed = Some(Box::new((now, delay)));
    }

    /// Forgets the failures: the next attempt is not delayed.
    pub fn reset(&mut self) {
        self.failed = None;
    }

    /// Returns the time until which no attempt is made, or `None` if nothing failed.
    ///
    /// kubelet also makes no attempt at exactly this time: it refuses one while
    /// `now - last_error <= delay`.
    pub fn until(&self) -> Option<Time> {
        let (at, delay) = **self.failed.as_ref()?;
        Some(at + delay)
    }

    /// Returns the delay after the last failure, or `None` if nothing failed.
    pub fn delay(&self) -> Option<Duration> {
        Some(self.failed.as_ref()?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_was_registered_has_no_backoff() {
        let mut desired = Desired::default();
        desired.record_failed(&Failure::Dial(DialError::Gone), Time::ZERO);
        assert!(desired.backoff.until().is_some());
        desired.record_registered();
        assert_eq!(
            (desired.backoff.until(), desired.last_failure),
            (None, None)
        );
    }

    #[test]
    fn delays_double_from_500_ms_to_2_m_2_s() {
        let mut backoff = RetryDelay::default();
        let mut delays = Vec::new();
        for _ in 0..10 {
            backoff.record_failure(Time::ZERO);
            delays.push(backoff.delay().unwrap().as_millis());
        }
        assert_eq!(
            delays,
            [
                500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000
            ]
        );
    }

    #[test]
    fn a_delay_counts_from_the_failure_and_ends_with_a_success() {
        let mut backoff = RetryDelay::default();
        assert_eq!(backoff.until(), None);
        backoff.record_failure(Time::from_millis(100));
        assert_eq!(backoff.until(), Some(Time::from_millis(600)));
        backoff.record_failure(Time::from_millis(700));
        assert_eq!(backoff.until(), Some(Time::from_millis(1700)));
        backoff.reset();
        assert_eq!(backoff.until(), None);
    }
}
