//! The order of devices by ID.
//!
//! Pure. A plugin chooses the IDs and the order in which it sends them, so the time must depend on
//! neither: lists are merged, from those of one device up to the whole, which takes the same number
//! of steps for all. A key has the first octets after those that all IDs have in common, and IDs
//! are compared only if their keys are equal.

// Numbers are of 16 bits.
#![allow(clippy::cast_possible_truncation)]

use std::cmp::Ordering;

use super::table::Table;
use super::work::Work;

/// The devices of a table while they are sorted.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The keys of the fields that are devices.
    keys: Vec<u64>,
    /// The room for the keys after this pass.
    merged: Vec<u64>,
    /// The number of fields whose keys were made.
    made: usize,
    /// The length of the sorted lists of which two are merged; 0 before the first pass.
    width: usize,
    /// The end of the first of these lists.
    middle: usize,
    /// The next key of the first list.
    left: usize,
    /// The next key of the second list.
    right: usize,
}

impl Order {
    /// Sorts the devices. Returns whether they are sorted, which ends before the work or with it.
    pub(super) fn sort(&mut self, table: &Table, message: &[u8], work: &mut Work) -> bool {
        if self.width == 0 {
            self.make_keys(table, message, work);
            if self.made < table.len() {
                return false;
            }
            self.merged.resize(self.keys.len(), 0);
            self.width = 1;
            self.start_at(0);
        }
        while self.width < self.keys.len() {
            if !self.merge(table, message, work) {
                return false;
            }
            std::mem::swap(&mut self.keys, &mut self.merged);
            self.width *= 2;
            self.start_at(0);
        }
        true
    }

    fn make_keys(&mut self, table: &Table, message: &[u8], work: &mut Work) {
        let common = table.common();
        self.keys.reserve_exact(table.len() - self.keys.len());
        while self.made < table.len() && !work.is_over() {
            work.done(2);
            let number = self.made as u16;
            self.made += 1;
            if let Some(device) = table.device(message, number) {
                self.keys
                    .push(key_of(&device.id[common..]) | u64::from(number));
            }
        }
    }

    /// Starts to merge the two lists from `start`.
    fn start_at(&mut self, start: usize) {
        self.left = start;
        self.middle = (start + self.width).min(self.keys.len());
        self.right = self.middle;
    }

    /// Merges all pairs of lists. Returns false if the work ends before.
    fn merge(&mut self, table: &Table, message: &[u8], work: &mut Work) -> bool {
        while self.left < self.keys.len() {
            let end = (self.middle + self.width).min(self.keys.len());
            while self.left < self.middle || self.right < end {
                if work.is_over() {
                    return false;
                }
                work.done(1);
                // Of two with the same ID, the one that was sent first stays the first.
                let is_right = self.left == self.middle
                    || self.right < end && {
                        let (left, right) = (self.keys[self.left], self.keys[self.right]);
                        match (left >> NUMBER_BITS).cmp(&(right >> NUMBER_BITS)) {
                            Ordering::Equal => {
                                work.done(TIE);
                                id(table, message, right) < id(table, message, left)
                            }
                            order => order == Ordering::Greater,
                        }
                    };
                let next = if is_right {
                    &mut self.right
                } else {
                    &mut self.left
                };
                let key = self.keys[*next];
                *next += 1;
                self.merged[self.left + self.right - self.middle - 1] = key;
            }
            self.start_at(end);
        }
        true
    }

    /// Returns the number of devices; of several with one ID, all.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the number of a device by its position in the order.
    pub(super) fn number(&self, position: usize) -> Option<u16> {
        self.keys.get(position).map(|key| *key as u16)
    }

    /// Returns the number of keys that were made and moved.
    #[cfg(test)]
    pub(super) fn handled(&self) -> usize {
        let passes = self.width.checked_ilog2().unwrap_or_default() as usize;
        self.made + passes * self.keys.len() + self.left + self.right - self.middle
    }

    /// Returns the octets of memory that are kept.
    pub(super) fn mem_used(&self) -> usize {
        (self.keys.capacity() + self.merged.capacity()) * size_of::<u64>()
    }
}

/// Returns the ID of the device of a key.
fn id<'a>(table: &Table, message: &'a [u8], key: u64) -> &'a [u8] {
    let device = table.device(message, key as u16);
    device.map_or(&[], |device| device.id)
}

/// Returns the first octets of the rest of an ID, above the room for the number: if two differ, the
/// keys sort like the IDs.
fn key_of(rest: &[u8]) -> u64 {
    let mut key = [0; 8];
    let length = rest.len().min(KEY);
    key[..length].copy_from_slice(&rest[..length]);
    u64::from_be_bytes(key)
}

/// The octets of an ID in a key.
const KEY: usize = 6;

/// The bits of a key in which the number of the device is.
const NUMBER_BITS: u32 = 16;

/// The further units of work if two keys are equal.
const TIE: usize = 5;
