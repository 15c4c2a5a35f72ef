//! The memory budget: what plugins report, and what is received and kept of them.

use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF, LEAST_MEMORY_BUDGET, LIST_INTERVAL};
use plugind::handler::dra::Health;
use plugind::manager::{Limit, Measurement, Usage};

use crate::handlers::dra;
use crate::handlers::node::{Node, seconds};
use crate::script::{Answer, Script, WATCH, device_list};

/// Returns a node with a budget of a mebibyte.
fn small_node() -> Node {
    let mut node = Node::new();
    node.world.manager.set_memory_budget(LEAST_MEMORY_BUDGET);
    node
}

/// Returns a list of this many devices, each of which takes about 170 octets.
fn list(devices: usize) -> Vec<u8> {
    device_list((0..devices).map(|n| format!("{n:0150}")))
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
    let (socket, endpoint, resource) = names(n);
    let script = Script::devices(&resource, Answer::Stream(vec![list(devices)]));
    node.world.create(&endpoint, script.clone());
    node.world.appear(&socket, script.at(&endpoint));
}

/// Has a plugin send another list, now and whenever its stream is opened again.
fn grow(node: &mut Node, n: usize, devices: usize) {
    let (_, endpoint, _) = names(n);
    let answer = Answer::Stream(vec![list(devices)]);
    node.world.serve(&endpoint, WATCH, answer);
    node.world.push(&endpoint, &list(devices));
}

/// Returns the number of devices that are known of a plugin.
fn devices(node: &Node, n: usize) -> usize {
    let plugin = node.knows.device_plugins.get(&names(n).2);
    plugin.map_or(0, |plugin| plugin.devices.len())
}

fn usage(node: &Node) -> Usage {
    let [.., memory] = node.world.manager.records().usage();
    assert_eq!(memory.name, "memory");
    memory
}

/// Returns how often something was refused.
fn refusals(node: &Node) -> usize {
    let hit = Measurement::LimitHit(Limit::Memory);
    node.world.measured.iter().filter(|it| **it == hit).count()
}

/// Returns the sockets of the plugins whose lists were rejected with a warning.
fn rejected(node: &Node) -> Vec<String> {
    let events = node.world.events.iter();
    let events = events.filter(|event| event.reason() == "DevicesRejected");
    let sockets = events.filter_map(|event| Some(event.socket.as_ref()?.display().to_string()));
    sockets.collect()
}

fn is_registered(node: &Node, socket: &str) -> bool {
    let socket = node.world.manager.socket(Path::new(socket));
    socket.is_some_and(|it| it.registered().is_some() && it.operation_state().is_none())
}

#[test]
fn a_list_beyond_the_budget_is_refused_and_tried_more_rarely() {
    let mut node = small_node();
    for n in 0..4 {
        add(&mut node, n, 1000);
        assert_eq!(devices(&node, n), 1000);
    }
    let used = usage(&node).used;
    assert!((4 * 170_000..LEAST_MEMORY_BUDGET).contains(&used), "{used}");
    node.world.advance(seconds(1));
    grow(&mut node, 0, 3000);
    assert_eq!((0..4).map(|n| devices(&node, n)).sum::<usize>(), 4000);
    assert!((0..4).all(|n| is_registered(&node, &names(n).0)));
    assert_eq!(rejected(&node), ["/r/0"]);
    assert_eq!(refusals(&node), 1);
    let event = node.world.events.iter().find(|it| it.is_warning());
    let message = event.expect("a warning").to_string();
    let advice = "allow more with --memory-budget";
    assert!(message.contains(advice), "{message}");
    assert!(usage(&node).used <= used);
    node.world.advance(seconds(3600));
    let often = refusals(&node);
    assert!((30..45).contains(&often), "{often}");
    assert_eq!(rejected(&node), ["/r/0"], "only the first one is a warning");
    assert_eq!(devices(&node, 0), 1000);
    for n in 1..4 {
        node.world.vanish(&names(n).0);
    }
    node.world.advance(BACKOFF.cap);
    assert_eq!(devices(&node, 0), 3000);
    assert_eq!(refusals(&node), often);
}

#[test]
fn a_list_that_waits_counts() {
    let mut node = small_node();
    for n in 0..10 {
        add(&mut node, n, 8);
    }
    for n in 0..10 {
        grow(&mut node, n, 1000);
        let used = usage(&node).used;
        assert!(used <= LEAST_MEMORY_BUDGET, "{used}");
    }
    assert!((3..7).contains(&refusals(&node)), "{}", refusals(&node));
    assert!((0..10).all(|n| devices(&node, n) == 8));
    node.world.advance(LIST_INTERVAL);
    let grown = (0..10).filter(|n| devices(&node, *n) == 1000).count();
    assert!((3..7).contains(&grown), "{grown}");
}

#[test]
fn a_small_plugin_registers_at_the_budget() {
    let mut node = small_node();
    add(&mut node, 0, 2000);
    node.world.manager.set_memory_budget(0);
    for n in 1..20 {
        add(&mut node, n, 8);
        assert_eq!(node.notified(&names(n).0), Ok(()));
        assert_eq!(devices(&node, n), 8);
    }
    assert_eq!((devices(&node, 0), refusals(&node)), (2000, 0));
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
    assert!(refusals(&node) >= 10, "{}", refusals(&node));
    assert!((0..30).all(|n| is_registered(&node, &names(n).0)));
    for n in 0..30 {
        node.world.cut(&names(n).1);
    }
    // What a usual plugin holds is not counted.
    assert_eq!((before, usage(&node).used), (0, 0));
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

#[test]
fn the_health_of_a_dra_driver_beyond_the_budget_is_unknown() {
    let mut node = small_node();
    node.world.manager.set_memory_budget(0);
    let health = dra::report((0..1000).map(|n| n.to_string()), Health::Healthy);
    let driver = dra::watch(Answer::Stream(vec![health]));
    node.world.create(dra::NIC, driver);
    let registrar = dra::registrar(dra::NIC, dra::ALPHA);
    node.world.appear("/r/nic", registrar);
    let known = |node: &Node| {
        let driver = node.knows.dra_drivers.get(dra::DRIVER);
        driver.map(|it| it.devices.len())
    };
    assert_eq!((known(&node), refusals(&node)), (Some(0), 1));
    assert!(is_registered(&node, "/r/nic"));
    node.world.manager.set_memory_budget(LEAST_MEMORY_BUDGET);
    node.world.advance(Duration::from_secs(1));
    assert_eq!(known(&node), Some(1000));
}
