//! An HTTP/1.1 response, decoded as its bytes arrive.
//!
//! Pure. The body may be chunked, have a length, or end with the connection; the caller gets its
//! octets in whatever pieces they arrive. Trailers and all bytes after the body are ignored: each
//! request has a connection of its own. Other programs than plugind may own the socket: whatever
//! they send is an error or a short text.

use std::str;

use httparse::{EMPTY_HEADER, Response, Status, parse_chunk_size};

/// The decoder of one response.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The status code, or 0 before the head is complete.
    pub(super) status: u16,
    framing: Framing,
    /// Whether the body is complete.
    pub(super) is_done: bool,
    /// The bytes that were received and not decoded yet: part of a head or of a chunk.
    raw: Vec<u8>,
}

/// The end of a body.
#[derive(Debug, Default)]
enum Framing {
    /// It ends with the connection.
    #[default]
    Connection,
    /// It ends after this number of octets.
    Length(usize),
    /// It ends with a chunk of size zero.
    Chunks,
}

/// The reason why a response cannot be decoded.
pub(super) type Fault = &'static str;

const NOT_HTTP: Fault = "the response is not HTTP; does another program own the socket?";
const LONG_HEAD: Fault = "the head of the response is longer than 16 KiB or 64 fields";
const FRAMING: Fault = "the framing of the response is invalid";
const NO_RESPONSE: Fault = "the connection was closed without a response";
pub(super) const TRUNCATED: Fault = "the connection was closed within the response";

impl Decoder {
    /// Decodes received bytes and appends those of the body to `body`.
    pub(super) fn receive(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), Fault> {
        self.raw.extend_from_slice(bytes);
        if self.status == 0 {
            self.decode_head()?;
        }
        match &mut self.framing {
            _ if self.status == 0 => {}
            Framing::Connection => body.append(&mut self.raw),
            Framing::Length(left) => {
                let len = self.raw.len().min(*left);
                body.extend(self.raw.drain(..len));
                *left -= len;
                self.is_done = *left == 0;
            }
            Framing::Chunks => while !self.is_done && self.decode_chunk(body)? {},
        }
        Ok(())
    }

    /// Handles the end of the connection.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        match self.framing {
            _ if self.is_done => Ok(()),
            Framing::Connection if self.status > 0 => {
                self.is_done = true;
                Ok(())
            }
            _ if self.status == 0 && self.raw.is_empty() => Err(NO_RESPONSE),
            _ => Err(TRUNCATED),
        }
    }

    /// Decodes the head if it is complete.
    fn decode_head(&mut self) -> Result<(), Fault> {
        let mut fields = [EMPTY_HEADER; MAX_FIELDS];
        let mut head = Response::new(&mut fields);
        let len = match head.parse(&self.raw) {
            Ok(Status::Complete(len)) => len,
            Ok(Status::Partial) if self.raw.len() > MAX_HEAD => return Err(LONG_HEAD),
            Ok(Status::Partial) => return Ok(()),
            Err(httparse::Error::TooManyHeaders) => return Err(LONG_HEAD),
            Err(_) => return Err(NOT_HTTP),
        };
        for field in head.headers.iter() {
            let value = str::from_utf8(field.value).map_err(|_| NOT_HTTP)?;
            if field.name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case("chunked") {
                    return Err(FRAMING);
                }
                self.framing = Framing::Chunks;
            } else if field.name.eq_ignore_ascii_case("content-length") {
                self.framing = Framing::Length(value.parse().map_err(|_| FRAMING)?);
            }
        }
        let status = head.code.filter(|status| *status >= 200);
        self.status = status.ok_or(NOT_HTTP)?;
        self.raw.drain(..len);
        Ok(())
    }

    /// Decodes a chunk with the line end behind it. Returns `false` if more bytes are needed.
    fn decode_chunk(&mut self, body: &mut Vec<u8>) -> Result<bool, Fault> {
        let (begin, size) = match parse_chunk_size(&self.raw).map_err(|_| FRAMING)? {
            Status::Complete(found) => found,
            Status::Partial if self.raw.len() > MAX_CHUNK_LINE => return Err(FRAMING),
            Status::Partial => return Ok(false),
        };
        let size = usize::try_from(size).ok().filter(|size| *size <= MAX_CHUNK);
        let end = begin + size.ok_or(FRAMING)?;
        if end == begin {
            self.is_done = true;
            return Ok(true);
        }
        match self.raw.get(end..end + 2) {
            None => Ok(false),
            Some(b"\r\n") => {
                body.extend_from_slice(&self.raw[begin..end]);
                self.raw.drain(..end + 2);
                Ok(true)
            }
            Some(_) => Err(FRAMING),
        }
    }
}

/// The maximum number of fields in a head; plugind sends about five.
const MAX_FIELDS: usize = 64;

/// The maximum length of a head, which is about 150 bytes from plugind (bytes).
const MAX_HEAD: usize = 16 * 1024;

/// The maximum length of the line with the size of a chunk (bytes).
const MAX_CHUNK_LINE: usize = 256;

/// The maximum length of a chunk, which is kept until it is complete: that of a document (bytes).
const MAX_CHUNK: usize = 64 * 1024 * 1024;

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
        Ok((decoder.status, body, decoder.is_done))
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
