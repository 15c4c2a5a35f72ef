//! Device plugins.

use std::path::Path;
use std::time::Duration;

use plugind::config::{
    BACKOFF, DEVICE_GRACE, HANDLER_CALL_TIMEOUT, LIST_INTERVAL, MAX_DEVICES, MAX_REPLY, READY_GRACE,
};

use crate::handlers::node::{EOF, LATE, Node, UNREADABLE, seconds};
use crate::script::{Answer, OPTIONS, Script, WATCH, device_list};

pub(crate) const REG: &str = "/r/gpu-reg.sock";
pub(crate) const GPU: &str = "/p/gpu.sock";
pub(crate) const RESOURCE: &str = "example.com/gpu";
const FAILED: &str = "plugin registration failed with err: ";

pub(crate) fn registrar(endpoint: &str) -> Script {
    let script = Script::good("DevicePlugin", RESOURCE).at(endpoint);
    script.with_versions(&["v1beta1"])
}

/// Returns a device plugin that answers `ListAndWatch` with this.
fn lists(answer: Answer) -> Script {
    Script::devices(RESOURCE, answer)
}

/// Returns a device plugin that lists these devices.
pub(crate) fn listing(list: Vec<u8>) -> Script {
    lists(Answer::Stream(vec![list]))
}

/// Returns a node on which a plugin with this service has just registered.
pub(crate) fn with_plugin(service: Script) -> Node {
    let mut node = Node::new();
    node.world.create(GPU, service);
    node.world.appear(REG, registrar(GPU));
    node
}

fn with_devices(ids: &[&str]) -> Node {
    with_plugin(listing(device_list(ids)))
}

/// Returns the devices of the resource, the unhealthy ones with a `!`, or `None` if the resource is
/// not known.
fn devices(node: &Node) -> Option<String> {
    let plugin = node.knows.device_plugins.get(RESOURCE)?;
    let devices = plugin.devices.iter();
    let shown = devices.map(|it| format!("{}{}", it.id, if it.is_healthy { "" } else { "!" }));
    Some(shown.collect::<Vec<_>>().join(" "))
}

#[track_caller]
fn assert_devices(node: &Node, expected: &str) {
    assert_eq!(devices(node).as_deref(), Some(expected));
}

#[test]
fn a_plugin_s_options_and_devices_are_known_while_registered() {
    let mut node = with_devices(&["a", "b!"]);
    assert_eq!(node.notified(REG), Ok(()));
    let plugin = node.knows.device_plugins.get(RESOURCE).expect("a plugin");
    assert!(plugin.pre_start_required && !plugin.preferred_allocation && plugin.is_connected);
    assert_devices(&node, "a b!");
    assert_eq!(node.world.dials[Path::new(GPU)], 1, "one for both calls");
    assert_eq!(node.world.open_to(GPU), 1);
    node.world.vanish(REG);
    assert_eq!(devices(&node), None);
    assert_eq!(node.world.open_to(GPU), 0);
    node.world.advance(2 * DEVICE_GRACE);
    assert_eq!(devices(&node), None);
}

#[test]
fn dm4_dm5_a_resource_has_the_newest_one_s_devices() {
    let mut node = Node::new();
    for (socket, endpoint, ids) in [
        ("/r/x", "/p/x", &["one", "two"][..]),
        ("/r/x.new", "/p/x.new", &["one", "two"]),
        ("/r/x.third", "/p/x.third", &["three"]),
    ] {
        node.world.create(endpoint, listing(device_list(ids)));
        node.world.appear(socket, registrar(endpoint));
        assert_eq!(node.notified(socket), Ok(()));
        assert_devices(&node, &ids.join(" "));
    }
    for (socket, left) in [
        ("/r/x", Some("three")),
        ("/r/x.third", Some("one two")),
        ("/r/x.new", None),
    ] {
        node.world.vanish(socket);
        assert_eq!(devices(&node).as_deref(), left, "{socket} has gone");
    }
}

/// Returns a node on which plugins of these names have registered in this order, each with one
/// device of its name.
fn with_plugins(names: &[&str]) -> Node {
    let mut node = Node::new();
    for name in names {
        let (socket, endpoint) = (format!("/r/{name}"), format!("/p/{name}"));
        node.world.create(&endpoint, listing(device_list([*name])));
        node.world.appear(&socket, registrar(&endpoint));
        assert_eq!(node.notified(&socket), Ok(()));
    }
    node
}

