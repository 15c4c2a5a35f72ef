//! Counts and histograms since the start, for the metrics.
//!
//! The events and measurements of the plugin manager are counted here. A plugin chooses its type
//! and its status codes, so each table has a limit, and types without a handler count as `other`.
//! Histograms are of durations, and all have the same buckets.

use std::time::Duration;

use super::Event;
use crate::handler::Plugin;
use crate::manager::event::EventKind;
use crate::manager::{Failure, Manager, Measurement, PluginEvent, Refusal};
use crate::octets;
use crate::time;
use crate::watch::{Cause, Problem, Report};

/// The counts of events and measurements since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// By type and result.
    pub(super) registrations: Table<u64>,
    pub(super) registration_duration: Histogram,
    /// By method and code.
    pub(super) calls: Table<Histogram>,
    /// By type, action and result.
    pub(super) runs: Table<u64>,
    pub(super) run_duration: Histogram,
    /// By reason.
    pub(super) events: Table<u64>,
    /// In the order of [`LIMITS`].
    pub(super) limit_hits: [u64; LIMITS.len()],
    /// The turns of the loop.
    pub turns: u64,
}

/// Counts or durations by labels, in at most [`MAX_ROWS`] rows. Unused labels are empty.
#[derive(Debug, Default)]
pub(super) struct Table<T>(pub(super) Vec<([Box<str>; 3], T)>);

impl Counters {
    /// Counts an event, and the end of an attempt or the limit that it reports, if any. `manager`
    /// has the table of the types with a handler.
    pub fn record_event(&mut self, event: &Event, manager: &Manager) {
        *self.events.find_or_add_row([event.reason(), "", ""]) += 1;
        match event {
            Event::Plugin(event) => self.record_attempt(event, manager),
            Event::Directory(report) => {
                if let Report::Trouble { problem, .. } = &**report {
                    if let Some(limit) = limit_of(problem) {
                        self.count_limit_hit(limit);
                    }
                }
            }
        }
    }

    fn record_attempt(&mut self, event: &PluginEvent, manager: &Manager) {
        let result = match &event.kind {
            EventKind::Registered { took } => {
                self.registration_duration.observe(*took);
                "registered"
            }
            EventKind::AttemptFailed { failure, .. } => result_of(failure),
            _ => return,
        };
        let kind = match &event.plugin {
            Some(plugin) => type_of(plugin, manager),
            None => UNKNOWN,
        };
        *self.registrations.find_or_add_row([kind, result, ""]) += 1;
    }

    /// Counts a measurement of the manager.
    pub fn record_measurement(&mut self, measurement: &Measurement, manager: &Manager) {
        match measurement {
            Measurement::Called { method, code, took } => {
                let labels = [method.strip_prefix('/').unwrap_or(method), code.name(), ""];
                self.calls.find_or_add_row(labels).observe(*took);
            }
            Measurement::Ran {
                plugin,
                action,
                result,
                took,
            } => {
                let kind = type_of(plugin, manager);
                *self.runs.find_or_add_row([kind, action, result]) += 1;
                self.run_duration.observe(*took);
            }
            Measurement::LimitHit(limit) => self.count_limit_hit(limit.name()),
        }
    }

    /// Counts that something had to wait or was refused because of a limit.
    pub fn count_limit_hit(&mut self, limit: &'static str) {
        let mut all = LIMITS.iter().zip(&mut self.limit_hits);
        match all.find(|(it, _)| **it == limit) {
            Some((_, hits)) => *hits += 1,
            None => debug_assert!(false, "{limit} is not counted"),
        }
    }
}

impl<T: Default> Table<T> {
    /// Returns the value with these labels, which is added if necessary; if the table is full,
    /// returns the value of the row [`OTHER`].
    fn find_or_add_row(&mut self, labels: [&str; 3]) -> &mut T {
        let has_labels = |(of, _): &([Box<str>; 3], T)| {
            let mut pairs = of.iter().zip(labels);
            pairs.all(|(a, b)| octets::are_equal(a.as_bytes(), b.as_bytes()))
        };
        let known = self.0.iter().position(has_labels);
        let at = known.unwrap_or_else(|| self.0.len().min(MAX_ROWS - 1));
        if at == self.0.len() {
            let is_last = at + 1 == MAX_ROWS;
            let label = |it: &str| if is_last && !it.is_empty() { OTHER } else { it }.into();
            self.0.push((labels.map(label), T::default()));
        }
        &mut self.0[at].1
    }
}

/// The number of observed durations by size, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The number of durations in each bucket that are not in the one before; the last bucket is
    /// unbounded.
    counts: [u64; Self::BUCKETS],
    /// In nanoseconds: saturates after 584 years.
    sum: u64,
}

impl Histogram {
    /// The number of buckets, including the unbounded one.
    pub const BUCKETS: usize = BOUNDS.len() + 1;

    /// Counts a duration.
    pub fn observe(&mut self, took: Duration) {
        let nanos = time::nanos(took);
        let bucket = BOUNDS.iter().position(|(bound, _)| nanos <= *bound);
        self.counts[bucket.unwrap_or(BOUNDS.len())] += 1;
        self.sum = self.sum.saturating_add(nanos);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Returns the upper bound of each bucket in seconds, as text, and the number of durations up
    /// to that bound.
    pub fn buckets(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let bounds = BOUNDS.iter().map(|(_, text)| *text).chain(["+Inf"]);
        bounds.zip(self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
    }
}

/// Returns the value of the label `result` for a failed attempt to register a plugin.
fn result_of(failure: &Failure) -> &'static str {
    match failure {
        Failure::Refused(Refusal::Ignored(_)) => "ignored",
        Failure::Refused(_) => "refused",
        _ => "failed",
    }
}

/// Returns the value of the label `type` for a plugin.
pub(super) fn type_of<'a>(plugin: &'a Plugin, manager: &Manager) -> &'a str {
    if manager.handlers().is_assigned(&plugin.kind) {
        &plugin.kind
    } else {
        OTHER
    }
}

