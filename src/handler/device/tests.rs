//! Tests of lists of devices, against a simple implementation that uses maps, and of the CDI file
//! of a resource that has two plugins.

#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // Small numbers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;
use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};

use super::{
    CdiFiles, Context, DeviceHandler, Devices, EffectId, Event, Leases, Plugin, PluginHandler as _,
    Unlistable, changes,
};
use crate::config::MAX_DEVICES;
use crate::escape;
use crate::handler::{Effect, EffectIds, EffectOwner};
use crate::proto::pluginregistration::PluginInfo;
use crate::proto::v1beta1::{self, ListAndWatchResponse, NumaNode, TopologyInfo};
use crate::proto::v1beta1::{AllocateResponse, ContainerAllocateResponse};
use crate::time::Time;

/// The health and the NUMA nodes of each device, by ID.
type Plain = BTreeMap<String, (bool, Vec<i64>)>;

/// Returns the devices of a message, as `prost` decodes them.
fn decode_plain(message: &[u8]) -> Result<Plain, Unlistable> {
    let listed = count_fields(message).ok_or(Unlistable::Undecodable)?;
    if listed > MAX_DEVICES {
        return Err(Unlistable::TooMany { listed });
    }
    let list = ListAndWatchResponse::decode(message).map_err(|_| Unlistable::Undecodable)?;
    let devices = list.devices.into_iter().map(|device| {
        let nodes = device.topology.unwrap_or_default().nodes;
        let nodes = nodes.into_iter().map(|node| node.id).collect();
        (device.id, (device.health == "Healthy", nodes))
    });
    Ok(devices.collect())
}

/// Returns the number of top-level fields of a message.
fn count_fields(mut message: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message).ok()?;
        if wire_type == WireType::EndGroup {
            return None;
        }
        skip_field(wire_type, tag, &mut message, DecodeContext::default()).ok()?;
        count += 1;
    }
    Some(count)
}

fn as_plain(devices: &Devices) -> Plain {
    let devices = devices.iter().map(|device| {
        let nodes = device.numa_nodes.to_vec();
        (device.id.to_string(), (device.is_healthy, nodes))
    });
    devices.collect()
}

/// Returns the text about the changes, or `None` if there are none.
fn plain_changes(before: &Plain, after: &Plain, is_first: bool) -> Option<String> {
    let healthy = after.values().filter(|(is_healthy, _)| *is_healthy).count();
    let mut text = format!("devices={} healthy={healthy}", after.len());
    let now = |id: &String, health: bool| match (before.get(id), after.get(id)) {
        (Some(before), Some(after)) => before.0 != after.0 && after.0 == health,
        _ => false,
    };
    let mut are_any = false;
    let mut add = |key: &str, ids: Vec<&String>| {
        are_any |= !ids.is_empty();
        for (at, id) in ids.iter().take(8).enumerate() {
            if at == 0 {
                text.extend([" ", key, "="]);
            } else {
                text.push(',');
            }
            text += &escape::text(id).at_most(64).to_string();
        }
        if ids.len() > 8 {
            text.extend([",...(", &(ids.len() - 8).to_string(), " more)"]);
        }
    };
    add(
        "now_unhealthy",
        after.keys().filter(|id| now(id, false)).collect(),
    );
    add(
        "now_healthy",
        after.keys().filter(|id| now(id, true)).collect(),
    );
    add(
        "new",
        after
            .keys()
            .filter(|id| !before.contains_key(*id))
            .collect(),
    );
    add(
        "gone",
        before
            .keys()
            .filter(|id| !after.contains_key(*id))
            .collect(),
    );
    (are_any || is_first).then_some(text)
}

