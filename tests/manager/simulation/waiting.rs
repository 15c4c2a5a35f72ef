//! The time for which sockets wait for their first attempt.
//!
//! A socket that nothing holds up is dialed in the turn in which it is found. It waits only while
//! all permits are held, each for [`PERMIT_TIME`](plugind::config::PERMIT_TIME) at most, or while
//! descriptors run short, and then only for the operations before it, which all end by their
//! deadlines. So there are two bounds: a socket may wait only if another operation lacks a permit
//! or a descriptor, and not for longer than every other socket may take for one operation. Sockets
//! whose paths have another plugin, or an operation that ends, do not count: the manager has to
//! deregister that plugin first. Neither does one that another socket has driven from its path: it
//! leaves half a second to the other one.

use std::collections::BTreeMap;
use std::time::Duration;

use plugind::config::{DIAL_TIMEOUT, GET_INFO_TIMEOUT, HANDLER_TIMEOUT, NOTIFY_TIMEOUT};
use plugind::manager::Manager;
use plugind::time::Time;
use plugind::watch::Identity;

/// The sockets that wait, and since when.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    since: BTreeMap<Identity, Time>,
    /// The number of connections that the manager may have; `None` without a limit.
    pub(super) limit: Option<usize>,
}

impl Waiting {
    /// Forgets what waits, because the daemon ends.
    pub(super) fn restarted(&mut self) {
        self.since.clear();
    }

    /// Checks that every socket that waits does so for a reason, and not for too long.
    pub(super) fn check(&mut self, manager: &Manager, now: Time) {
        let sockets = manager.sockets();
        let waiting =
            sockets.filter(|it| it.operation_state().is_none() && it.registered().is_none());
        let waiting = waiting.filter_map(|it| it.desired().filter(|it| it.attempts == 0));
        let waiting = waiting.filter(|it| it.backoff.until().is_none_or(|until| until <= now));
        let waiting: Vec<_> = waiting.map(|it| it.identity).collect();
        self.since.retain(|identity, _| waiting.contains(identity));
        for identity in waiting {
            let since = *self.since.entry(identity).or_insert(now);
            let waited = now.saturating_since(since);
            assert!(waited <= BOUND, "{identity:?} waits since {since:?}");
            let (is_short, usage) = (self.is_short(manager), manager.records().usage());
            assert!(is_short, "{identity:?} waits for nothing: {usage:?}");
        }
    }

    /// Returns whether another operation lacks a permit or a descriptor: operations have
    /// half of all descriptors, and need a second one for the call of their handler.
    fn is_short(&self, manager: &Manager) -> bool {
        let operations = manager.records().status().operations;
        let [_, connections, permits, _] = manager.records().usage();
        let has_no_descriptor = self.limit.is_some_and(|limit| {
            let free = limit.saturating_sub(connections.used + operations);
            operations >= limit / 2 || free < 2
        });
        has_no_descriptor || permits.used >= permits.limit
    }
}

/// The longest wait: each of the other sockets has an operation of the longest duration, one after
/// the other.
const BOUND: Duration = Duration::from_secs(OTHERS * LONGEST.as_secs());

/// The number of other sockets: one for each path, and for each name and endpoint that is
/// announced.
const OTHERS: u64 = 20;

/// The longest operation: dialed to the last moment, all three questions time out, and so does the
/// reply to the notification, on a second connection.
const LONGEST: Duration = Duration::from_secs(
    DIAL_TIMEOUT.as_secs()
        + GET_INFO_TIMEOUT.as_secs()
        + 3 * HANDLER_TIMEOUT.as_secs()
        + 2 * NOTIFY_TIMEOUT.as_secs(),
);
