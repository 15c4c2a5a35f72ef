//! The metrics, read by a strict parser.

#[path = "../support/exposition.rs"]
#[allow(dead_code, reason = "a part of it is enough")]
mod exposition;
#[path = "../support/skip.rs"]
mod skip;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plugind::api::metrics::{Sources, render};
use plugind::api::{Counters, Event, ProcessFacts};
use plugind::config::LIST_INTERVAL;
use plugind::handler::{self, AcceptHandler, HandlerTable, Unknown};
use plugind::manager::{Manager, Measurement, State};
use plugind::watch::{Problem, Report, Watch};

use self::exposition::Exposition;
use crate::script::{Answer, Script, device_list};
use crate::world::World;

/// What the metrics of a world are read from, besides its manager.
#[derive(Debug)]
struct Scraped {
    counters: Counters,
    watch: Watch,
}

impl Default for Scraped {
    fn default() -> Self {
        Self {
            counters: Counters::default(),
            watch: Watch::new([PathBuf::from("/r")]),
        }
    }
}

impl Scraped {
    /// Counts what has happened in a world since the last call.
    fn count(&mut self, world: &mut World) {
        for event in std::mem::take(&mut world.events) {
            let event = Event::Plugin(Arc::new(event));
            self.counters.record_event(&event, &world.manager);
        }
        for measurement in std::mem::take(&mut world.measured) {
            self.counters
                .record_measurement(&measurement, &world.manager);
        }
    }

    fn sources<'a>(&'a self, manager: &'a Manager) -> Sources<'a> {
        Sources {
            manager,
            watch: &self.watch,
            counters: &self.counters,
            inventory: None,
            process: Some(PROCESS),
        }
    }

    /// Returns the whole response.
    fn text(&self, manager: &Manager) -> Vec<u8> {
        render(&self.sources(manager))
    }

    fn scrape(&mut self, world: &mut World) -> Exposition {
        self.count(world);
        Exposition::parse(&self.text(&world.manager))
    }
}

const PROCESS: ProcessFacts = ProcessFacts {
    cpu: Duration::from_millis(1_250),
    open_fds: 12,
    max_fds: 1024,
    resident: 1 << 20,
    virtual_size: 1 << 30,
    start: Duration::from_secs(1_700_000_000),
};

/// Returns a world with one of everything.
fn busy() -> (World, Scraped) {
    let mut world = World::new();
    world.appear("/r/a.sock", Script::csi("a"));
    world.appear("/r/b.sock", Script::csi("b"));
    world.appear("/r/strange.sock", Script::good("Strange", "c"));
    world.appear("/r/silent.sock", Script::silent());
    world.appear("/r/dead.sock", None);
    world.vanish("/r/b.sock");
    (world, Scraped::default())
}

#[test]
fn the_guide_explains_exactly_the_metrics_and_labels_that_exist() {
    let (mut world, mut scraped) = busy();
    let scraped = scraped.scrape(&mut world);
    let page = include_str!("../../src/guide/metrics.rs");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("//! | `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let explained: BTreeSet<_> = rows.iter().map(|row| row[1].trim_matches('`')).collect();
    assert_eq!(explained, scraped.metrics().collect());
    for row in rows {
        let name = row[1].trim_matches('`');
        assert_eq!(scraped.kind(name), row[2], "{name}");
        let suffix = if row[2] == "histogram" { "_count" } else { "" };
        let series = format!("{name}{suffix}");
        let Some(labels) = scraped.labels(&series).next() else {
            continue;
        };
        let labels: BTreeSet<_> = labels.keys().map(|label| format!("`{label}`")).collect();
        let is_of_process = name.starts_with("process_");
        let shown = if is_of_process { "" } else { row[3] };
        let explained = shown.split(", ").filter(|label| !label.is_empty());
        let explained = explained.map(str::to_owned).collect();
        assert_eq!(labels, explained, "{name}");
    }
}

#[test]
fn promtool_finds_nothing_to_improve() {
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return skip::skip("promtool is not installed");
    };
    let (mut world, mut scraped) = busy();
    scraped.count(&mut world);
    let text = scraped.text(&world.manager);
    let mut stdin = child.stdin.take().expect("it is a pipe");
    stdin.write_all(&text).expect("promtool reads it");
    drop(stdin);
    let output = child.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    assert_eq!(String::from_utf8_lossy(&said), "", "{}", output.status);
    assert!(output.status.success(), "{}", output.status);
}

