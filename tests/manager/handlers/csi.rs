//! CSI drivers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::config::{BACKOFF, MAX_SMALL_MESSAGE, READY_GRACE, SLOW_CHECK, STALLED_AFTER};
use plugind::handler::HandlerTable;
use plugind::handler::csi::{CsiHandler, Driver};
use plugind::manager::{Manager, OnDown, State};
use plugind::proto::csi_v1::{NodeGetInfoResponse, Segment, Topology, node};
use prost::Message as _;

use crate::handlers::node::{EOF, LATE, Node, UNREADABLE, seconds};
use crate::script::{Answer, Script};
use crate::world::World;

pub(crate) const REG: &str = "/r/disk-reg.sock";
pub(crate) const CSI: &str = "/p/disk.sock";
/// The registration socket of a second driver.
const NEW_REG: &str = "/r/new-reg.sock";
const FAILED: &str = "plugin registration failed with err: ";

/// Returns a description of the node with this ID and volume limit.
fn info(node_id: &str, max_volumes_per_node: i64) -> Vec<u8> {
    let info = NodeGetInfoResponse {
        node_id: node_id.into(),
        max_volumes_per_node,
        ..NodeGetInfoResponse::default()
    };
    info.encode_to_vec()
}

/// Returns a registrar that reports these versions of a driver whose service is at [`CSI`].
pub(crate) fn registrar(versions: &[&str]) -> Script {
    Script::csi("disk.example").at(CSI).with_versions(versions)
}

/// Returns a driver that replies with this node ID.
pub(crate) fn driver(node_id: &str) -> Script {
    answering(Answer::Octets(info(node_id, 0)))
}

/// Returns a node on which the registrar of this driver has just appeared.
fn with_driver(driver: Script) -> Node {
    let mut node = Node::new();
    node.world.create(CSI, driver);
    node.world.appear(REG, registrar(&["1.0.0"]));
    node
}

/// Returns what is known of the driver.
fn known(node: &Node) -> Option<Arc<Driver>> {
    node.knows.csi_drivers.get("disk.example")
}

/// Returns a driver that answers NodeGetInfo so.
fn answering(answer: Answer) -> Script {
    Script::serving([(node::NODE_GET_INFO, answer)])
}

#[test]
fn a_driver_is_registered_with_all_that_it_says_of_the_node() {
    let zone = Segment {
        key: "topology.example/zone".into(),
        value: "a".into(),
    };
    let info = NodeGetInfoResponse {
        node_id: "node-1".into(),
        max_volumes_per_node: 16,
        accessible_topology: Some(Topology {
            segments: vec![zone],
        }),
    };
    let info = Answer::Octets(info.encode_to_vec());
    let mut node = with_driver(answering(info));
    assert_eq!(node.notified(REG), Ok(()));
    let driver = known(&node).expect("a driver");
    assert_eq!(*driver.plugin.endpoint, *Path::new(CSI));
    assert_eq!(driver.version.to_string(), "1.0.0");
    assert_eq!(driver.node_id, "node-1");
    assert_eq!(driver.max_volumes, Some(16));
    let zone = ("topology.example/zone".to_owned(), "a".to_owned());
    assert_eq!(driver.topology, [zone]);
    let called = &node.world.plugin(CSI).called;
    assert_eq!(*called, [node::NODE_GET_INFO], "kubelet calls nothing else");
    node.world.vanish(REG);
    assert_eq!(known(&node), None);
    assert_eq!(node.world.open_to(CSI), 0);
}

#[test]
fn a_driver_that_does_not_know_the_node_is_refused_and_told_why() {
    let refuses_after = |answer, time, why: &str| {
        let mut node = with_driver(answering(answer));
        node.refuses_after(REG, time, &format!("{FAILED}{why}"));
        assert_eq!(known(&node), None);
    };
    let at_once = Duration::ZERO;
    let nothing = "error adding CSI driver node info: driverNodeID must not be empty";
    refuses_after(Answer::Octets(Vec::new()), at_once, nothing);
    let larger = "ResourceExhausted desc = grpc: received message larger than max";
    let long = format!("{larger} (16385 vs. 16384)");
    let huge = format!("{larger} (4294967295 vs. 4194304)");
    let early = Answer::Status(14, "not yet");
    for (answer, time, why) in [
        (
            Answer::Status(9, "no cloud here"),
            at_once,
            "FailedPrecondition desc = no cloud here",
        ),
        (Answer::Octets(vec![0xff]), at_once, UNREADABLE),
        (
            Answer::Octets(vec![0; MAX_SMALL_MESSAGE + 1]),
            at_once,
            &long,
        ),
        (Answer::Announce(u32::MAX), at_once, &huge),
        (early, READY_GRACE, "Unavailable desc = not yet"),
        (Answer::Close, READY_GRACE, EOF),
        (Answer::Silence, seconds(120), LATE),
    ] {
        refuses_after(answer, time, &format!("rpc error: code = {why}"));
    }
}

