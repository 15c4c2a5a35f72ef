//! Rows about long lists of devices, sent without a pause.

use bytes::Bytes;
use plugind::proto::v1beta1::{Device, ListAndWatchResponse};

use crate::log::{framed, serve_lists};
use crate::row::Row;

#[test]
fn sixty_thousand_devices_of_which_one_flips_its_health() {
    Row::new("60,000 devices, one flips its health", BEFORE).withstand(|dir, over| {
        let lists = [list(1, 0), list(1, DEVICES / 2)].concat();
        serve_lists(dir, over, 1, lists.into());
    });
}

#[test]
fn sixty_thousand_devices_in_another_order_each_time() {
    Row::new("60,000 devices in another order", BEFORE).withstand(|dir, over| {
        let lists = [list(7919, 0), list(104_729, 0)].concat();
        serve_lists(dir, over, 1, lists.into());
    });
}

/// Returns a list in steps of `stride`, with one device that is unhealthy.
fn list(stride: usize, unhealthy: usize) -> Bytes {
    let devices = (0..DEVICES).map(|n| Device {
        id: format!("device-{}", n * stride % DEVICES),
        health: if n == unhealthy {
            "Unhealthy"
        } else {
            "Healthy"
        }
        .to_owned(),
        topology: None,
    });
    let devices = devices.collect();
    framed(&ListAndWatchResponse { devices })
}

const DEVICES: usize = 60_000;

const BEFORE: &str = "turns of 0.2 s, 8.5 MiB";
