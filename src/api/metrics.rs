//! The response to `GET /metrics`: Prometheus text.
//!
//! A metric is a row of `METRICS`. Gauges are computed while they are rendered, and most counters
//! are those of [`Counters`], so nothing is kept here between two responses. The number of series
//! is bounded by the limits on sockets, directories, types, and rows of a table.

use std::fmt::Display;

use super::counters::{Counters, LIMITS, OTHER, Table, UNKNOWN, type_of};
use super::exposition::{Label, Samples, Seconds};
use super::process::ProcessFacts;
use crate::handler::dra::{self, Health};
use crate::handler::{Inventory, device};
use crate::manager::{Manager, Socket, State};
use crate::watch::{DirectoryState, RoundReason, Watch};

/// The sources of the metrics.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The state machine of the plugin manager.
    pub manager: &'a Manager,
    /// The watched directories.
    pub watch: &'a Watch,
    /// The counts since the start.
    pub counters: &'a Counters,
    /// The plugins of the built-in handlers; `None` without these handlers.
    pub inventory: Option<&'a Inventory>,
    /// The resources that the daemon uses; `None` if the system does not report them.
    pub process: Option<ProcessFacts>,
}

/// Returns the metrics as text.
pub fn render(sources: &Sources<'_>) -> Vec<u8> {
    let mut samples = Samples::default();
    for (name, kind, help, value) in METRICS {
        samples.begin_metric(name, kind, help);
        value(sources, &mut samples);
    }
    samples.text
}

