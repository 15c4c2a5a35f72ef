//! An HTTP/1.1 response, decoded as its bytes arrive.
//!
//! Pure. The body may be chunked, have a length, or end with the connection; the caller gets its
//! octets in whatever pieces they arrive. Trailers and all bytes after the body are ignored: each
//! request has a connection of its own. Other programs than plugind may own the socket: whatever
//! they send is an error or a short text.

use std::str;

/// The decoder of one response.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The status code, or 0 before the head is complete.
    status: u16,
    is_chunked: bool,
    /// The number of octets that are left of the body, or of the chunk.
    left: u64,
    /// Whether the line end after a chunk is next.
    is_chunk_end: bool,
    is_done: bool,
    /// The bytes that were received and not decoded yet: part of a head or of a chunk's size.
    raw: Vec<u8>,
}

/// The reason why a response cannot be decoded.
pub(super) type Fault = &'static str;

const NOT_HTTP: Fault = "the response is not HTTP; does another program own the socket?";
const LONG_HEAD: Fault = "the head of the response is longer than 16 KiB";
const FRAMING: Fault = "the framing of the response is invalid";
const NO_RESPONSE: Fault = "the connection was closed without a response";
pub(super) const TRUNCATED: Fault = "the connection was closed within the response";

impl Decoder {
    /// Returns the status code once the head is complete, else 0.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Returns whether the body is complete.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Decodes received bytes and appends those of the body to `body`.
    pub(super) fn receive(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), Fault> {
        self.raw.extend_from_slice(bytes);
        while !self.is_done {
            let used = if self.status == 0 {
                self.head()?
            } else if self.left > 0 {
                let len = self.raw.len();
                let len = usize::try_from(self.left).map_or(len, |left| left.min(len));
                body.extend_from_slice(&self.raw[..len]);
                self.left -= len as u64;
                self.is_chunk_end = self.is_chunked && self.left == 0;
                len
            } else if self.is_chunked {
                self.chunk_size()?
            } else {
                self.is_done = true;
                0
            };
            if used == 0 {
                break;
            }
            self.raw.drain(..used);
        }
        Ok(())
    }

    /// Handles the end of the connection.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        if self.is_done || self.left > UNTIL_END / 2 {
            self.is_done = true;
            return Ok(());
        }
        let is_empty = self.status == 0 && self.raw.is_empty();
        Err(if is_empty { NO_RESPONSE } else { TRUNCATED })
    }

    /// Decodes the head. Returns its length, or 0 if more bytes are needed.
    fn head(&mut self) -> Result<usize, Fault> {
        let begun = self.raw.len().min(VERSION.len());
        if self.raw[..begun] != VERSION[..begun] {
            return Err(NOT_HTTP);
        }
        let Some(end) = self.raw.windows(4).position(|it| it == b"\r\n\r\n") else {
            let is_long = self.raw.len() > MAX_HEAD;
            return if is_long { Err(LONG_HEAD) } else { Ok(0) };
        };
        let head = str::from_utf8(&self.raw[..end]).map_err(|_| NOT_HTTP)?;
        let head = head.to_ascii_lowercase();
        self.left = UNTIL_END;
        for field in head.lines() {
            match field
                .split_once(':')
                .map(|(name, value)| (name, value.trim()))
            {
                Some(("transfer-encoding", "chunked")) => (self.is_chunked, self.left) = (true, 0),
                Some(("transfer-encoding", _)) => return Err(FRAMING),
                Some(("content-length", length)) => {
                    self.left = length.parse().map_err(|_| FRAMING)?;
                }
                _ => {}
            }
        }
        let status = head.get(VERSION.len() + 2..VERSION.len() + 5);
        let status = status.and_then(|status| status.parse().ok());
        self.status = status.filter(|it| *it >= 200).ok_or(NOT_HTTP)?;
        Ok(end + 4)
    }

    /// Decodes the line with the size of a chunk, after the line end of the chunk before. Returns
    /// its length, or 0 if more bytes are needed. The chunk of size zero is the last one.
    fn chunk_size(&mut self) -> Result<usize, Fault> {
        if self.is_chunk_end {
            let begun = self.raw.len().min(2);
            if self.raw[..begun] != b"\r\n"[..begun] {
                return Err(FRAMING);
            }
            self.is_chunk_end = begun < 2;
            return Ok(if begun < 2 { 0 } else { 2 });
        }
        let Some(end) = self.raw.windows(2).position(|it| it == b"\r\n") else {
            let is_long = self.raw.len() > MAX_CHUNK_LINE;
            return if is_long { Err(FRAMING) } else { Ok(0) };
        };
        let line = str::from_utf8(&self.raw[..end]).map_err(|_| FRAMING)?;
        let size = line.split(';').next().unwrap_or_default().trim_end();
        self.left = u64::from_str_radix(size, 16).map_err(|_| FRAMING)?;
        self.is_done = self.left == 0;
        Ok(end + 2)
    }
}

