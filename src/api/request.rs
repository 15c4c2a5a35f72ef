//! Octets become a [`Request`]: the end of its head is found, and the head is parsed.
//!
//! Pure. A head is parsed only when all of it was received, so the result does not depend on how
//! the octets were split. Control characters in the request line are refused at once: a client that
//! speaks TLS need not wait for the end of its time.

use super::response::{Response, Status};
use crate::config::{API_FIELDS, API_HEAD};

/// A request whose head was received and is valid. Requests never have a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The target in origin form: path and query as they were sent, still percent-encoded.
    pub target: String,
    /// Whether the client is ready for another response on this connection.
    pub(super) keep_alive: bool,
    /// Whether the client knows chunked bodies, which are those of HTTP/1.1.
    pub(super) chunks: bool,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD: as GET, but the response has no body.
    Head,
    /// POST.
    Post,
    /// Any other method, none of which is allowed anywhere.
    Other,
}

/// Finds the end of a head, octet by octet.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// The number of octets that were scanned.
    scanned: usize,
    place: Place,
}

/// The place of the next octet in a head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Before the request line. RFC 9112 §2.2: "a server that is expecting to receive and parse a
    /// request-line SHOULD ignore at least one empty line (CRLF) received prior to the
    /// request-line."
    #[default]
    Before,
    /// In the request line.
    RequestLine,
    /// At the beginning of a line behind the request line.
    LineStart,
    /// Behind a CR at the beginning of a line.
    EmptyLine,
    /// In the line of a header field.
    Field,
}

/// What is known about a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// More octets are needed.
    Partial,
    /// The head has this many octets.
    Complete(usize),
    /// The head is refused, and the connection with it.
    Refused(Response),
}

impl Scanner {
    /// Scans the octets from the beginning of a head that were not scanned before.
    ///
    /// A line ends with CRLF or LF (RFC 9112 §2.2: "a recipient MAY recognize a single LF as a line
    /// terminator").
    pub(super) fn scan(&mut self, octets: &[u8]) -> Scan {
        for octet in &octets[self.scanned..octets.len().min(API_HEAD)] {
            self.scanned += 1;
            self.place = match (self.place, octet) {
                (Place::LineStart | Place::EmptyLine, b'\n') => {
                    return Scan::Complete(self.scanned);
                }
                (Place::LineStart, b'\r') => Place::EmptyLine,
                (Place::Before, b'\r' | b'\n') => Place::Before,
                (_, b'\n') => Place::LineStart,
                (Place::Before | Place::RequestLine, b'\r' | b' '..=b'~' | 0x80..) => {
                    Place::RequestLine
                }
                (Place::Before | Place::RequestLine, _) => {
                    return Scan::Refused(bad_request("the request line is not valid"));
                }
                _ => Place::Field,
            };
        }
        if octets.len() < API_HEAD {
            return Scan::Partial;
        }
        Scan::Refused(Response::error(
            Status::HeaderFieldsTooLarge,
            "the request head is longer than 8 KiB",
        ))
    }
}

impl Request {
    /// Parses a head that the [`Scanner`] has found, or returns the response that refuses it.
    pub(super) fn parse(head: &[u8]) -> Result<Self, Response> {
        let mut fields = [httparse::EMPTY_HEADER; API_FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Err(httparse::Error::TooManyHeaders) => {
                let why = "the request has more than 64 header fields";
                return Err(Response::error(Status::HeaderFieldsTooLarge, why));
            }
            Err(httparse::Error::Version) if has_other_version(head) => {
                let why = "only HTTP/1.0 and HTTP/1.1 are supported";
                return Err(Response::error(Status::VersionNotSupported, why));
            }
            Ok(_) | Err(_) => return Err(bad_request("the request head is not valid")),
        }
        let is_http_1_1 = parsed.version == Some(1);
        let facts = Facts::of(parsed.headers, is_http_1_1)?;
        Ok(Self {
            method: Method::parse(parsed.method.unwrap_or_default()),
            target: origin_form(parsed.path.unwrap_or_default())?,
            keep_alive: facts.keep_alive.unwrap_or(is_http_1_1),
            chunks: is_http_1_1,
        })
    }
}

impl Method {
    /// Returns the method with that name. Names of methods are case-sensitive.
    fn parse(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            _ => Self::Other,
        }
    }
}

/// The facts that the header fields state.
struct Facts {
    keep_alive: Option<bool>,
}

impl Facts {
    /// Reads the fields that matter, or returns the response that refuses them.
    fn of(fields: &[httparse::Header<'_>], is_http_1_1: bool) -> Result<Self, Response> {
        let mut keep_alive = None;
        let mut hosts = 0;
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("host") {
                hosts += 1;
            } else if is("connection") {
                keep_alive = keeps_alive(field.value, keep_alive);
            } else if is("transfer-encoding") {
                return Err(has_body());
            } else if is("content-length") {
                check_length(field.value)?;
            }
        }
        // RFC 9112 §3.2: "A server MUST respond with a 400 (Bad Request) status code to any
        // HTTP/1.1 request message that lacks a Host header field and to any request message that
        // contains more than one Host header field line".
        if hosts > 1 || hosts == 0 && is_http_1_1 {
            return Err(bad_request(
                "the request must have exactly one Host header field",
            ));
        }
        Ok(Self { keep_alive })
    }
}

