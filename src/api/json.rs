//! The documents of the API: lists, records, devices, events and the status, as JSON.
//!
//! Each struct is a document whose keys are the fields. Facts that are not known are left out.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::event_log::KeptEvent;
use super::process::PeerFacts;
use super::view::View;
use crate::config::{API_CLIENTS, API_DEVICE_NODES, MAX_NAME_LEN, Mode};
use crate::escape;
use crate::handler::device::{Device, Holder};
use crate::handler::{Plugin, csi, device, dra};
use crate::manager::{Generation, Record, State};
use crate::time::rfc3339;
use crate::time::{self, Time};

/// A list of records or devices. Its items are created one at a time while the list is written, so
/// it can be written only once.
#[derive(Serialize)]
#[serde(bound = "I: Iterator<Item: Serialize>")]
pub(super) struct List<'a, I> {
    pub(super) kind: &'static str,
    pub(super) instance: &'a str,
    pub(super) generation: Generation,
    #[serde(serialize_with = "serialize_items")]
    pub(super) items: Cell<Option<I>>,
}

fn serialize_items<I, S>(items: &Cell<Option<I>>, to: S) -> Result<S::Ok, S::Error>
where
    I: Iterator<Item: Serialize>,
    S: Serializer,
{
    to.collect_seq(items.take().into_iter().flatten())
}

/// A record: the state of a registration socket and its plugin.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordEntry<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    state: &'static str,
    socket: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<&'a [String]>,
    since: String,
    generation: Generation,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_retry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(flatten)]
    peer: Option<PeerFacts>,
    /// The reasons why the plugin would be refused in strict mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

/// The type and the name of a plugin.
#[derive(Serialize)]
struct TypeAndName<'a> {
    r#type: &'a str,
    name: &'a str,
}

/// The facts that the handler of a plugin knows about it.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Details {
    Csi(csi::Driver),
    Devices {
        total: usize,
        healthy: usize,
        connected: bool,
    },
    Dra {
        services: [&'static str; 1],
        connected: bool,
        /// The number of devices whose health the driver reports.
        total: usize,
        healthy: usize,
    },
}

impl<'a> RecordEntry<'a> {
    pub(super) fn new(record: &Record<'a>, view: &View<'_>) -> Self {
        let (plugin, last_error) = (record.plugin, record.last_error);
        Self {
            r#type: plugin.map(|it| &*it.kind),
            name: plugin.map(|it| &*it.name),
            state: record.state.name(),
            socket: record.socket.to_string_lossy(),
            endpoint: plugin.map(|it| it.endpoint.to_string_lossy()),
            versions: plugin.map(|it| &*it.versions),
            since: view.format_time(record.since),
            generation: record.generation,
            attempts: record.attempts,
            reason: last_error.map(|it| it.reason()),
            last_error: last_error.map(|it| it.to_string()),
            next_retry: record.next_retry.map(|at| view.format_time(at)),
            pid: record.process.and_then(|process| process.pid),
            uid: record.process.map(|process| process.uid),
            peer: None,
            warnings: record.distrust.iter().map(ToString::to_string).collect(),
            details: plugin.and_then(|plugin| Details::of(plugin, view)),
        }
    }

    /// Adds the facts about the process, unless its ID may belong to another process by now.
    pub(super) fn with_peer(mut self, record: &Record<'a>, view: &View<'_>) -> Self {
        let process = record.process.filter(|_| record.state != State::Down);
        self.peer = process.and_then(|process| match process.pid {
            Some(pid) => (view.peer)(pid),
            None => Some(PeerFacts {
                other_pid_namespace: true,
                ..PeerFacts::default()
            }),
        });
        self
    }
}

impl Details {
    fn of(plugin: &Arc<Plugin>, view: &View<'_>) -> Option<Self> {
        let inventory = view.inventory?;
        match &*plugin.kind {
            csi::TYPE => inventory
                .csi_drivers
                .with(plugin, |driver| Self::Csi(driver.clone())),
            device::TYPE => inventory
                .device_plugins
                .with(plugin, |plugin| Self::Devices {
                    total: plugin.devices.len(),
                    healthy: plugin.count_healthy(),
                    connected: plugin.is_connected,
                }),
            dra::TYPE => {
                let drivers = inventory.dra_drivers.all(&plugin.name);
                let driver = drivers.iter().find(|it| it.plugin == *plugin)?;
                Some(Self::Dra {
                    services: [driver.service],
                    connected: driver.is_connected,
                    total: driver.devices.len(),
                    healthy: driver.count(dra::Health::Healthy),
                })
            }
            _ => None,
        }
    }
}

/// A device of a plugin. The length of its ID and the number of its NUMA nodes are limited.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceEntry<'a> {
    resource: &'a str,
    id: Cow<'a, str>,
    health: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    numa_nodes: &'a [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Value>,
    socket: Cow<'a, str>,
}