#[test]
fn an_older_plugin_that_lists_again_does_not_take_over() {
    // The plugins, those that expire, and those that list again, in this order.
    for (names, expire, list_again) in [
        (&["old", "new"][..], &["old"][..], &["old"][..]),
        (&["old", "new"], &["new", "old"], &["new", "old"]),
        (&["old", "new"], &["old", "new"], &["new", "old"]),
        (&["first", "old", "new"], &["new", "old"], &["new", "old"]),
        (&["first", "old", "new"], &["new", "old"], &["old", "new"]),
    ] {
        let mut node = with_plugins(names);
        for name in expire {
            node.world.remove(&format!("/p/{name}"));
            node.world.cut(&format!("/p/{name}"));
            node.world.advance(2 * DEVICE_GRACE);
        }
        let events = node.world.events.iter();
        let removed = events.filter(|it| it.reason() == "DevicesRemoved");
        assert_eq!(removed.count(), expire.len());
        for name in list_again {
            let list = listing(device_list([*name]));
            node.world.create(&format!("/p/{name}"), list);
            node.world.advance(DEVICE_GRACE);
        }
        assert_devices(&node, "new");
        node.world.vanish("/r/new");
        assert_devices(&node, "old");
    }
}

#[test]
fn dm6_devices_of_a_lost_plugin_are_unhealthy_and_kept() {
    let mut node = with_devices(&["a", "b"]);
    node.world.remove(GPU);
    node.world.cut(GPU);
    assert_devices(&node, "a! b!");
    node.world.advance(DEVICE_GRACE.saturating_sub(seconds(1)));
    assert_devices(&node, "a! b!");
    node.has_time_for_others();
    node.world.advance(seconds(1));
    assert_eq!(devices(&node), None);
    assert_eq!(node.notified(REG), Ok(()), "it stays registered");
}

#[test]
fn dm8_two_lists_arrive_in_order() {
    let mut node = with_devices(&["a", "b", "c"]);
    assert_devices(&node, "a b c");
    for (devices, known) in [(&["b!", "d"][..], "b! d"), (&["b", "d"], "b d"), (&[], "")] {
        node.world.push(GPU, &device_list(devices));
        node.world.advance(LIST_INTERVAL);
        assert_devices(&node, known);
    }
}

#[test]
fn dm11_a_plugin_that_connects_three_times_has_one_client() {
    let mut node = with_devices(&["a"]);
    for _ in 0..2 {
        node.world.appear(REG, registrar(GPU));
        assert_eq!(node.notified(REG), Ok(()));
        assert_eq!(node.world.open_to(GPU), 1);
    }
    assert_eq!(node.knows.device_plugins.all(RESOURCE).len(), 1);
    let mut node = Node::new();
    node.world.create(GPU, Script::serving([]));
    node.world.appear(REG, registrar(GPU));
    assert!(node.notified(REG).is_err());
    assert_eq!((devices(&node), node.world.open_to(GPU)), (None, 0));
}

#[test]
fn a_plugin_that_does_not_state_its_options_is_not_used() {
    let at_once = Duration::ZERO;
    let too_large =
        "ResourceExhausted desc = grpc: received message larger than max (20000 vs. 16384)";
    for (answer, time, why) in [
        (Answer::Status(2, "no"), at_once, "Unknown desc = no"),
        (Answer::Octets(vec![0xff]), at_once, UNREADABLE),
        (Answer::Octets(vec![0; 20_000]), at_once, too_large),
        (Answer::Close, READY_GRACE, EOF),
        (Answer::Silence, HANDLER_CALL_TIMEOUT, LATE),
    ] {
        let mut service = listing(device_list(["a"]));
        service.services.insert(OPTIONS, answer);
        let mut node = with_plugin(service);
        let call = "failed to get device plugin options: rpc error: code =";
        node.refuses_after(REG, time, &format!("{FAILED}{call} {why}"));
        assert_eq!(devices(&node), None);
        assert_eq!(node.world.open_to(GPU), 0, "{why}");
        let called = &node.world.plugin(GPU).called;
        assert!(!called.contains(&WATCH.to_owned()));
    }
}

#[test]
fn a_plugin_whose_endpoint_is_dead_is_refused_and_told_why() {
    let mut node = Node::new();
    node.world.appear(REG, registrar(GPU));
    let why = "failed to dial device plugin: connection error: desc = \"transport: \
               Error while dialing: dial unix /p/gpu.sock: connect: no such file or directory\"";
    node.refuses_after(REG, READY_GRACE, &format!("{FAILED}{why}"));
}

#[test]
fn a_plugin_may_take_its_time_to_list_its_devices() {
    let mut node = with_plugin(lists(Answer::Stream(Vec::new())));
    assert_eq!(node.notified(REG), Ok(()));
    node.world.advance(2 * DEVICE_GRACE);
    assert_devices(&node, "");
    node.world.push(GPU, &device_list(["a"]));
    assert_devices(&node, "a");
}

#[test]
fn a_stream_that_ends_is_opened_again() {
    for code in [0, 14] {
        let mut node = with_devices(&["a"]);
        node.world.end_streams(GPU, code);
        assert_devices(&node, "a!");
        node.has_time_for_others();
        node.world.advance(seconds(1));
        assert_devices(&node, "a");
        node.world.advance(2 * DEVICE_GRACE);
        assert_devices(&node, "a");
    }
}