/// Returns whether octets that begin with a request, however incomplete, ask for no body: the
/// response to HEAD has none, even if the request is refused.
pub(super) fn is_head(octets: &[u8]) -> bool {
    let is_line_end = |octet: &u8| matches!(octet, b'\r' | b'\n');
    let start = octets.iter().position(|octet| !is_line_end(octet));
    start.is_some_and(|start| octets[start..].starts_with(b"HEAD "))
}

/// Returns whether the connection persists after one more `Connection` field. `close` outweighs
/// everything else (RFC 9112 §9.3).
fn keeps_alive(value: &[u8], before: Option<bool>) -> Option<bool> {
    let mut keep_alive = before;
    for option in value.split(|octet| *octet == b',') {
        let option = option.trim_ascii();
        if option.eq_ignore_ascii_case(b"close") {
            keep_alive = Some(false);
        } else if option.eq_ignore_ascii_case(b"keep-alive") {
            keep_alive = keep_alive.or(Some(true));
        }
    }
    keep_alive
}

/// Refuses any length of a body but zero.
fn check_length(value: &[u8]) -> Result<(), Response> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(bad_request("the Content-Length is not a number"));
    }
    if value.iter().any(|digit| *digit != b'0') {
        return Err(has_body());
    }
    Ok(())
}

/// Returns the target without scheme and authority, which proxies and some libraries send.
///
/// RFC 9112 §3.2.2: "a server MUST accept the absolute-form in requests even though most HTTP/1.1
/// clients will only send the absolute-form to a proxy."
fn origin_form(target: &str) -> Result<String, Response> {
    if target.starts_with('/') {
        return Ok(target.to_owned());
    }
    let Some(("http", rest)) = target.split_once("://") else {
        return Err(bad_request("the request target must be a path"));
    };
    let path = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok([slash, path].concat())
}

/// Returns whether the request line ends with a version of HTTP, whatever its numbers.
fn has_other_version(head: &[u8]) -> bool {
    let line = head.trim_ascii_start();
    let line = line.split(|octet| *octet == b'\n').next();
    let version = line.and_then(|line| line.trim_ascii_end().rsplit(|octet| *octet == b' ').next());
    let number = version.and_then(|version| version.strip_prefix(b"HTTP/"));
    matches!(number, Some([b'0'..=b'9', b'.', b'0'..=b'9']))
}

fn bad_request(why: &str) -> Response {
    Response::error(Status::BadRequest, why)
}

