//! A list of devices, kept as it was sent.
//!
//! Pure. A list may have 65,536 devices and be sent again whenever the health of one changes. So
//! the message itself is kept, validated once, with the order of its devices beside it; a device is
//! read from it when it is looked at. In the next message, a device whose octets are the same is
//! neither read nor compared any further, and as long as the IDs are the same ones in the same
//! places, their order is kept too.

use std::fmt;

use super::encoded::{Device, Listed};
use super::replacement::Replacement;
use super::table::STRIDE;
use super::unlistable::Unlistable;
use super::work::Work;
use crate::handler::fields::{Fields, Malformed};

/// The devices that a plugin lists, sorted by ID. No two have the same.
///
/// It keeps the message of the plugin and at most 3 octets for each device in it:
/// [`mem_used`](Self::mem_used).
#[derive(Clone, Default)]
pub struct Devices {
    /// The `ListAndWatchResponse`, which is valid.
    pub(super) message: Box<[u8]>,
    /// The offset of every [`STRIDE`]th field of the message.
    pub(super) offsets: Box<[u32]>,
    /// The devices by ID: the numbers of their fields.
    pub(super) order: Box<[u16]>,
    /// The number of devices that were sent as healthy.
    pub(super) healthy: usize,
    /// Whether all are unhealthy, whatever was sent.
    pub(super) are_lost: bool,
}

impl Devices {
    /// Returns the devices of a `ListAndWatchResponse`.
    pub fn from_message(message: Vec<u8>) -> Result<Self, Unlistable> {
        let mut devices = Self::default();
        devices.replace(message, true)?;
        Ok(devices)
    }

    /// Returns the number of devices.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the number of devices that can be used.
    pub fn healthy(&self) -> usize {
        if self.are_lost { 0 } else { self.healthy }
    }

    /// Returns the devices by ID.
    pub fn iter(&self) -> impl Iterator<Item = Device<'_>> {
        self.after(None)
    }

    /// Returns the devices with a greater ID than this one, by ID; all if it is `None`.
    pub fn after(&self, id: Option<&str>) -> impl Iterator<Item = Device<'_>> {
        let is_before = |number: &u16| id.is_some_and(|id| self.id(*number) <= id.as_bytes());
        let position = self.order.partition_point(is_before);
        let numbers = self.order[position..].iter();
        // The message is valid, so that none is left out.
        numbers.filter_map(|number| self.read(self.octets(*number)).ok())
    }

    /// Returns the device with this ID.
    pub fn get(&self, id: &str) -> Option<Device<'_>> {
        let compare = |number: &u16| self.id(*number).cmp(id.as_bytes());
        let position = self.order.binary_search_by(compare).ok()?;
        self.read(self.octets(self.order[position])).ok()
    }

    /// Returns the octets of memory that the list keeps.
    pub fn mem_used(&self) -> usize {
        self.message.len() + size_of_val(&*self.offsets) + size_of_val(&*self.order)
    }

    /// Replaces the list by that of a message. Returns the changes as text, or `None` if there are
    /// none and the message is not the first one of its stream.
    pub fn replace(
        &mut self,
        message: Vec<u8>,
        is_first: bool,
    ) -> Result<Option<String>, Unlistable> {
        let mut replacement = Replacement::new(message);
        loop {
            if let Some(result) = replacement.advance(self, is_first, Work::ALL) {
                return result;
            }
        }
    }

    /// Makes all devices unhealthy until the next message.
    pub(super) fn lose(&mut self) {
        self.are_lost = true;
    }

    /// Reads a device of this list.
    pub(super) fn read<'a>(&self, octets: &'a [u8]) -> Result<Device<'a>, Malformed> {
        let mut device = Device::read(octets)?;
        device.is_healthy &= !self.are_lost;
        Ok(device)
    }

    /// Returns the ID of the device in a field.
    fn id(&self, number: u16) -> &[u8] {
        self.listed(number).id
    }

    /// Returns what is compared of the device in a field.
    pub(super) fn listed(&self, number: u16) -> Listed<'_> {
        let device = self.read(self.octets(number));
        // The message is valid.
        device.map_or(Listed::NONE, |device| device.listed())
    }

    /// Returns the octets of the device in a field.
    pub(super) fn octets(&self, number: u16) -> &[u8] {
        let number = usize::from(number);
        let offset = self.offsets[number / STRIDE] as usize;
        let field = Fields::new(&self.message[offset..], 0).nth(number % STRIDE);
        let octets = field.and_then(|field| field.ok()?.value.octets().ok());
        octets.unwrap_or_default()
    }
}

impl PartialEq for Devices {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Devices {}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
