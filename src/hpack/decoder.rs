//! Decodes a header block into fields.
//!
//! A decoder reads one complete block at a time and keeps the dynamic table between blocks. The
//! table is correct only if both ends have processed the same blocks, so the caller decodes every
//! block of the connection, needed or not, and closes the connection after an error.

use std::fmt;

use super::table::{Place, Table};
use super::{Error, huffman, integer};

/// The HPACK decoder for one direction of one connection.
pub struct Decoder {
    table: Table,
    /// The largest size that is allowed for the dynamic table.
    max_table_size: usize,
}

impl Decoder {
    /// Returns a decoder that allows a dynamic table of `max_table_size` octets, as advertised in
    /// the SETTINGS of this end.
    pub const fn new(max_table_size: usize) -> Self {
        Self {
            table: Table::new(max_table_size),
            max_table_size,
        }
    }

    /// Decodes a complete block and passes each name and value to `field`, in order.
    ///
    /// A field costs the peer as little as one octet, and many fields can refer to the same large
    /// entry of the table. The caller must limit what `field` keeps; the decoder itself keeps only
    /// the table.
    pub fn decode(
        &mut self,
        block: &[u8],
        field: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let decoded = self.decode_fields(block, field);
        self.table.shrink(self.max_table_size);
        decoded
    }

    /// Returns the number of octets of memory that the decoder holds between blocks: at most twice
    /// the allowed table size if that is 4,096, the default of HTTP/2, and at most four times any
    /// other.
    pub fn mem_used(&self) -> usize {
        self.table.mem_used()
    }

    /// Returns the table, for tests that inspect it after a block.
    #[cfg(test)]
    pub(super) const fn table(&self) -> &Table {
        &self.table
    }

    /// Decodes the size updates and fields of a block. The high bits of the first octet of each
    /// determine its kind (RFC 7541 §6).
    fn decode_fields(
        &mut self,
        block: &[u8],
        field: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let mut rest = block;
        let mut has_fields = false;
        while let Some(first) = rest.first() {
            match first.leading_zeros() {
                // `1`: a field that is in one of the tables.
                0 => {
                    let index = integer::decode(&mut rest, 7)?;
                    let (name, value) = self.table.get(index).ok_or(Error::Index)?;
                    field(name, value);
                }
                // `01`: a literal field that is added to the dynamic table.
                1 => {
                    let literal = self.decode_literal(&mut rest, 6)?;
                    let (name, value) = self.table.at(literal);
                    field(name, value);
                    self.table.insert(literal);
                }
                // `001`: a dynamic table size update.
                2 if has_fields => return Err(Error::LateSizeUpdate),
                2 => {
                    self.update_size(integer::decode(&mut rest, 5)?)?;
                    continue;
                }
                // `0000`: a literal field without indexing; and `0001`: one that intermediaries
                // must never index, which the final recipient decodes alike.
                _ => {
                    let literal = self.decode_literal(&mut rest, 4)?;
                    let (name, value) = self.table.at(literal);
                    field(name, value);
                    self.table.drop_literal(literal);
                }
            }
            has_fields = true;
        }
        Ok(())
    }

    /// Applies a size update.
    ///
    /// RFC 7541 §4.2: "This dynamic table size update MUST occur at the beginning of the first
    /// header block following the change to the dynamic table size." There may be two, the smallest
    /// size in between and the final one; more are harmless. Since the allowed size is never
    /// lowered, a size update is never required.
    ///
    /// RFC 7541 §6.3: "The new maximum size MUST be lower than or equal to the limit determined by
    /// the protocol using HPACK. A value that exceeds this limit MUST be treated as a decoding
    /// error."
    fn update_size(&mut self, max_size: usize) -> Result<(), Error> {
        if max_size > self.max_table_size {
            return Err(Error::SizeUpdateAboveLimit);
        }
        self.table.set_max_size(max_size);
        Ok(())
    }

