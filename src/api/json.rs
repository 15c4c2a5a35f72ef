//! Records, devices, events and the status as JSON.
//!
//! Pure. The structs are the documents: their fields are the keys. Facts that are not known are
//! left out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::event_log::KeptEvent;
use super::view::View;
use crate::config::{API_CLIENTS, API_DEVICE_ID, API_DEVICE_NODES, Mode};
use crate::escape;
use crate::handler::device::Device;
use crate::handler::{Plugin, csi, device, dra};
use crate::manager::{Generation, Record, State};
use crate::time::{self, Time};

/// A record.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordEntry<'a> {
    #[serde(flatten)]
    plugin: Option<TypeAndName<'a>>,
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
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_retry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

/// The type and the name of a plugin.
#[derive(Serialize)]
struct TypeAndName<'a> {
    r#type: &'a str,
    name: &'a str,
}

/// What the handler of a plugin knows about it.
#[derive(Serialize)]
#[serde(rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Details {
    Csi {
        node_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_volumes: Option<u64>,
        topology: BTreeMap<String, String>,
    },
    Devices {
        total: usize,
        healthy: usize,
        connected: bool,
    },
    Dra {
        services: [&'static str; 1],
        connected: bool,
    },
}

impl<'a> RecordEntry<'a> {
    pub(super) fn new(record: &Record<'a>, view: &View<'_>) -> Self {
        let plugin = record.plugin;
        Self {
            plugin: plugin.map(|plugin| TypeAndName::of(plugin)),
            state: record.state.name(),
            socket: record.socket.to_string_lossy(),
            endpoint: plugin.map(|plugin| plugin.endpoint.to_string_lossy()),
            versions: plugin.map(|plugin| &*plugin.versions),
            since: view.time(record.since),
            generation: record.generation,
            attempts: record.attempts,
            last_error: record.last_error.map(|error| error.to_string()),
            next_retry: record.next_retry.map(|next| view.time(next)),
            pid: record.process.and_then(|process| process.pid),
            uid: record.process.map(|process| process.uid),
            details: plugin.and_then(|plugin| Details::of(plugin, view)),
        }
    }
}

impl<'a> TypeAndName<'a> {
    fn of(plugin: &'a Plugin) -> Self {
        Self {
            r#type: &plugin.kind,
            name: &plugin.name,
        }
    }
}

impl Details {
    fn of(plugin: &Arc<Plugin>, view: &View<'_>) -> Option<Self> {
        let inventory = view.inventory?;
        match &*plugin.kind {
            csi::TYPE => {
                let drivers = inventory.csi_drivers.all(&plugin.name);
                let driver = drivers.iter().find(|it| it.plugin == *plugin)?;
                Some(Self::Csi {
                    node_id: driver.node_id.clone(),
                    max_volumes: driver.max_volumes,
                    topology: driver.topology.iter().cloned().collect(),
                })
            }
            device::TYPE => {
                let plugins = inventory.device_plugins.all(&plugin.name);
                let plugin = plugins.iter().find(|it| it.plugin == *plugin)?;
                Some(Self::Devices {
                    total: plugin.devices.len(),
                    healthy: plugin.healthy(),
                    connected: plugin.is_connected,
                })
            }
            dra::TYPE => {
                let drivers = inventory.dra_drivers.all(&plugin.name);
                let driver = drivers.iter().find(|it| it.plugin == *plugin)?;
                Some(Self::Dra {
                    services: [driver.service.as_str()],
                    connected: driver.is_connected,
                })
            }
            _ => None,
        }
    }
}

/// A device of a plugin, in a limited number of octets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceEntry<'a> {
    resource: &'a str,
    id: Cow<'a, str>,
    health: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    numa_nodes: &'a [i64],
    socket: Cow<'a, str>,
}

impl<'a> DeviceEntry<'a> {
    pub(super) fn new(plugin: &'a Plugin, device: &'a Device) -> Self {
        let id = &*device.id;
        Self {
            resource: &plugin.name,
            id: if id.len() > API_DEVICE_ID {
                escape::text(id).at_most(API_DEVICE_ID).to_string().into()
            } else {
                id.into()
            },
            health: if device.is_healthy {
                "Healthy"
            } else {
                "Unhealthy"
            },
            numa_nodes: &device.numa_nodes[..device.numa_nodes.len().min(API_DEVICE_NODES)],
            socket: plugin.socket.to_string_lossy(),
        }
    }
}

/// An event, with its repetitions.
#[derive(Serialize)]
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
    detail: String,
    count: u32,
    first_time: String,
    last_time: String,
}

impl<'a> EventEntry<'a> {
    pub(super) fn new(kept: &'a KeptEvent, view: &View<'_>) -> Self {
        let event = &kept.event;
        Self {
            generation: kept.generation,
            r#type: if event.is_warning() {
                "Warning"
            } else {
                "Normal"
            },
            reason: event.reason(),
            socket: event.socket().map(|socket| socket.to_string_lossy()),
            plugin: event.plugin().map(|plugin| TypeAndName::of(plugin)),
            message: event.message(),
            detail: event.detail(),
            count: kept.count,
            first_time: view.time(kept.first),
            last_time: view.time(kept.last),
        }
    }
}

