//! Records, events and the status as JSON in plain ASCII.
//!
//! Pure. Values are written where they are, without a tree of them in between. Facts that are not
//! known are left out.

use std::sync::Arc;

use super::event_log::KeptEvent;
use super::view::View;
use crate::config::{API_CLIENTS, API_DEVICE_ID, API_DEVICE_NODES, Mode};
use crate::escape;
use crate::handler::{Plugin, csi, device, dra};
use crate::json::Writer;
use crate::manager::{Generation, Record, State};
use crate::time::{self, Time};

/// Writes a time.
fn time(json: &mut Writer<'_>, time: Time, view: &View<'_>) {
    json.separate();
    json.0.push(b'"');
    json.0.extend_from_slice(&view.time(time));
    json.0.push(b'"');
}

/// Writes a record. Returns how many records without devices take as long.
pub(super) fn record(json: &mut Writer<'_>, record: &Record<'_>, view: &View<'_>) -> usize {
    json.open(b'{');
    if let Some(plugin) = record.plugin {
        type_and_name(json, plugin);
    }
    json.key("state").text(record.state.name());
    json.key("socket").path(record.socket);
    if let Some(plugin) = record.plugin {
        json.key("endpoint").path(&plugin.endpoint);
        json.key("versions").open(b'[');
        for version in &plugin.versions {
            json.text(version);
        }
        json.close(b']');
    }
    time(json.key("since"), record.since, view);
    json.key("generation").number(record.generation);
    json.key("attempts").number(record.attempts.into());
    if let Some(error) = record.last_error {
        json.key("lastError").text(&error.to_string());
    }
    if let Some(next) = record.next_retry {
        time(json.key("nextRetry"), next, view);
    }
    if let Some(process) = record.process {
        if let Some(pid) = process.pid {
            json.key("pid").number(pid.into());
        }
        json.key("uid").number(process.uid.into());
    }
    let devices = record
        .plugin
        .map_or(0, |plugin| details(json, plugin, view));
    json.close(b'}');
    1 + devices / DEVICES_AS_A_RECORD
}

/// Writes what the handler of a plugin knows about it. Returns the number of its devices.
fn details(json: &mut Writer<'_>, plugin: &Arc<Plugin>, view: &View<'_>) -> usize {
    let Some(inventory) = view.inventory else {
        return 0;
    };
    match &*plugin.kind {
        csi::TYPE => {
            let drivers = inventory.csi_drivers.all(&plugin.name);
            if let Some(driver) = drivers.iter().find(|it| it.plugin == *plugin) {
                csi_details(json, driver);
            }
        }
        device::TYPE => {
            let plugins = inventory.device_plugins.all(&plugin.name);
            if let Some(devices) = plugins.iter().find(|it| it.plugin == *plugin) {
                let total = devices.devices.len();
                begin_details(json, "devices");
                json.key("total").number(total as u64);
                json.key("healthy").number(devices.healthy() as u64);
                json.key("connected").boolean(devices.is_connected);
                end_details(json);
                return total;
            }
        }
        dra::TYPE => {
            let drivers = inventory.dra_drivers.all(&plugin.name);
            if let Some(driver) = drivers.iter().find(|it| it.plugin == *plugin) {
                begin_details(json, "dra");
                json.key("services").open(b'[');
                json.text(driver.service.as_str());
                json.close(b']');
                json.key("connected").boolean(driver.is_connected);
                end_details(json);
            }
        }
        _ => {}
    }
    0
}

/// Writes a device of a plugin, in a limited number of octets.
pub(super) fn device(json: &mut Writer<'_>, plugin: &Plugin, device: &device::Device) {
    json.open(b'{');
    json.key("resource").text(&plugin.name);
    json.key("id");
    if device.id.len() > API_DEVICE_ID {
        let id = escape::text(&device.id).at_most(API_DEVICE_ID);
        json.text(&id.to_string());
    } else {
        json.text(&device.id);
    }
    json.key("health").text(if device.is_healthy {
        "Healthy"
    } else {
        "Unhealthy"
    });
    let mut nodes = device.numa_nodes.iter().take(API_DEVICE_NODES).peekable();
    if nodes.peek().is_some() {
        json.key("numaNodes").open(b'[');
        for node in nodes {
            json.raw(node.to_string().as_bytes());
        }
        json.close(b']');
    }
    json.key("socket").path(&plugin.socket);
    json.close(b'}');
}

fn csi_details(json: &mut Writer<'_>, driver: &csi::Driver) {
    begin_details(json, "csi");
    json.key("nodeId").text(&driver.node_id);
    if let Some(volumes) = driver.max_volumes {
        json.key("maxVolumes").number(volumes);
    }
    json.key("topology").open(b'{');
    for (key, value) in &driver.topology {
        json.key(key).text(value);
    }
    json.close(b'}');
    end_details(json);
}

fn begin_details(json: &mut Writer<'_>, kind: &str) {
    json.key("details").open(b'{');
    json.key(kind).open(b'{');
}

fn end_details(json: &mut Writer<'_>) {
    json.close(b'}');
    json.close(b'}');
}

