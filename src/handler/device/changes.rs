//! The changes by one list of devices, for the log.

use std::fmt;

use super::devices::Device;
use crate::escape;

/// The changes from one list to the next.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    total: usize,
    healthy: usize,
    /// The IDs of the devices that have changed, by the kind of the change ([`KINDS`]).
    changed: [Vec<&'a str>; KINDS.len()],
}

impl<'a> Changes<'a> {
    /// Compares two lists that are sorted by ID.
    pub(super) fn between(before: &'a [Device], after: &'a [Device]) -> Self {
        let [mut now_unhealthy, mut now_healthy, mut new, mut gone] = [const { Vec::new() }; 4];
        let mut before = before.iter().peekable();
        for device in after {
            while let Some(old) = before.next_if(|old| old.id < device.id) {
                gone.push(&*old.id);
            }
            match before.next_if(|old| old.id == device.id) {
                None => new.push(&*device.id),
                Some(old) if old.is_healthy == device.is_healthy => {}
                Some(_) if device.is_healthy => now_healthy.push(&device.id),
                Some(_) => now_unhealthy.push(&device.id),
            }
        }
        gone.extend(before.map(|old| &*old.id));
        Self {
            total: after.len(),
            healthy: after.iter().filter(|device| device.is_healthy).count(),
            changed: [now_unhealthy, now_healthy, new, gone],
        }
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.iter().all(Vec::is_empty)
    }
}

/// Shows `devices=2 healthy=1 now_unhealthy=gpu-1`, escaped.
impl fmt::Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "devices={} healthy={}", self.total, self.healthy)?;
        for (kind, ids) in KINDS.iter().zip(&self.changed) {
            for (at, id) in ids.iter().take(SHOWN_IDS).enumerate() {
                let id = escape::text(id).at_most(SHOWN_ID);
                match at {
                    0 => write!(f, " {kind}={id}")?,
                    _ => write!(f, ",{id}")?,
                }
            }
            if let Some(more @ 1..) = ids.len().checked_sub(SHOWN_IDS) {
                write!(f, ",...({more} more)")?;
            }
        }
        Ok(())
    }
}

/// The kinds of changes.
const KINDS: [&str; 4] = ["now_unhealthy", "now_healthy", "new", "gone"];

/// The number of device IDs of one kind that are shown in a line.
const SHOWN_IDS: usize = 8;

/// The number of octets of a device ID that are shown: a UUID and some room.
const SHOWN_ID: usize = 64;