/// Returns the name of the limit that has caused a problem with a directory, if one has.
fn limit_of(problem: &Problem) -> Option<&'static str> {
    Some(match problem {
        Problem::TooManySockets => "sockets",
        Problem::TooManyDirectories => "directories",
        Problem::TooManyNames => "names",
        Problem::TooDeep => "depth",
        Problem::NotRead(cause) | Problem::NotWatched(cause) | Problem::NotCreated(cause) => {
            match cause {
                Cause::WatchesUsedUp => "inotify_watches",
                Cause::InstancesUsedUp => "inotify_instances",
                Cause::DescriptorsUsedUp => "descriptors",
                Cause::Denied | Cause::ReadOnly | Cause::Other(_) => return None,
            }
        }
        Problem::Missing
        | Problem::NotADirectory
        | Problem::NotExamined
        | Problem::NotReported(_)
        | Problem::MayNotAnswer(_)
        | Problem::SameAs(_)
        | Problem::Nested(_) => return None,
    })
}

/// The limits whose hits are counted.
pub(super) const LIMITS: [&str; 11] = [
    "operations",
    "descriptors",
    "programs",
    "memory",
    CLIENTS,
    "sockets",
    "directories",
    "names",
    "depth",
    "inotify_watches",
    "inotify_instances",
];

/// The name of the limit on the number of API clients.
pub const CLIENTS: &str = "clients";

/// The label value for everything without a row of its own.
pub(super) const OTHER: &str = "other";

/// The label value for the type of a plugin that has not reported its type yet.
pub(super) const UNKNOWN: &str = "unknown";

/// The maximum number of rows of a table.
const MAX_ROWS: usize = 128;

/// The upper bounds of the buckets, in nanoseconds, and in seconds as text: 0.1 ms to 100 s, each
/// about three times the one before. Longer durations are in the unbounded bucket.
const BOUNDS: [(u64, &str); 13] = [
    (100_000, "0.0001"),
    (300_000, "0.0003"),
    (1_000_000, "0.001"),
    (3_000_000, "0.003"),
    (10_000_000, "0.01"),
    (30_000_000, "0.03"),
    (100_000_000, "0.1"),
    (300_000_000, "0.3"),
    (1_000_000_000, "1"),
    (3_000_000_000, "3"),
    (10_000_000_000, "10"),
    (30_000_000_000, "30"),
    (100_000_000_000, "100"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_every_bucket_from_its_own_bound_on() {
        let mut histogram = Histogram::default();
        let durations = [
            (Duration::ZERO, "0.0001"),
            (Duration::from_micros(100), "0.0001"),
            (Duration::from_nanos(100_001), "0.0003"),
            (Duration::from_secs(1), "1"),
            (Duration::from_secs(100), "100"),
            (Duration::from_secs(101), "+Inf"),
        ];
        for (duration, bound) in durations {
            let before: Vec<_> = histogram.buckets().collect();
            histogram.observe(duration);
            let mut counts = histogram.buckets().zip(before);
            let first = counts.find(|(after, before)| after.1 == before.1 + 1);
            assert_eq!(first.map(|(after, _)| after.0), Some(bound));
            assert!(counts.all(|(after, before)| after.1 == before.1 + 1));
        }
        assert_eq!(histogram.count(), 6);
        let sum: Duration = durations.iter().map(|(duration, _)| *duration).sum();
        assert_eq!(histogram.sum(), sum);
    }

    #[test]
    fn the_bounds_grow_and_their_texts_agree_with_them() {
        assert!(BOUNDS.is_sorted());
        for (nanos, text) in BOUNDS {
            let seconds: f64 = text.parse().expect("a number");
            assert_eq!(
                Duration::from_secs_f64(seconds),
                Duration::from_nanos(nanos)
            );
        }
    }

    #[test]
    fn every_limit_has_a_count() {
        use crate::manager::Limit;
        let of_manager = [
            Limit::Operations,
            Limit::Descriptors,
            Limit::Programs,
            Limit::Memory,
        ];
        let causes = [
            Cause::WatchesUsedUp,
            Cause::InstancesUsedUp,
            Cause::DescriptorsUsedUp,
        ];
        let problems = [
            Problem::TooManySockets,
            Problem::TooManyDirectories,
            Problem::TooManyNames,
            Problem::TooDeep,
        ];
        let problems = problems.into_iter().chain(causes.map(Problem::NotWatched));
        let of_watch = problems.filter_map(|problem| limit_of(&problem));
        let names = of_watch.chain(of_manager.map(Limit::name)).chain([CLIENTS]);
        let mut counters = Counters::default();
        names.for_each(|name| counters.count_limit_hit(name));
        assert_eq!(counters.limit_hits, [1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_sum_that_is_too_large_saturates() {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::MAX);
        histogram.observe(Duration::MAX);
        assert_eq!((histogram.count(), histogram.sum), (2, u64::MAX));
    }
}
