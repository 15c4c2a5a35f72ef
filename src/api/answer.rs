//! Responses that are rendered as a whole.
//!
//! A response shows one moment: the [`View`] of the turn in which it is rendered.

use std::cell::Cell;

use serde::Serialize;

use super::follow::EventCursor;
use super::json::{self, DeviceEntry, List, RecordEntry};
use super::metrics::{self, Sources};
use super::response::{ContentType, Response, Status};
use super::route::Call;
use super::view::View;
use crate::escape;
use crate::handler::Inventory;
use crate::manager::{Record, State};

/// Returns the response to a call that is not a change and does not follow changes. `clients` is
/// the number of clients of the API.
pub(super) fn render_response(call: &Call, view: &View<'_>, clients: usize) -> Response {
    match call {
        Call::Plugins { kind, name, state } => {
            list_plugins(kind.as_deref(), name.as_deref(), *state, view)
        }
        Call::Devices { name } => list_devices(name.as_deref(), view),
        Call::Status => Response::json(&json::status(view, clients)),
        Call::Metrics => render_metrics(view),
        Call::Ready if !view.not_ready.is_empty() => {
            let mut body = view.not_ready.join("\n").into_bytes();
            body.push(b'\n');
            Response::new(Status::SERVICE_UNAVAILABLE, ContentType::TEXT, body)
        }
        Call::Ready | Call::Live => Response::new(Status::OK, ContentType::TEXT, b"ok\n".to_vec()),
        Call::Events { since, .. } => {
            let mut body = Vec::new();
            EventCursor::after(since.unwrap_or(0)).render(view, usize::MAX, &mut body);
            Response::new(Status::OK, ContentType::JSON, body)
        }
        Call::Watch { .. } | Call::Change(_) => {
            let why = "this call is not answered as a whole";
            Response::error(Status::INTERNAL_SERVER_ERROR, why)
        }
    }
}

/// Returns the response with a list of this kind and these items.
fn list_response<T: Serialize>(
    kind: &'static str,
    view: &View<'_>,
    items: impl Iterator<Item = T>,
) -> Response {
    Response::json(&List {
        kind,
        instance: &view.daemon.instance,
        generation: view.manager.generation(),
        items: Cell::new(Some(items)),
    })
}

/// Returns the records that match all given values, or 404 if a name is given and none matches.
fn list_plugins(
    kind: Option<&str>,
    name: Option<&str>,
    state: Option<State>,
    view: &View<'_>,
) -> Response {
    let wants = |record: &Record<'_>| {
        let plugin = record.plugin;
        kind.is_none_or(|kind| plugin.is_some_and(|it| it.kind == kind))
            && name.is_none_or(|name| plugin.is_some_and(|it| it.name == name))
            && state.is_none_or(|state| state == record.state)
    };
    let mut records = view.manager.records().iter().filter(wants).peekable();
    if name.is_some() && records.peek().is_none() {
        return Response::error(Status::NOT_FOUND, "no such plugin");
    }
    let max_peers = if name.is_some() { MAX_PEERS } else { 0 };
    let entries = records.enumerate().map(|(at, record)| {
        let entry = RecordEntry::new(&record, view);
        if at < max_peers {
            entry.with_peer(&record, view)
        } else {
            entry
        }
    });
    list_response("PluginList", view, entries)
}

/// Returns the devices of all resources, or of one, as their current plugins list them, and then
/// the devices of DRA drivers.
fn list_devices(resource: Option<&str>, view: &View<'_>) -> Response {
    let none = Inventory::default();
    let inventory = view.inventory.unwrap_or(&none);
    let names = |all: Vec<String>| resource.map_or(all, |name| vec![name.to_owned()]);
    let plugins = names(inventory.device_plugins.names()).into_iter();
    let plugins: Vec<_> = plugins
        .filter_map(|name| inventory.device_plugins.get(&name))
        .collect();
    let drivers = names(inventory.dra_drivers.names()).into_iter();
    let drivers: Vec<_> = drivers
        .filter_map(|name| inventory.dra_drivers.get(&name))
        .collect();
    if let (Some(name), true) = (resource, plugins.is_empty() && drivers.is_empty()) {
        let why = format!("no such resource: {}", escape::text(name));
        return Response::error(Status::NOT_FOUND, &why);
    }
    let listed = plugins.iter().flat_map(|it| {
        let held = inventory.leases.held_devices(&it.plugin.name);
        let devices = it.devices.iter();
        devices.map(move |device| DeviceEntry::new(&it.plugin, device, held.get(&device.id)))
    });
    let reported = drivers.iter().flat_map(|it| {
        let devices = it.devices.iter();
        devices.map(|device| DeviceEntry::of_driver(&it.plugin, device))
    });
    list_response("DeviceList", view, listed.chain(reported))
}

fn render_metrics(view: &View<'_>) -> Response {
    let body = metrics::render(&Sources {
        manager: view.manager,
        watch: view.watch,
        counters: view.counters,
        inventory: view.inventory,
        process: (view.process)(),
    });
    Response::new(Status::OK, ContentType::METRICS, body)
}

/// The maximum number of processes that are looked up for one response: few plugins have the same
/// name.
const MAX_PEERS: usize = 32;