/// The beginning of a response.
const VERSION: &[u8] = b"HTTP/1.";

/// The number of octets of a body that ends with the connection, before the first of them.
const UNTIL_END: u64 = u64::MAX;

/// The maximum length of a head, which is about 150 bytes from plugind (bytes).
const MAX_HEAD: usize = 16 * 1024;

/// The maximum length of the line with the size of a chunk (bytes).
const MAX_CHUNK_LINE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a response that arrives in these pieces, and the end of the connection if `ends`.
    fn decode(pieces: &[&[u8]], ends: bool) -> Result<(u16, String, bool), Fault> {
        let mut decoder = Decoder::default();
        let mut body = Vec::new();
        for piece in pieces {
            decoder.receive(piece, &mut body)?;
        }
        if ends {
            decoder.end()?;
        }
        let body = String::from_utf8(body).unwrap();
        Ok((decoder.status(), body, decoder.is_done()))
    }

    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
        Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n00c;ext=1\r\n, wide\r\nworl\r\n1\r\nd\r\n0\r\n\r\n";

    #[test]
    fn a_body_is_the_same_wherever_its_bytes_are_split() {
        let fixed = b"HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n\r\n{\"error\":1}\n";
        let until_end = b"HTTP/1.0 200 OK\r\n\r\n0\r\nfree text";
        let empty = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        for (bytes, status, body) in [
            (CHUNKED, 200, "hello, wide\r\nworld"),
            (fixed, 404, "{\"error\":1}\n"),
            (until_end, 200, "0\r\nfree text"),
            (empty, 200, ""),
        ] {
            let expected = Ok((status, body.to_owned(), true));
            for at in 0..=bytes.len() {
                let (one, two) = bytes.split_at(at);
                assert_eq!(decode(&[one, two], true), expected, "split at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decode(&single, true), expected);
        }
    }

    #[test]
    fn a_body_with_a_length_or_chunks_ends_before_the_connection_does() {
        let fixed = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 surplus";
        let (_, body, is_done) = decode(&[fixed], false).unwrap();
        assert_eq!((&*body, is_done), ("ok", true));
        let (_, body, is_done) = decode(&[CHUNKED, b"surplus"], false).unwrap();
        assert_eq!((&*body, is_done), ("hello, wide\r\nworld", true));
    }

    #[test]
    fn half_a_response_is_not_a_whole_one() {
        let last = CHUNKED.len() - b"0\r\n\r\n".len();
        for at in 0..=last {
            let fault = decode(&[&CHUNKED[..at]], true).unwrap_err();
            let expected = if at == 0 { NO_RESPONSE } else { TRUNCATED };
            assert_eq!(fault, expected, "cut at {at}");
        }
    }

    #[test]
    fn what_is_not_a_response_is_refused() {
        let long = [&b"HTTP/1.1 200 OK\r\nA: "[..], &vec![b'a'; 20_000]].concat();
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding:";
        let chunked = format!("{head} chunked\r\n\r\n");
        for (bytes, expected) in [
            (&b"SSH-2.0-OpenSSH\r\n"[..], NOT_HTTP),
            (b"HTTP/2 200\r\n\r\n", NOT_HTTP),
            (b"\x00\x00\x12\x04\x00\x00", NOT_HTTP),
            (&long, LONG_HEAD),
            (format!("{head} gzip\r\n\r\n").as_bytes(), FRAMING),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", FRAMING),
            (format!("{chunked}x\r\n").as_bytes(), FRAMING),
            (
                format!("{chunked}ffffffffffffffffff\r\n").as_bytes(),
                FRAMING,
            ),
            (format!("{chunked}1\r\nabc").as_bytes(), FRAMING),
            (
                format!("{chunked}1;{}", "x".repeat(300)).as_bytes(),
                FRAMING,
            ),
        ] {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
            assert_eq!(decode(&[bytes], false), Err(expected), "{shown:?}");
        }
    }
}
