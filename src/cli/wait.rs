//! `plugind wait`: waits until a plugin is registered or deregistered, or the daemon is ready.
//!
//! For a plugin, the command watches all records; for the daemon, it polls `/readyz`. If the daemon
//! fails or restarts meanwhile, the command connects again until its time is up.

use std::time::Duration;

use serde_json::Value;

use super::client::{Request, print};
use super::failure::{Failure, FailureKind, Result};
use super::json::{Fields as _, escape_or_unknown, record_keys};
use super::options::{Context, READY, Target};
use super::watch::{PATH, take_record};
use crate::daemon::client::Deadline;
use crate::escape;

/// Waits until the condition is met, and prints it. Returns an error if it is not met in time.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let options = context.options;
    let until = Deadline::after(options.timeout);
    let mut awaited = WaitTarget::new(&options.target, options.condition);
    loop {
        let cause = match awaited.wait(context, until) {
            Ok(true) => return print(format!("{} {}\n", awaited.name, options.condition)),
            Ok(false) => String::new(),
            Err(Failure {
                kind: FailureKind::Interrupted | FailureKind::NoDaemon,
                why,
            }) => why,
            Err(failure) => return Err(failure),
        };
        if until.is_over() {
            let why = awaited.explain_timeout(&cause);
            let why = format!(
                "not {} within {}: {why}",
                options.condition, options.timeout_text
            );
            return Err(Failure::new(FailureKind::TimedOut, why));
        }
        until.wait_to_retry();
    }
}

/// The plugin or socket to wait for, and its records; or the daemon, which has none.
struct WaitTarget<'a> {
    target: &'a Target,
    name: String,
    condition: &'static str,
    records: Vec<Value>,
    /// Whether the daemon has sent all records since the last request.
    is_listed: bool,
}

impl<'a> WaitTarget<'a> {
    fn new(target: &'a Target, condition: &'static str) -> Self {
        let name = target
            .display_name()
            .unwrap_or_else(|| "plugind".to_owned());
        Self {
            target,
            name,
            condition,
            records: Vec::new(),
            is_listed: false,
        }
    }

    /// Sends one request, and waits until the condition is met. Returns `false` if the watch has
    /// expired. For the condition `ready`, returns an error if the daemon is not ready.
    fn wait(&mut self, context: &Context<'_>, until: Deadline) -> Result<bool> {
        self.is_listed = false;
        self.records.clear();
        let is_ready = self.condition == READY;
        let mut request = if is_ready {
            Request::get("/readyz")
        } else {
            Request::follow(PATH)
        };
        // One response can be received even with `--timeout 0s`.
        request.until = until.at_least(Duration::from_secs(1));
        if is_ready {
            return context.client.request_body(&request).map(|_| true);
        }
        let mut response = context.client.send_request(&request)?;
        while let Some(change) = response.next_json()? {
            if change["event"] == "EXPIRED" {
                return Ok(false);
            }
            self.apply_change(change);
            if self.is_listed {
                response.until = until;
                if self.is_met() {
                    return Ok(true);
                }
            }
        }
        Err(Failure::daemon_stopped())
    }

    /// Applies a change that the daemon has sent.
    fn apply_change(&mut self, mut change: Value) {
        let record = change["record"].take();
        take_record(&mut self.records, &record["socket"]);
        match change.text("event") {
            "ADDED" | "MODIFIED" if self.target.includes(record_keys(&record)) => {
                self.records.push(record);
            }
            "BOOKMARK" => self.is_listed = true,
            _ => {}
        }
    }

    /// Returns whether the condition is met.
    fn is_met(&self) -> bool {
        let is_registered = self.condition == "registered";
        let states: &[&str] = if is_registered {
            &["Registered"]
        } else {
            &NOT_DEREGISTERED
        };
        let mut records = self.records.iter();
        let found = records.any(|record| states.contains(&record.text("state")));
        found == is_registered
    }