impl<'a> DeviceEntry<'a> {
    pub(super) fn new(plugin: &'a Plugin, device: &'a Device, holder: Option<&Holder>) -> Self {
        let health = if device.is_healthy {
            "Healthy"
        } else {
            "Unhealthy"
        };
        let nodes = &device.numa_nodes;
        let numa_nodes = &nodes[..nodes.len().min(API_DEVICE_NODES)];
        Self {
            numa_nodes,
            holder: holder.map(|Holder { pid, uid }| json!({ "pid": pid, "uid": uid })),
            ..Self::of(plugin, &device.id, health)
        }
    }

    /// Returns the entry of a device of a DRA driver.
    pub(super) fn of_driver(plugin: &'a Plugin, device: &'a dra::Device) -> Self {
        Self::of(plugin, &device.id, device.health.name())
    }

    fn of(plugin: &'a Plugin, id: &'a str, health: &'static str) -> Self {
        Self {
            resource: &plugin.name,
            id: if id.len() > MAX_NAME_LEN {
                escape::text(id).at_most(MAX_NAME_LEN).to_string().into()
            } else {
                id.into()
            },
            health,
            numa_nodes: &[],
            holder: None,
            socket: plugin.socket.to_string_lossy(),
        }
    }
}

/// An event, with the number and the times of its occurrences.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventEntry<'a> {
    generation: Generation,
    r#type: &'static str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<TypeAndName<'a>>,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_time: Option<String>,
    last_time: String,
}

impl<'a> EventEntry<'a> {
    pub(super) fn new(kept: &'a KeptEvent, view: &View<'_>) -> Self {
        let event = &kept.event;
        let kind = if event.is_warning() {
            "Warning"
        } else {
            "Normal"
        };
        Self {
            generation: kept.generation,
            r#type: kind,
            reason: event.reason(),
            socket: event.socket().map(|socket| socket.to_string_lossy()),
            plugin: event.plugin().map(|plugin| TypeAndName {
                r#type: &plugin.kind,
                name: &plugin.name,
            }),
            message: event.message(),
            detail: event.detail(),
            count: Some(kept.count),
            first_time: Some(view.format_time(kept.first)),
            last_time: view.format_time(kept.last),
        }
    }

    /// Returns the entry that reports that events after a generation were dropped. The newest of
    /// the dropped events happened at `last`.
    pub(super) fn dropped(after: Generation, last: Time, view: &View<'_>) -> Self {
        Self {
            generation: after,
            r#type: "Normal",
            reason: "EventsDropped",
            message: "earlier events were dropped".to_owned(),
            last_time: view.format_time(last),
            ..Self::default()
        }
    }
}

