//! What is known about the devices of a message while they are sorted and compared.
//!
//! Pure. To find an ID in a message takes longer than to compare two, and each is compared several
//! times. So all are found in one pass, which validates the message.

// Numbers are of 16 bits, and a message is far below 2 GiB.
#![allow(clippy::cast_possible_truncation)]

use super::encoded::{DEVICES, Device, Listed, Span};
use super::unlistable::Unlistable;
use super::work::Work;
use crate::config::MAX_DEVICES;
use crate::handler::fields::{Field, Fields, Malformed};

/// The devices of a message, by the numbers of their fields.
#[derive(Debug, Default)]
pub(super) struct Table {
    fields: Vec<Entry>,
    /// The offset of every [`STRIDE`]th field.
    pub(super) offsets: Vec<u32>,
    /// The octets with which all IDs begin, once there is a device.
    common: Option<Span>,
    /// The octets of the message that were read.
    read: usize,
    /// The fields that were read.
    listed: usize,
    /// Whether the list is rejected; why depends on the number of its fields.
    is_rejected: bool,
}

/// Where the ID of a device is, and its health.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u32,
    length_and_health: u32,
}

impl Table {
    /// Reads and validates a message. Returns `None` if the work ends before the message.
    pub(super) fn read(
        &mut self,
        message: &[u8],
        work: &mut Work,
    ) -> Option<Result<(), Unlistable>> {
        let mut fields = Fields::new(&message[self.read..], 0);
        while fields.len() > 0 {
            self.read = message.len() - fields.len();
            if work.is_over() {
                return None;
            }
            let field = fields.next();
            work.done(1);
            let Some(Ok(field)) = field else {
                return Some(Err(Unlistable::Undecodable));
            };
            self.is_rejected |= self.listed == MAX_DEVICES;
            if !self.is_rejected {
                self.is_rejected = self.add(message, field, work).is_err();
            }
            self.listed += 1;
        }
        self.read = message.len();
        Some(match self.listed {
            listed if listed > MAX_DEVICES => Err(Unlistable::TooMany { listed }),
            _ if self.is_rejected => Err(Unlistable::Undecodable),
            _ => Ok(()),
        })
    }

    /// Adds the field that begins where the last one ended.
    fn add(&mut self, message: &[u8], field: Field<'_>, work: &mut Work) -> Result<(), Malformed> {
        if self.listed % STRIDE == 0 {
            self.offsets.push(self.read as u32);
        }
        let mut entry = Entry::NONE;
        if field.tag == DEVICES {
            let octets = field.value.octets()?;
            work.read(octets.len());
            let Listed { id, is_healthy } = Device::read(octets)?.listed();
            let span = Span::of(id, message);
            let common = self.common.map_or(id, |common| common.within(message));
            if !id.starts_with(common) || self.common.is_none() {
                let pairs = common.iter().zip(id);
                let length = pairs.take_while(|(one, other)| one == other).count();
                self.common = Some(Span {
                    length: length as u32,
                    ..span
                });
            }
            entry = Entry {
                offset: span.offset,
                length_and_health: span.length << 1 | u32::from(is_healthy),
            };
        }
        self.fields.push(entry);
        Ok(())
    }

    /// Returns the number of fields.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns the number of fields that were read, in a list that is rejected, too.
    #[cfg(test)]
    pub(super) fn listed(&self) -> usize {
        self.listed
    }

    /// Returns the number of octets with which all IDs begin.
    pub(super) fn common(&self) -> usize {
        self.common.map_or(0, |common| common.length as usize)
    }

    /// Returns the device in a field, or `None` if the field is not a device.
    pub(super) fn device<'a>(&self, message: &'a [u8], number: u16) -> Option<Listed<'a>> {
        let entry = self.fields.get(usize::from(number))?;
        if entry.length_and_health == u32::MAX {
            return None;
        }
        let span = Span {
            offset: entry.offset,
            length: entry.length_and_health >> 1,
        };
        Some(Listed {
            id: span.within(message),
            is_healthy: entry.length_and_health & 1 == 1,
        })
    }

    /// Returns the octets of memory that the table keeps.
    pub(super) fn mem_used(&self) -> usize {
        self.fields.capacity() * size_of::<Entry>() + self.offsets.capacity() * size_of::<u32>()
    }
}

impl Entry {
    /// The field is not a device.
    const NONE: Self = Self {
        offset: 0,
        length_and_health: u32::MAX,
    };
}

/// One offset is kept for so many fields: the others are found from it.
pub(super) const STRIDE: usize = 4;
