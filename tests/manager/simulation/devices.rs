//! Device plugins with the built-in handler, beside the handler of the oracle: each list names the
//! process that has sent it and the number of the list, so what the handler keeps of a plugin shows
//! where that is from.

use std::collections::{BTreeMap, BTreeSet};

use plugind::handler::Store;
use plugind::handler::device::{DeviceHandler, DevicePlugin};
use plugind::manager::Manager;
use plugind::proto::v1beta1::ListAndWatchResponse;
use plugind::watch::Identity;
use prost::Message as _;

use super::Simulation;
use crate::script::{Answer, Script, WATCH, device_list};
use crate::world::World;

/// The stores of the handlers, and the lists that the plugins have sent.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// What the handlers since the start of the daemon know, the newest last.
    stores: Vec<Store<DevicePlugin>>,
    /// The sockets on which each process has listened.
    sockets: BTreeMap<u64, BTreeSet<Identity>>,
    /// The sockets that were at each path: a stream leads to the one that is there when it is
    /// opened, although the watch may not have reported that one yet.
    seen: BTreeSet<(String, Identity)>,
    /// The number of the last process.
    process: u64,
    /// The number of the last list.
    list: u64,
}

impl Devices {
    /// Returns a new handler, whose store is checked from now on.
    pub(super) fn handler(&mut self) -> DeviceHandler {
        let handler = DeviceHandler::default();
        self.stores.push(handler.plugins());
        handler
    }

    /// Forgets the handlers of the process before.
    pub(super) fn restarted(&mut self) {
        self.stores.clear();
    }

    /// Returns a device plugin of this name with so many devices, in a process of its own.
    pub(super) fn script(&mut self, name: &str, count: usize) -> Script {
        self.process += 1;
        let list = Answer::Stream(vec![self.list_of(self.process, count)]);
        let mut script = Script::devices(&format!("example.com/{name}"), list);
        script.info.r#type = "Gadget".into();
        script
    }

    /// Records that the process of the last script listens on this socket.
    pub(super) fn listens(&mut self, identity: Identity) {
        let sockets = self.sockets.entry(self.process).or_default();
        sockets.insert(identity);
    }

    /// Records which socket is at each path.
    pub(super) fn see(&mut self, world: &World) {
        for path in world.paths() {
            let identity = world.identity(path.as_ref());
            self.seen.extend(identity.map(|identity| (path, identity)));
        }
    }

    /// Returns a list of so many devices. Each ID has the process, the list and the count.
    fn list_of(&mut self, process: u64, count: usize) -> Vec<u8> {
        self.list += 1;
        device_list((0..count).map(|n| format!("{process}.{}.{count}.{n:03}", self.list)))
    }

    /// Checks that each plugin in a store is registered, or about to be, and has devices of one
    /// list, which a process behind its socket has sent.
    pub(super) fn check(&self, manager: &Manager) {
        for known in self.stores.iter().flat_map(all) {
            let plugin = &known.plugin;
            let socket = manager.socket(&plugin.socket);
            let socket = socket.unwrap_or_else(|| panic!("{plugin} is kept in the store"));
            let registered = socket.registered();
            let is_known = registered.is_some() || socket.operation_state().is_some();
            assert!(is_known, "{plugin} is kept in the store");
            let (first, last) = (known.devices.iter().next(), known.devices.iter().last());
            let (Some(first), Some(last)) = (first, last) else {
                continue;
            };
            let parts = |id: &str| id.rsplitn(2, '.').last().map(str::to_owned);
            assert_eq!(parts(&first.id), parts(&last.id), "two lists are mixed");
            let mut numbers = first.id.split('.').map(|it| it.parse().ok());
            let (process, count) = (numbers.next().flatten(), numbers.nth(1).flatten());
            assert_eq!(Some(known.devices.len() as u64), count, "{first:?}");
            let sockets = process.and_then(|process: u64| self.sockets.get(&process));
            let endpoint = plugin.endpoint.to_string_lossy();
            let own = registered.map(|it| it.identity);
            let is_its_own = sockets.into_iter().flatten().any(|socket| {
                own == Some(*socket) || self.seen.contains(&(endpoint.to_string(), *socket))
            });
            assert!(is_its_own, "{plugin} {own:?} has {first:?}");
        }
    }

