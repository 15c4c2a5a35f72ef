//! The changes by one list of devices, for the log.
//!
//! Pure.

use std::fmt;

use super::devices::Device;
use crate::escape;

/// The changes from one list to the next.
#[derive(Debug, Default)]
pub(super) struct Changes<'a> {
    total: usize,
    healthy: usize,
    now_unhealthy: Ids<'a>,
    now_healthy: Ids<'a>,
    come: Ids<'a>,
    gone: Ids<'a>,
}

/// The IDs of changed devices.
#[derive(Debug, Default)]
struct Ids<'a>(Vec<&'a str>);

impl<'a> Changes<'a> {
    /// Compares two lists that are sorted by ID.
    pub(super) fn between(before: &'a [Device], after: &'a [Device]) -> Self {
        let mut changes = Self {
            total: after.len(),
            healthy: after.iter().filter(|device| device.is_healthy).count(),
            ..Self::default()
        };
        let mut before = before.iter().peekable();
        for device in after {
            while let Some(gone) = before.next_if(|old| old.id < device.id) {
                changes.gone.0.push(&gone.id);
            }
            let ids = match before.next_if(|old| old.id == device.id) {
                None => &mut changes.come,
                Some(old) if old.is_healthy == device.is_healthy => continue,
                Some(_) if device.is_healthy => &mut changes.now_healthy,
                Some(_) => &mut changes.now_unhealthy,
            };
            ids.0.push(&device.id);
        }
        changes.gone.0.extend(before.map(|gone| &*gone.id));
        changes
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        let lists = [
            &self.now_unhealthy,
            &self.now_healthy,
            &self.come,
            &self.gone,
        ];
        lists.iter().all(|ids| ids.0.is_empty())
    }
}

/// Shows `devices=2 healthy=1 now_unhealthy=gpu-1`, escaped.
impl fmt::Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "devices={} healthy={}", self.total, self.healthy)?;
        self.now_unhealthy.show("now_unhealthy", f)?;
        self.now_healthy.show("now_healthy", f)?;
        self.come.show("new", f)?;
        self.gone.show("gone", f)
    }
}

impl Ids<'_> {
    fn show(&self, key: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, id) in self.0.iter().take(SHOWN_IDS).enumerate() {
            let id = escape::text(id).at_most(SHOWN_ID);
            match at {
                0 => write!(f, " {key}={id}")?,
                _ => write!(f, ",{id}")?,
            }
        }
        match self.0.len().saturating_sub(SHOWN_IDS) {
            0 => Ok(()),
            more => write!(f, ",...({more} more)"),
        }
    }
}

/// The number of device IDs of one kind that are shown in a line.
const SHOWN_IDS: usize = 8;

/// The number of octets of a device ID that are shown: a UUID and some room.
const SHOWN_ID: usize = 64;
