//! HTTP/2 on the wire, written by hand (RFC 9113 §4 and §6, RFC 7541 §6.2.2).
//!
//! It shares no code with what is tested, and does not validate: tests can break any rule.

pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const PRIORITY: u8 = 0x2;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PUSH_PROMISE: u8 = 0x5;
pub(crate) const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const WINDOW_UPDATE: u8 = 0x8;
pub(crate) const CONTINUATION: u8 = 0x9;

/// The flag of SETTINGS and PING.
pub(crate) const ACK: u8 = 0x1;
/// The flag of DATA and HEADERS.
pub(crate) const END_STREAM: u8 = 0x1;
/// The flag of HEADERS and CONTINUATION.
pub(crate) const END_HEADERS: u8 = 0x4;
/// The flag of DATA and HEADERS.
pub(crate) const PADDED: u8 = 0x8;
/// The flag of HEADERS.
pub(crate) const WITH_PRIORITY: u8 = 0x20;

/// The headers of a gRPC answer.
pub(crate) const ANSWER: [(&[u8], &[u8]); 2] =
    [(b":status", b"200"), (b"content-type", b"application/grpc")];

/// The largest frame that every peer accepts (octets).
pub(crate) const LARGEST_FRAME: usize = 16_384;

/// Returns the first octets of a client.
pub(crate) fn greeting() -> Vec<u8> {
    [PREFACE, &settings(&[])].concat()
}

/// The length of a frame's head (octets).
const HEAD: usize = 9;

/// The client connection preface.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length");
    let [_, length @ ..] = length.to_be_bytes();
    let head = [&length[..], &[kind, flags], &stream.to_be_bytes()];
    [&head.concat(), payload].concat()
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// The length of the payload (octets).
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

/// Returns the head of the first frame, once it is complete.
pub(crate) fn head(octets: &[u8]) -> Option<Head> {
    let [l1, l2, l3, kind, flags, s1, s2, s3, s4] = *octets.first_chunk()?;
    Some(Head {
        length: u32::from_be_bytes([0, l1, l2, l3]) as usize,
        kind,
        flags,
        stream: u32::from_be_bytes([s1, s2, s3, s4]),
    })
}

/// Removes the first frame, once it is complete. Returns its head and its payload.
pub(crate) fn take(octets: &mut Vec<u8>) -> Option<(Head, Vec<u8>)> {
    let head = head(octets)?;
    let end = HEAD + head.length;
    let frame = (octets.len() >= end).then(|| octets.drain(..end));
    Some((head, frame?.skip(HEAD).collect()))
}

/// Returns a SETTINGS frame.
pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let entry = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let payload: Vec<u8> = values.iter().flat_map(entry).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// Returns a HEADERS frame with the whole block.
pub(crate) fn headers(stream: u32, fields: &[(&[u8], &[u8])], flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block(fields))
}

/// Returns the HEADERS frame of a gRPC call, without a timeout if that is empty.
pub(crate) fn call(stream: u32, path: &str, content_type: &[u8], timeout: &[u8]) -> Vec<u8> {
    let fields = [
        (&b":method"[..], &b"POST"[..]),
        (b":scheme", b"http"),
        (b":path", path.as_bytes()),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", content_type),
        (b"grpc-timeout", timeout),
    ];
    let count = if timeout.is_empty() { 6 } else { 7 };
    headers(stream, &fields[..count], 0)
}

/// Returns a header block in a HEADERS frame and as many CONTINUATION frames as it needs.
pub(crate) fn fragments(stream: u32, block: &[u8]) -> Vec<u8> {
    let last = block.len().saturating_sub(1) / LARGEST_FRAME;
    let fragments = block.chunks(LARGEST_FRAME).enumerate();
    let frames = fragments.flat_map(|(at, fragment)| {
        let kind = if at == 0 { HEADERS } else { CONTINUATION };
        let end = if at == last { END_HEADERS } else { 0 };
        frame(kind, end, stream, fragment)
    });
    frames.collect()
}

/// Returns a header block of literals that are not indexed.
pub(crate) fn block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        string(name, &mut block);
        string(value, &mut block);
    }
    block
}

/// Encodes a string without Huffman code: its length with a prefix of seven bits, and its octets.
pub(crate) fn string(octets: &[u8], out: &mut Vec<u8>) {
    integer(octets.len(), 7, 0, out);
    out.extend(octets);
}

/// Encodes an integer with a prefix of this many bits, below the bits in `above` (RFC 7541 §5.1).
pub(crate) fn integer(value: usize, prefix: u32, above: u8, out: &mut Vec<u8>) {
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
pub(crate) fn message(octets: &[u8]) -> Vec<u8> {
    let length = u32::try_from(octets.len()).expect("a message's length");
    [&[0][..], &length.to_be_bytes(), octets].concat()
}

fn low_octet(value: usize) -> u8 {
    value.to_le_bytes()[0]
}
