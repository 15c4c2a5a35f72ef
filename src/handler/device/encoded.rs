//! A device in the message in which it was sent.
//!
//! Pure.

use std::fmt;

use crate::handler::fields::{Field, Fields, Malformed, Value};

/// A device of a plugin, in the message in which it was sent.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    /// The ID, which is unique among the devices of the plugin.
    pub id: &'a str,
    /// Whether the device can be used.
    pub is_healthy: bool,
    /// The `v1beta1.Device`, which is valid.
    octets: &'a [u8],
}

/// What is compared of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed<'a> {
    pub(super) id: &'a [u8],
    pub(super) is_healthy: bool,
}

impl Listed<'_> {
    /// What is compared of a device that cannot be read.
    pub(super) const NONE: Self = Self {
        id: &[],
        is_healthy: false,
    };
}

/// The place of an ID in its message, which is far below 2 GiB.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) offset: u32,
    pub(super) length: u32,
}

impl Span {
    /// Returns the place of an ID of this message.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn of(id: &[u8], message: &[u8]) -> Self {
        // The place of an empty text may be outside of the message.
        let offset = id.as_ptr().addr().wrapping_sub(message.as_ptr().addr());
        Self {
            offset: if id.is_empty() { 0 } else { offset as u32 },
            length: id.len() as u32,
        }
    }

    /// Returns the ID.
    pub(super) fn within(self, message: &[u8]) -> &[u8] {
        let start = self.offset as usize;
        &message[start..start + self.length as usize]
    }
}

impl<'a> Device<'a> {
    /// Returns the NUMA nodes that are close to the device.
    pub fn numa_nodes(&self) -> impl Iterator<Item = i64> + use<'a> {
        let topologies = messages(self.octets, 1, TOPOLOGY);
        let nodes = topologies.flat_map(|topology| messages(topology, 2, NODES));
        nodes.map(|node| {
            let ids = Fields::new(node, 3).flatten();
            let last = ids.filter(|field| field.tag == NODE_ID).last();
            match last.map(|field| field.value) {
                Some(Value::Number(id)) => i64::from_ne_bytes(id.to_ne_bytes()),
                _ => 0,
            }
        })
    }

    /// Returns what is compared of the device.
    pub(super) fn listed(&self) -> Listed<'a> {
        Listed {
            id: self.id.as_bytes(),
            is_healthy: self.is_healthy,
        }
    }

    /// Reads and validates a device. Of several values of one field, the last counts.
    pub(super) fn read(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut device = Self {
            id: "",
            is_healthy: false,
            octets,
        };
        for field in Fields::new(octets, 1) {
            let Field { tag, value } = field?;
            match tag {
                ID => device.id = text(value)?,
                HEALTH => {
                    device.is_healthy = value == Value::Octets(HEALTHY);
                    if !device.is_healthy {
                        text(value)?;
                    }
                }
                TOPOLOGY => check_topology(value.octets()?)?,
                _ => {}
            }
        }
        Ok(device)
    }
}

fn check_topology(topology: &[u8]) -> Result<(), Malformed> {
    for field in Fields::new(topology, 2) {
        let Field { tag, value } = field?;
        if tag == NODES {
            for field in Fields::new(value.octets()?, 3) {
                let Field { tag, value } = field?;
                if tag == NODE_ID && !matches!(value, Value::Number(_)) {
                    return Err(Malformed);
                }
            }
        }
    }
    Ok(())
}

/// Returns the messages in the fields with this tag of a valid message.
fn messages(message: &[u8], level: u32, tag: u32) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(message, level).flatten();
    let fields = fields.filter(move |field| field.tag == tag);
    fields.filter_map(|field| field.value.octets().ok())
}

fn text(value: Value<'_>) -> Result<&str, Malformed> {
    std::str::from_utf8(value.octets()?).map_err(|_| Malformed)
}

impl PartialEq for Device<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.is_healthy == other.is_healthy
            && self.numa_nodes().eq(other.numa_nodes())
    }
}

impl Eq for Device<'_> {}

impl fmt::Debug for Device<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<i64> = self.numa_nodes().collect();
        f.debug_struct("Device")
            .field("id", &self.id)
            .field("is_healthy", &self.is_healthy)
            .field("numa_nodes", &nodes)
            .finish()
    }
}

/// The health of a usable device; any other value means unhealthy (kubelet: the same).
const HEALTHY: &[u8] = b"Healthy";

// The tags of the messages of `proto/v1beta1.proto`.
pub(super) const DEVICES: u32 = 1;
const ID: u32 = 1;
const HEALTH: u32 = 2;
const TOPOLOGY: u32 = 3;
const NODES: u32 = 1;
const NODE_ID: u32 = 1;
