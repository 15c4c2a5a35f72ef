//! The limits on the rate of log lines: a token bucket for each socket or plugin, and one for all
//! lines.
//!
//! The limiter does not have a clock and does not write: callers pass the time, and the limiter
//! returns decisions and counts.

use std::mem;
use std::time::Duration;

use crate::config::{LOG_REPORT_INTERVAL, LOG_SHARE_OF_PLUGIN, LogShare, MAX_LOG_SHARES};
use crate::octets::cmp_length_then_end;
use crate::time::Time;

/// The token buckets.
#[derive(Debug)]
pub(super) struct Limiter {
    /// The share of all lines together.
    share: LogShare,
    all: Bucket,
    /// Sorted by subject as [`cmp_length_then_end`] sorts.
    by_subject: Vec<(String, Bucket)>,
    /// The time at which the suppressed lines are reported, if there are any.
    pub(super) report_at: Option<Time>,
}

/// A token bucket. Lines are admitted until the bucket is empty, so the last line may take more
/// than is left.
#[derive(Debug, Default)]
struct Bucket {
    /// The time at which the bucket is full if nothing more is taken: the content follows from
    /// this.
    full_at: Time,
    /// The number of lines that were suppressed and not reported.
    suppressed: u64,
}

impl Limiter {
    /// Returns a limiter that admits this share of lines in all.
    pub(super) fn new(share: LogShare) -> Self {
        Self {
            share,
            all: Bucket::default(),
            by_subject: Vec::new(),
            report_at: None,
        }
    }

    /// Returns whether a line of that many octets is admitted now, and charges for it. If not, the
    /// line counts as suppressed.
    ///
    /// A detail is a line that is logged only on request: half of each burst is kept for the other
    /// lines.
    pub(super) fn admit(
        &mut self,
        subject: Option<&str>,
        octets: usize,
        is_detail: bool,
        now: Time,
    ) -> bool {
        let is_admitted = if !self.all.admits(self.share, is_detail, now) {
            self.all.suppressed += 1;
            false
        } else if let Some(subject) = subject {
            let own = self.get_or_insert_bucket(subject);
            let is_admitted = own.admits(LOG_SHARE_OF_PLUGIN, is_detail, now);
            if is_admitted {
                own.charge(LOG_SHARE_OF_PLUGIN, octets, now);
            } else {
                own.suppressed += 1;
            }
            is_admitted
        } else {
            true
        };
        if is_admitted {
            self.charge(octets, now);
        } else {
            self.report_at.get_or_insert(now + LOG_REPORT_INTERVAL);
        }
        is_admitted
    }

    /// Charges the bucket of all lines for a line of that many octets.
    pub(super) fn charge(&mut self, octets: usize, now: Time) {
        self.all.charge(self.share, octets, now);
    }

    /// Returns the subjects of suppressed lines with the numbers of these lines, and resets the
    /// numbers. Lines that are not counted for a subject have the subject `log`.
    pub(super) fn take_suppressed(&mut self) -> Vec<(String, u64)> {
        self.report_at = None;
        let subjects = self.by_subject.iter_mut();
        let subjects = subjects.map(|(subject, bucket)| (subject.as_str(), bucket));
        let suppressing = subjects
            .chain([("log", &mut self.all)])
            .filter(|(_, bucket)| bucket.suppressed > 0);
        suppressing
            .map(|(subject, bucket)| (subject.into(), mem::take(&mut bucket.suppressed)))
            .collect()
    }

    /// Returns the bucket of a subject. If it is missing, adds a full one, in place of the fullest
    /// of the others if there are too many.
    fn get_or_insert_bucket(&mut self, subject: &str) -> &mut Bucket {
        let buckets = &mut self.by_subject;
        let found = buckets
            .binary_search_by(|(it, _)| cmp_length_then_end(it.as_bytes(), subject.as_bytes()));
        let at = match found {
            Ok(at) => at,
            Err(at) if buckets.len() < MAX_LOG_SHARES => {
                buckets.insert(at, (subject.to_owned(), Bucket::default()));
                at
            }
            Err(at) => self.replace_fullest(at, subject),
        };
        &mut self.by_subject[at].1
    }

    /// Replaces the fullest bucket by that of a subject, which belongs before the one at `at`.
    /// Returns the index of the new one. The suppressed lines of the old one are counted in the
    /// bucket of all lines.
    fn replace_fullest(&mut self, at: usize, subject: &str) -> usize {
        let buckets = self.by_subject.iter().enumerate();
        let fullest = buckets.min_by_key(|(_, (_, it))| it.full_at);
        let fullest = fullest.map_or(0, |(fullest, _)| fullest);
        let (name, bucket) = &mut self.by_subject[fullest];
        name.clear();
        name.push_str(subject);
        self.all.suppressed += mem::take(bucket).suppressed;
        if fullest < at {
            self.by_subject[fullest..at].rotate_left(1);
            at - 1
        } else {
            self.by_subject[at..=fullest].rotate_right(1);
            at
        }
    }
}

impl Bucket {
    fn admits(&self, share: LogShare, is_detail: bool, now: Time) -> bool {
        let LogShare { burst, rate } = share;
        let usable = if is_detail { burst / 2 } else { burst };
        self.full_at.saturating_since(now) < Duration::from_secs(1) * usable / rate
    }

