//! Encodes fields into a header block, without state between blocks.
//!
//! Every field is a literal without indexing. The name is an index into the static table if that
//! contains the name; other strings are sent without Huffman coding. All common decoders read this
//! subset of RFC 7541 alike.

use super::encoded::Encoded;
use super::{integer, table};

/// A header block that is being written.
///
/// ```
/// let mut block = Vec::new();
/// plugind::hpack::Encoder::begin(&mut block)
///     .field(":method", "POST")
///     .field("te", "trailers");
/// assert_eq!(block, b"\x20\x02\x04POST\x00\x02te\x08trailers");
/// ```
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    /// The size of the header list as HTTP/2 counts it (RFC 9113 §6.5.2), which is also how the
    /// tables count.
    pub(crate) list_size: usize,
}

impl<'a> Encoder<'a> {
    /// Begins a block at the end of `out`.
    ///
    /// Each block starts with a dynamic table size update to 0. This always satisfies RFC 7541
    /// §4.2: "A change in the maximum size of the dynamic table is signaled via a dynamic table
    /// size update". Whatever size the peer's SETTINGS allow, 0 is within it.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        // RFC 7541 §6.3: "A dynamic table size update starts with the '001' 3-bit pattern".
        integer::encode(0, 5, 0b0010_0000, out);
        Self { out, list_size: 0 }
    }

    /// Appends a field. The caller ensures that the name is in lower case, as HTTP/2 requires.
    pub fn field(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        let (name, value) = (name.as_ref(), value.as_ref());
        let index = table::static_index(name);
        // RFC 7541 §6.2.2: "A literal header field without indexing representation starts with the
        // '0000' 4-bit pattern. [...] A value 0 is used in place of the 4-bit index, followed by
        // the header field name."
        integer::encode(index.unwrap_or(0), 4, 0b0000_0000, self.out);
        if index.is_none() {
            self.push_string(name);
        }
        self.push_string(value);
        self.list_size += table::field_size(name, value);
        self
    }

    /// Appends fields that are already encoded.
    #[inline]
    pub fn push_encoded(&mut self, fields: &Encoded) -> &mut Self {
        self.out.extend_from_slice(&fields.octets[..fields.length]);
        self.list_size += fields.list_size;
        self
    }

    #[inline]
    fn push_string(&mut self, octets: &[u8]) {
        // RFC 7541 §5.2: the first bit is clear if the string is not Huffman-coded.
        integer::encode(octets.len(), 7, 0b0000_0000, self.out);
        self.out.extend_from_slice(octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    #[test]
    fn a_block_without_fields_sets_the_table_size_to_0() {
        let mut out = Vec::new();
        Encoder::begin(&mut out);
        assert_eq!(out, [0x20]);
    }

    #[test]
    fn a_static_name_is_an_index_and_others_are_literals() {
        let mut out = Vec::new();
        Encoder::begin(&mut out)
            .field("content-type", "application/grpc")
            .field("grpc-timeout", "1S");
        assert_eq!(
            out,
            b"\x20\x0f\x10\x10application/grpc\x00\x0cgrpc-timeout\x021S"
        );
    }

    #[test]
    fn a_block_is_appended_to_the_buffer() {
        let mut out = b"frame header".to_vec();
        Encoder::begin(&mut out).field("te", "");
        assert_eq!(out, b"frame header\x20\x00\x02te\x00");
    }

    #[test]
    fn encoded_fields_are_decoded_unchanged() {
        let long = "x".repeat(20_000);
        let fields = [
            (":method", "POST"),
            (":path", "/pluginregistration.Registration/GetInfo"),
            ("www-authenticate", ""),
            ("empty", ""),
            ("long", &long),
        ];
        let mut out = Vec::new();
        let mut block = Encoder::begin(&mut out);
        for (name, value) in fields {
            block.field(name, value);
        }
        let mut decoder = Decoder::new(0);
        let mut fields_back = Vec::new();
        decoder
            .decode(&out, &mut |name, value| {
                fields_back.push((name.to_vec(), value.to_vec()));
            })
            .unwrap();
        let expected = fields.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(fields_back, expected);
        assert_eq!(decoder.mem_used(), 0);
    }
}
