//! HTTP/2 on the wire, written by hand (RFC 9113 §4 and §6, RFC 7541 §6.2.2).
//!
//! It shares no code with what is fuzzed, and does not validate: targets can break any rule.

pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const PRIORITY: u8 = 0x2;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PUSH_PROMISE: u8 = 0x5;
pub(super) const PING: u8 = 0x6;
pub(super) const GOAWAY: u8 = 0x7;
pub(super) const WINDOW_UPDATE: u8 = 0x8;
pub(super) const CONTINUATION: u8 = 0x9;

/// The flag of SETTINGS and PING.
pub(super) const ACK: u8 = 0x1;
/// The flag of DATA and HEADERS.
pub(super) const END_STREAM: u8 = 0x1;
/// The flag of HEADERS and CONTINUATION.
pub(super) const END_HEADERS: u8 = 0x4;
/// The flag of DATA and HEADERS.
pub(super) const PADDED: u8 = 0x8;
/// The flag of HEADERS.
pub(super) const WITH_PRIORITY: u8 = 0x20;

/// The client connection preface.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns a frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length");
    let [_, length @ ..] = length.to_be_bytes();
    let head = [&length[..], &[kind, flags], &stream.to_be_bytes()];
    [&head.concat(), payload].concat()
}

/// Returns a SETTINGS frame.
pub(super) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let entry = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let payload: Vec<u8> = values.iter().flat_map(entry).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// Returns a HEADERS frame with the whole block.
pub(super) fn headers(stream: u32, fields: &[(&[u8], &[u8])], flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block(fields))
}

/// Returns a header block of literals that are not indexed.
pub(super) fn block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        string(name, &mut block);
        string(value, &mut block);
    }
    block
}

/// Encodes a string without Huffman code: its length with a prefix of seven bits, and its octets.
fn string(octets: &[u8], out: &mut Vec<u8>) {
    integer(octets.len(), 7, 0, out);
    out.extend(octets);
}

/// Encodes an integer with a prefix of this many bits, below the bits in `above` (RFC 7541 §5.1).
pub(super) fn integer(value: usize, prefix: u32, above: u8, out: &mut Vec<u8>) {
    let largest = (1 << prefix) - 1;
    if value < largest {
        out.push(above | low_octet(value));
        return;
    }
    out.push(above | low_octet(largest));
    let mut rest = value - largest;
    while rest >= 0x80 {
        out.push(0x80 | low_octet(rest % 0x80));
        rest /= 0x80;
    }
    out.push(low_octet(rest));
}

/// Returns a gRPC message: a zero for "not compressed", its length, and its octets.
pub(super) fn message(octets: &[u8]) -> Vec<u8> {
    let length = u32::try_from(octets.len()).expect("a message's length");
    [&[0][..], &length.to_be_bytes(), octets].concat()
}

fn low_octet(value: usize) -> u8 {
    value.to_le_bytes()[0]
}