    fn charge(&mut self, share: LogShare, bytes: usize, now: Time) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let refill = Duration::from_secs(1) * bytes / share.rate;
        self.full_at = self.full_at.max(now) + refill;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LOG_SHARE_OF_PEERS;

    const LINE: usize = 100;

    /// Returns whether a line about `subject` is admitted, and charges for it.
    fn admit_line(limiter: &mut Limiter, subject: &str, is_detail: bool, now: Time) -> bool {
        limiter.admit(Some(subject), LINE, is_detail, now)
    }

    /// Passes 10,000 lines to the limiter in each second, about the subjects that `name` makes of
    /// numbers. Returns how many bytes are admitted in each second.
    fn flood(limiter: &mut Limiter, seconds: u64, name: impl Fn(u64) -> String) -> Vec<usize> {
        let mut bytes = vec![0; usize::try_from(seconds).unwrap()];
        for n in 0..seconds * 10_000 {
            let now = Time::ZERO + Duration::from_micros(n * 100);
            if admit_line(limiter, &name(n), false, now) {
                bytes[usize::try_from(n / 10_000).unwrap()] += LINE;
            }
        }
        bytes
    }

    fn assert_about(found: usize, expected: u32) {
        let expected = usize::try_from(expected).unwrap();
        let is_near = found.abs_diff(expected) <= 2 * LINE;
        assert!(is_near, "{found} is not about {expected}");
    }

    #[test]
    fn one_plugin_gets_its_burst_and_then_its_rate() {
        let mut limiter = Limiter::new(LOG_SHARE_OF_PEERS);
        let LogShare { burst, rate } = LOG_SHARE_OF_PLUGIN;
        let bytes = flood(&mut limiter, 4, |_| "DevicePlugin a".to_owned());
        assert_about(bytes[0], burst + rate);
        for second in &bytes[1..] {
            assert_about(*second, rate);
        }
    }

    #[test]
    fn all_plugins_together_get_the_share_of_all() {
        let mut limiter = Limiter::new(LOG_SHARE_OF_PEERS);
        let LogShare { burst, rate } = LOG_SHARE_OF_PEERS;
        let bytes = flood(&mut limiter, 4, |n| format!("/r/{}/{n}.sock", n % 1000));
        assert_about(bytes[0], burst + rate);
        assert_about(bytes[3], rate);
        assert!(limiter.by_subject.len() <= MAX_LOG_SHARES);
        let worst = bytes[0] + bytes[1];
        assert!(worst < 2 * 64 * 1024, "{worst}");
    }

    #[test]
    fn a_noisy_plugin_is_not_forgotten_because_others_log_once() {
        let mut limiter = Limiter::new(LOG_SHARE_OF_PEERS);
        while admit_line(&mut limiter, "DevicePlugin a", false, Time::ZERO) {}
        for n in 0..MAX_LOG_SHARES * 2 {
            admit_line(&mut limiter, &format!("CSIPlugin {n}"), false, Time::ZERO);
        }
        assert!(!admit_line(
            &mut limiter,
            "DevicePlugin a",
            false,
            Time::ZERO
        ));
    }

    #[test]
    fn details_leave_half_of_a_share_to_the_other_lines() {
        let mut limiter = Limiter::new(LOG_SHARE_OF_PEERS);
        let mut details = 0;
        while admit_line(&mut limiter, "/r/a.sock", true, Time::ZERO) {
            details += LINE;
        }
        assert_about(details, LOG_SHARE_OF_PLUGIN.burst / 2);
        assert!(admit_line(&mut limiter, "/r/a.sock", false, Time::ZERO));
    }

    #[test]
    fn suppressed_lines_are_counted_and_reported() {
        let mut limiter = Limiter::new(LOG_SHARE_OF_PEERS);
        assert_eq!(limiter.report_at, None);
        while admit_line(&mut limiter, "/r/a.sock", false, Time::ZERO) {}
        assert!(!admit_line(
            &mut limiter,
            "/r/a.sock",
            false,
            Time::from_millis(10)
        ));
        let due = Time::ZERO + LOG_REPORT_INTERVAL;
        assert_eq!(limiter.report_at, Some(due));
        assert_eq!(limiter.take_suppressed(), [("/r/a.sock".to_owned(), 2)]);
        assert_eq!(limiter.take_suppressed(), []);
        assert_eq!(limiter.report_at, None);
    }

    #[test]
    fn every_suppressed_line_is_in_a_report() {
        let mut limiter = Limiter::new(LOG_SHARE_OF_PEERS);
        let mut suppressed = 0;
        for n in 0..100_000_u64 {
            let subject = format!("/r/{}/{}.sock", n % 300, n % 3000);
            let now = Time::ZERO + Duration::from_micros(n);
            suppressed += u64::from(!admit_line(&mut limiter, &subject, n % 2 == 0, now));
        }
        let reported: u64 = limiter
            .take_suppressed()
            .iter()
            .map(|(_, count)| count)
            .sum();
        assert!(suppressed > 90_000);
        assert_eq!(reported, suppressed);
    }
}