#[test]
fn a_driver_whose_endpoint_is_dead_is_refused() {
    let mut node = Node::new();
    node.world.appear(REG, registrar(&["1.0.0"]));
    let words = "rpc error: code = Unavailable desc = connection error: \
                 desc = \"transport: Error while dialing: dial unix /p/disk.sock: \
                 connect: no such file or directory\"";
    node.refuses_after(REG, READY_GRACE, &format!("{FAILED}{words}"));
    // Dialed at 0, 50, 150, 350, 750 and 1550 ms, and at the end.
    assert_eq!(node.world.dials[Path::new(CSI)], 7);
    node.world.create(CSI, driver("node-1"));
    node.world.advance(seconds(1));
    assert_eq!(node.notified(REG), Ok(()));
}

/// Returns the states of a driver's service before it is ready, by name.
fn unready() -> [(&'static str, Option<Script>); 3] {
    let early = answering(Answer::Status(14, "not yet"));
    [
        ("absent", None),
        ("bound", None),
        ("unavailable", Some(early)),
    ]
}

/// Returns a node with a registrar whose driver is not ready yet.
fn with_unready_driver(how: &str, early: Option<Script>) -> Node {
    let mut node = Node::new();
    if how != "absent" {
        node.world.create(CSI, early);
    }
    node.world.appear(REG, registrar(&["1.0.0"]));
    assert_eq!(node.notified(REG), Err("not notified"), "{how}");
    node
}

#[test]
fn a_driver_that_is_ready_a_moment_later_is_told_once() {
    for (how, early) in unready() {
        let mut node = with_unready_driver(how, early);
        node.has_time_for_others();
        node.world.advance(Duration::from_millis(300));
        assert_eq!(node.notified(REG), Err("not notified"), "{how}");
        node.world.create(CSI, driver("node-1"));
        node.world.advance(Duration::from_millis(300));
        assert_eq!(node.notified(REG), Ok(()), "{how}");
        let registrar = node.world.plugin(REG);
        assert_eq!((registrar.asked, registrar.notified.len()), (1, 1), "{how}");
        assert_eq!(node.world.plugin(CSI).called[0], node::NODE_GET_INFO);
    }
}

/// Returns the error for a driver that is not acceptable, in kubelet's words.
fn invalid(endpoint: &str, why: &str) -> String {
    format!(
        "plugin validation failed with err: validation failed for CSI Driver disk.example at \
         endpoint {endpoint}: kubernetes.io/csi: ValidatePlugin for CSI driver \"disk.example\" \
         failed. {why}"
    )
}

#[test]
fn sockets_that_never_answer_hold_up_their_driver_for_5_s() {
    const STALLED: [&str; 2] = ["/r/stalled-0", "/r/stalled-1"];
    let mut node = Node::new();
    for socket in STALLED {
        let endpoint = socket.replace("/r", "/p");
        let opened = answering(Answer::Stream(Vec::new()));
        node.world.create(&endpoint, opened);
        node.world
            .appear(socket, registrar(&["1.0.0"]).at(&endpoint));
    }
    node.world.create(CSI, driver("node-1"));
    node.world.appear(REG, registrar(&["1.0.0"]));
    node.world.advance(2 * STALLED_AFTER);
    assert_eq!(node.notified(REG), Ok(()));

    // A driver that replies after all is too late.
    node.world.push("/p/stalled-0", &info("node-2", 0));
    node.world.end_streams("/p/stalled-0", 0);
    let notified = node.notified(STALLED[0]).expect_err("the name is taken");
    let taken = "nother driver with the same name";
    assert!(notified.starts_with(FAILED), "{notified}");
    assert!(notified.contains(taken), "{notified}");
    assert_eq!(known(&node).expect("a driver").node_id, "node-1");
}

#[test]
fn csi4_a_driver_whose_name_is_taken_needs_a_higher_version() {
    let taken = |version: &str| {
        let why = "Another driver with the same name is already registered with a higher \
                   supported version";
        invalid("/p/new.sock", &format!("{why}: \"{version}\""))
    };
    let (taken, lower) = (taken("1.0.0"), taken("1.2.0"));
    for (first, name, second, notified) in [
        (&["v1.0.0"][..], "other.example", "v1.0.0", Ok(())),
        (&["v1.0.0"], "disk.example", "v1.0.0", Err(&*taken)),
        (&["v1.2.0"], "disk.example", "v1.1.9", Err(&*lower)),
        (
            &["v0.3.0", "v0.2.0", "v1.0.0"],
            "disk.example",
            "v1.0.1",
            Ok(()),
        ),
    ] {
        let mut node = Node::new();
        node.world.create(CSI, driver("old"));
        node.world.create("/p/new.sock", driver("new"));
        node.world.appear(REG, registrar(first));
        let mut late = registrar(&[second]).at("/p/new.sock");
        late.info.name = name.into();
        node.world.appear(NEW_REG, late);
        assert_eq!(node.notified(REG), Ok(()));
        assert_eq!(node.notified(NEW_REG), notified, "{name} {second}");
    }
}

#[test]
fn a_driver_whose_name_was_taken_is_registered() {
    let mut node = with_driver(driver("old"));
    let late = registrar(&["1.0.0"]).at("/p/new.sock");
    node.world.create("/p/new.sock", driver("new"));
    node.world.appear(NEW_REG, late);
    assert!(node.notified(NEW_REG).is_err());
    node.world.vanish(REG);
    assert_eq!(node.notified(NEW_REG), Ok(()));
    assert_eq!(known(&node).expect("a driver").node_id, "new");
}

/// Returns a driver that replies with this volume limit.
pub(crate) fn limited(max_volumes: i64) -> Script {
    answering(Answer::Octets(info("node-1", max_volumes)))
}

#[test]
fn a_registered_driver_is_asked_for_its_limit_in_the_period() {
    let periods = [("*", 3600), ("disk.example", 60)];
    let periods = periods.map(|(driver, period)| (driver.to_owned(), seconds(period)));
    let csi = CsiHandler::new(&periods);
    let drivers = csi.drivers();
    let known = || drivers.get("disk.example").and_then(|it| it.max_volumes);
    let mut table = HandlerTable::new();
    table.add(["CSIPlugin"], csi);
    let mut world = World::with(Manager::new(table));
    world.create(CSI, limited(16));
    world.appear(REG, registrar(&["1.0.0"]));
    world.advance(seconds(59));
    assert_eq!((known(), world.plugin(CSI).called.len()), (Some(16), 1));
    world.events.clear();
    world.advance(seconds(1));
    assert_eq!(world.plugin(CSI).called.len(), 2);
    assert!(world.events.is_empty(), "nothing has changed");
    world.listen(CSI, limited(8));
    world.advance(seconds(60));
    let events: Vec<_> = world.events.iter().map(ToString::to_string).collect();
    let changed = "node information has changed node_id=\"node-1\" max_volumes=8";
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].ends_with(changed), "{events:?}");
    // A failure changes nothing, and is followed by the next call.
    for (driver, expected) in [
        (answering(Answer::Status(14, "no")), Some(8)),
        (answering(Answer::Octets(Vec::new())), Some(8)),
        (limited(4), Some(4)),
    ] {
        world.listen(CSI, driver);
        world.advance(seconds(60));
        assert_eq!(known(), expected);
    }
    world.vanish(REG);
    let called = world.plugin(CSI).called.len();
    world.advance(seconds(600));
    assert_eq!((known(), world.plugin(CSI).called.len()), (None, called));
}

