//! The limits on the log lines that peers cause: a token bucket for each socket or plugin, one for
//! the sockets of each directory, and one for all.
//!
//! Does not have a clock, and does not write: callers pass the time, and get decisions and counts.
//! A line belongs to its subject, the text before the first `": "`: the path of a socket or the
//! name of a plugin.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::config::{
    LOG_REPORT_INTERVAL, LOG_SHARE, LOG_SHARE_OF_DIRECTORY, LOG_SHARE_OF_PLUGIN, LogShare,
    MAX_LOG_SHARES,
};
use crate::time::Time;

/// The token buckets.
#[derive(Debug)]
pub(super) struct Limiter {
    all: Bucket,
    /// The bucket of all lines together, with the share of one plugin.
    together: Bucket,
    /// The buckets of subjects and directories, by a hash whose key peers do not know.
    by_subject: BTreeMap<u64, Bucket>,
    hasher: RandomState,
    /// The time of the next report of suppressed lines.
    next_report: Option<Time>,
}

/// A count of suppressed lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    /// The subject of the lines, or a directory with a slash at its end; `None` for any.
    pub(super) subject: Option<Box<str>>,
    pub(super) count: u64,
}

/// The buckets that an admitted line counts against, besides that of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners([Option<u64>; 2]);

/// A token bucket. Lines are admitted until it is empty, so the last one may take more than is
/// left.
#[derive(Debug)]
struct Bucket {
    share: LogShare,
    /// The time at which the bucket is full if nothing more is taken, which determines its content.
    full_at: Time,
    suppressed: Option<Box<Count>>,
}

/// Suppressed lines that have not been reported.
#[derive(Debug)]
struct Count {
    subject: Option<Box<str>>,
    lines: u64,
    report_at: Time,
}

impl Limiter {
    pub(super) fn new() -> Self {
        Self {
            all: Bucket::new(LOG_SHARE),
            together: Bucket::new(LOG_SHARE_OF_PLUGIN),
            by_subject: BTreeMap::new(),
            hasher: RandomState::new(),
            next_report: None,
        }
    }

    /// Returns whether lines are counted for each subject: from the moment when all lines together
    /// have used the share of one plugin, until that share is full again. Before that, a single
    /// subject cannot have used its share.
    pub(super) fn tells_apart(&mut self, now: Time) -> bool {
        if !self.by_subject.is_empty() && self.together.missing(now).is_zero() {
            // The shares of the subjects are full, too.
            self.by_subject.retain(|_, it| it.suppressed.is_some());
        }
        !self.by_subject.is_empty() || !self.together.admits(false, now)
    }

    /// Charges `bytes` for a line whose subject is not known.
    pub(super) fn charge_any(&mut self, bytes: usize, now: Time) {
        self.together.charge(bytes, now);
        self.all.charge(bytes, now);
    }

    /// Returns whether a line is admitted now, whatever its subject. If not, the line counts as
    /// suppressed.
    pub(super) fn admits_any(&mut self, is_detail: bool, now: Time) -> bool {
        let is_admitted = self.all.admits(is_detail, now);
        if !is_admitted {
            let report_at = self.all.suppress(None, 1, now);
            self.report_by(report_at);
        }
        is_admitted
    }

    /// Returns the buckets to charge for a line about `subject`, or `None` if the line is
    /// suppressed, which is counted. Called after [`Limiter::admits_any`].
    ///
    /// A detail is a line that is logged only on request: half of each share is kept for the other
    /// lines.
    pub(super) fn admits(&mut self, subject: &str, is_detail: bool, now: Time) -> Option<Owners> {
        let mut keys = [None; 2];
        for (key, (owner, share)) in keys.iter_mut().zip(owners(subject)) {
            let hash = *key.insert(self.hasher.hash_one(owner));
            let bucket = self.bucket(hash, share, now);
            if !bucket.admits(is_detail, now) {
                let report_at = bucket.suppress(Some(owner), 1, now);
                self.report_by(report_at);
                return None;
            }
        }
        Some(Owners(keys))
    }

    /// Charges `bytes` to the buckets of an admitted line.
    pub(super) fn charge(&mut self, owners: Owners, bytes: usize, now: Time) {
        for key in owners.0.iter().flatten() {
            if let Some(bucket) = self.by_subject.get_mut(key) {
                bucket.charge(bytes, now);
            }
        }
        self.charge_any(bytes, now);
    }