#[track_caller]
fn assert_same(devices: &Devices, plain: &Plain) {
    assert_eq!(as_plain(devices), *plain);
    assert!(devices.iter().map(|device| &*device.id).eq(plain.keys()));
    assert_eq!(devices.len(), plain.len());
    assert_eq!(devices.is_empty(), plain.is_empty());
    let healthy = plain.values().filter(|(is_healthy, _)| *is_healthy);
    assert_eq!(devices.count_healthy(), healthy.count());
    for id in plain.keys().map(String::as_str).chain(["", "a", "zz"]) {
        let found = devices.get(id).map(|device| device.is_healthy);
        assert_eq!(found, plain.get(id).map(|device| device.0), "{id:?}");
    }
}

#[test]
fn a_message_has_the_devices_that_it_lists_or_is_rejected() {
    let table: &[&[u8]] = &[
        b"",
        b"\x0a\x00",
        b"\x0a\x03\x0a\x01a",
        b"\x0a\x0c\x0a\x01a\x12\x07Healthy",
        b"\x0a\x0c\x12\x07Healthy\x0a\x01a",
        b"\x0a\x0c\x0a\x01a\x12\x07healthy",
        // Of several values, the last counts, but all have to be text.
        b"\x0a\x0f\x0a\x01a\x12\x07Healthy\x0a\x01b",
        b"\x0a\x0e\x0a\x01a\x12\x07Healthy\x12\x00",
        b"\x0a\x06\x0a\x01\xff\x0a\x01b",
        b"\x0a\x03\x0a\x01\xff",
        b"\x0a\x03\x12\x01\xff",
        b"\x0a\x0c\x12\x01\xff\x12\x07Healthy",
        b"\x0a\x05\x0a\x03\xed\xa0\x80",
        b"\x0a\x05\x0a\x03\xe2\x82\xac",
        // Topologies are merged, and their nodes are all kept.
        b"\x0a\x0d\x0a\x01a\x1a\x04\x0a\x02\x08\x01\x1a\x02\x0a\x00",
        b"\x0a\x0b\x0a\x01a\x1a\x06\x0a\x04\x08\x01\x08\x02",
        b"\x0a\x12\x0a\x01a\x1a\x0d\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a\x12\x0a\x01a\x1a\x0d\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
        b"\x0a\x07\x0a\x01a\x1a\x02\x0a\x01",
        b"\x0a\x09\x0a\x01a\x1a\x04\x0a\x02\x0a\x00",
        b"\x0a\x07\x0a\x01a\x1a\x02\x08\x01",
        b"\x0a\x05\x0a\x01a\x18\x01",
        // Unknown fields are skipped on every level.
        b"\x10\x05\x0a\x03\x0a\x01a\x1a\x01x",
        b"\x0a\x0d\x0a\x01a\x20\x01\x2d1234\x33\x34",
        b"\x0a\x0d\x0a\x01a\x1a\x08\x12\x00\x0a\x04\x10\x01\x08\x07",
        b"\x0b\x0a\x03\x0a\x01a\x0c",
        b"\x13\x0a\x03\x0a\x01a\x14",
        b"\x0c",
        // Types and lengths have to fit.
        b"\x08\x01",
        b"\x0d1234",
        b"\x0a\x02\x08\x01",
        b"\x0a\x04\x0a\x01a",
        b"\x0a\x03\x0a\x02a",
        b"\x0a\x03\x0a\x02ab",
        b"\x0a",
        b"\x0a\x80",
        b"\x8a\x00\x03\x0a\x01a",
        b"\x0a\x83\x00\x0a\x01a",
        b"\x0a\x04\x0a\x81\x00a",
        b"\x00\x00",
    ];
    for message in table {
        let devices = Devices::from_message(message);
        let plain = decode_plain(message);
        match (&devices, &plain) {
            (Ok(devices), Ok(plain)) => assert_same(devices, plain),
            _ => assert_eq!(devices.err(), plain.err(), "{message:x?}"),
        }
    }
}

