//! A count of all that happens, kept apart from the daemon's own: the metrics must agree with it.

use std::collections::BTreeMap;
use std::time::Duration;

use plugind::manager::event::EventKind;
use plugind::manager::{Failure, Manager, Measurement, PluginEvent};

use crate::metrics::Scraped;
use crate::metrics::exposition::Exposition;

/// What has happened since the last start of the daemon.
#[derive(Debug, Default)]
pub(super) struct Tally {
    scraped: Scraped,
    /// The number of events by reason.
    events: BTreeMap<&'static str, u64>,
    /// The number of attempts by type and result.
    attempts: BTreeMap<(String, &'static str), u64>,
    /// The durations of registrations, added up.
    registering: Duration,
    /// The number of calls by method and code, and their durations, added up.
    calls: BTreeMap<(String, String), (u64, Duration)>,
    /// The number of programs by type, action and result, and their durations, added up.
    runs: BTreeMap<(String, &'static str, &'static str), u64>,
    running: Duration,
    /// The number of times that a limit was hit.
    hits: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Counts events and measurements, and has the daemon count them.
    pub(super) fn count(
        &mut self,
        events: &[PluginEvent],
        measured: Vec<Measurement>,
        manager: &Manager,
    ) {
        for event in events {
            self.scraped.record(event.clone(), manager);
            self.count_event(event, manager);
        }
        for measurement in measured {
            self.scraped.counters.measure(&measurement, manager);
            match measurement {
                Measurement::Called { method, code, took } => {
                    let key = (method[1..].to_owned(), code.to_string());
                    let (count, sum) = self.calls.entry(key).or_default();
                    (*count, *sum) = (*count + 1, *sum + took);
                }
                Measurement::LimitHit(limit) => *self.hits.entry(limit.name()).or_default() += 1,
                Measurement::Ran {
                    plugin,
                    action,
                    result,
                    took,
                } => {
                    let key = (plugin.kind.clone(), action, result);
                    *self.runs.entry(key).or_default() += 1;
                    self.running += took;
                }
            }
        }
    }

    fn count_event(&mut self, event: &PluginEvent, manager: &Manager) {
        *self.events.entry(event.reason()).or_default() += 1;
        let result = match &event.kind {
            EventKind::Registered { took } => {
                self.registering += *took;
                "registered"
            }
            EventKind::AttemptFailed { failure, .. } => match **failure {
                Failure::Refused(_) => "refused",
                _ => "failed",
            },
            _ => return,
        };
        let kind = match event.plugin.as_ref().map(|plugin| plugin.kind.as_str()) {
            None => "unknown",
            Some(kind) if manager.handlers().is_assigned(kind) => kind,
            Some(_) => "other",
        };
        *self.attempts.entry((kind.to_owned(), result)).or_default() += 1;
    }

    /// Checks that the metrics are well-formed and agree with what was counted. Returns them.
    pub(super) fn check(&self, manager: &Manager) -> Exposition {
        let scraped = Exposition::parse(&self.scraped.text(manager));
        let count = |name, labels: &[(&str, &str)]| scraped.get(name, labels);
        assert_eq!(
            scraped.labels("plugind_events_total").count(),
            self.events.len()
        );
        for (reason, n) in &self.events {
            let counted = count("plugind_events_total", &[("reason", reason)]);
            assert_eq!(counted, Some(*n), "{reason}");
        }
        let attempts = scraped.labels("plugind_registrations_total").count();
        assert_eq!(attempts, self.attempts.len());
        for ((kind, result), n) in &self.attempts {
            let labels = [("type", kind.as_str()), ("result", result)];
            let counted = count("plugind_registrations_total", &labels);
            assert_eq!(counted, Some(*n), "{kind} {result}");
        }
        let registered = self.events.get("Registered").copied().unwrap_or_default();
        let counted = count("plugind_registration_duration_seconds_count", &[]);
        assert_eq!(counted, Some(registered));
        let sum = scraped.seconds("plugind_registration_duration_seconds_sum", &[]);
        assert_eq!(sum, Some(self.registering));
        let calls = scraped.labels("plugind_rpc_duration_seconds_count").count();
        assert_eq!(calls, self.calls.len());
        for ((method, code), (n, took)) in &self.calls {
            let labels = [("method", method.as_str()), ("code", code.as_str())];
            let counted = count("plugind_rpc_duration_seconds_count", &labels);
            assert_eq!(counted, Some(*n), "{method} {code}");
            let sum = scraped.seconds("plugind_rpc_duration_seconds_sum", &labels);
            assert_eq!(sum, Some(*took), "{method} {code}");
        }
        for ((kind, action, result), n) in &self.runs {
            let labels = [
                ("type", kind.as_str()),
                ("action", action),
                ("result", result),
            ];
            let counted = count("plugind_exec_runs_total", &labels);
            assert_eq!(counted, Some(*n), "{kind} {action} {result}");
        }
        let sum = scraped.seconds("plugind_exec_duration_seconds_sum", &[]);
        assert_eq!(sum, Some(self.running));
        for (limit, n) in &self.hits {
            let counted = count("plugind_limit_hits_total", &[("limit", limit)]);
            assert_eq!(counted, Some(*n), "{limit}");
        }
        let records = scraped.sum("plugind_plugins", &[]);
        assert_eq!(records, manager.sockets().count() as u64);
        scraped
    }
}