    /// Returns why the condition was not met in time. `cause` is the reason for which the last
    /// request failed.
    fn explain_timeout(&self, cause: &str) -> String {
        if !self.is_listed {
            return cause.to_owned();
        }
        let Some(record) = self.records.first() else {
            return format!("{} does not exist", self.name);
        };
        let state = escape_or_unknown(record, "state");
        let error = escape::composed_text(record.text("lastError").as_bytes());
        let colon = if error.is_empty() { "" } else { ": " };
        format!("{} is in state {state}{colon}{error}", self.name)
    }
}

/// The states of a plugin that is registered or still being deregistered.
const NOT_DEREGISTERED: [&str; 4] = ["Registered", "Standby", "Down", "Deregistering"];

pub(super) const HELP: &str = "\
Wait until a plugin is registered or deregistered, or until plugind itself is
ready. Also waits for a daemon that has not started yet, or that restarts.

Usage: plugind wait --for=registered|deregistered [OPTIONS] TYPE/NAME|SOCKET
       plugind wait --for=ready [OPTIONS]

Exits with 124 if it timed out, also because no daemon was running.

Options:
  --for CONDITION      registered: SOCKET, or one of the plugin, has that state;
                       deregistered: none is registered, standby, down or being
                       deregistered; ready: the daemon answers /readyz with 200
  --timeout DURATION   give up after that time, such as 500ms, 30s or 5m; 0s:
                       ask the daemon once (default: 30s)
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::record;
    use super::*;

    fn target() -> Target {
        Target::Plugin {
            kind: "A".to_owned(),
            name: "a".to_owned(),
        }
    }

    fn apply_record(awaited: &mut WaitTarget<'_>, record: &Value) {
        awaited.apply_change(json!({"event": "MODIFIED", "record": record}));
    }

    #[test]
    fn a_plugin_is_registered_if_one_of_its_sockets_is() {
        let target = target();
        for (state, is_registered, is_deregistered) in [
            ("Discovered", false, true),
            ("Connecting", false, true),
            ("Registering", false, true),
            ("Registered", true, false),
            ("Standby", false, false),
            ("Down", false, false),
            ("Backoff", false, true),
            ("Rejected", false, true),
            ("Deregistering", false, false),
        ] {
            for (condition, expected) in [
                ("registered", is_registered),
                ("deregistered", is_deregistered),
            ] {
                let mut awaited = WaitTarget::new(&target, condition);
                assert_eq!(awaited.is_met(), condition == "deregistered");
                apply_record(&mut awaited, &record("A", "a", state, "/r/a"));
                assert_eq!(awaited.is_met(), expected, "{state}");
            }
        }
    }

    #[test]
    fn the_newest_record_of_a_socket_counts() {
        let target = target();
        let mut awaited = WaitTarget::new(&target, "registered");
        apply_record(&mut awaited, &record("A", "b", "Registered", "/r/b"));
        assert!(!awaited.is_met());
        apply_record(&mut awaited, &record("A", "a", "Registered", "/r/a"));
        apply_record(&mut awaited, &record("A", "a", "Standby", "/r/old"));
        assert!(awaited.is_met());
        apply_record(&mut awaited, &record("A", "other", "Registered", "/r/a"));
        assert!(!awaited.is_met());
        apply_record(&mut awaited, &record("A", "a", "Registered", "/r/a"));
        awaited.apply_change(json!({"event": "DELETED", "record": {"socket": "/r/a"}}));
        assert!(!awaited.is_met() && !awaited.is_listed);
        awaited.apply_change(json!({"event": "BOOKMARK"}));
        assert!(awaited.is_listed);
    }

    #[test]
    fn a_timeout_is_explained_by_the_last_known_state() {
        let target = target();
        let mut awaited = WaitTarget::new(&target, "registered");
        assert_eq!(awaited.explain_timeout("no daemon"), "no daemon");
        awaited.is_listed = true;
        assert_eq!(awaited.explain_timeout(""), "A/a does not exist");
        apply_record(
            &mut awaited,
            &json!({"type": "A", "name": "a", "state": "Backoff", "lastError": "no\n"}),
        );
        assert_eq!(
            awaited.explain_timeout("no daemon"),
            "A/a is in state Backoff: no\\n"
        );
    }
}
