//! The metrics, as Prometheus text (format 0.0.4): what each means, and what bounds it.
//!
//! Gauges are computed when they are read. Counters and histograms begin with 0 at every start of
//! the daemon. Durations are measured from turn to turn of the loop, so those below a millisecond
//! are rough while the daemon is busy.
//!
//! `plugind metrics` prints them. With `systemctl enable --now plugind-metrics.socket` the daemon
//! serves them to Prometheus at `http://127.0.0.1:9756/metrics`.
//!
//! # Plugins
//!
//! | name | type | labels |
//! |---|---|---|
//! | `plugin_manager_total_plugins` | gauge | `socket_path`, `state` |
//! | `plugind_plugins` | gauge | `type`, `state` |
//! | `plugind_registrations_total` | counter | `type`, `result` |
//! | `plugind_registration_duration_seconds` | histogram | |
//! | `plugind_backoff_seconds` | gauge | `socket_path` |
//! | `plugind_rpc_duration_seconds` | histogram | `method`, `code` |
//! | `plugind_devices` | gauge | `type`, `name`, `health` |
//! | `plugind_exec_runs_total` | counter | `type`, `action`, `result` |
//! | `plugind_exec_duration_seconds` | histogram | |
//!
//! - `plugin_manager_total_plugins` is kubelet's own: 1 for each socket that exists
//!   (`desired_state_of_world`), and for each plugin that a handler knows
//!   (`actual_state_of_world`).
//! - `plugind_plugins`: sockets, and their plugins, in each state of a record.
//! - `plugind_registrations_total`: attempts to register: `registered`, `refused` by the handler,
//!   `ignored` because the type is unknown, `failed` for another reason.
//! - `plugind_registration_duration_seconds`: from the discovery of the socket, or from the
//!   deregistration of the plugin before, to the reply of the registered plugin.
//! - `plugind_backoff_seconds`: the pause after the last failed attempt; none after a success.
//! - `plugind_rpc_duration_seconds`: unary calls, by method (`package.Service/Method`) and gRPC
//!   code. Calls of handlers include the dial and all repetitions.
//! - `plugind_devices`: the devices that the current plugin of a resource lists: `healthy` and
//!   `unhealthy`. All are unhealthy while the plugin does not list them. Those of a DRA driver that
//!   reports their health can be `unknown`, too.
//! - `plugind_exec_runs_total`: programs of `--exec` that have ended: `success`, `failure` (with
//!   another status than 0), `killed` (by a signal), `timeout`, `cancelled` (by the daemon),
//!   `not_started`.
//! - `plugind_exec_duration_seconds`: the duration of those programs, without the time for which
//!   they waited for others.
//!
//! # The daemon
//!
//! | name | type | labels |
//! |---|---|---|
//! | `plugind_events_total` | counter | `reason` |
//! | `plugind_limit_hits_total` | counter | `limit` |
//! | `plugind_rescans_total` | counter | `reason` |
//! | `plugind_directory_watched` | gauge | `path` |
//! | `plugind_connections` | gauge | |
//! | `plugind_memory_held_bytes` | gauge | |
//! | `plugind_memory_budget_bytes` | gauge | |
//! | `plugind_loop_turns_total` | counter | |
//! | `plugind_build_info` | gauge | `version`, `revision` |
//!
//! - `plugind_events_total`: events by reason, those about directories included.
//! - `plugind_limit_hits_total`: something had to wait or was refused because of a limit:
//!   `operations` (a socket waits for its turn), `descriptors` (too few file descriptors),
//!   `programs` (a program waits), `memory` (a call fails or a list is rejected, because of the
//!   memory budget), `clients` (of the API socket), `sockets`, `directories`, `names` and `depth`
//!   (of directories, [`operator`](super::operator)), `inotify_watches` and `inotify_instances` (of
//!   the user).
//! - `plugind_rescans_total`: requests to read every directory again: `overflow` (the kernel has
//!   dropped events), `resync` (every five minutes), `request` (by the user).
//! - `plugind_directory_watched`: 1 if the kernel reports changes of the directory, and 0 if it is
//!   read again and again, or cannot be read: the named directories, and up to 64 of those below
//!   them that have a problem.
//! - `plugind_connections`: connections to plugins that are dialed or open.
//! - `plugind_memory_held_bytes`: what is held of plugins and counts against the memory budget
//!   ([`operator`](super::operator)), which is `plugind_memory_budget_bytes`.
//! - `plugind_loop_turns_total`: turns of the loop. An idle daemon makes next to none.
//! - `plugind_build_info`: always 1. The revision is the commit of a release build, or what the
//!   variable `SOURCE_REVISION` was then; in a debug build it is `unknown`.
//!
//! # The process
//!
//! Named as the client libraries of Prometheus name them; missing without `/proc`.
//!
//! | name | type | meaning |
//! |---|---|---|
//! | `process_cpu_seconds_total` | counter | processor time, in user and in kernel mode |
//! | `process_open_fds` | gauge | open file descriptors |
//! | `process_max_fds` | gauge | limit of open file descriptors |
//! | `process_resident_memory_bytes` | gauge | resident memory |
//! | `process_virtual_memory_bytes` | gauge | virtual memory |
//! | `process_start_time_seconds` | gauge | start of the process, since the beginning of 1970 |
//!
//! # Labels
//!
//! A plugin chooses its type, its name, its codes and its path, so none of them may create series
//! without a bound. A type without a handler of its own is `other`; a plugin that has not described
//! itself has the type `unknown`. A counter has at most 128 series, and the last one is for all
//! `other` labels.
//!
//! A socket has at most six series: two of `plugin_manager_total_plugins`, two of
//! `plugind_devices` (three for a DRA driver) and one of `plugind_backoff_seconds`.
//!
//! Values are escaped as in the log: octets that are not UTF-8 as `\xNN`, what could mislead a
//! terminal as `\n` or `\u{1b}`, and a backslash is doubled, so that no two values are shown alike.