/// Returns the status of the daemon; `clients` is the number of clients of the API.
pub(super) fn status(view: &View<'_>, clients: usize) -> Value {
    let daemon = view.daemon;
    let mut counts = [0; State::ALL.len()];
    for record in view.manager.records().iter() {
        counts[record.state as usize] += 1;
    }
    let plugins = State::ALL
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0);
    let plugins = plugins.map(|(state, count)| (state.name().to_owned(), json!(count)));
    let directories = view.watch.directories().map(|directory| {
        let path = directory.path.to_string_lossy();
        let mut entry = json!({ "path": path, "state": directory.state.name() });
        if let Some(problem) = directory.problem {
            entry["problem"] = problem.to_string().into();
        }
        entry
    });
    let usage = view.manager.records().usage().into_iter();
    let usage = usage.map(|usage| (usage.name, usage.used, usage.limit));
    let limits = usage.chain([("clients", clients, API_CLIENTS)]);
    let limits = limits.map(|it| json!({ "name": it.0, "used": it.1, "limit": it.2 }));
    let mode = match daemon.mode {
        Mode::Register => "register",
        Mode::Observe => "observe",
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": daemon.pid,
        "startTime": rfc3339(daemon.start_time),
        "uptimeSeconds": view.now.saturating_since(daemon.started).as_secs(),
        "mode": mode,
        "sandbox": daemon.sandbox,
        "instance": daemon.instance,
        "generation": view.manager.generation(),
        "directories": directories.collect::<Value>(),
        "sockets": counts.iter().sum::<usize>(),
        "plugins": plugins.collect::<Map<_, _>>(),
        "limits": limits.collect::<Value>(),
        "longestTurnMicroseconds": time::micros(view.longest_turn),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;
    use std::time::Duration;

    use prost::Message as _;

    use super::*;
    use crate::api::{Counters, Daemon, EventLog};
    use crate::config::{DEFAULT_TYPES, UnknownTypes};
    use crate::handler::csi::Version;
    use crate::handler::{Inventory, built_in};
    use crate::manager::{Failure, LastError, Manager, Process};
    use crate::proto::v1beta1;
    use crate::watch::Watch;

    fn plugin(kind: &str, socket: &[u8]) -> Arc<Plugin> {
        let socket: Arc<Path> = Path::new(OsStr::from_bytes(socket)).into();
        Arc::new(Plugin {
            kind: kind.to_owned(),
            name: "a\"\u{1b}".to_owned(),
            endpoint: socket.clone(),
            versions: vec!["1.0.0".to_owned(), "1.1.0".to_owned()],
            socket,
        })
    }

    fn failure() -> Failure {
        Failure::UndecodableInfo("a\nb".to_owned())
    }

    /// Returns the record of a plugin as JSON, with the details from this inventory.
    fn record_json(plugin: &Arc<Plugin>, inventory: &Inventory) -> Value {
        let (handlers, _) = built_in(DEFAULT_TYPES, UnknownTypes::Reject);
        let daemon = Daemon {
            pid: 1,
            mode: Mode::Observe,
            instance: String::new(),
            started: Time::ZERO,
            start_time: Duration::ZERO,
            sandbox: String::new(),
        };
        let view = View {
            manager: &Manager::new(handlers),
            watch: &Watch::new([]),
            inventory: Some(inventory),
            events: &EventLog::default(),
            counters: &Counters::default(),
            process: || None,
            peer: |_| None,
            daemon: &daemon,
            not_ready: &[],
            longest_turn: Duration::ZERO,
            now: Time::from_millis(5000),
            time_of_day: Duration::from_secs(100),
        };
        let failure = failure();
        let shown = Record {
            socket: &plugin.socket,
            plugin: Some(plugin),
            state: State::Backoff,
            since: Time::from_millis(4500),
            generation: 12,
            attempts: 3,
            last_error: Some(LastError::Failure(&failure)),
            next_retry: Some(Time::from_millis(6500)),
            distrust: &[],
            process: Some(Process {
                pid: Some(812),
                uid: 1000,
            }),
        };
        let mut out = Vec::new();
        escape::append_json(&RecordEntry::new(&shown, &view), &mut out);
        assert!(out.is_ascii());
        serde_json::from_slice(&out).expect("it is JSON")
    }

    fn inventory() -> Inventory {
        built_in(DEFAULT_TYPES, UnknownTypes::Reject).1
    }

    #[test]
    fn a_record_has_every_fact_that_is_known() {
        let record = record_json(&plugin("CSIPlugin", b"/r/\xff"), &inventory());
        let wanted = serde_json::json!({
            "type": "CSIPlugin", "name": "a\"\u{1b}", "state": "Backoff",
            "socket": "/r/\u{fffd}", "endpoint": "/r/\u{fffd}", "versions": ["1.0.0", "1.1.0"],
            "since": "1970-01-01T00:01:39.500Z", "generation": 12, "attempts": 3,
            "reason": "GetInfoFailed", "lastError": failure().to_string(),
            "nextRetry": "1970-01-01T00:01:41.500Z", "pid": 812, "uid": 1000,
        });
        assert_eq!(record, wanted);
    }

    #[test]
    fn a_record_has_what_its_handler_knows() {
        let inventory = inventory();
        let csi = plugin("CSIPlugin", b"/r/csi");
        inventory.csi_drivers.set(csi::Driver {
            plugin: csi.clone(),
            version: Version::parse("1.0.0").expect("it is a version"),
            node_id: "node".to_owned(),
            max_volumes: Some(25),
            topology: [("zone".to_owned(), "a".to_owned())].into(),
        });
        let wanted = serde_json::json!({"csi": {
            "nodeId": "node", "maxVolumes": 25, "topology": {"zone": "a"},
        }});
        assert_eq!(record_json(&csi, &inventory)["details"], wanted);
        let other = plugin("CSIPlugin", b"/r/other");
        assert_eq!(record_json(&other, &inventory)["details"], Value::Null);

        let gpu = plugin("DevicePlugin", b"/r/gpu");
        let device = |n| v1beta1::Device {
            id: format!("{n:02}"),
            health: if n > 0 { "Healthy" } else { "Unhealthy" }.to_owned(),
            topology: None,
        };
        let devices = (0..64).map(device).collect();
        let list = v1beta1::ListAndWatchResponse { devices }.encode_to_vec();
        inventory.device_plugins.set(device::DevicePlugin {
            plugin: gpu.clone(),
            pre_start_required: false,
            preferred_allocation: false,
            is_connected: true,
            devices: device::Devices::from_message(&list).expect("a list"),
            order: 0,
        });
        let wanted =
            serde_json::json!({"devices": {"total": 64, "healthy": 63, "connected": true}});
        assert_eq!(record_json(&gpu, &inventory)["details"], wanted);
    }
}
