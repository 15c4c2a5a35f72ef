//! The changes from one list of devices to the next, as text for events.

use std::fmt::Write as _;

use super::devices::Device;
use crate::escape;

/// Returns the changes from one list to the next, both sorted by ID, as escaped text: `devices=2
/// healthy=1 now_unhealthy=gpu-1`. Also returns whether there are any changes.
pub(super) fn between(before: &[Device], after: &[Device]) -> (String, bool) {
    let [mut now_unhealthy, mut now_healthy, mut new, mut gone] = [const { Vec::new() }; 4];
    let mut before = before.iter().peekable();
    for device in after {
        while let Some(old) = before.next_if(|old| old.id < device.id) {
            gone.push(&old.id);
        }
        match before.next_if(|old| old.id == device.id) {
            None => new.push(&device.id),
            Some(old) if old.is_healthy == device.is_healthy => {}
            Some(_) if device.is_healthy => now_healthy.push(&device.id),
            Some(_) => now_unhealthy.push(&device.id),
        }
    }
    gone.extend(before.map(|old| &old.id));
    let healthy = after.iter().filter(|device| device.is_healthy).count();
    let mut text = format!("devices={} healthy={healthy}", after.len());
    let mut are_any = false;
    for (kind, ids) in [
        ("now_unhealthy", now_unhealthy),
        ("now_healthy", now_healthy),
        ("new", new),
        ("gone", gone),
    ] {
        if !ids.is_empty() {
            are_any = true;
            let ids = ids.iter().map(|id| escape::text(id).at_most(SHOWN_ID));
            let _ = write!(text, " {kind}={}", escape::list(ids));
        }
    }
    (text, are_any)
}

/// The maximum number of octets of a device ID that are shown: enough for a UUID and a prefix.
pub(super) const SHOWN_ID: usize = 64;
