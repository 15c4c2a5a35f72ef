//! The memory budget: what plugins report, and what is received and kept of them.

use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF_CAP, LEAST_MEMORY_BUDGET, SMALL_SHARE};
use plugind::manager::event::{EventKind, PluginEvent};
use plugind::manager::{Failure, Limit, Measurement, Usage};
use plugind::proto::csi_v1::{NodeGetInfoResponse, Segment, Topology, node};
use plugind::proto::v1alpha1::{DeviceHealth, DeviceIdentifier, NodeWatchResourcesResponse};
use plugind::proto::v1beta1::{Device, DevicePluginOptions, ListAndWatchResponse, device_plugin};
use prost::Message as _;

use crate::node::{Node, seconds};
use crate::script::{Answer, Script};

/// Returns a node with a budget of a mebibyte.
fn small_node() -> Node {
    let mut node = Node::new();
    node.world.manager.set_memory_budget(LEAST_MEMORY_BUDGET);
    node
}

/// Returns a list of this many devices, each of which takes about 170 octets.
fn list(devices: usize) -> Vec<u8> {
    let devices = (0..devices).map(|n| Device {
        id: format!("{n:0150}"),
        health: "Healthy".into(),
        topology: None,
    });
    let devices = devices.collect();
    ListAndWatchResponse { devices }.encode_to_vec()
}

/// Returns the registration socket, the endpoint and the resource of a device plugin.
fn names(n: usize) -> (String, String, String) {
    (
        format!("/r/{n}"),
        format!("/p/{n}"),
        format!("example.com/{n}"),
    )
}

/// Adds a device plugin that lists this many devices whenever its stream is opened.
fn add(node: &mut Node, n: usize, devices: usize) {
    add_notified(node, n, devices, Answer::Good);
}

/// Does the same for a plugin that answers NotifyRegistrationStatus like this.
fn add_notified(node: &mut Node, n: usize, devices: usize, notify: Answer) {
    let (socket, endpoint, resource) = names(n);
    let options = DevicePluginOptions::default().encode_to_vec();
    let service = Script::serving([
        (
            device_plugin::GET_DEVICE_PLUGIN_OPTIONS,
            Answer::Octets(options),
        ),
        (
            device_plugin::LIST_AND_WATCH,
            Answer::Stream(vec![list(devices)]),
        ),
    ]);
    node.world.create(&endpoint, service);
    let mut script = Script::good("DevicePlugin", &resource);
    script.info.endpoint = endpoint;
    script.info.supported_versions = vec!["v1beta1".into()];
    script.notify = notify;
    node.world.appear(&socket, script);
}

/// Has a plugin send another list, now and whenever its stream is opened again.
fn grow(node: &mut Node, n: usize, devices: usize) {
    let (_, endpoint, _) = names(n);
    let answer = Answer::Stream(vec![list(devices)]);
    let services = &mut node.world.plugin(&endpoint).services;
    services.insert(device_plugin::LIST_AND_WATCH, answer);
    node.world.push(&endpoint, &list(devices));
}

/// Returns the number of devices that are known of a plugin.
fn devices(node: &Node, n: usize) -> usize {
    let plugin = node.knows.device_plugins.get(&names(n).2);
    plugin.map_or(0, |plugin| plugin.devices.len())
}

fn usage(node: &Node) -> Usage {
    let [.., memory] = node.world.manager.usage();
    assert_eq!(memory.name, "memory");
    memory
}

/// Returns how often plugins were cut.
fn cuts(node: &Node) -> usize {
    let hit = Measurement::LimitHit(Limit::Memory);
    node.world.measured.iter().filter(|it| **it == hit).count()
}

/// Returns the sockets of the plugins that were cut while they were registered, and whether they
/// had been cut before.
fn cut(node: &Node) -> Vec<(String, bool)> {
    let events = node.world.events.iter().filter_map(|event| {
        let EventKind::OverBudget { is_repeated, .. } = event.kind else {
            return None;
        };
        let socket = event.socket.as_ref()?.display().to_string();
        Some((socket, is_repeated))
    });
    events.collect()
}

fn is_registered(node: &Node, socket: &str) -> bool {
    let socket = node.world.manager.socket(Path::new(socket));
    socket.is_some_and(|it| it.registered().is_some() && it.operation().is_none())
}