    /// Checks that no plugin is in a store.
    pub(super) fn check_empty(&self) {
        let left: Vec<_> = self.stores.iter().flat_map(all).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn all(store: &Store<DevicePlugin>) -> Vec<std::sync::Arc<DevicePlugin>> {
    let names = store.names();
    names.iter().flat_map(|name| store.all(name)).collect()
}

/// Returns the list that a device plugin sends first.
fn list_in(script: &Script) -> Option<&[u8]> {
    match script.services.get(WATCH)? {
        Answer::Stream(lists) => lists.last().map(Vec::as_slice),
        _ => None,
    }
}

impl Simulation {
    /// Returns the path of a device plugin that listens.
    fn gadget(&mut self) -> Option<String> {
        let world = &mut self.node.world;
        let mut paths = world.paths();
        paths.retain(|path| world.script(path).is_some_and(|it| list_in(it).is_some()));
        self.rng.pick(&paths).cloned()
    }

    /// Has a device plugin send another list, which may have as many devices as a whole node, or
    /// the same list again.
    pub(super) fn change_devices(&mut self) {
        let Some(path) = self.gadget() else { return };
        let count = if self.rng.one_in(4) { 300 } else { 3 };
        let is_same = self.rng.one_in(4);
        let before = self.node.world.script(&path).and_then(list_in);
        let Some(before) = before.map(<[u8]>::to_vec) else {
            return;
        };
        let list = if is_same {
            before
        } else {
            self.devices.list_of(process_of(&before), count)
        };
        let answer = Answer::Stream(vec![list.clone()]);
        self.node.world.serve(&path, WATCH, answer);
        self.say(format_args!(
            "  {path} lists {count} devices, the same: {is_same}"
        ));
        self.node.world.push(&path, &list);
    }

    /// Has a device plugin send a list that is not valid.
    pub(super) fn list_nonsense(&mut self) {
        if let Some(path) = self.gadget() {
            self.say(format_args!("  {path}"));
            self.node.world.push(&path, &[0xff]);
        }
    }

    /// Ends the streams of a device plugin.
    pub(super) fn end_streams(&mut self) {
        if let Some(path) = self.gadget() {
            self.say(format_args!("  {path}"));
            let code = if self.rng.one_in(2) { 0 } else { 14 };
            self.node.world.end_streams(&path, code);
        }
    }

    /// Checks, after the faults, that the newest handler knows the last list of each device plugin,
    /// and that the same list again changes nothing.
    pub(super) fn check_devices(&mut self) {
        let registered = self.node.world.manager.registered();
        let gadgets = registered.filter(|it| it.plugin.kind == "Gadget");
        let gadgets: Vec<_> = gadgets.map(|it| it.plugin.clone()).collect();
        for plugin in gadgets {
            let path = plugin.socket.to_string_lossy().into_owned();
            let list = self.node.world.script(&path).and_then(list_in);
            let Some(list) = list.map(<[u8]>::to_vec) else {
                continue; // Another process has its socket.
            };
            let sent = ListAndWatchResponse::decode(&*list).expect("the list is valid");
            let ids: Vec<_> = sent.devices.into_iter().map(|device| device.id).collect();
            let store = self.devices.stores.last().expect("there is a handler");
            let all = store.all(&plugin.name);
            let known = all.iter().find(|it| it.plugin == plugin);
            let known = known.unwrap_or_else(|| panic!("the devices of {plugin} are unknown"));
            let healthy = known.devices.iter().filter(|it| it.is_healthy);
            let healthy: Vec<_> = healthy.map(|it| it.id.to_string()).collect();
            assert_eq!(healthy, ids, "{plugin}");
            self.accept_events();
            self.node.world.push(&path, &list);
            let events = &self.node.world.events;
            assert!(events.is_empty(), "the same list: {events:?}");
        }
    }
}

/// Returns the process that has sent a list, which has a device.
fn process_of(list: &[u8]) -> u64 {
    let list = ListAndWatchResponse::decode(list).expect("the list is valid");
    let (process, _) = list.devices[0].id.split_once('.').expect("an ID has parts");
    process.parse().expect("the first part is a number")
}