    /// Returns when to call [`Limiter::take_report`], or `None` if there is nothing to report.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.next_report
    }

    /// Returns a count of suppressed lines that is due, if there is one.
    pub(super) fn take_report(&mut self, now: Time) -> Option<Suppressed> {
        self.next_report.filter(|at| *at <= now)?;
        self.take_first(now)
    }

    /// Returns a count of suppressed lines, due or not, for the end of the log.
    pub(super) fn take_any(&mut self) -> Option<Suppressed> {
        self.next_report?;
        self.take_first(Time::ZERO + Duration::MAX)
    }

    fn take_first(&mut self, due: Time) -> Option<Suppressed> {
        let buckets = self.by_subject.values_mut().chain([&mut self.all]);
        let found = buckets.filter(|it| it.report_at().is_some_and(|at| at <= due));
        let count = found.map(|it| it.suppressed.take()).next().flatten();
        if count.is_none() {
            let buckets = self.by_subject.values().chain([&self.all]);
            self.next_report = buckets.filter_map(Bucket::report_at).min();
        }
        let Count { subject, lines, .. } = *count?;
        Some(Suppressed {
            subject,
            count: lines,
        })
    }

    fn report_by(&mut self, at: Time) {
        self.next_report = Some(self.next_report.map_or(at, |next| next.min(at)));
    }

    /// Returns the bucket of a subject or directory. If it is missing, adds a full one.
    fn bucket(&mut self, key: u64, share: LogShare, now: Time) -> &mut Bucket {
        if self.by_subject.len() >= MAX_LOG_SHARES && !self.by_subject.contains_key(&key) {
            self.forget_some(now);
        }
        self.by_subject
            .entry(key)
            .or_insert_with(|| Bucket::new(share))
    }

    /// Removes the fuller half of the buckets, so that this is seldom done. Their suppressed lines
    /// are counted in the bucket of all lines.
    fn forget_some(&mut self, now: Time) {
        let mut moments: Vec<_> = self.by_subject.values().map(|it| it.full_at).collect();
        let middle = moments.len() / 2;
        moments.sort_unstable();
        let middle = moments[middle];
        let mut forgotten = 0;
        self.by_subject.retain(|_, bucket| {
            let is_kept = bucket.full_at > middle;
            if !is_kept {
                forgotten += bucket.suppressed.as_ref().map_or(0, |count| count.lines);
            }
            is_kept
        });
        if forgotten > 0 {
            let report_at = self.all.suppress(None, forgotten, now);
            self.report_by(report_at);
        }
    }
}

impl Bucket {
    fn new(share: LogShare) -> Self {
        Self {
            share,
            full_at: Time::ZERO,
            suppressed: None,
        }
    }

    /// Returns how long it takes until the bucket is full.
    fn missing(&self, now: Time) -> Duration {
        self.full_at.saturating_since(now)
    }

    fn admits(&self, is_detail: bool, now: Time) -> bool {
        let LogShare { burst, rate } = self.share;
        let usable = if is_detail { burst / 2 } else { burst };
        self.missing(now) < Duration::from_secs(1) * usable / rate
    }

    fn charge(&mut self, bytes: usize, now: Time) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let refill = Duration::from_secs(1) * bytes / self.share.rate;
        self.full_at = self.full_at.max(now) + refill;
    }

    /// Counts suppressed lines. Returns when to report the count.
    fn suppress(&mut self, subject: Option<&str>, lines: u64, now: Time) -> Time {
        let count = self.suppressed.get_or_insert_with(|| {
            Box::new(Count {
                subject: subject.map(Into::into),
                lines: 0,
                report_at: now + LOG_REPORT_INTERVAL,
            })
        });
        count.lines += lines;
        count.report_at
    }

    fn report_at(&self) -> Option<Time> {
        self.suppressed.as_ref().map(|count| count.report_at)
    }
}