#[test]
fn a_message_with_too_many_fields_is_rejected() {
    let fields = |field: &[u8], count| field.repeat(count);
    for message in [
        fields(b"\x0a\x00", MAX_DEVICES),
        fields(b"\x10\x00", MAX_DEVICES),
        fields(b"\x0a\x00", MAX_DEVICES + 1),
        fields(b"\x10\x00", MAX_DEVICES + 1),
        [b"\x0a\x01\x0a", &*fields(b"\x0a\x00", MAX_DEVICES)].concat(),
        [b"\x0a\x01\x0a", &*fields(b"\x0a\x00", MAX_DEVICES - 1)].concat(),
        [&*fields(b"\x0a\x00", MAX_DEVICES + 1), b"\x0a"].concat(),
    ] {
        let devices = Devices::from_message(&message);
        let devices = devices.map(|devices| as_plain(&devices));
        assert_eq!(devices, decode_plain(&message));
    }
}

#[test]
fn each_list_replaces_the_one_before_completely() {
    let mut random = Random(1);
    let (mut same, mut rejected) = (0, 0);
    for _ in 0..60 {
        let mut devices = Devices::default();
        let mut known = Plain::new();
        let mut list = random.list();
        for step in 0..12 {
            random.change(&mut list);
            let mut message = list.encode_to_vec();
            if random.below(8) == 0 && !message.is_empty() {
                let at = random.below(message.len());
                message[at] = random.next() as u8;
            }
            let is_first = random.below(8) == 0 || step == 0;
            if is_first {
                devices.mark_unhealthy();
                for device in known.values_mut() {
                    device.0 = false;
                }
                assert_same(&devices, &known);
            }
            let found = Devices::from_message(&message).map(|after| {
                let (changes, are_any) = changes::between(&devices, &after);
                devices = after;
                (is_first || are_any).then_some(changes)
            });
            match decode_plain(&message) {
                Ok(plain) => {
                    let expected = plain_changes(&known, &plain, is_first);
                    assert_eq!(found, Ok(expected));
                    same += usize::from(known.keys().eq(plain.keys()));
                    known = plain;
                }
                Err(error) => {
                    assert_eq!(found, Err(error));
                    rejected += 1;
                }
            }
            assert_same(&devices, &known);
        }
    }
    assert!(same > 100 && rejected > 5, "{same} {rejected}");
}

/// The device handler, called for two plugins of one resource.
struct Bench {
    handler: DeviceHandler,
    ids: EffectIds,
    effects: Vec<Effect>,
    plugins: [Arc<Plugin>; 2],
}

impl Bench {
    fn new(handler: DeviceHandler) -> Self {
        let plugins = ["/r/old", "/r/new"].map(|socket| {
            let info = PluginInfo {
                name: "a/b".into(),
                ..PluginInfo::default()
            };
            Plugin::from_info(info, Path::new(socket).into())
                .unwrap()
                .into()
        });
        Self {
            handler,
            ids: EffectIds::default(),
            effects: Vec::new(),
            plugins,
        }
    }

