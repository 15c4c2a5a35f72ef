//! Detects the peer's protocol from its first octets: HTTP/2, by the connection preface, or another
//! one.
//!
//! RFC 9113 §3.4: "The server connection preface consists of a potentially empty SETTINGS frame
//! [...] that MUST be the first frame the server sends in the HTTP/2 connection." The preface of a
//! client starts with 24 more octets. Other protocols are recognised here, so that errors can name
//! them.

use super::frame::{Head, INITIAL_MAX_FRAME_SIZE, flag};
use super::frame_type::FrameType;
use super::other_protocol::OtherProtocol;

/// Whether the peer's preface was received up to the head of its SETTINGS frame; `false` if more
/// octets are needed. The error is another protocol.
pub(super) type Detected = Result<bool, OtherProtocol>;

/// Detects the protocol from the first octets of a server; `ended` means that the input has ended.
pub(super) fn detect_server_protocol(octets: &[u8], ended: bool) -> Detected {
    if octets.starts_with(HTTP1) {
        return detect_http1_response(octets, ended);
    }
    detect_settings(octets, ended)
}

/// Detects the protocol from the first octets of a client; `ended` means that the input has ended.
///
/// RFC 9113 §3.4: "The client connection preface starts with a sequence of 24 octets [...]. This
/// sequence MUST be followed by a SETTINGS frame [...], which MAY be empty."
pub(super) fn detect_client_protocol(octets: &[u8], ended: bool) -> Detected {
    if let Some(behind) = octets.strip_prefix(CLIENT_PREFACE) {
        return detect_settings(behind, ended);
    }
    if CLIENT_PREFACE.starts_with(octets) && !ended {
        return Ok(false);
    }
    detect_http1_request(octets, ended)
}

/// Checks that `octets` begin with the head of a SETTINGS frame without ACK.
fn detect_settings(octets: &[u8], ended: bool) -> Detected {
    let Some(head) = octets.first_chunk() else {
        return if ended {
            Err(classify_other(octets))
        } else {
            Ok(false)
        };
    };
    match Head::parse(*head) {
        Head {
            kind: FrameType::SETTINGS,
            stream: 0,
            length: ..=INITIAL_MAX_FRAME_SIZE,
            flags,
        } if flags & flag::ACK == 0 => Ok(true),
        _ => Err(classify_other(octets)),
    }
}

/// Detects the status of an HTTP/1 response, whose status line may be incomplete.
fn detect_http1_response(octets: &[u8], ended: bool) -> Detected {
    let mut answer = httparse::Response::new(&mut []);
    // Only the status line matters: the error for headers that do not fit is ignored.
    let _ = answer.parse(&octets[..octets.len().min(STATUS_LINE)]);
    if answer.code.is_none() && octets.len() < STATUS_LINE && !ended {
        return Ok(false);
    }
    Err(OtherProtocol::Http1(answer.code))
}

/// Detects an HTTP/1 request, whose first line may be incomplete, or classifies another protocol.
fn detect_http1_request(octets: &[u8], ended: bool) -> Detected {
    let mut request = httparse::Request::new(&mut []);
    let parsed = request.parse(&octets[..octets.len().min(STATUS_LINE)]);
    if request.version.is_some() {
        return Err(OtherProtocol::Http1Request);
    }
    let may_be_http1 = parsed.is_ok() && octets.len() < STATUS_LINE;
    // The type of a TLS record and its version take three octets.
    let may_be_tls = octets.len() < 3;
    if (may_be_http1 || may_be_tls) && !ended {
        return Ok(false);
    }
    Err(classify_other(octets))
}

/// Classifies first octets that are neither HTTP/2 nor HTTP/1.
fn classify_other(octets: &[u8]) -> OtherProtocol {
    match octets {
        [] => OtherProtocol::Nothing,
        // A TLS record: an alert or a handshake, of any version from SSL 3 to TLS 1.3.
        [0x15 | 0x16, 0x03, 0x00..=0x04, ..] => OtherProtocol::Tls,
        _ => OtherProtocol::Other(octets[..octets.len().min(KEPT)].to_vec()),
    }
}

