//! DRA drivers.

use plugind::config::BACKOFF;
use plugind::handler::dra::Health;
use plugind::proto::v1alpha1::{
    DeviceHealth, DeviceIdentifier, NodeWatchResourcesResponse, dra_resource_health,
};
use prost::Message as _;

use crate::handlers::node::{Node, seconds};
use crate::script::{Answer, Script};

const REG: &str = "/r/nic-reg.sock";
pub(crate) const NIC: &str = "/p/nic.sock";
const NEW_REG: &str = "/r/nic-2-reg.sock";
const NEW: &str = "/p/nic-2.sock";
pub(crate) const DRIVER: &str = "nic.example";
const PLAIN: &[&str] = &["v1.DRAPlugin"];
pub(crate) const ALPHA: &[&str] = &["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"];

pub(crate) fn registrar(endpoint: &str, services: &[&str]) -> Script {
    let script = Script::good("DRAPlugin", DRIVER).at(endpoint);
    script.with_versions(services)
}

/// Returns a node on which a driver has registered that reports `services` and serves `service`.
fn with_driver(services: &[&str], service: Script) -> Node {
    let mut node = Node::new();
    node.world.create(NIC, service);
    node.world.appear(REG, registrar(NIC, services));
    node
}

/// Returns a report of the health of the device `nic-0`.
fn health(health: Health) -> Vec<u8> {
    report(["nic-0".to_owned()], health)
}

/// Returns a report by which these devices have the same health.
pub(crate) fn report(devices: impl IntoIterator<Item = String>, health: Health) -> Vec<u8> {
    let devices = devices.into_iter().map(|device_name| DeviceHealth {
        device: Some(DeviceIdentifier {
            pool_name: "node".into(),
            device_name,
        }),
        health: health.into(),
        ..DeviceHealth::default()
    });
    let devices = devices.collect();
    NodeWatchResourcesResponse { devices }.encode_to_vec()
}

pub(crate) fn watch(answer: Answer) -> Script {
    Script::serving([(dra_resource_health::NODE_WATCH_RESOURCES, answer)])
}

/// Returns the known health of the only device, if any.
fn known_health(node: &Node) -> Option<Health> {
    let driver = node.knows.dra_drivers.get(DRIVER)?;
    let device = driver.devices.first();
    device.map(|device| device.health)
}

/// Returns the endpoint of the driver to use.
fn current(node: &Node) -> Option<String> {
    let driver = node.knows.dra_drivers.get(DRIVER)?;
    Some(driver.plugin.endpoint.display().to_string())
}

/// The error for a second plugin that has the driver's endpoint.
const TAKEN: &str = "plugin registration failed with err: \
                     endpoint /p/nic.sock already registered for DRA driver plugin nic.example";

#[test]
fn a_plugin_that_answers_again_has_its_endpoint_again() {
    let mut node = with_driver(PLAIN, Script::serving([]));
    let registrar = || registrar(NIC, PLAIN);
    node.world.kill(REG);
    node.world.listen(REG, registrar());
    node.world.advance(BACKOFF.cap);
    node.world.appear(NEW_REG, registrar());
    assert_eq!(node.notified(NEW_REG), Err(TAKEN));
}

#[test]
fn a_plugin_waits_for_its_endpoint_until_the_holder_is_down() {
    let mut node = with_driver(PLAIN, Script::serving([]));
    node.world.appear(NEW_REG, registrar(NIC, PLAIN));
    assert_eq!(node.notified(NEW_REG), Err(TAKEN));
    node.world.kill(REG);
    assert_eq!(node.notified(NEW_REG), Ok(()));
}

#[test]
fn dra4_a_second_endpoint_of_a_driver_is_accepted_and_current() {
    let mut node = with_driver(PLAIN, Script::serving([]));
    node.world.create(NEW, Script::serving([]));
    node.world.appear(NEW_REG, registrar(NEW, PLAIN));
    assert_eq!(node.notified(NEW_REG), Ok(()));
    assert_eq!(node.knows.dra_drivers.all(DRIVER).len(), 2);
    assert_eq!(current(&node).as_deref(), Some(NEW));
}

#[test]
fn dra8_the_same_endpoint_is_refused() {
    let mut node = with_driver(PLAIN, Script::serving([]));
    node.world.appear(NEW_REG, registrar(NIC, PLAIN));
    assert_eq!(node.notified(NEW_REG), Err(TAKEN));
    node.world.create(NEW, Script::serving([]));
    node.world.appear(NEW_REG, registrar(NEW, PLAIN));
    assert_eq!(current(&node).as_deref(), Some(NEW));
    node.world.vanish(REG);
    assert_eq!(current(&node).as_deref(), Some(NEW));
    assert_eq!(node.knows.dra_drivers.all(DRIVER).len(), 1);
}