#[test]
fn kubelet_s_gauge_has_kubelet_s_name_help_and_labels() {
    let (mut world, mut scraped) = busy();
    scraped.count(&mut world);
    let text = scraped.text(&world.manager);
    let text = std::str::from_utf8(&text).expect("it is text");
    let gauge = "# HELP plugin_manager_total_plugins [ALPHA] Number of plugins in Plugin Manager\n\
                 # TYPE plugin_manager_total_plugins gauge\n\
                 plugin_manager_total_plugins{socket_path=\"/r/a.sock\",\
                 state=\"desired_state_of_world\"} 1\n\
                 plugin_manager_total_plugins{socket_path=\"/r/a.sock\",\
                 state=\"actual_state_of_world\"} 1\n\
                 plugin_manager_total_plugins{socket_path=\"/r/strange.sock\",\
                 state=\"desired_state_of_world\"} 1\n";
    assert!(text.starts_with(gauge), "{text}");
}

#[test]
fn plugins_are_counted_by_configured_type_and_others_together() {
    let (mut world, mut scraped) = busy();
    let scraped = scraped.scrape(&mut world);
    let count = |kind, state: State| {
        let labels = [("type", kind), ("state", state.name())];
        scraped.get("plugind_plugins", &labels)
    };
    assert_eq!(count("CSIPlugin", State::Registered), Some(1));
    assert_eq!(count("other", State::Rejected), Some(1));
    assert_eq!(count("unknown", State::Connecting), Some(2));
    assert_eq!(count("DRAPlugin", State::Registered), Some(0));
    assert_eq!(count("Strange", State::Rejected), None);
    assert_eq!(scraped.sum("plugind_plugins", &[]), 4);
    let result = |kind, result| {
        let labels = [("type", kind), ("result", result)];
        scraped.get("plugind_registrations_total", &labels)
    };
    assert_eq!(result("CSIPlugin", "registered"), Some(2));
    assert_eq!(result("other", "refused"), Some(1));
    let reason = |reason| scraped.get("plugind_events_total", &[("reason", reason)]);
    assert_eq!(reason("Registered"), Some(2));
    assert_eq!(reason("SocketFound"), Some(5));
    assert_eq!(reason("Deregistered"), Some(1));
    let connections = scraped.get("plugind_connections", &[]);
    assert_eq!(connections, Some(world.open_connections().len() as u64));
}

#[test]
fn types_that_plugins_invent_have_no_series_of_their_own() {
    let mut table = HandlerTable::new();
    let id = table.add(["CSIPlugin"], AcceptHandler);
    table.set_unknown(Unknown::GivenTo(id));
    let mut world = World::with(Manager::new(table));
    for n in 0..300 {
        let script = Script::good(&format!("type-{n}"), &format!("plugin-{n}"));
        world.appear(&format!("/r/{n}.sock"), script);
    }
    assert_eq!(world.counts(), (300, 300));
    let scraped = Scraped::default().scrape(&mut world);
    let labels = [("type", "other"), ("result", "registered")];
    let registered = scraped.get("plugind_registrations_total", &labels);
    assert_eq!(registered, Some(300));
    let types = scraped.labels("plugind_plugins").map(|it| &*it["type"]);
    let types: BTreeSet<_> = types.collect();
    assert_eq!(types, ["CSIPlugin", "other"].into());
}