fn has_body() -> Response {
    Response::error(Status::ContentTooLarge, "the request must not have a body")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a head, and returns the status of its refusal if it is refused.
    fn parse(head: &str) -> Result<Request, Status> {
        let scan = Scanner::default().scan(head.as_bytes());
        assert_eq!(scan, Scan::Complete(head.len()), "{head:?}");
        Request::parse(head.as_bytes()).map_err(|response| response.status)
    }

    fn keep_alive(head: &str) -> bool {
        parse(head).expect("the request is valid").keep_alive
    }

    #[test]
    fn a_request_has_a_method_and_a_target() {
        let cases = [
            ("GET /a?b=%20c HTTP/1.1", Method::Get, "/a?b=%20c"),
            ("HEAD / HTTP/1.1", Method::Head, "/"),
            ("POST /v1/rescan HTTP/1.0", Method::Post, "/v1/rescan"),
            ("get / HTTP/1.1", Method::Other, "/"),
            ("DELETE / HTTP/1.1", Method::Other, "/"),
            ("GET http://localhost/a?b HTTP/1.1", Method::Get, "/a?b"),
            ("GET http://localhost?b HTTP/1.1", Method::Get, "/?b"),
            ("GET http://localhost HTTP/1.1", Method::Get, "/"),
            ("\r\n\nGET / HTTP/1.1", Method::Get, "/"),
        ];
        for (line, method, target) in cases {
            for end in ["\r\n", "\n"] {
                let head = [line, end, "Host: x", end, end].concat();
                let request = parse(&head).expect("the request is valid");
                assert_eq!((request.method, &*request.target), (method, target));
                assert_eq!(request.chunks, line.ends_with("1.1"));
            }
        }
    }

    #[test]
    fn a_connection_persists_as_version_and_options_have_it() {
        assert!(keep_alive("GET / HTTP/1.1\r\nHost:\r\n\r\n"));
        assert!(!keep_alive("GET / HTTP/1.0\r\n\r\n"));
        assert!(keep_alive(
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"
        ));
        let close = "GET / HTTP/1.1\r\nHost: x\r\nconnection: a, CLOSE\r\n";
        assert!(!keep_alive(&[close, "\r\n"].concat()));
        assert!(!keep_alive(
            &[close, "Connection: keep-alive\r\n\r\n"].concat()
        ));
    }

    #[test]
    fn what_is_not_a_request_is_refused_with_its_status() {
        use Status::{BadRequest, ContentTooLarge, HeaderFieldsTooLarge, VersionNotSupported};
        let many = |fields| "a: b\r\n".repeat(fields);
        let cases = [
            ("GET / HTTP/1.1\r\n", "", BadRequest), // No Host.
            ("GET / HTTP/1.1\r\n", "Host: a\r\nhost: a\r\n", BadRequest),
            ("GET / HTTP/1.1\r\n", " Host: a\r\n", BadRequest),
            ("GET / HTTP/1.1\r\n", "Host : a\r\n", BadRequest),
            ("GET / HTTP/1.1\r\n", "Host: a\r\nb\0: c\r\n", BadRequest),
            ("GET / HTTP/1.1\r\n", "Host: a\r\nb: c\rd\r\n", BadRequest),
            ("GET /\r\n", "", BadRequest), // HTTP/0.9.
            ("GET  / HTTP/1.1\r\n", "Host: a\r\n", BadRequest),
            ("GET a HTTP/1.1\r\n", "Host: a\r\n", BadRequest),
            ("GET * HTTP/1.1\r\n", "Host: a\r\n", BadRequest),
            ("GET ftp://a/ HTTP/1.1\r\n", "Host: a\r\n", BadRequest),
            ("GET /\u{ff} HTTP/3.x\r\n", "Host: a\r\n", BadRequest),
            ("SSH-2.0-OpenSSH_9.2\r\n", "", BadRequest),
            ("GET / HTTP/1.2\r\n", "Host: a\r\n", VersionNotSupported),
            ("GET / HTTP/2.0\n", "Host: a\r\n", VersionNotSupported),
            ("PRI * HTTP/2.0\r\n", "", VersionNotSupported),
            ("GET / HTTP/1.1\r\n", "Content-Length: x\r\n", BadRequest),
            ("GET / HTTP/1.1\r\n", "Content-Length:\r\n", BadRequest),
            (
                "GET / HTTP/1.1\r\n",
                "Content-Length: 1\r\n",
                ContentTooLarge,
            ),
            (
                "GET / HTTP/1.0\r\n",
                "Transfer-Encoding: x\r\n",
                ContentTooLarge,
            ),
            ("GET / HTTP/1.1\r\n", &many(65), HeaderFieldsTooLarge),
        ];
        for (line, fields, status) in cases {
            let head = [line, fields, "\r\n"].concat();
            assert_eq!(parse(&head), Err(status), "{head:?}");
        }
        assert!(parse(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", many(63))).is_ok());
        assert!(parse("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 00\r\n\r\n").is_ok());
    }

    #[test]
    fn the_end_of_a_head_is_found_however_it_is_split() {
        let heads = [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\n\n",
            "\r\nGET / HTTP/1.1\r\nHost: x\r\n\n",
        ];
        for head in heads {
            let octets = [head, "GET /next"].concat();
            for cut in 0..head.len() {
                let mut scanner = Scanner::default();
                assert_eq!(scanner.scan(&octets.as_bytes()[..cut]), Scan::Partial);
                assert_eq!(scanner.scan(octets.as_bytes()), Scan::Complete(head.len()));
            }
        }
    }

    #[test]
    fn a_head_may_have_8_kib_and_not_one_octet_more() {
        let head = |length: usize| {
            let mut head = b"GET / HTTP/1.1\r\nHost: x\r\na: ".to_vec();
            head.resize(length - 4, b'b');
            head.extend_from_slice(b"\r\n\r\n");
            head
        };
        let longest = Scanner::default().scan(&head(API_HEAD));
        assert_eq!(longest, Scan::Complete(API_HEAD));
        for octets in [
            head(API_HEAD + 1),
            vec![b'a'; API_HEAD],
            vec![b'\n'; API_HEAD],
        ] {
            let Scan::Refused(response) = Scanner::default().scan(&octets) else {
                panic!("the head is too long");
            };
            assert_eq!(response.status, Status::HeaderFieldsTooLarge);
        }
        assert_eq!(
            Scanner::default().scan(&head(API_HEAD)[..8191]),
            Scan::Partial
        );
    }

    #[test]
    fn other_protocols_are_refused_at_their_first_control_character() {
        for octets in [&b"\x16\x03\x01"[..], b"GET /\0", b"abc\x7f", b"\t"] {
            let (last, rest) = octets.split_last().expect("there is an octet");
            let mut scanner = Scanner::default();
            if *last != 1 {
                assert_eq!(scanner.scan(rest), Scan::Partial);
            }
            let scan = scanner.scan(octets);
            assert!(matches!(scan, Scan::Refused(_)), "{octets:?}: {scan:?}");
        }
    }

    #[test]
    fn a_request_for_a_head_is_recognised_before_it_is_parsed() {
        assert!(is_head(b"HEAD / HTTP/1.1") && is_head(b"\r\nHEAD x"));
        assert!(!is_head(b"HEADS") && !is_head(b"GET /") && !is_head(b"\r\n"));
    }
}