/// A metric: its name, kind and help, and the function that appends its samples.
type Metric = (&'static str, &'static str, &'static str, Append);

type Append = fn(&Sources<'_>, &mut Samples);

const fn counter(name: &'static str, help: &'static str, value: Append) -> Metric {
    (name, "counter", help, value)
}

const fn gauge(name: &'static str, help: &'static str, value: Append) -> Metric {
    (name, "gauge", help, value)
}

const fn histogram(name: &'static str, help: &'static str, value: Append) -> Metric {
    (name, "histogram", help, value)
}

/// The metrics. Those of the process are named as Prometheus client libraries name them.
const METRICS: &[Metric] = &[
    gauge(
        "plugin_manager_total_plugins",
        "[ALPHA] Number of plugins in Plugin Manager",
        add_total_plugins,
    ),
    gauge(
        "plugind_plugins",
        "Plugins and sockets by type and state.",
        add_plugins,
    ),
    counter(
        "plugind_registrations_total",
        "Attempts to register a plugin, by result.",
        |from, to| add_table(&from.counters.registrations, ["type", "result", ""], to),
    ),
    counter("plugind_events_total", "Events, by reason.", |from, to| {
        add_table(&from.counters.events, ["reason", "", ""], to);
    }),
    counter(
        "plugind_limit_hits_total",
        "Times that something had to wait or was refused because of a limit.",
        |from, to| {
            for (limit, hits) in LIMITS.iter().zip(from.counters.limit_hits) {
                to.add(&[("limit", limit.as_bytes())], hits);
            }
        },
    ),
    counter(
        "plugind_exec_runs_total",
        "Programs of --exec that have ended.",
        |from, to| add_table(&from.counters.runs, ["type", "action", "result"], to),
    ),
    histogram(
        "plugind_registration_duration_seconds",
        "Time from the discovery of a socket to the reply of the registered plugin.",
        |from, to| to.add_histogram(&[], &from.counters.registration_duration),
    ),
    histogram(
        "plugind_exec_duration_seconds",
        "Duration of programs of --exec.",
        |from, to| to.add_histogram(&[], &from.counters.run_duration),
    ),
    histogram(
        "plugind_rpc_duration_seconds",
        "Duration of unary calls to plugins.",
        add_calls,
    ),
    gauge(
        "plugind_devices",
        "Devices that the current plugin of each resource lists.",
        add_devices,
    ),
    gauge(
        "plugind_backoff_seconds",
        "Pause after the last failed attempt to register a plugin.",
        add_backoffs,
    ),
    counter(
        "plugind_rescans_total",
        "Requests to read every directory again.",
        |from, to| {
            for reason in RoundReason::ALL {
                let count = from.watch.round_requests(reason);
                to.add(&[("reason", reason.name().as_bytes())], count);
            }
        },
    ),
    gauge(
        "plugind_directory_watched",
        "Whether the kernel reports changes of a directory.",
        |from, to| {
            for directory in from.watch.directories() {
                let path = directory.path.as_os_str().as_encoded_bytes();
                let is_watched = directory.state == DirectoryState::Watched;
                to.add(&[("path", path)], u8::from(is_watched));
            }
        },
    ),
    gauge("plugind_build_info", "Version of the program.", |_, to| {
        let version = env!("CARGO_PKG_VERSION").as_bytes();
        let revision = REVISION.as_bytes();
        to.add(&[("version", version), ("revision", revision)], 1);
    }),
    gauge(
        "plugind_connections",
        "Connections to plugins that are dialed or open.",
        |from, to| to.add(&[], from.manager.records().connection_count()),
    ),
    gauge(
        "plugind_memory_held_bytes",
        "Memory that is held for plugins and counts against the budget.",
        |from, to| {
            let [.., memory] = from.manager.records().usage();
            to.add(&[], memory.used);
        },
    ),
    gauge(
        "plugind_memory_budget_bytes",
        "Memory that may be held for all plugins together.",
        |from, to| {
            let [.., memory] = from.manager.records().usage();
            to.add(&[], memory.limit);
        },
    ),
    counter(
        "plugind_loop_turns_total",
        "Turns of the loop.",
        |from, to| to.add(&[], from.counters.turns),
    ),
    counter(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
        |from, to| add_process_fact(from, to, |facts| Seconds(facts.cpu)),
    ),
    gauge(
        "process_open_fds",
        "Number of open file descriptors.",
        |from, to| add_process_fact(from, to, |facts| facts.open_fds),
    ),
    gauge(
        "process_max_fds",
        "Maximum number of open file descriptors.",
        |from, to| add_process_fact(from, to, |facts| facts.max_fds),
    ),
    gauge(
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        |from, to| add_process_fact(from, to, |facts| facts.resident),
    ),
    gauge(
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes.",
        |from, to| add_process_fact(from, to, |facts| facts.virtual_size),
    ),
    gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        |from, to| add_process_fact(from, to, |facts| Seconds(facts.start)),
    ),
];

fn add_total_plugins(from: &Sources<'_>, to: &mut Samples) {
    for socket in from.manager.sockets() {
        for (is_in, world) in [
            (socket.desired().is_some(), "desired_state_of_world"),
            (socket.registered().is_some(), "actual_state_of_world"),
        ] {
            if is_in {
                to.add(&[path_label(socket), ("state", world.as_bytes())], 1);
            }
        }
    }
}

fn add_plugins(from: &Sources<'_>, to: &mut Samples) {
    let types = from.manager.handlers().types().take(MAX_TYPES);
    let mut rows: Vec<_> = types.map(|it| (it, [0; State::ALL.len()])).collect();
    for record in from.manager.records().iter() {
        let known = record.plugin.map(|plugin| type_of(plugin, from.manager));
        let place = |kind: &str, rows: &[(&str, _)]| rows.iter().position(|(it, _)| *it == kind);
        let other = if known.is_some() { OTHER } else { UNKNOWN };
        let at = known.and_then(|kind| place(kind, &rows));
        let at = at.or_else(|| place(other, &rows)).unwrap_or_else(|| {
            rows.push((other, [0; State::ALL.len()]));
            rows.len() - 1
        });
        rows[at].1[record.state as usize] += 1;
    }
    rows.sort_unstable();
    for (kind, counts) in rows {
        for (state, count) in State::ALL.iter().zip(counts) {
            let state = ("state", state.name().as_bytes());
            to.add(&[("type", kind.as_bytes()), state], count);
        }
    }
}

/// Appends the counts of a table. Labels with empty names are left out.
fn add_table(table: &Table<u64>, names: [&str; 3], to: &mut Samples) {
    let used = names.iter().filter(|name| !name.is_empty()).count();
    for (labels, count) in &table.0 {
        let labels = [0, 1, 2].map(|n| (names[n], labels[n].as_bytes()));
        to.add(&labels[..used], count);
    }
}

fn add_calls(from: &Sources<'_>, to: &mut Samples) {
    for ([method, code, _], durations) in &from.counters.calls.0 {
        let labels = [("method", method.as_bytes()), ("code", code.as_bytes())];
        to.add_histogram(&labels, durations);
    }
}

/// Appends the number of devices of each resource and DRA driver: of several plugins of one name,
/// only the current one counts, because only its devices can be used.
fn add_devices(from: &Sources<'_>, to: &mut Samples) {
    let Some(inventory) = from.inventory else {
        return;
    };
    for plugin in from.manager.registered().map(|it| &it.plugin) {
        let (kind, name) = (plugin.kind.as_bytes(), plugin.name.as_bytes());
        let mut add = |health: &str, count| {
            let health = health.as_bytes();
            to.add(&[("type", kind), ("name", name), ("health", health)], count);
        };
        match &*plugin.kind {
            device::TYPE => {
                let current = inventory.device_plugins.get(&plugin.name);
                if let Some(current) = current.filter(|it| it.plugin == *plugin) {
                    let healthy = current.count_healthy();
                    add("healthy", healthy);
                    add("unhealthy", current.devices.len() - healthy);
                }
            }
            dra::TYPE => {
                let current = inventory.dra_drivers.get(&plugin.name);
                let current = current.filter(|it| it.plugin == *plugin && !it.devices.is_empty());
                if let Some(current) = current {
                    add("healthy", current.count(Health::Healthy));
                    add("unhealthy", current.count(Health::Unhealthy));
                    add("unknown", current.count(Health::Unknown));
                }
            }
            _ => {}
        }
    }
}

fn add_backoffs(from: &Sources<'_>, to: &mut Samples) {
    for socket in from.manager.sockets() {
        let backoff = socket.desired().and_then(|it| it.backoff.delay());
        if let Some(backoff) = backoff {
            to.add(&[path_label(socket)], Seconds(backoff));
        }
    }
}

fn path_label(socket: &Socket) -> Label<'_> {
    ("socket_path", socket.path().as_os_str().as_encoded_bytes())
}

/// Appends a fact about the process, if the system reports such facts.
fn add_process_fact<T: Display>(from: &Sources<'_>, to: &mut Samples, of: fn(&ProcessFacts) -> T) {
    if let Some(facts) = &from.process {
        to.add(&[], of(facts));
    }
}

/// The revision of the source code, if `SOURCE_REVISION` was set during the build.
pub(crate) const REVISION: &str = match option_env!("SOURCE_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// The maximum number of types with rows of their own.
const MAX_TYPES: usize = 32;