#[test]
fn a_driver_that_is_killed_beside_its_registrar_is_down() {
    let mut node = with_driver(driver("node-1"));
    assert_eq!(node.world.watched_processes(), 2);
    node.world.kill(CSI);
    assert_eq!(node.world.state(REG), Some(State::Down));
    let down = node.world.events.iter().find(|it| it.reason() == "Down");
    let message = "CSIPlugin disk.example is down: the driver's process at /p/disk.sock has \
                   ended; it stays registered";
    assert_eq!(down.expect("it is down").message().to_string(), message);
    node.world.advance(seconds(600));
    assert_eq!(node.world.state(REG), Some(State::Down));
    node.world.listen(CSI, driver("node-1"));
    node.world.advance(BACKOFF.cap);
    assert_eq!(node.world.state(REG), Some(State::Registered));
    assert_eq!(node.world.watched_processes(), 2);
    node.world.kill(CSI);
    node.world.advance(seconds(1));
    assert_eq!(node.world.state(REG), Some(State::Down), "watched again");
    let grace = seconds(30);
    node.world.manager.set_on_down(OnDown::Deregister(grace));
    node.world.advance(grace);
    assert_eq!(known(&node), None);
}

#[test]
fn a_driver_that_could_not_be_watched_is_checked_slowly() {
    let mut node = Node::new();
    node.world.limit_descriptors(2);
    node.world.create(CSI, driver("node-1"));
    node.world.appear(REG, registrar(&["1.0.0"]));
    assert_eq!(node.world.state(REG), Some(State::Registered));
    assert_eq!(node.world.watched_processes(), 1);
    node.world.kill(CSI);
    node.world.advance(2 * SLOW_CHECK);
    assert_eq!(node.world.state(REG), Some(State::Down));
}