#[test]
fn a_plugin_that_lists_nonsense_has_no_healthy_devices() {
    for nonsense in [
        Answer::Stream(vec![device_list(["a"]), vec![0xff]]),
        Answer::Status(13, "internal"),
        Answer::Announce(u32::MAX),
        Answer::Close,
    ] {
        let mut node = with_plugin(listing(device_list(["a"])));
        node.world.serve(GPU, WATCH, nonsense.clone());
        node.world.end_streams(GPU, 0);
        node.world.advance(DEVICE_GRACE.saturating_sub(seconds(2)));
        assert_eq!(node.world.open_to(GPU), 0, "{nonsense:?}");
        let shown = devices(&node).expect("the devices are kept");
        assert_eq!(shown, "a!", "{nonsense:?}");
        let asked = node.world.plugin(GPU).called.len();
        assert!((8..100).contains(&asked), "{asked} calls: {nonsense:?}");
        assert_eq!(node.notified(REG), Ok(()));
    }
}

#[test]
fn a_plugin_without_a_list_is_not_asked_for_it_again() {
    let unimplemented = Answer::Status(12, "unknown method");
    let mut node = with_plugin(lists(unimplemented.clone()));
    assert_eq!(node.notified(REG), Ok(()));
    node.world.advance(10 * BACKOFF.cap);
    let calls = [OPTIONS, WATCH];
    assert_eq!(node.world.plugin(GPU).called, calls);
    let why = "the peer returned UNIMPLEMENTED: unknown method";
    let words = "does not implement ListAndWatch, so none of its devices can be used; \
                 the method is not called again until the plugin registers again";
    let warning = format!("{REG}: DevicePlugin {RESOURCE}: {words}: {why}");
    assert_eq!(node.world.warnings(), [warning]);
    assert_eq!((devices(&node), node.notified(REG)), (None, Ok(())));

    let mut node = with_devices(&["a"]);
    node.world.plugin(GPU).services.insert(WATCH, unimplemented);
    node.world.end_streams(GPU, 0);
    node.world.advance(seconds(60));
    assert_devices(&node, "a!");
    assert_eq!(node.world.plugin(GPU).called.len(), 3);
    node.world.advance(DEVICE_GRACE);
    assert_eq!(devices(&node), None);
}

/// Returns the warning about a list that is rejected for this reason.
fn warning(why: &str) -> String {
    format!(
        "{REG}: DevicePlugin {RESOURCE}: rejected its device list; the previous list \
         stays in force; make the plugin list fewer devices: {why}"
    )
}

#[test]
fn a_list_that_fits_follows_one_that_is_too_long() {
    let too_long = [0x0a, 0].repeat(MAX_DEVICES + 1);
    let why = "too many devices devices=16385 limit=16384";
    let mut node = with_plugin(listing(too_long.clone()));
    node.world.advance(LIST_INTERVAL);
    assert_eq!(node.world.warnings(), [warning(why)]);
    let mut push = |message: &[u8]| {
        node.world.push(GPU, message);
        node.world.advance(LIST_INTERVAL);
        let logged = node.world.warnings();
        let warnings = logged.into_iter().filter(|it| it.contains("rejected"));
        (devices(&node), warnings.collect::<Vec<_>>())
    };
    assert_eq!(push(&too_long), (Some(String::new()), Vec::new()));
    let [a, b] = ["a", "b"].map(|it| Some(it.to_owned()));
    assert_eq!(push(&device_list(["a"])), (a.clone(), Vec::new()));
    assert_eq!(push(&too_long), (a.clone(), vec![warning(why)]));
    assert_eq!(push(&device_list(["b"])), (b, Vec::new()));
    let called = &node.world.plugin(GPU).called;
    let streams = called.iter().filter(|it| it.ends_with("/ListAndWatch"));
    assert_eq!(streams.count(), 1, "on one stream");
}

#[test]
fn a_device_list_that_is_too_large_is_warned_about_once() {
    let too_large = vec![0; MAX_REPLY + 1];
    let why = "the list is too large octets=4194305 limit=4194304";
    let mut node = with_plugin(listing(too_large.clone()));
    node.world.advance(Duration::from_micros(1));
    assert_eq!(node.world.warnings(), [warning(why)]);
    for _ in 0..10 {
        node.world.advance(BACKOFF.cap);
    }
    assert!(node.world.dials[Path::new(GPU)] > 5, "it is called again");
    assert!(node.world.warnings().is_empty());

    node.world.listen(GPU, listing(device_list(["a"])));
    node.world.advance(BACKOFF.cap);
    assert_devices(&node, "a");
    assert!(node.world.warnings().is_empty());
    node.world.advance(LIST_INTERVAL);
    node.world.push(GPU, &too_large);
    node.world.advance(Duration::from_micros(1));
    assert_devices(&node, "a");
    assert_eq!(node.world.warnings(), [warning(why)]);
}
