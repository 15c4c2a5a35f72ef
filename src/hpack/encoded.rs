//! Fields that are the same in every block, encoded at compile time.
//!
//! The octets are those that [`Encoder`](super::Encoder) writes; writing a block only copies them.

use super::{integer, table};

/// Fields, encoded as [`Encoder::field`](super::Encoder::field) encodes them.
///
/// ```
/// use plugind::hpack::{Encoded, Encoder};
///
/// const TE: Encoded = Encoded::new(&[("te", b"trailers")]);
///
/// let mut block = Vec::new();
/// Encoder::begin(&mut block).push_encoded(&TE);
/// assert_eq!(block, b"\x20\x00\x02te\x08trailers");
/// ```
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The encoded fields, `length` octets.
    pub(super) octets: [u8; CAPACITY],
    pub(super) length: usize,
    /// The size of the fields as the tables count it.
    pub(super) list_size: usize,
}

impl Encoded {
    /// Encodes a few short fields. If they do not fit into `CAPACITY` octets, evaluation fails: at
    /// compile time in a constant, with a panic elsewhere.
    pub const fn new(fields: &[(&str, &[u8])]) -> Self {
        let mut encoded = Self {
            octets: [0; CAPACITY],
            length: 0,
            list_size: 0,
        };
        let mut index = 0;
        while index < fields.len() {
            let (name, value) = fields[index];
            encoded.push_field(name.as_bytes(), value);
            index += 1;
        }
        encoded
    }

    const fn push_field(&mut self, name: &[u8], value: &[u8]) {
        if let Some(index) = table::static_index(name) {
            self.push_integer(index, 4);
        } else {
            self.push_integer(0, 4); // Not an index: the name follows.
            self.push_string(name);
        }
        self.push_string(value);
        self.list_size += table::field_size(name, value);
    }

    const fn push_string(&mut self, octets: &[u8]) {
        self.push_integer(octets.len(), 7);
        let mut index = 0;
        while index < octets.len() {
            self.push(octets[index]);
            index += 1;
        }
    }

    /// Appends an integer with a prefix of `prefix_bits`, and at most one octet after the prefix.
    #[allow(clippy::cast_possible_truncation)] // Both octets are below 256.
    const fn push_integer(&mut self, value: usize, prefix_bits: u32) {
        let max_prefix = integer::max_prefix(prefix_bits);
        if value < max_prefix as usize {
            return self.push(value as u8);
        }
        let rest = value - max_prefix as usize;
        assert!(rest < 0x80, "the name or value is too long");
        self.push(max_prefix);
        self.push(rest as u8);
    }

    const fn push(&mut self, octet: u8) {
        self.octets[self.length] = octet;
        self.length += 1;
    }
}

/// The capacity in octets: enough for the fields after the path of a gRPC request, and some more.
const CAPACITY: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Encoder;

    #[test]
    fn constant_fields_are_encoded_as_by_the_encoder() {
        let blocks: [&[(&str, &[u8])]; 6] = [
            &[],
            // The index of the name, 15, is the first that does not fit the prefix.
            &[("accept-charset", b"")],
            &[(":method", b"POST"), (":scheme", b"http")],
            &[("te", b"trailers"), ("content-type", b"application/grpc")],
            &[("grpc-timeout", b""), ("user-agent", b"plugind/10.20.30")],
            &[("www-authenticate", &[b'x'; 50])],
        ];
        for fields in blocks {
            let (mut plain, mut copied) = (Vec::new(), Vec::new());
            let mut block = Encoder::begin(&mut plain);
            for (name, value) in fields {
                block.field(name, value);
            }
            let list_size = block.list_size;
            let mut block = Encoder::begin(&mut copied);
            block.push_encoded(&Encoded::new(fields));
            assert_eq!(block.list_size, list_size);
            assert_eq!(copied, plain);
        }
    }
}
