//! Header compression, inward: any sequence of blocks decodes to fields or to an error, within
//! bounds. It is compared with a naive dynamic table, and by the fuzzer with another decoder.

use plugind::hpack::{Decoder, Error};

use super::input::Input;
use super::naive_table;

/// Names and values.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The dynamic table that the peer may use, as in SETTINGS (octets).
pub const TABLE: usize = 4096;

/// Decodes the octets as blocks.
pub fn check(bytes: &[u8]) {
    decode(&blocks(bytes));
    naive_table::check(bytes);
}

/// Splits the octets into header blocks.
pub fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let mut input = Input::new(bytes);
    let mut blocks = Vec::new();
    while !input.is_empty() {
        blocks.push(input.short());
    }
    blocks
}

/// Returns the fields or the error of each block, up to the first error.
pub fn decode(blocks: &[&[u8]]) -> Vec<Result<Fields, Error>> {
    let mut decoder = Decoder::new(TABLE);
    let mut decoded = Vec::new();
    for block in blocks {
        let fields = fields(&mut decoder, block);
        assert!(decoder.mem_used() <= 2 * TABLE, "a table within its bound");
        let is_over = fields.is_err();
        decoded.push(fields);
        if is_over {
            break;
        }
    }
    decoded
}

/// Returns the fields of one block.
pub(super) fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Error> {
    let mut fields = Fields::new();
    let result = decoder.decode(block, &mut |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
    });
    assert!(fields.len() <= block.len(), "a field takes an octet");
    result.map(|()| fields)
}
