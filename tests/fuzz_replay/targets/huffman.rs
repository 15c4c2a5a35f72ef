//! Huffman code: any octets decode to a string or to an error. The fuzzer also compares it with
//! another encoder.

use plugind::hpack::{Decoder, Error};

use super::wire;

/// Decodes the octets as a string.
pub fn check(bytes: &[u8]) {
    if let Ok(value) = decode(bytes) {
        // RFC 7541, appendix B: the shortest code has 5 bits, the longest 30.
        assert!(value.len() <= bytes.len() * 8 / 5);
        assert!(value.len() >= bytes.len().saturating_sub(1) * 8 / 30);
    }
}

/// Decodes a string with this code.
pub fn decode(code: &[u8]) -> Result<Vec<u8>, Error> {
    let mut value = Vec::new();
    let mut decoder = Decoder::new(0);
    decoder
        .decode(&block(code), &mut |_, decoded| value = decoded.to_vec())
        .map(|()| value)
}

/// Returns a header block with one field, whose value has this code.
fn block(code: &[u8]) -> Vec<u8> {
    let mut block = b"\x00\x01n".to_vec();
    wire::integer(code.len(), 7, 0x80, &mut block);
    block.extend(code);
    block
}