/// Writes an event.
pub(super) fn event(json: &mut Writer<'_>, kept: &KeptEvent, view: &View<'_>) {
    let event = &kept.event;
    json.open(b'{');
    json.key("generation").number(kept.generation);
    json.key("type").text(if event.is_warning() {
        "Warning"
    } else {
        "Normal"
    });
    json.key("reason").text(event.reason());
    if let Some(socket) = event.socket() {
        json.key("socket").path(socket);
    }
    if let Some(plugin) = event.plugin() {
        json.key("plugin").open(b'{');
        type_and_name(json, plugin);
        json.close(b'}');
    }
    json.key("message").text(&event.message());
    json.key("detail").text(&event.detail());
    json.key("count").number(kept.count.into());
    time(json.key("firstTime"), kept.first, view);
    time(json.key("lastTime"), kept.last, view);
    json.close(b'}');
}

/// Writes that events after a generation were dropped, the last of which happened at `last`.
pub(super) fn dropped(json: &mut Writer<'_>, after: Generation, last: Time, view: &View<'_>) {
    json.open(b'{');
    json.key("generation").number(after);
    json.key("type").text("Normal");
    json.key("reason").text("EventsDropped");
    json.key("message").text("earlier events were dropped");
    time(json.key("lastTime"), last, view);
    json.close(b'}');
}

/// Returns the status of the daemon. The sockets in each state, and the clients, were counted
/// before.
pub(super) fn status(view: &View<'_>, counts: &[u64; State::ALL.len()], clients: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let json = &mut Writer(&mut out);
    let daemon = view.daemon;
    json.open(b'{');
    json.key("version").text(env!("CARGO_PKG_VERSION"));
    json.key("pid").number(daemon.pid.into());
    time(json.key("startTime"), daemon.started, view);
    let uptime = view.now.saturating_since(daemon.started);
    json.key("uptimeSeconds").number(uptime.as_secs());
    json.key("mode").text(match daemon.mode {
        Mode::Register => "register",
        Mode::Observe => "observe",
    });
    json.key("instance").text(&daemon.instance);
    json.key("generation").number(view.manager.generation());
    json.key("directories").open(b'[');
    for directory in view.watch.directories() {
        json.open(b'{');
        json.key("path").path(directory.path);
        json.key("state").text(directory.state.name());
        if let Some(problem) = directory.problem {
            json.key("problem").text(&problem.to_string());
        }
        json.close(b'}');
    }
    json.close(b']');
    json.key("plugins").open(b'{');
    let counted = || {
        State::ALL
            .iter()
            .zip(counts)
            .filter(|(_, count)| **count > 0)
    };
    for (state, count) in counted() {
        json.key(state.name()).number(*count);
    }
    json.close(b'}');
    json.key("sockets")
        .number(counted().map(|(_, count)| count).sum());
    json.key("limits").open(b'[');
    for usage in view.manager.usage() {
        limit(json, usage.name, usage.used, usage.limit);
    }
    limit(json, "clients", clients, API_CLIENTS);
    json.close(b']');
    let longest = time::micros(view.longest_turn);
    json.key("longestTurnMicroseconds").number(longest);
    json.close(b'}');
    out.push(b'\n');
    out
}

fn limit(json: &mut Writer<'_>, name: &str, used: usize, limit: usize) {
    json.open(b'{');
    json.key("name").text(name);
    json.key("used").number(used as u64);
    json.key("limit").number(limit as u64);
    json.close(b'}');
}

fn type_and_name(json: &mut Writer<'_>, plugin: &Plugin) {
    json.key("type").text(&plugin.kind);
    json.key("name").text(&plugin.name);
}

/// The number of devices whose counting takes as long as a record.
const DEVICES_AS_A_RECORD: usize = 16;

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::time::Duration;

    use std::path::Path;

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
    fn shown(plugin: &Arc<Plugin>, inventory: &Inventory) -> (Value, usize) {
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
        let work = record(&mut Writer(&mut out), &shown, &view);
        assert!(out.is_ascii());
        (serde_json::from_slice(&out).expect("it is JSON"), work)
    }

    fn inventory() -> Inventory {
        built_in(&[], UnknownTypes::Reject).1
    }

    #[test]
    fn a_record_has_every_fact_that_is_known() {
        let (record, work) = shown(&plugin("CSIPlugin", b"/r/\xff"), &inventory());
        let wanted = serde_json::json!({
            "type": "CSIPlugin", "name": "a\"\u{1b}", "state": "Backoff",
            "socket": "/r/\u{fffd}", "endpoint": "/r/\u{fffd}", "versions": ["1.0.0", "1.1.0"],
            "since": "1970-01-01T00:01:39.500Z", "generation": 12, "attempts": 3,
            "lastError": failure().to_string(),
            "nextRetry": "1970-01-01T00:01:41.500Z", "pid": 812, "uid": 1000,
        });
        assert_eq!((record, work), (wanted, 1));
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
        assert_eq!(shown(&csi, &inventory).0["details"], wanted);
        let other = plugin("CSIPlugin", b"/r/other");
        assert_eq!(shown(&other, &inventory).0["details"], Value::Null);

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
        let (record, work) = shown(&gpu, &inventory);
        assert_eq!((&record["details"], work), (&wanted, 5));
    }
}
