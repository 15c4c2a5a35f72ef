//! The devices of a plugin, as the API, the command and the metrics show them.

use plugind::handler::device::TYPE;
use serde_json::{Value, json};

use crate::api::node::Node;
use crate::support::process::Process;
use crate::support::simulated::Simulated;
use crate::support::until::until;

const RESOURCE: &str = "example.com/gpu";

/// Waits until the two devices of the plugin have this health.
#[track_caller]
fn until_health(node: &Node, health: [&str; 2]) -> Value {
    until("the health of the devices", || {
        let list = node.get("/v1/devices");
        let items = list["items"].as_array().unwrap();
        let is_so = items.len() == 2 && items[0]["health"] == health[0];
        (is_so && items[1]["health"] == health[1]).then(|| list.clone())
    })
}

/// Returns the numbers of healthy and unhealthy devices in the metrics.
fn counted(node: &Node) -> [Option<u64>; 2] {
    let metrics = node.ask("GET", "/metrics").body;
    ["healthy", "unhealthy"].map(|health| {
        let series =
            format!("plugind_devices{{type=\"{TYPE}\",name=\"{RESOURCE}\",health=\"{health}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&*series));
        count.and_then(|count| count.parse().ok())
    })
}

/// Runs `plugind devices` with these arguments. Returns its exit code and its output.
fn devices(node: &Node, arguments: &[&str]) -> (Option<i32>, String) {
    let ran = Process::ask(&node.socket, &[&["devices"], arguments].concat());
    (ran.code, ran.out)
}

#[test]
fn devices_are_shown_as_listed_and_unhealthy_at_the_end() {
    let node = Node::start();
    assert_eq!(node.get("/v1/devices")["items"], json!([]));
    assert_eq!(devices(&node, &[]), (Some(0), String::new()));
    assert_eq!(devices(&node, &[RESOURCE]), (Some(4), String::new()));
    let plugin = Simulated::start(&node.registry(""), TYPE, RESOURCE, &[]);
    let list = until_health(&node, ["Healthy", "Healthy"]);
    assert_eq!(list["kind"], "DeviceList");
    let socket = plugin.socket().display().to_string();
    let wanted = json!({
        "resource": RESOURCE, "id": "device-0", "health": "Healthy", "socket": socket,
    });
    assert_eq!(list["items"][0], wanted);
    let target = "/v1/devices?name=example.com%2Fgpu";
    assert_eq!(node.get(target)["items"], list["items"]);
    let other = node.ask("GET", "/v1/devices?name=example.com%2Fnic");
    assert_eq!(
        (other.status, &other.json()["error"]),
        (404, &json!("no such resource: example.com/nic"))
    );
    assert_eq!(counted(&node), [Some(2), Some(0)]);

    plugin.hit();
    let list = until_health(&node, ["Healthy", "Unhealthy"]);
    assert_eq!(counted(&node), [Some(1), Some(1)]);
    let (code, shown) = devices(&node, &["--no-headers"]);
    let row = |id, health| format!("{RESOURCE}  {id}  {health}  <none>  <none>  {socket}\n");
    let rows = row("device-0", "Healthy  ") + &row("device-1", "Unhealthy");
    assert_eq!((code, shown), (Some(0), rows));
    let (_, shown) = devices(&node, &["-o", "json", RESOURCE]);
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), list);

    plugin.kill();
    until_health(&node, ["Unhealthy", "Unhealthy"]);
    assert_eq!(counted(&node), [Some(0), Some(2)]);
}

#[test]
fn the_devices_of_a_dra_driver_are_shown() {
    let node = Node::start();
    let plugin = Simulated::start(&node.registry(""), "DRAPlugin", "nic.example", &[]);
    let list = until_health(&node, ["Healthy", "Healthy"]);
    let first = &list["items"][0];
    let id = first["id"].as_str().unwrap();
    assert!(id.ends_with("/device-0"), "{id}");
    assert_eq!(first["resource"], "nic.example");
    let (code, shown) = devices(&node, &["nic.example"]);
    assert!(code == Some(0) && shown.contains(id), "{shown}");
    let metrics = node.ask("GET", "/metrics").body;
    let healthy = "plugind_devices{type=\"DRAPlugin\",name=\"nic.example\",health=\"healthy\"} 2";
    assert!(metrics.contains(healthy), "{metrics}");
    let details = &node.get("/v1/plugins/DRAPlugin/nic.example")["items"][0]["details"];
    assert_eq!(details["dra"]["healthy"], 2);
    plugin.hit();
    until_health(&node, ["Healthy", "Unhealthy"]);
}