    /// Calls the handler for a plugin.
    fn call(&mut self, at: usize, method: impl FnOnce(&mut DeviceHandler, &mut Context<'_>)) {
        self.effects.clear();
        let mut context = Context::new(Time::ZERO, None, &mut self.ids, &mut self.effects);
        context.plugin = Some(&self.plugins[at]);
        method(&mut self.handler, &mut context);
    }

    /// Returns the call, the stream or the timer that the handler has requested last.
    #[track_caller]
    fn requested(&self) -> EffectId {
        let id = |effect: &Effect| match effect {
            Effect::Request { id, .. } | Effect::SetTimer { id, .. } => Some(*id),
            _ => None,
        };
        self.effects.iter().rev().find_map(id).expect("an effect")
    }

    fn reply(&mut self, at: usize, reply: Vec<u8>) {
        let (id, method) = (self.requested(), "");
        let result = Ok(reply);
        let event = Event::Called { id, method, result };
        self.call(at, |handler, context| handler.handle_event(event, context));
    }

    /// Registers a plugin with one device, for which it answers with this variable.
    fn register(&mut self, at: usize, variable: &str) {
        let plugin = self.plugins[at].clone();
        self.call(at, |handler, context| {
            handler.register(&plugin, context);
        });
        self.reply(at, Vec::new());
        let id = self.requested();
        let message = b"\x0a\x0c\x0a\x01a\x12\x07Healthy".to_vec();
        let event = Event::StreamMessage { id, message };
        self.call(at, |handler, context| handler.handle_event(event, context));
        let response = ContainerAllocateResponse {
            envs: [(variable.to_owned(), String::new())].into(),
            ..ContainerAllocateResponse::default()
        };
        let container_responses = vec![response];
        let reply = AllocateResponse {
            container_responses,
        };
        self.reply(at, reply.encode_to_vec());
    }

    /// Returns the only file that has changed.
    #[track_caller]
    fn changed_file(&self) -> Option<String> {
        let mut files = self.handler.leases.take_files().into_iter();
        let (name, content) = files.next().expect("a file has changed");
        assert_eq!((&*name, files.next()), ("plugind-a-b.json", None));
        content
    }
}

#[test]
fn a_plugin_that_becomes_current_has_the_cdi_file() {
    for expires in [true, false] {
        let leases = Leases::default();
        leases.lock().files = Some(CdiFiles::new());
        let mut bench = Bench::new(DeviceHandler::new(leases));
        for (at, variable) in ["OLD", "NEW"].into_iter().enumerate() {
            bench.register(at, variable);
            assert!(bench.changed_file().unwrap().contains(variable));
        }
        if expires {
            let id = EffectId {
                owner: EffectOwner::HANDLER,
                number: bench.handler.plugins.get("a/b").unwrap().order,
            };
            let event = Event::StreamEnded { id, result: Ok(()) };
            bench.call(1, |handler, context| handler.handle_event(event, context));
            assert_eq!(bench.changed_file(), None);
            let id = bench.requested();
            let event = Event::TimerFired { id };
            bench.call(1, |handler, context| handler.handle_event(event, context));
        } else {
            let new = bench.plugins[1].clone();
            bench.call(1, |handler, context| {
                handler.deregister(&new, context);
            });
        }
        assert!(bench.changed_file().unwrap().contains("OLD"), "{expires}");
    }
}

/// A generator of pseudo-random numbers, which are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    fn device(&mut self) -> v1beta1::Device {
        let common = ["", "dev-", "a-longer-prefix-of-ids-"][self.below(3)];
        let topology = (self.below(3) == 0).then(|| TopologyInfo {
            nodes: vec![
                NumaNode {
                    id: self.below(3) as i64 - 1
                };
                self.below(3)
            ],
        });
        v1beta1::Device {
            id: format!("{common}{}", self.below(40)),
            health: ["Healthy", "Healthy", "Unhealthy", ""][self.below(4)].to_owned(),
            topology,
        }
    }

    fn list(&mut self) -> ListAndWatchResponse {
        let count = self.below(100);
        ListAndWatchResponse {
            devices: (0..count).map(|_| self.device()).collect(),
        }
    }

    /// Changes a list in one of the ways in which plugins change their lists.
    fn change(&mut self, list: &mut ListAndWatchResponse) {
        let count = list.devices.len();
        match self.below(10) {
            0 => *list = self.list(),
            1 => list.devices.insert(self.below(count + 1), self.device()),
            2 if count > 0 => _ = list.devices.remove(self.below(count)),
            3 if count > 0 => list.devices.rotate_left(self.below(count)),
            4 => {
                list.devices.sort_by(|one, other| one.id.cmp(&other.id));
                list.devices.dedup_by(|one, other| one.id == other.id);
            }
            5 => {}
            _ => {
                for device in &mut list.devices {
                    if self.below(4) == 0 {
                        device.health = self.device().health;
                    }
                }
            }
        }
    }
}
