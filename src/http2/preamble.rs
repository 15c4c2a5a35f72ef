//! The first octets that a peer sends, and what it is when they are no HTTP/2.
//!
//! Pure. RFC 9113 §3.4: "The server connection preface consists of a potentially empty SETTINGS
//! frame that MUST be the first frame the server sends in the HTTP/2 connection." Whoever sends
//! something else is told apart here for the human who has to find out what listens there.

use std::fmt;

use super::frame::{Head, Kind, flag};
use super::settings::MIN_FRAME;
use crate::escape;

/// What came instead of HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preamble {
    /// Nothing: the peer closed the connection.
    Nothing,
    /// An answer in HTTP/1, with its status where that could be read.
    Http1(Option<u16>),
    /// TLS.
    Tls,
    /// Something else; its first octets, as far as they had come when they were looked at.
    Other(Vec<u8>),
}

/// What the first octets are so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The head of a SETTINGS frame.
    Http2,
    /// Too few to tell.
    Unknown,
    /// Something else.
    Not(Preamble),
}

/// Judges the first octets; `ended` when no more will come.
pub(super) fn judge(octets: &[u8], ended: bool) -> Verdict {
    match octets.first_chunk() {
        Some(head) if is_settings(Head::parse(*head)) => Verdict::Http2,
        None if !ended => Verdict::Unknown,
        _ if octets.starts_with(HTTP1) => judge_http1(octets, ended),
        _ => Verdict::Not(instead(octets)),
    }
}

/// Whether a frame is one that a server begins with.
fn is_settings(head: Head) -> bool {
    head.kind == Kind::Settings
        && !head.has(flag::ACK)
        && head.stream == 0
        && head.length <= MIN_FRAME
}

/// Judges an HTTP/1 answer, whose status line may not be complete.
fn judge_http1(octets: &[u8], ended: bool) -> Verdict {
    let mut answer = httparse::Response::new(&mut []);
    // Only the status line is of interest: that the headers do not fit is no error.
    let _ = answer.parse(&octets[..octets.len().min(STATUS_LINE)]);
    let is_undecided = answer.code.is_none() && octets.len() < STATUS_LINE;
    if is_undecided && !ended {
        return Verdict::Unknown;
    }
    Verdict::Not(Preamble::Http1(answer.code))
}

/// Names what neither HTTP/2 nor HTTP/1 begins with.
fn instead(octets: &[u8]) -> Preamble {
    match octets {
        [] => Preamble::Nothing,
        // A TLS record: an alert or a handshake, of any version from SSL 3 to TLS 1.3.
        [0x15 | 0x16, 0x03, 0x00..=0x04, ..] => Preamble::Tls,
        _ => Preamble::Other(octets[..octets.len().min(KEPT)].to_vec()),
    }
}

impl fmt::Display for Preamble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("it closed the connection without a word"),
            Self::Http1(Some(status)) => write!(f, "it answers in HTTP/1, status {status}"),
            Self::Http1(None) => f.write_str("it answers in HTTP/1"),
            Self::Tls => f.write_str("it speaks TLS"),
            Self::Other(octets) => write!(f, "it says \"{}\"", escape::bytes(octets)),
        }
    }
}

/// What every answer in HTTP/1.0 and HTTP/1.1 begins with.
const HTTP1: &[u8] = b"HTTP/1.";

/// How much of an HTTP/1 answer may go by before its status is given up on (octets).
const STATUS_LINE: usize = 64;

/// How much is kept of what is neither: enough to recognise it, too little to fill a log (octets).
const KEPT: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_begins_with_settings_that_acknowledge_nothing() {
        assert_eq!(judge(b"\0\0\0\x04\0\0\0\0\0", false), Verdict::Http2);
        assert_eq!(
            judge(b"\0\0\x06\x04\0\0\0\0\0\0\x03", false),
            Verdict::Http2
        );
        let others: [&[u8]; 4] = [
            b"\0\0\0\x04\x01\0\0\0\0",         // an acknowledgement
            b"\0\0\0\x04\0\0\0\0\x01",         // on a stream
            b"\0\0\x08\x06\0\0\0\0\0",         // PING
            b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0", // GOAWAY
        ];
        for other in others {
            assert_eq!(
                judge(other, false),
                Verdict::Not(Preamble::Other(other.to_vec()))
            );
        }
    }

    #[test]
    fn an_answer_in_http1_is_told_with_its_status() {
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(
            judge(answer, false),
            Verdict::Not(Preamble::Http1(Some(404)))
        );
        assert_eq!(judge(&answer[..10], false), Verdict::Unknown);
        assert_eq!(
            judge(&answer[..10], true),
            Verdict::Not(Preamble::Http1(None))
        );
        let endless = b"HTTP/1.1 ".repeat(20);
        assert_eq!(judge(&endless, false), Verdict::Not(Preamble::Http1(None)));
    }

    #[test]
    fn tls_garbage_and_silence_are_told_apart() {
        let tls = b"\x15\x03\x01\0\x02\x02\x46\0\0";
        assert_eq!(judge(tls, false), Verdict::Not(Preamble::Tls));
        assert_eq!(judge(b"", true), Verdict::Not(Preamble::Nothing));
        assert_eq!(judge(b"", false), Verdict::Unknown);
        assert_eq!(
            judge(b"SSH", true),
            Verdict::Not(Preamble::Other(b"SSH".to_vec()))
        );
        let Verdict::Not(Preamble::Other(kept)) = judge(&[b'x'; 1000], false) else {
            panic!("garbage");
        };
        assert_eq!(kept, [b'x'; KEPT]);
    }
}