/// The octets that a client sends before its first frame (RFC 9113 §3.4).
pub(super) const CLIENT_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The beginning of every response in HTTP/1.0 and HTTP/1.1.
const HTTP1: &[u8] = b"HTTP/1.";

/// The number of octets that are searched for the status of an HTTP/1 response, or for the version
/// of a request.
const STATUS_LINE: usize = 64;

/// The number of octets kept of an unknown protocol: enough to recognise it, too few to fill a log.
const KEPT: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_begins_with_settings_that_acknowledge_nothing() {
        assert_eq!(
            detect_server_protocol(b"\0\0\0\x04\0\0\0\0\0", false),
            Ok(true)
        );
        assert_eq!(
            detect_server_protocol(b"\0\0\x06\x04\0\0\0\0\0\0\x03", false),
            Ok(true)
        );
        let others: [&[u8]; 4] = [
            b"\0\0\0\x04\x01\0\0\0\0",         // an acknowledgement
            b"\0\0\0\x04\0\0\0\0\x01",         // on a stream
            b"\0\0\x08\x06\0\0\0\0\0",         // PING
            b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0", // GOAWAY
        ];
        for other in others {
            assert_eq!(
                detect_server_protocol(other, false),
                Err(OtherProtocol::Other(other.to_vec()))
            );
        }
    }

    #[test]
    fn an_http1_response_is_reported_with_its_status() {
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(
            detect_server_protocol(answer, false),
            Err(OtherProtocol::Http1(Some(404)))
        );
        assert_eq!(detect_server_protocol(&answer[..10], false), Ok(false));
        assert_eq!(
            detect_server_protocol(&answer[..10], true),
            Err(OtherProtocol::Http1(None))
        );
        let endless = b"HTTP/1.1 ".repeat(20);
        assert_eq!(
            detect_server_protocol(&endless, false),
            Err(OtherProtocol::Http1(None))
        );
    }

    #[test]
    fn tls_garbage_and_silence_are_distinguished() {
        let tls = b"\x15\x03\x01\0\x02\x02\x46\0\0";
        assert_eq!(detect_server_protocol(tls, false), Err(OtherProtocol::Tls));
        assert_eq!(
            detect_server_protocol(b"", true),
            Err(OtherProtocol::Nothing)
        );
        assert_eq!(detect_server_protocol(b"", false), Ok(false));
        assert_eq!(
            detect_server_protocol(b"SSH", true),
            Err(OtherProtocol::Other(b"SSH".to_vec()))
        );
        let Err(OtherProtocol::Other(kept)) = detect_server_protocol(&[b'x'; 1000], false) else {
            panic!("garbage");
        };
        assert_eq!(kept, [b'x'; KEPT]);
    }

    #[test]
    fn a_client_begins_with_24_octets_and_settings() {
        let preface = [CLIENT_PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
        for cut in 0..preface.len() {
            assert_eq!(detect_client_protocol(&preface[..cut], false), Ok(false));
            assert!(detect_client_protocol(&preface[..cut], true).is_err());
        }
        assert_eq!(detect_client_protocol(&preface, false), Ok(true));
        let ping = [CLIENT_PREFACE, b"\0\0\x08\x06\0\0\0\0\0"].concat();
        assert!(detect_client_protocol(&ping, false).is_err());
    }

    #[test]
    fn an_http1_request_is_distinguished_from_garbage() {
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(
            detect_client_protocol(request, false),
            Err(OtherProtocol::Http1Request)
        );
        assert_eq!(detect_client_protocol(&request[..9], false), Ok(false));
        let tls = b"\x16\x03\x01\x02\0\x01";
        assert_eq!(detect_client_protocol(tls, false), Err(OtherProtocol::Tls));
        assert_eq!(detect_client_protocol(&tls[..2], false), Ok(false));
        assert_eq!(
            detect_client_protocol(b"", true),
            Err(OtherProtocol::Nothing)
        );
        let endless = [b'x'; 64];
        assert!(matches!(
            detect_client_protocol(&endless, false),
            Err(OtherProtocol::Other(_))
        ));
    }
}
