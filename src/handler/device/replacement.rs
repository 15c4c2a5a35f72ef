//! The replacement of a list of devices by that of the next message, step by step.
//!
//! Pure.
//!
//! ```text
//! Following -- all have the IDs of before, in the same places --> done
//!     |
//!     +- others -> Reading -> Sorting -> Comparing --> done
//! ```
//!
//! Nothing of the list changes before the last step, and the list must not change in between.

// A message is far below 4 GiB.
#![allow(clippy::cast_possible_truncation)]

use std::cmp::Ordering;
use std::mem;

use super::changes::Changes;
use super::devices::Devices;
use super::encoded::{DEVICES, Device};
use super::order::Order;
use super::table::{STRIDE, Table};
use super::unlistable::Unlistable;
use super::work::Work;
use crate::handler::fields::Fields;

/// A message that is to replace a list of devices.
#[derive(Debug)]
pub(super) struct Replacement {
    message: Box<[u8]>,
    phase: Phase,
    /// What was read of the message; while it is followed, only the offsets.
    table: Table,
    changes: Changes,
}

#[derive(Debug)]
enum Phase {
    Following(Following),
    Reading,
    Sorting(Order),
    Comparing(Comparing),
}

/// How far two messages were followed.
#[derive(Debug, Default)]
struct Following {
    /// The octets of the list's message.
    before: usize,
    /// The octets of the next message.
    after: usize,
    /// The fields of both.
    fields: usize,
}

/// How far two lists that are sorted by ID were compared.
#[derive(Debug)]
struct Comparing {
    sorted: Order,
    before: usize,
    after: usize,
    /// The devices after those before `after`; of several with one ID, the last.
    order: Vec<u16>,
}

impl Replacement {
    /// Starts to replace a list by that of a message.
    pub(super) fn new(message: Vec<u8>) -> Self {
        Self {
            message: message.into(), // Its memory grew by doubling.
            phase: Phase::Following(Following::default()),
            table: Table::default(),
            changes: Changes::default(),
        }
    }

    /// Starts again, because the list has changed.
    pub(super) fn restart(&mut self) {
        *self = Self::new(mem::take(&mut self.message).into());
    }

    /// Returns the octets of memory that are kept.
    pub(super) fn mem_used(&self) -> usize {
        let phase = match &self.phase {
            Phase::Following(_) | Phase::Reading => 0,
            Phase::Sorting(order) => order.mem_used(),
            Phase::Comparing(Comparing { sorted, order, .. }) => {
                sorted.mem_used() + order.capacity() * size_of::<u16>()
            }
        };
        size_of::<Self>() + self.message.len() + self.table.mem_used() + phase
    }

    /// Returns the number of the phase, and of the fields and devices that were handled in it.
    #[cfg(test)]
    pub(super) fn progress(&self) -> (usize, usize) {
        match &self.phase {
            Phase::Following(at) => (0, at.fields),
            Phase::Reading => (1, self.table.listed()),
            Phase::Sorting(order) => (2, order.handled()),
            Phase::Comparing(at) => (3, at.before + at.after),
        }
    }

    /// Does some of the work. Returns `None` if there is more, or else the changes of the list as
    /// text, without a text if there are none and the message is not the first one of its stream.
    pub(super) fn advance(
        &mut self,
        list: &mut Devices,
        is_first: bool,
        mut work: Work,
    ) -> Option<Result<Option<String>, Unlistable>> {
        let work = &mut work;
        loop {
            match &mut self.phase {
                Phase::Following(at) => {
                    if at.fields == 0 {
                        if self.message == list.message && !is_first && !list.are_lost {
                            return Some(Ok(None));
                        }
                        self.changes = Changes::new(list.len(), list.healthy());
                    }
                    match self.follow(list, work) {
                        Some(true) => {
                            let order = mem::take(&mut list.order);
                            return Some(Ok(self.finish(list, order, is_first)));
                        }
                        Some(false) => return None,
                        None => {
                            self.table = Table::default();
                            self.changes = Changes::new(list.len(), list.healthy());
                            self.phase = Phase::Reading;
                        }
                    }
                }
                Phase::Reading => {
                    if let Err(unlistable) = self.table.read(&self.message, work)? {
                        return Some(Err(unlistable));
                    }
                    self.phase = Phase::Sorting(Order::default());
                }
                Phase::Sorting(sorted) => {
                    if !sorted.sort(&self.table, &self.message, work) {
                        return None;
                    }
                    let sorted = mem::take(sorted);
                    self.phase = Phase::Comparing(Comparing {
                        order: Vec::with_capacity(sorted.len()),
                        sorted,
                        before: 0,
                        after: 0,
                    });
                }
                Phase::Comparing(_) => {
                    let order = self.compare(list, work)?;
                    return Some(Ok(self.finish(list, order, is_first)));
                }
            }
        }
    }