#[test]
fn dra9_a_driver_that_was_removed_is_not_found() {
    let mut node = with_driver(ALPHA, watch(Answer::Stream(vec![health(Health::Healthy)])));
    assert_eq!(node.world.open_to(NIC), 2);
    node.world.vanish(REG);
    assert_eq!(current(&node), None);
    assert_eq!(node.world.open_to(NIC), 0);
    node.world.advance(2 * BACKOFF.cap);
    assert_eq!((current(&node), node.world.open_to(NIC)), (None, 0));
}

#[test]
fn a_driver_is_registered_before_it_is_connected_to() {
    let mut node = Node::new();
    node.world.appear(REG, registrar(NIC, PLAIN));
    assert_eq!(node.notified(REG), Ok(()));
    let is_connected = |node: &Node| {
        let driver = node.knows.dra_drivers.get(DRIVER);
        driver.is_some_and(|driver| driver.is_connected)
    };
    assert!(!is_connected(&node));
    node.has_time_for_others();
    node.world.create(NIC, Script::serving([]));
    node.world.advance(seconds(2));
    assert!(is_connected(&node));
    node.world.remove(NIC);
    node.world.cut(NIC);
    assert!(!is_connected(&node));
}

#[test]
fn the_newest_that_is_connected_is_used() {
    let mut node = with_driver(PLAIN, Script::serving([]));
    node.world.appear(NEW_REG, registrar(NEW, PLAIN));
    assert_eq!(current(&node).as_deref(), Some(NIC), "until NEW is up");
    node.world.create(NEW, Script::serving([]));
    node.world.advance(seconds(2));
    assert_eq!(current(&node).as_deref(), Some(NEW));
    node.world.remove(NEW);
    node.world.cut(NEW);
    assert_eq!(current(&node).as_deref(), Some(NIC));
}

#[test]
fn health_is_listened_to_and_not_known_while_nobody_tells_it() {
    let mut node = with_driver(ALPHA, watch(Answer::Stream(vec![health(Health::Healthy)])));
    assert_eq!(known_health(&node), Some(Health::Healthy));
    node.world.push(NIC, &health(Health::Unhealthy));
    assert_eq!(known_health(&node), Some(Health::Unhealthy));
    node.world.end_streams(NIC, 14);
    assert_eq!(known_health(&node), Some(Health::Unknown));
    let mut events = node.world.events.iter();
    let lost = events.find(|it| it.reason() == "DeviceHealthUnknown");
    let why = lost.expect("an event").message().to_string();
    assert!(
        why.ends_with("health is unknown: the peer returned UNAVAILABLE"),
        "{why}"
    );
    node.has_time_for_others();
    node.world.advance(seconds(1));
    assert_eq!(known_health(&node), Some(Health::Healthy));
    node.world.push(NIC, &[0xff]);
    assert_eq!(known_health(&node), Some(Health::Unknown));
}

#[test]
fn health_that_is_not_reported_again_in_time_expires() {
    let mut node = with_driver(ALPHA, watch(Answer::Stream(vec![health(Health::Healthy)])));
    node.world.advance(seconds(20));
    node.world.push(NIC, &health(Health::Healthy));
    node.world.advance(seconds(29));
    assert_eq!(known_health(&node), Some(Health::Healthy));
    node.world.advance(seconds(1));
    assert_eq!(known_health(&node), Some(Health::Unknown));
    let driver = node.knows.dra_drivers.get(DRIVER).expect("a driver");
    assert!(driver.is_connected);
    node.world.advance(seconds(30));
    assert_eq!(known_health(&node), None);
    node.world.push(NIC, &health(Health::Unhealthy));
    assert_eq!(known_health(&node), Some(Health::Unhealthy));
}

#[test]
fn health_is_asked_for_only_when_it_is_listed() {
    let stable = &["v1.DRAPlugin", "v1.DRAResourceHealth"];
    for (services, asked) in [
        (PLAIN, None),
        (ALPHA, Some(dra_resource_health::NODE_WATCH_RESOURCES)),
        (stable, Some("/v1.DRAResourceHealth/NodeWatchResources")),
    ] {
        let mut node = with_driver(services, Script::serving([]));
        let called = node.world.plugin(NIC).called.clone();
        assert_eq!(called.first().map(String::as_str), asked);
    }
}

#[test]
fn a_driver_that_does_not_serve_its_health_is_not_asked_again() {
    let mut node = with_driver(ALPHA, Script::serving([]));
    node.world.advance(10 * BACKOFF.cap);
    assert_eq!(node.world.plugin(NIC).called.len(), 1);
    assert_eq!(node.notified(REG), Ok(()));
    let driver = node.knows.dra_drivers.get(DRIVER).expect("a driver");
    assert!(driver.is_connected);
}
