//! The changes by one list of devices, for the log.
//!
//! Pure. All devices may change with every list, so only what is shown is kept: the places of some
//! IDs in their messages, and the number of the others.

use std::fmt;

use super::encoded::{Listed, Span};
use crate::escape;

/// The changes from one list to the next.
#[derive(Debug, Default)]
pub(super) struct Changes {
    total: usize,
    healthy: usize,
    now_unhealthy: Ids,
    now_healthy: Ids,
    come: Ids,
    gone: Ids,
}

/// The IDs of changed devices.
#[derive(Debug, Default)]
struct Ids {
    count: usize,
    /// The first ones by ID.
    shown: [Span; SHOWN_IDS],
}

/// Changes with the messages that they are about, to be shown.
struct Shown<'a> {
    changes: &'a Changes,
    before: &'a [u8],
    after: &'a [u8],
}

impl Changes {
    /// Returns the changes to a list of which nothing is compared yet.
    pub(super) fn new(total: usize, healthy: usize) -> Self {
        Self {
            total,
            healthy,
            ..Self::default()
        }
    }

    /// Adds the change of one device, or of none; two have the same ID. A device is of the message
    /// beside it.
    pub(super) fn compare(
        &mut self,
        (before, old): (Option<Listed<'_>>, &[u8]),
        (after, new): (Option<Listed<'_>>, &[u8]),
    ) {
        let was_healthy = before.is_some_and(|before| before.is_healthy);
        let is_healthy = after.is_some_and(|after| after.is_healthy);
        self.healthy = self.healthy + usize::from(is_healthy) - usize::from(was_healthy);
        let (ids, id, message) = match (before, after) {
            (None, Some(after)) => {
                self.total += 1;
                (&mut self.come, after.id, new)
            }
            (Some(before), None) => {
                self.total -= 1;
                (&mut self.gone, before.id, old)
            }
            (_, Some(after)) if is_healthy && !was_healthy => {
                (&mut self.now_healthy, after.id, new)
            }
            (_, Some(after)) if was_healthy && !is_healthy => {
                (&mut self.now_unhealthy, after.id, new)
            }
            _ => return,
        };
        ids.add(id, message);
    }

    /// Returns the number of devices that can be used now.
    pub(super) fn healthy(&self) -> usize {
        self.healthy
    }

    /// Returns the changes as text, or `None` if there are none and the message is not the first
    /// one of its stream.
    pub(super) fn news(&self, is_first: bool, before: &[u8], after: &[u8]) -> Option<String> {
        let lists = [
            &self.now_unhealthy,
            &self.now_healthy,
            &self.come,
            &self.gone,
        ];
        let are_news = is_first || lists.iter().any(|ids| ids.count > 0);
        let shown = Shown {
            changes: self,
            before,
            after,
        };
        are_news.then(|| shown.to_string())
    }
}

impl Ids {
    fn add(&mut self, id: &[u8], message: &[u8]) {
        let mut at = self.count.min(SHOWN_IDS);
        self.count += 1;
        while at > 0 && id < self.shown[at - 1].within(message) {
            at -= 1;
        }
        if at < SHOWN_IDS {
            self.shown[at..].rotate_right(1);
            self.shown[at] = Span::of(id, message);
        }
    }

    fn show(&self, key: &str, message: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, id) in self.shown.iter().take(self.count).enumerate() {
            let id = escape::bytes(id.within(message)).at_most(SHOWN_ID);
            match at {
                0 => write!(f, " {key}={id}")?,
                _ => write!(f, ",{id}")?,
            }
        }
        match self.count.saturating_sub(SHOWN_IDS) {
            0 => Ok(()),
            more => write!(f, ",...({more} more)"),
        }
    }
}

/// Shows `devices=2 healthy=1 now_unhealthy=gpu-1`, escaped.
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            changes,
            before,
            after,
        } = self;
        write!(f, "devices={} healthy={}", changes.total, changes.healthy)?;
        changes.now_unhealthy.show("now_unhealthy", after, f)?;
        changes.now_healthy.show("now_healthy", after, f)?;
        changes.come.show("new", after, f)?;
        changes.gone.show("gone", before, f)
    }
}

/// The number of device IDs of one kind that are shown in a line.
const SHOWN_IDS: usize = 8;

/// The number of octets of a device ID that are shown: a UUID and some room.
const SHOWN_ID: usize = 64;