#[test]
fn a_plugin_that_grows_beyond_the_budget_is_cut_and_the_others_stay() {
    let mut node = small_node();
    for n in 0..5 {
        add(&mut node, n, 1000);
        assert_eq!(devices(&node, n), 1000);
    }
    let used = usage(&node).used;
    assert!((5 * 170_000..LEAST_MEMORY_BUDGET).contains(&used), "{used}");
    grow(&mut node, 0, 3000);
    assert_eq!(devices(&node, 0), 0);
    assert_eq!((1..5).map(|n| devices(&node, n)).sum::<usize>(), 4000);
    assert!((0..5).all(|n| is_registered(&node, &names(n).0)));
    assert_eq!(cut(&node), [("/r/0".into(), false)]);
    assert_eq!(cuts(&node), 1);
    let event = node.world.events.iter().find(|it| it.is_warning());
    let message = event.expect("a warning").to_string();
    assert!(message.contains("raise --memory-budget"), "{message}");
    assert!(usage(&node).used < used);
}

#[test]
fn a_plugin_that_was_cut_is_tried_more_and_more_rarely_until_there_is_room() {
    let mut node = small_node();
    for n in 0..5 {
        add(&mut node, n, 1000);
    }
    grow(&mut node, 0, 3000);
    node.world.advance(seconds(3600));
    let often = cuts(&node);
    assert!((30..45).contains(&often), "{often}");
    let repeated = cut(&node)
        .into_iter()
        .filter(|(_, is_repeated)| *is_repeated);
    assert_eq!(
        repeated.count(),
        often - 1,
        "only the first one is a warning"
    );
    assert_eq!(devices(&node, 0), 0);
    for n in 1..4 {
        node.world.vanish(&names(n).0);
    }
    node.world.advance(BACKOFF_CAP);
    assert_eq!((devices(&node, 0), devices(&node, 4)), (3000, 1000));
    assert_eq!(cuts(&node), often);
}

#[test]
fn a_small_plugin_registers_at_the_budget_and_the_one_that_holds_most_is_cut() {
    let mut node = small_node();
    for (n, devices) in [(0, 1000), (1, 2000), (2, 1500)] {
        add(&mut node, n, devices);
    }
    let used = usage(&node).used;
    node.world.manager.set_memory_budget(used + 10);
    for n in 3..20 {
        add(&mut node, n, 8);
        assert_eq!(node.notified(&names(n).0), Ok(()));
        assert_eq!(devices(&node, n), 8);
    }
    let left = [0, 1, 2].map(|n| devices(&node, n));
    assert_eq!(left, [1000, 0, 1500]);
    assert_eq!(cut(&node), [("/r/1".into(), false)]);
}

#[test]
fn at_the_budget_an_attempt_to_register_fails_with_that_reason() {
    let mut node = small_node();
    add(&mut node, 0, 2000);
    node.world.advance(seconds(1)); // The list is applied over several turns.
    let used = usage(&node).used;
    node.world.manager.set_memory_budget(used + SMALL_SHARE);
    add_notified(&mut node, 1, 1000, Answer::Silence);
    assert_eq!(devices(&node, 1), 0);
    assert!(!is_registered(&node, "/r/1"));
    assert_eq!(failure(&node, "/r/1"), Some(Failure::OverBudget));
    assert_eq!((devices(&node, 0), cut(&node)), (2000, vec![]));
    node.world.vanish("/r/0");
    node.world.plugin("/r/1").notify = Answer::Good;
    node.world.advance(seconds(1));
    assert!(is_registered(&node, "/r/1"));
    assert_eq!(devices(&node, 1), 1000);
}

fn failure(node: &Node, socket: &str) -> Option<Failure> {
    let socket = node.world.manager.socket(Path::new(socket))?;
    socket.desired()?.last_failure.as_deref().cloned()
}

#[test]
fn messages_that_are_never_completed_count() {
    let mut node = small_node();
    for n in 0..30 {
        add(&mut node, n, 1);
    }
    let before = usage(&node).used;
    let part = vec![0; 60_000];
    for n in 0..30 {
        node.world.push_part(&names(n).1, &part);
        let used = usage(&node).used;
        assert!(used <= LEAST_MEMORY_BUDGET, "{used}");
    }
    assert!(cuts(&node) >= 10, "{}", cuts(&node));
    assert!((0..30).all(|n| is_registered(&node, &names(n).0)));
    for n in 0..30 {
        node.world.cut(&names(n).1);
    }
    let after = usage(&node).used;
    assert!(after < before, "{before} {after}");
}

#[test]
fn nothing_is_counted_of_plugins_that_have_gone() {
    let mut node = small_node();
    for n in 0..12 {
        add(&mut node, n, 300 * n);
    }
    node.world.advance(seconds(10));
    for n in 0..12 {
        node.world.vanish(&names(n).0);
    }
    assert_eq!(usage(&node).used, 0);
}