    /// Compares the messages field by field, as long as the devices of both have the same IDs in
    /// the same places: the next message is valid then, too. Returns whether that was all, or
    /// `None` if there is a difference.
    fn follow(&mut self, list: &Devices, work: &mut Work) -> Option<bool> {
        let Phase::Following(at) = &mut self.phase else {
            return None;
        };
        let mut before = Fields::new(&list.message[at.before..], 0);
        let mut after = Fields::new(&self.message[at.after..], 0);
        // If one had the ID of another or were not a device, there would be less in the order.
        while at.fields < list.order.len() {
            if work.is_over() {
                at.before = list.message.len() - before.len();
                at.after = self.message.len() - after.len();
                return Some(false);
            }
            work.done(1);
            if at.fields % STRIDE == 0 {
                let offset = self.message.len() - after.len();
                self.table.offsets.push(offset as u32);
            }
            at.fields += 1;
            let (before, after) = (before.next()?.ok()?, after.next()?.ok()?);
            if before == after && !list.are_lost {
                continue; // It was validated before.
            }
            if before.tag != DEVICES || after.tag != DEVICES {
                return None;
            }
            let (before, after) = (before.value.octets().ok()?, after.value.octets().ok()?);
            work.read(before.len() + after.len());
            let before = list.read(before).ok()?.listed();
            let after = Device::read(after).ok()?.listed();
            if before.id != after.id {
                return None;
            }
            let (before, after) = (Some(before), Some(after));
            self.changes
                .compare((before, &list.message), (after, &self.message));
        }
        (before.len() == 0 && after.len() == 0).then_some(true)
    }

    /// Compares the lists. Returns the order of the next one.
    fn compare(&mut self, list: &Devices, work: &mut Work) -> Option<Box<[u16]>> {
        let Phase::Comparing(at) = &mut self.phase else {
            return None;
        };
        let listed = |position| {
            let number = at.sorted.number(position)?;
            Some((number, self.table.device(&self.message, number)?))
        };
        loop {
            if work.is_over() {
                return None;
            }
            work.done(3);
            let mut before = list.order.get(at.before).map(|number| {
                work.read(list.octets(*number).len());
                list.listed(*number)
            });
            let mut after = listed(at.after);
            if let Some((_, device)) = after {
                let next = listed(at.after + 1);
                if next.is_some_and(|(_, next)| next.id == device.id) {
                    at.after += 1;
                    continue; // The last one with its ID counts.
                }
            }
            let order = match (&before, &after) {
                (Some(before), Some((_, after))) => before.id.cmp(after.id),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Some(mem::take(&mut at.order).into()),
            };
            if order == Ordering::Greater {
                before = None;
            } else {
                at.before += 1;
            }
            if order == Ordering::Less {
                after = None;
            } else {
                at.after += 1;
            }
            at.order.extend(after.map(|(number, _)| number));
            let after = after.map(|(_, device)| device);
            self.changes
                .compare((before, &list.message), (after, &self.message));
        }
    }

    /// Replaces the list. Returns its changes.
    fn finish(&mut self, list: &mut Devices, order: Box<[u16]>, is_first: bool) -> Option<String> {
        let news = self.changes.news(is_first, &list.message, &self.message);
        *list = Devices {
            message: mem::take(&mut self.message),
            offsets: mem::take(&mut self.table.offsets).into(),
            order,
            healthy: self.changes.healthy(),
            are_lost: false,
        };
        news
    }
}
