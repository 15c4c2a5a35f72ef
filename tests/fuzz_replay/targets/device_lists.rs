//! Lists of devices, read in place and by `prost`.
//!
//! Whatever a message holds, both accept it or neither does, and both find the same devices. A list
//! keeps no more memory than its message and a few octets for each device.

use std::collections::BTreeMap;

use plugind::config::MAX_DEVICES;
use plugind::handler::device::Devices;
use plugind::proto::v1beta1::ListAndWatchResponse;
use prost::Message as _;

/// Reads the octets in both ways.
pub fn check(bytes: &[u8]) {
    let devices = Devices::from_message(bytes.to_vec());
    if bytes.len() / 2 > MAX_DEVICES {
        return; // `prost` has no limit on the number of devices.
    }
    let list = ListAndWatchResponse::decode(bytes);
    assert_eq!(devices.is_ok(), list.is_ok(), "{list:?}");
    let (Ok(devices), Ok(list)) = (devices, list) else {
        return;
    };
    let bound = bytes.len() + 3 * list.devices.len();
    assert!(devices.mem_used() <= bound + bytes.len() / 2 + 4);
    let expected: BTreeMap<String, _> = list
        .devices
        .into_iter()
        .map(|device| {
            let nodes = device.topology.unwrap_or_default().nodes;
            let nodes: Vec<i64> = nodes.into_iter().map(|node| node.id).collect();
            (device.id, (device.health == "Healthy", nodes))
        })
        .collect();
    assert_eq!(devices.len(), expected.len());
    let healthy = expected.values().filter(|(is_healthy, _)| *is_healthy);
    assert_eq!(devices.healthy(), healthy.count());
    for (device, (id, (is_healthy, nodes))) in devices.iter().zip(&expected) {
        assert_eq!((device.id, device.is_healthy), (&**id, *is_healthy));
        assert!(device.numa_nodes().eq(nodes.iter().copied()));
        assert_eq!(devices.get(id), Some(device));
        let next = expected.range::<String, _>(id..).nth(1);
        let after = devices.after(Some(id)).next();
        assert_eq!(after.map(|it| it.id), next.map(|(id, _)| &**id));
    }
}
