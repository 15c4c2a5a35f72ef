//! The metrics: names, types and texts.
//!
//! Pure.

use super::counters::{Counters, Table};
use super::exposition::{Family, Value};
use super::histogram::Histogram;
use super::process::ProcessFacts;

/// A counter with labels: the metric, the names of the labels, and the counts.
pub(super) type TableOf = (Family, [&'static str; 3], fn(&Counters) -> &Table);

/// A histogram without labels.
pub(super) type HistogramOf = (Family, fn(&Counters) -> &Histogram);

/// A metric of the process.
pub(super) type FactOf = (Family, fn(&ProcessFacts) -> Value);

const fn family(name: &'static str, kind: &'static str, help: &'static str) -> Family {
    Family { name, kind, help }
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";
const HISTOGRAM: &str = "histogram";

pub(super) const TOTAL_PLUGINS: Family = family(
    "plugin_manager_total_plugins",
    GAUGE,
    "[ALPHA] Number of plugins in Plugin Manager",
);
pub(super) const PLUGINS: Family = family(
    "plugind_plugins",
    GAUGE,
    "Plugins and sockets by type and state.",
);
pub(super) const DEVICES: Family = family(
    "plugind_devices",
    GAUGE,
    "Devices that the current plugin of each resource lists.",
);
pub(super) const BACKOFF: Family = family(
    "plugind_backoff_seconds",
    GAUGE,
    "Pause after the last failed attempt to register a plugin.",
);
pub(super) const CALLS: Family = family(
    "plugind_rpc_duration_seconds",
    HISTOGRAM,
    "Duration of unary calls to plugins.",
);
pub(super) const RESCANS: Family = family(
    "plugind_rescans_total",
    COUNTER,
    "Requests to read every directory again.",
);
pub(super) const DIRECTORIES: Family = family(
    "plugind_directory_watched",
    GAUGE,
    "Whether the kernel reports changes of a directory.",
);
pub(super) const BUILD_INFO: Family =
    family("plugind_build_info", GAUGE, "Version of the program.");
pub(super) const CONNECTIONS: Family = family(
    "plugind_connections",
    GAUGE,
    "Connections to plugins that are dialed or open.",
);
pub(super) const MEMORY_USED: Family = family(
    "plugind_memory_held_bytes",
    GAUGE,
    "Memory that is held of plugins and counts against the budget.",
);
pub(super) const MEMORY_LIMIT: Family = family(
    "plugind_memory_budget_bytes",
    GAUGE,
    "Memory that may be held of all plugins together.",
);
pub(super) const TURNS: Family = family("plugind_loop_turns_total", COUNTER, "Turns of the loop.");
pub(super) const DROPPED: Family = family(
    "plugind_series_dropped",
    GAUGE,
    "Series of sockets that this response sums up or leaves out, because there are too many.",
);

/// The counters with labels.
pub(super) const TABLES: [TableOf; 4] = [
    (
        family(
            "plugind_registrations_total",
            COUNTER,
            "Attempts to register a plugin, by result.",
        ),
        ["type", "result", ""],
        |counters| &counters.registrations,
    ),
    (
        family("plugind_events_total", COUNTER, "Events, by reason."),
        ["reason", "", ""],
        |counters| &counters.events,
    ),
    (
        family(
            "plugind_limit_hits_total",
            COUNTER,
            "Times that something had to wait or was refused because of a limit.",
        ),
        ["limit", "", ""],
        |counters| &counters.limit_hits,
    ),
    (
        family(
            "plugind_exec_runs_total",
            COUNTER,
            "Programs of --exec that have ended.",
        ),
        ["type", "action", "result"],
        |counters| &counters.runs,
    ),
];

/// The histograms without labels.
pub(super) const HISTOGRAMS: &[HistogramOf] = &[
    (
        family(
            "plugind_registration_duration_seconds",
            HISTOGRAM,
            "Time from the discovery of a socket to the reply of the registered plugin.",
        ),
        |counters| &counters.registration_duration,
    ),
    (
        family(
            "plugind_exec_duration_seconds",
            HISTOGRAM,
            "Duration of programs of --exec.",
        ),
        |counters| &counters.run_duration,
    ),
];

/// The metrics of the process, named as Prometheus client libraries name them.
pub(super) const PROCESS: &[FactOf] = &[
    (
        family(
            "process_cpu_seconds_total",
            COUNTER,
            "Total user and system CPU time spent in seconds.",
        ),
        |process| Value::Seconds(process.cpu),
    ),
    (
        family(
            "process_open_fds",
            GAUGE,
            "Number of open file descriptors.",
        ),
        |process| Value::Number(process.open_fds),
    ),
    (
        family(
            "process_max_fds",
            GAUGE,
            "Maximum number of open file descriptors.",
        ),
        |process| Value::Number(process.max_fds),
    ),
    (
        family(
            "process_resident_memory_bytes",
            GAUGE,
            "Resident memory size in bytes.",
        ),
        |process| Value::Number(process.resident),
    ),
    (
        family(
            "process_virtual_memory_bytes",
            GAUGE,
            "Virtual memory size in bytes.",
        ),
        |process| Value::Number(process.virtual_size),
    ),
    (
        family(
            "process_start_time_seconds",
            GAUGE,
            "Start time of the process since unix epoch in seconds.",
        ),
        |process| Value::Seconds(process.start),
    ),
];