    /// Removes a literal field from the front of `rest` and appends its name and value to the
    /// table's buffer, after the entries. The index of the name has a prefix of `prefix_bits`.
    fn decode_literal(&mut self, rest: &mut &[u8], prefix_bits: u32) -> Result<Place, Error> {
        let begin = self.table.literal_buf().len();
        match integer::decode(rest, prefix_bits)? {
            0 => decode_string(rest, self.table.literal_buf())?,
            index => self.table.append_name(index).ok_or(Error::Index)?,
        }
        let octets = self.table.literal_buf();
        let middle = octets.len();
        decode_string(rest, octets)?;
        let end = octets.len();
        Ok(Place { begin, middle, end })
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("max_table_size", &self.max_table_size)
            .field("mem_used", &self.mem_used())
            .finish_non_exhaustive()
    }
}

/// Removes a string from the front of `rest` and appends it to `out`: RFC 7541 §5.2.
fn decode_string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let first = *rest.first().ok_or(Error::Truncated)?;
    let length = integer::decode(rest, 7)?;
    let (octets, behind) = rest.split_at_checked(length).ok_or(Error::Truncated)?;
    *rest = behind;
    // RFC 7541 §5.2: "A one-bit flag, H, indicating whether or not the octets of the string are
    // Huffman encoded."
    if first & 0b1000_0000 != 0 {
        return huffman::decode(octets, out);
    }
    out.extend_from_slice(octets);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `block` with a table of 4096 octets.
    fn decoded(block: &[u8]) -> Result<Vec<(String, String)>, Error> {
        decoded_with(&mut Decoder::new(4096), block)
    }

    fn decoded_with(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, Error> {
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let mut fields = Vec::new();
        decoder.decode(block, &mut |name, value| {
            fields.push((text(name), text(value)));
        })?;
        Ok(fields)
    }

    fn field(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn an_empty_block_has_no_fields() {
        assert_eq!(decoded(&[]), Ok(vec![]));
    }

    #[test]
    fn an_empty_name_and_an_empty_value_are_strings_like_others() {
        assert_eq!(decoded(&[0x00, 0x00, 0x00]), Ok(vec![field("", "")]));
        assert_eq!(decoded(&[0x00, 0x80, 0x80]), Ok(vec![field("", "")]));
    }

    #[test]
    fn a_name_and_a_value_can_both_be_huffman_coded() {
        let block =
            b"\x00\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
        assert_eq!(
            decoded(block),
            Ok(vec![field("custom-key", "custom-value")])
        );
    }

    #[test]
    fn index_zero_and_an_index_beyond_the_end_are_errors() {
        assert_eq!(decoded(&[0x80]), Err(Error::Index));
        assert_eq!(decoded(&[0xbe]), Err(Error::Index));
        assert_eq!(decoded(&[0x7e, 0x00]), Err(Error::Index));
        assert_eq!(decoded(&[0x0f, 0x2f, 0x00]), Err(Error::Index));
        assert_eq!(decoded(b"\x7f\x81\xff\xff\x7f"), Err(Error::Index));
        assert_eq!(decoded(b"\xff\x80\x80\x80\x00"), Err(Error::Index));
    }

    #[test]
    fn an_integer_of_more_than_five_octets_is_an_error() {
        let too_long = b"\xff\x80\x80\x80\x80\x00";
        assert_eq!(decoded(too_long), Err(Error::IntegerTooLong), "an index");
        let length = [b"\x00", &too_long[..]].concat();
        assert_eq!(
            decoded(&length),
            Err(Error::IntegerTooLong),
            "a string's length"
        );
        let size = [b"\x3f", &too_long[1..]].concat();
        assert_eq!(decoded(&size), Err(Error::IntegerTooLong), "a table size");
    }

    #[test]
    fn a_string_longer_than_the_block_is_refused() {
        assert_eq!(decoded(b"\x00\x02a"), Err(Error::Truncated));
        assert_eq!(
            decoded(b"\x00\x01a\x7f\xff\xff\xff\x7f"),
            Err(Error::Truncated)
        );
        assert_eq!(decoded(b"\x00\xff\xff\xff\xff\x7f"), Err(Error::Truncated));
    }

    #[test]
    fn a_block_cut_anywhere_inside_a_field_is_truncated() {
        let block = b"\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x0ccustom-value";
        assert!(decoded(block).is_ok());
        for end in 1..block.len() {
            assert_eq!(
                decoded(&block[..end]),
                Err(Error::Truncated),
                "cut at {end}"
            );
        }
    }

    #[test]
    fn errors_in_a_huffman_coded_string_end_the_block() {
        assert_eq!(decoded(b"\x04\x81\x1e"), Err(Error::HuffmanPadding));
        assert_eq!(decoded(b"\x04\x81\xff"), Err(Error::HuffmanPadding));
        assert_eq!(decoded(b"\x04\x84\xff\xff\xff\xff"), Err(Error::HuffmanEos));
    }

    #[test]
    fn size_updates_come_first_in_a_block_and_there_may_be_several() {
        assert_eq!(
            decoded(b"\x20\x3f\xe1\x1f\x82"),
            Ok(vec![field(":method", "GET")])
        );
        assert_eq!(decoded(b"\x20\x20\x20\x20"), Ok(vec![]));
        assert_eq!(decoded(b"\x82\x20"), Err(Error::LateSizeUpdate));
        assert_eq!(decoded(b"\x20\x82\x20\x82"), Err(Error::LateSizeUpdate));
    }

    #[test]
    fn a_size_update_may_ask_for_what_we_allow_and_no_more() {
        assert_eq!(decoded(b"\x3f\xe1\x1f"), Ok(vec![]), "4096");
        assert_eq!(
            decoded(b"\x3f\xe2\x1f"),
            Err(Error::SizeUpdateAboveLimit),
            "4097"
        );
        let mut decoder = Decoder::new(0);
        assert_eq!(decoded_with(&mut decoder, b"\x20"), Ok(vec![]));
        assert_eq!(
            decoded_with(&mut decoder, b"\x21"),
            Err(Error::SizeUpdateAboveLimit)
        );
    }

    #[test]
    fn a_size_update_to_zero_empties_the_table() {
        let mut decoder = Decoder::new(4096);
        decoded_with(&mut decoder, b"\x40\x01a\x01b").unwrap();
        assert_eq!(
            decoded_with(&mut decoder, b"\xbe"),
            Ok(vec![field("a", "b")])
        );
        assert_eq!(
            decoded_with(&mut decoder, b"\x20\x3f\xe1\x1f\xbe"),
            Err(Error::Index)
        );
        decoded_with(&mut decoder, b"\x40\x01a\x01b").unwrap();
        assert_eq!(
            decoded_with(&mut decoder, b"\xbe"),
            Ok(vec![field("a", "b")])
        );
    }

    #[test]
    fn a_literal_to_index_works_with_a_table_of_zero() {
        let mut decoder = Decoder::new(0);
        let block = b"\x40\x07:status\x03200";
        assert_eq!(
            decoded_with(&mut decoder, block),
            Ok(vec![field(":status", "200")])
        );
        assert_eq!(decoded_with(&mut decoder, b"\xbe"), Err(Error::Index));
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut decoder = Decoder::new(64);
        decoded_with(&mut decoder, b"\x40\x01a\x01b").unwrap();
        let block = [b"\x40\x01c\x20", &[b'd'; 32][..]].concat();
        let value = "d".repeat(32);
        assert_eq!(
            decoded_with(&mut decoder, &block),
            Ok(vec![field("c", &value)])
        );
        assert_eq!(decoded_with(&mut decoder, b"\xbe"), Err(Error::Index));
    }

    #[test]
    fn a_name_survives_the_eviction_of_its_entry() {
        let mut decoder = Decoder::new(40);
        decoded_with(&mut decoder, b"\x40\x04name\x01a").unwrap();
        let fields = decoded_with(&mut decoder, b"\x7e\x02bb");
        assert_eq!(fields, Ok(vec![field("name", "bb")]));
        assert_eq!(
            decoded_with(&mut decoder, b"\xbe"),
            Ok(vec![field("name", "bb")])
        );
        assert_eq!(decoded_with(&mut decoder, b"\xbf"), Err(Error::Index));
    }

    #[test]
    fn a_large_entry_referred_to_many_times_costs_no_memory_here() {
        let mut decoder = Decoder::new(4096);
        let large = [b"\x40\x01a\x7f\xa1\x1e", &[b'.'; 4000][..]].concat();
        decoder.decode(&large, &mut |_, _| {}).unwrap();
        let before = decoder.mem_used();
        let mut seen = 0;
        decoder
            .decode(&[0xbe; 16_000], &mut |_, value| seen += value.len())
            .unwrap();
        assert_eq!(seen, 16_000 * 4000);
        assert_eq!(decoder.mem_used(), before);
        assert!(before <= 2 * 4096);
    }

    #[test]
    fn the_memory_of_a_long_literal_is_freed() {
        let mut decoder = Decoder::new(4096);
        let kept = decoded_with(&mut decoder, b"\x40\x01a\x01b");
        assert_eq!(kept, Ok(vec![field("a", "b")]));
        let long = [b"\x7f\x81\x7c", &[b'x'; 16_000][..]].concat();
        let block = [b"\x00", &long[..], &long].concat();
        assert!(decoded_with(&mut decoder, &block).is_ok());
        assert!(decoder.mem_used() <= 2 * 4096);
        assert_eq!(decoded_with(&mut decoder, b"\xbe"), kept);
        let cut = decoded_with(&mut decoder, &block[..block.len() - 1]);
        assert_eq!(cut, Err(Error::Truncated));
        assert!(decoder.mem_used() <= 2 * 4096);
    }

    #[test]
    fn a_decoder_holds_no_memory_before_the_first_literal() {
        let mut decoder = Decoder::new(4096);
        decoder.decode(b"\x20\x88\x8d", &mut |_, _| {}).unwrap();
        assert_eq!(decoder.mem_used(), 0);
    }

    #[test]
    fn debug_output_omits_the_contents_of_the_table() {
        let mut decoder = Decoder::new(4096);
        decoded_with(&mut decoder, b"\x40\x05token\x06secret").unwrap();
        let shown = format!("{decoder:?}");
        assert!(shown.contains("max_table_size: 4096"), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn octets_of_any_kind_are_decoded_or_refused() {
        let mut random = 1_u64;
        let mut next = move |end: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % 0xffff_ffff).unwrap() % end
        };
        // Fields of every representation, so that much of a block is still valid after a few octets
        // are changed.
        let honest = [
            &b"\x20\x3f\xe1\x01\x88\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x03abc"[..],
            b"\xbe\x7e\x02de\x0f\x10\x10application/grpc\x10\x01n\x86\xa8\xeb\x10\x64\x9c\xbf",
        ]
        .concat();
        let mut decoder = Decoder::new(256);
        assert!(decoder.decode(&honest, &mut |_, _| {}).is_ok());
        for _ in 0..50_000 {
            let mut block = honest.clone();
            for _ in 0..next(4) {
                let at = next(block.len());
                block[at] = u8::try_from(next(256)).unwrap();
            }
            block.truncate(next(block.len() + 1));
            let mut longest = 0;
            let _ = decoder.decode(&block, &mut |name, value| {
                longest = longest.max(name.len()).max(value.len());
            });
            assert!(longest <= 256, "{longest} octets from {}", block.len());
            assert!(
                decoder.mem_used() <= 2 * 256,
                "{} octets",
                decoder.mem_used()
            );
        }
    }
}