/// Returns the owners of a line about `subject`, with their shares: the subject itself, and the
/// directory of a socket, with a slash at its end.
fn owners(subject: &str) -> impl Iterator<Item = (&str, LogShare)> {
    let directory = match subject.rfind('/') {
        Some(at) if subject.starts_with('/') => &subject[..=at],
        _ => "",
    };
    [
        (subject, LOG_SHARE_OF_PLUGIN),
        (directory, LOG_SHARE_OF_DIRECTORY),
    ]
    .into_iter()
    .filter(|(owner, _)| !owner.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: usize = 100;

    /// Logs a line about `subject` if it is admitted, as the logger does. Returns whether it was.
    fn log(limiter: &mut Limiter, subject: &str, is_detail: bool, now: Time) -> bool {
        if !limiter.admits_any(is_detail, now) {
            return false;
        }
        let owners = limiter.admits(subject, is_detail, now);
        if let Some(owners) = owners {
            limiter.charge(owners, LINE, now);
        }
        owners.is_some()
    }

    /// Logs 10,000 lines in each second, about the subjects that `name` makes of numbers. Returns
    /// how many bytes are admitted in each second.
    fn flood(limiter: &mut Limiter, seconds: u64, name: impl Fn(u64) -> String) -> Vec<usize> {
        let mut bytes = vec![0; usize::try_from(seconds).unwrap()];
        for n in 0..seconds * 10_000 {
            let now = Time::ZERO + Duration::from_micros(n * 100);
            if log(limiter, &name(n), false, now) {
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
        let mut limiter = Limiter::new();
        let LogShare { burst, rate } = LOG_SHARE_OF_PLUGIN;
        let bytes = flood(&mut limiter, 4, |_| "DevicePlugin a".to_owned());
        assert_about(bytes[0], burst + rate);
        for second in &bytes[1..] {
            assert_about(*second, rate);
        }
    }

    #[test]
    fn sockets_with_ever_new_names_get_the_share_of_their_directory() {
        let mut limiter = Limiter::new();
        let LogShare { burst, rate } = LOG_SHARE_OF_DIRECTORY;
        let bytes = flood(&mut limiter, 4, |n| format!("/r/evil/{n}.sock"));
        assert_about(bytes[0], burst + rate);
        assert_about(bytes[3], rate);
        let now = Time::from_millis(4000);
        assert!(log(&mut limiter, "/r/honest.sock", false, now));
    }

    #[test]
    fn all_plugins_together_get_the_share_of_all() {
        let mut limiter = Limiter::new();
        let LogShare { burst, rate } = LOG_SHARE;
        let bytes = flood(&mut limiter, 4, |n| format!("/r/{}/{n}.sock", n % 1000));
        assert_about(bytes[0], burst + rate);
        assert_about(bytes[3], rate);
        assert!(limiter.by_subject.len() <= MAX_LOG_SHARES);
        let worst = bytes[0] + bytes[1];
        assert!(worst < 2 * 64 * 1024, "{worst}");
    }

    #[test]
    fn a_noisy_plugin_is_not_forgotten_because_others_log_once() {
        let mut limiter = Limiter::new();
        while log(&mut limiter, "DevicePlugin a", false, Time::ZERO) {}
        for n in 0..MAX_LOG_SHARES * 2 {
            log(&mut limiter, &format!("CSIPlugin {n}"), false, Time::ZERO);
        }
        assert_eq!(limiter.admits("DevicePlugin a", false, Time::ZERO), None);
    }

    #[test]
    fn details_leave_half_of_a_share_to_the_other_lines() {
        let mut limiter = Limiter::new();
        let mut details = 0;
        while log(&mut limiter, "/r/a.sock", true, Time::ZERO) {
            details += LINE;
        }
        assert_about(details, LOG_SHARE_OF_PLUGIN.burst / 2);
        assert!(log(&mut limiter, "/r/a.sock", false, Time::ZERO));
    }

    #[test]
    fn subjects_are_told_apart_from_much_in_the_log_until_all_is_forgotten() {
        let mut limiter = Limiter::new();
        assert!(!limiter.tells_apart(Time::ZERO));
        let LogShare { burst, rate } = LOG_SHARE_OF_PLUGIN;
        limiter.charge_any(usize::try_from(burst).unwrap() - 1, Time::ZERO);
        assert!(!limiter.tells_apart(Time::ZERO));
        limiter.charge_any(2, Time::ZERO);
        assert!(limiter.tells_apart(Time::ZERO));
        while log(&mut limiter, "/r/a.sock", false, Time::ZERO) {}
        let own_is_full = Time::ZERO + Duration::from_secs(u64::from(burst / rate));
        assert!(limiter.tells_apart(own_is_full));
        let all_is_full = own_is_full + 2 * Duration::from_secs(u64::from(burst / rate));
        assert!(
            limiter.tells_apart(all_is_full),
            "there is a count to report"
        );
        assert!(limiter.take_report(all_is_full).is_some());
        assert!(!limiter.tells_apart(all_is_full));
    }

    #[test]
    fn suppressed_lines_are_counted_and_reported_after_the_interval_even_in_silence() {
        let mut limiter = Limiter::new();
        assert_eq!(limiter.poll_timeout(), None);
        while log(&mut limiter, "/r/a.sock", false, Time::ZERO) {}
        let early = Time::from_millis(10);
        assert!(!log(&mut limiter, "/r/a.sock", false, early));
        let due = Time::ZERO + LOG_REPORT_INTERVAL;
        assert_eq!(limiter.poll_timeout(), Some(due));
        assert_eq!(limiter.take_report(early), None);
        let expected = Suppressed {
            subject: Some("/r/a.sock".into()),
            count: 2,
        };
        assert_eq!(limiter.take_report(due), Some(expected));
        assert_eq!(limiter.take_report(due), None);
        assert_eq!(limiter.poll_timeout(), None);
    }

    #[test]
    fn every_suppressed_line_is_in_a_report_at_the_end() {
        let mut limiter = Limiter::new();
        let mut suppressed = 0;
        for n in 0..100_000_u64 {
            let subject = format!("/r/{}/{}.sock", n % 300, n % 3000);
            let now = Time::ZERO + Duration::from_micros(n);
            suppressed += u64::from(!log(&mut limiter, &subject, n % 2 == 0, now));
        }
        let mut reported = 0;
        while let Some(report) = limiter.take_any() {
            reported += report.count;
        }
        assert!(suppressed > 90_000);
        assert_eq!(reported, suppressed);
        assert_eq!(limiter.poll_timeout(), None);
    }
}
