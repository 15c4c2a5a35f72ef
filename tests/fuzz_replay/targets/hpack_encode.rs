//! Header compression, outward: any fields that we encode decode to the same fields.

use plugind::hpack::{Decoder, Encoder};

use super::hpack_decode::{self, Fields};
use super::input::Input;

/// Encodes fields and decodes them with our own decoder.
pub fn check(bytes: &[u8]) {
    let (fields, block) = encode(bytes);
    let mut decoder = Decoder::new(0);
    assert_eq!(hpack_decode::fields(&mut decoder, &block), Ok(fields));
    assert_eq!(decoder.mem_used(), 0);
}

/// Turns the octets into fields, and encodes them.
pub fn encode(bytes: &[u8]) -> (Fields, Vec<u8>) {
    let mut input = Input::new(bytes);
    let mut fields = Fields::new();
    while !input.is_empty() {
        let name = match input.below(2 * KNOWN.len()) {
            known if known < KNOWN.len() => KNOWN[known].as_bytes(),
            _ => input.short(),
        };
        let times = input.pick(&[1, 1, 1, 70]);
        fields.push((name.to_vec(), input.short().repeat(times)));
    }
    let mut block = Vec::new();
    let mut encoder = Encoder::begin(&mut block);
    for (name, value) in &fields {
        encoder.field(name, value);
    }
    (fields, block)
}

/// Names of the static table: at its ends, and one with several entries.
const KNOWN: [&str; 6] = [
    ":authority",
    ":method",
    ":status",
    "accept-charset",
    "content-type",
    "www-authenticate",
];