/// Returns the line that events after a generation were dropped, the last of which happened at
/// `last`.
pub(super) fn dropped(after: Generation, last: Time, view: &View<'_>) -> Value {
    json!({
        "generation": after,
        "type": "Normal",
        "reason": "EventsDropped",
        "message": "earlier events were dropped",
        "lastTime": view.time(last),
    })
}

/// The status of the daemon.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusEntry<'a> {
    version: &'static str,
    pid: u32,
    start_time: String,
    uptime_seconds: u64,
    mode: &'static str,
    instance: &'a str,
    generation: Generation,
    directories: Vec<DirectoryEntry<'a>>,
    plugins: Counts,
    sockets: u64,
    limits: Vec<UsageEntry>,
    longest_turn_microseconds: u64,
}

#[derive(Serialize)]
struct DirectoryEntry<'a> {
    path: Cow<'a, str>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct UsageEntry {
    name: &'static str,
    used: usize,
    limit: usize,
}

/// The number of records in each state, in the order of [`State::ALL`].
#[derive(Default)]
struct Counts([u64; State::ALL.len()]);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = State::ALL
            .iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0);
        serializer.collect_map(counts.map(|(state, count)| (state.name(), count)))
    }
}

impl<'a> StatusEntry<'a> {
    /// Returns the status of the daemon with that number of clients.
    pub(super) fn new(view: &View<'a>, clients: usize) -> Self {
        let daemon = view.daemon;
        let mut plugins = Counts::default();
        for record in view.manager.records() {
            plugins.0[record.state as usize] += 1;
        }
        let directories = view.watch.directories().map(|directory| DirectoryEntry {
            path: directory.path.to_string_lossy(),
            state: directory.state.name(),
            problem: directory.problem.map(ToString::to_string),
        });
        let limits = view.manager.usage().into_iter().map(|usage| UsageEntry {
            name: usage.name,
            used: usage.used,
            limit: usage.limit,
        });
        let clients = UsageEntry {
            name: "clients",
            used: clients,
            limit: API_CLIENTS,
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            pid: daemon.pid,
            start_time: view.time(daemon.started),
            uptime_seconds: view.now.saturating_since(daemon.started).as_secs(),
            mode: match daemon.mode {
                Mode::Register => "register",
                Mode::Observe => "observe",
            },
            instance: &daemon.instance,
            generation: view.manager.generation(),
            directories: directories.collect(),
            sockets: plugins.0.iter().sum(),
            plugins,
            limits: limits.chain([clients]).collect(),
            longest_turn_microseconds: time::micros(view.longest_turn),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;
    use std::time::Duration;

    use prost::Message as _;
    use serde_json::Value;

    use super::*;
    use crate::api::{Counters, Daemon, EventLog};
    use crate::config::UnknownTypes;
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

    /// Returns the record of a plugin as JSON, with what this inventory knows.
    fn shown(plugin: &Arc<Plugin>, inventory: &Inventory) -> Value {
        let (handlers, _) = built_in(&[], UnknownTypes::Reject);
        let daemon = Daemon {
            pid: 1,
            mode: Mode::Observe,
            instance: String::new(),
            started: Time::ZERO,
        };
        let view = View {
            manager: &Manager::new(handlers),
            watch: &Watch::new([]),
            inventory: Some(inventory),
            events: &EventLog::default(),
            counters: &Counters::default(),
            process: || None,
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
            process: Some(Process {
                pid: Some(812),
                uid: 1000,
            }),
        };
        let mut out = Vec::new();
        escape::json(&RecordEntry::new(&shown, &view), &mut out);
        assert!(out.is_ascii());
        serde_json::from_slice(&out).expect("it is JSON")
    }

    fn inventory() -> Inventory {
        built_in(&[], UnknownTypes::Reject).1
    }

    #[test]
    fn a_record_has_every_fact_that_is_known() {
        let record = shown(&plugin("CSIPlugin", b"/r/\xff"), &inventory());
        let wanted = serde_json::json!({
            "type": "CSIPlugin", "name": "a\"\u{1b}", "state": "Backoff",
            "socket": "/r/\u{fffd}", "endpoint": "/r/\u{fffd}", "versions": ["1.0.0", "1.1.0"],
            "since": "1970-01-01T00:01:39.500Z", "generation": 12, "attempts": 3,
            "lastError": failure().to_string(),
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
        assert_eq!(shown(&csi, &inventory)["details"], wanted);
        let other = plugin("CSIPlugin", b"/r/other");
        assert_eq!(shown(&other, &inventory)["details"], Value::Null);

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
        });
        let wanted =
            serde_json::json!({"devices": {"total": 64, "healthy": 63, "connected": true}});
        assert_eq!(shown(&gpu, &inventory)["details"], wanted);
    }
}
