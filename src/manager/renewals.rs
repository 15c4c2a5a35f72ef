//! The paths whose sockets are replaced again and again.
//!
//! Pure. A plugin that restarts replaces its socket once. A path that is renewed twice within
//! [`RENEWAL_PERIOD`] is served like any other, but after the sockets of paths that are not.

use std::path::Path;
use std::sync::Arc;

use crate::by_path::{ByPath, Octets, octets};
use crate::config::{MAX_RENEWALS, RENEWAL_PERIOD};
use crate::time::Time;

/// The paths at which a socket was removed or replaced recently.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// The time at which a path was first renewed, and the number of renewals since.
    by_path: ByPath<(Time, u32)>,
}

impl Renewals {
    /// Records that the socket at the path was removed or replaced.
    pub(super) fn add(&mut self, path: &Arc<Path>, now: Time) {
        if self.by_path.len() >= MAX_RENEWALS && !self.by_path.contains_key(octets(path)) {
            self.by_path.retain(|_, (since, _)| is_recent(*since, now));
            if self.by_path.len() >= MAX_RENEWALS {
                return;
            }
        }
        let (since, count) = self.by_path.get_or_insert(Octets(path.clone()), (now, 0));
        if !is_recent(*since, now) {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
    }

    /// Returns whether the path was renewed twice within the period.
    pub(super) fn is_frequent(&self, path: &Path, now: Time) -> bool {
        let renewed = self.by_path.get(octets(path));
        renewed.is_some_and(|(since, count)| *count >= 2 && is_recent(*since, now))
    }
}

fn is_recent(since: Time, now: Time) -> bool {
    now < since + RENEWAL_PERIOD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_renewed_frequently_from_the_second_time_in_a_minute_on() {
        let path = |n: usize| Arc::<Path>::from(Path::new(&format!("/r/{n}")));
        let mut renewals = Renewals::default();
        let mut now = Time::ZERO;
        renewals.add(&path(0), now);
        assert!(!renewals.is_frequent(&path(0), now));
        renewals.add(&path(0), now);
        assert!(renewals.is_frequent(&path(0), now));
        now += RENEWAL_PERIOD;
        assert!(!renewals.is_frequent(&path(0), now), "the minute is over");
        renewals.add(&path(0), now);
        assert!(!renewals.is_frequent(&path(0), now), "once");
        for n in 0..2 * MAX_RENEWALS {
            renewals.add(&path(n), now);
        }
        assert_eq!(renewals.by_path.len(), MAX_RENEWALS);
    }
}