#[test]
fn codes_and_methods_without_a_row_of_their_own_count_together() {
    let mut scraped = Scraped::default();
    let world = World::new();
    let codes = (0..17).map(|code: u8| handler::Code::parse(code.to_string().as_bytes()));
    let codes: Vec<_> = codes.collect();
    let methods = [
        "/a/A", "/a/B", "/a/C", "/a/D", "/a/E", "/a/F", "/a/G", "/a/H", "/a/I",
    ];
    let all = methods
        .iter()
        .flat_map(|method| codes.iter().map(move |code| (method, code)));
    for (method, code) in all {
        let (method, code, took) = (method, *code, Duration::ZERO);
        let called = Measurement::Called { method, code, took };
        scraped.counters.record_measurement(&called, &world.manager);
    }
    let scraped = Exposition::parse(&scraped.text(&world.manager));
    let name = "plugind_rpc_duration_seconds_count";
    assert_eq!(scraped.labels(name).count(), 128);
    let count = methods.len() * codes.len();
    assert_eq!(scraped.sum(name, &[]), count as u64);
    let other = [("method", "other"), ("code", "other")];
    let other = scraped.get("plugind_rpc_duration_seconds_count", &other);
    assert_eq!(other, Some(count as u64 - 127));
    let first = [("method", "a/A"), ("code", "OK")];
    let first = scraped.get("plugind_rpc_duration_seconds_count", &first);
    assert_eq!(first, Some(1));
}

#[test]
fn devices_are_those_of_the_current_plugin_of_a_resource() {
    let types = ["DevicePlugin".to_owned()];
    let (table, inventory) = handler::built_in(&types, plugind::config::UnknownTypes::Reject);
    let mut world = World::with(Manager::new(table));
    let count = |world: &World| {
        let scraped = Scraped::default();
        let sources = Sources {
            inventory: Some(&inventory),
            ..scraped.sources(&world.manager)
        };
        let scraped = Exposition::parse(&render(&sources));
        assert_eq!(scraped.labels("plugind_devices").count(), 2);
        ["healthy", "unhealthy"].map(|health| {
            let labels = [
                ("type", "DevicePlugin"),
                ("name", "example.com/gpu"),
                ("health", health),
            ];
            scraped.get("plugind_devices", &labels)
        })
    };
    for (socket, ids, wanted) in [
        ("/r/a.sock", &["1", "2!", "3"][..], [Some(2), Some(1)]),
        ("/r/b.sock", &["1!"], [Some(0), Some(1)]),
    ] {
        let list = Answer::Stream(vec![device_list(ids)]);
        world.appear(socket, Script::devices("example.com/gpu", list));
        assert_eq!(count(&world), wanted, "{socket}");
    }
    world.push("/r/b.sock", &device_list(["1", "2!", "3"]));
    world.advance(LIST_INTERVAL);
    assert_eq!(count(&world), [Some(2), Some(1)], "another list");
    world.end_streams("/r/b.sock", 0);
    assert_eq!(count(&world), [Some(0), Some(3)], "the stream has ended");
}

#[test]
fn directories_and_limits_are_counted_as_the_watch_reports_them() {
    let mut scraped = Scraped::default();
    let mut world = World::new();
    let dir: Arc<Path> = Path::new("/r/sub").into();
    let trouble = |problem| Report::Trouble {
        dir: dir.clone(),
        problem,
    };
    for report in [
        trouble(Problem::TooManySockets),
        trouble(Problem::Missing),
        trouble(Problem::NotADirectory),
        Report::Recovered { dir: dir.clone() },
    ] {
        let event = Event::Directory(Box::new(report));
        scraped.counters.record_event(&event, &world.manager);
    }
    scraped.counters.count_limit_hit(plugind::api::CLIENTS);
    scraped.counters.turns += 1;
    let scraped = scraped.scrape(&mut world);
    let event = |reason| scraped.get("plugind_events_total", &[("reason", reason)]);
    assert_eq!(event("DirectoryLost"), Some(2));
    assert_eq!(event("DirectoryLimited"), Some(1));
    assert_eq!(event("DirectoryRecovered"), Some(1));
    let limit = |limit| scraped.get("plugind_limit_hits_total", &[("limit", limit)]);
    assert_eq!(limit("sockets"), Some(1));
    assert_eq!(limit("clients"), Some(1));
    assert_eq!(limit("descriptors"), Some(0));
    assert_eq!(scraped.get("plugind_loop_turns_total", &[]), Some(1));
    let watched = [("path", "/r")];
    assert_eq!(scraped.get("plugind_directory_watched", &watched), Some(0));
    let reasons = ["overflow", "resync", "request"];
    let rescans = scraped.labels("plugind_rescans_total");
    let rescans: BTreeSet<_> = rescans.map(|labels| &*labels["reason"]).collect();
    assert_eq!(rescans, reasons.into());
}