/// Returns a plugin whose description takes about 17 KiB.
fn talkative(name: &str) -> Script {
    let mut script = Script::good("CSIPlugin", name);
    let padded = |n: usize| format!("1.{n}.{}", "0".repeat(240));
    script.info.supported_versions = (0..64).map(padded).collect();
    script.services = [crate::csi::knows_node("n")].into();
    script
}

#[test]
fn descriptions_may_take_half_of_the_budget_and_small_ones_are_always_accepted() {
    let mut node = small_node();
    for n in 0..100 {
        node.world
            .appear(&format!("/r/{n}"), talkative(&n.to_string()));
    }
    let sockets = (0..100).map(|n| format!("/r/{n}"));
    let registered = sockets.clone().filter(|it| is_registered(&node, it));
    let registered = registered.count();
    assert!((25..35).contains(&registered), "{registered}");
    let refused = sockets.filter(|it| failure(&node, it) == Some(Failure::OverBudget));
    assert_eq!(refused.count(), 100 - registered);
    assert!(usage(&node).used < LEAST_MEMORY_BUDGET * 6 / 10);
    node.has_time_for_others();
    node.world.vanish("/r/0");
    node.world.advance(BACKOFF_CAP);
    let sockets = (0..100).filter(|n| is_registered(&node, &format!("/r/{n}")));
    assert_eq!(
        sockets.count(),
        registered,
        "another one has taken its place"
    );
}

#[test]
fn details_of_a_csi_driver_are_dropped_and_it_stays_registered() {
    let mut node = small_node();
    let segments = (0..500).map(|n| Segment {
        key: format!("example.com/{n:040}"),
        value: "a".into(),
    });
    let info = NodeGetInfoResponse {
        node_id: "node-1".into(),
        max_volumes_per_node: 3,
        accessible_topology: Some(Topology {
            segments: segments.collect(),
        }),
    };
    let driver = Script {
        services: [(node::NODE_GET_INFO, Answer::Octets(info.encode_to_vec()))].into(),
        ..Script::good("CSIPlugin", "disk.example")
    };
    node.world.appear("/r/disk", driver);
    let known = |node: &Node| {
        node.knows
            .csi_drivers
            .get("disk.example")
            .expect("it is known")
    };
    assert_eq!(known(&node).topology.len(), 500);
    let used = usage(&node).used;
    node.world.manager.set_memory_budget(used);
    add(&mut node, 0, 8);
    assert_eq!(node.notified("/r/0"), Ok(()));
    let known = known(&node);
    assert_eq!((known.topology.len(), &*known.node_id), (0, "node-1"));
    assert_eq!(cut(&node), [("/r/disk".into(), false)]);
}

#[test]
fn the_device_health_of_a_dra_driver_is_dropped_and_read_again_later() {
    let mut node = small_node();
    let devices = (0..1000).map(|n| DeviceHealth {
        device: Some(DeviceIdentifier {
            pool_name: "pool".into(),
            device_name: n.to_string(),
        }),
        health: 1,
        ..DeviceHealth::default()
    });
    let devices = devices.collect();
    let health = NodeWatchResourcesResponse { devices }.encode_to_vec();
    let mut driver = Script::good("DRAPlugin", "nic.example");
    driver.info.supported_versions =
        vec!["v1.DRAPlugin".into(), "v1alpha1.DRAResourceHealth".into()];
    let method = "/v1alpha1.DRAResourceHealth/NodeWatchResources";
    driver.services = [(method, Answer::Stream(vec![health]))].into();
    node.world.appear("/r/nic", driver);
    let known = |node: &Node| {
        node.knows
            .dra_drivers
            .get("nic.example")
            .map(|it| it.devices.len())
    };
    assert_eq!(known(&node), Some(1000));
    let used = usage(&node).used;
    node.world.manager.set_memory_budget(used);
    add(&mut node, 0, 8);
    assert_eq!(node.notified("/r/0"), Ok(()));
    assert_eq!(known(&node), Some(0));
    let is_lost = |event: &&PluginEvent| event.reason() == "DeviceHealthUnknown";
    assert_eq!(node.world.events.iter().filter(is_lost).count(), 1);
    node.world
        .manager
        .set_memory_budget(used + LEAST_MEMORY_BUDGET);
    node.world.advance(Duration::from_secs(1));
    assert_eq!(known(&node), Some(1000));
}
