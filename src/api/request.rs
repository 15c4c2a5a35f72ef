//! Parses a [`Request`] from octets.
//!
//! The result does not depend on how the octets were split. Octets that cannot begin a request are
//! refused at once, so that a client that uses TLS, for example, does not wait for the timeout.

use super::response::{Response, Status};
use crate::config::{API_FIELDS, API_HEAD};

/// A request whose head was received and is valid. Requests never have a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The target in origin form: path and query as they were sent, still percent-encoded.
    pub target: String,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD: like GET, but the response has no body.
    Head,
    /// POST.
    Post,
    /// Any other method, which no path allows.
    Other,
}

impl Request {
    /// Parses the octets that a client has sent: returns `None` if the head is incomplete, or the
    /// response that refuses the request. Octets after the head are ignored.
    pub(super) fn parse(octets: &[u8]) -> Result<Option<Self>, Response> {
        let mut fields = [httparse::EMPTY_HEADER; API_FIELDS];
        let mut head = httparse::Request::new(&mut fields);
        let is_full = octets.len() >= API_HEAD;
        match head.parse(&octets[..octets.len().min(API_HEAD)]) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) if is_full => {
                return Err(head_too_large("the request head is longer than 8 KiB"));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(head_too_large("the request has more than 64 header fields"));
            }
            Err(httparse::Error::Version) => {
                let why = "only HTTP/1.0 and HTTP/1.1 are supported";
                return Err(Response::error(Status::VERSION_NOT_SUPPORTED, why));
            }
            Err(_) => return Err(bad_request("the request head is not valid")),
        }
        check_fields(head.headers, head.version == Some(1))?;
        Ok(Some(Self {
            method: Method::parse(head.method.unwrap_or_default()),
            target: to_origin_form(head.path.unwrap_or_default())?,
        }))
    }
}

impl Method {
    /// Returns the method with this name. Method names are case-sensitive.
    fn parse(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            _ => Self::Other,
        }
    }
}

/// Refuses a request whose header fields are invalid or announce a body.
fn check_fields(fields: &[httparse::Header<'_>], is_http_1_1: bool) -> Result<(), Response> {
    let mut hosts = 0;
    for field in fields {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("host") {
            hosts += 1;
        } else if is("transfer-encoding") || is("content-length") && !is_zero(field.value) {
            let why = "the request must not have a body";
            return Err(Response::error(Status::CONTENT_TOO_LARGE, why));
        }
    }
    // RFC 9112 §3.2: "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1
    // request message that lacks a Host header field and to any request message that contains more
    // than one Host header field line".
    if hosts > 1 || hosts == 0 && is_http_1_1 {
        return Err(bad_request(
            "the request must have exactly one Host header field",
        ));
    }
    Ok(())
}

fn is_zero(digits: &[u8]) -> bool {
    !digits.is_empty() && digits.iter().all(|digit| *digit == b'0')
}

/// Returns the target in origin form: without the scheme and authority of an absolute-form target,
/// which some libraries send. Refuses other forms, and schemes other than `http`.
///
/// RFC 9112 §3.2.2: "a server MUST accept the absolute-form in requests even though most HTTP/1.1
/// clients will only send the absolute-form to a proxy."
fn to_origin_form(target: &str) -> Result<String, Response> {
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

/// Returns the response to a request that is not valid.
pub(super) fn bad_request(why: &str) -> Response {
    Response::error(Status::BAD_REQUEST, why)
}

fn head_too_large(why: &str) -> Response {
    Response::error(Status::HEADER_FIELDS_TOO_LARGE, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a complete head; returns the status of the response if the request is refused.
    fn parse(head: &str) -> Result<Request, Status> {
        let parsed = Request::parse(head.as_bytes());
        let parsed = parsed.map_err(|response| response.status);
        parsed.map(|request| request.expect("the head is complete"))
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
            }
        }
    }

    #[test]
    fn what_is_not_a_request_is_refused_with_its_status() {
        let many = |fields| "a: b\r\n".repeat(fields);
        let cases = [
            ("GET / HTTP/1.1\r\n", "", Status::BAD_REQUEST), // No Host.
            (
                "GET / HTTP/1.1\r\n",
                "Host: a\r\nhost: a\r\n",
                Status::BAD_REQUEST,
            ),
            ("GET / HTTP/1.1\r\n", " Host: a\r\n", Status::BAD_REQUEST),
            ("GET / HTTP/1.1\r\n", "Host : a\r\n", Status::BAD_REQUEST),
            (
                "GET / HTTP/1.1\r\n",
                "Host: a\r\nb\0: c\r\n",
                Status::BAD_REQUEST,
            ),
            (
                "GET / HTTP/1.1\r\n",
                "Host: a\r\nb: c\rd\r\n",
                Status::BAD_REQUEST,
            ),
            ("GET /\r\n", "", Status::BAD_REQUEST), // HTTP/0.9.
            ("GET  / HTTP/1.1\r\n", "Host: a\r\n", Status::BAD_REQUEST),
            ("GET a HTTP/1.1\r\n", "Host: a\r\n", Status::BAD_REQUEST),
            ("GET * HTTP/1.1\r\n", "Host: a\r\n", Status::BAD_REQUEST),
            (
                "GET ftp://a/ HTTP/1.1\r\n",
                "Host: a\r\n",
                Status::BAD_REQUEST,
            ),
            (
                "GET / HTTP/3.x\r\n",
                "Host: a\r\n",
                Status::VERSION_NOT_SUPPORTED,
            ),
            ("SSH-2.0-OpenSSH_9.2\r\n", "", Status::BAD_REQUEST),
            (
                "GET / HTTP/1.2\r\n",
                "Host: a\r\n",
                Status::VERSION_NOT_SUPPORTED,
            ),
            (
                "GET / HTTP/2.0\n",
                "Host: a\r\n",
                Status::VERSION_NOT_SUPPORTED,
            ),
            ("PRI * HTTP/2.0\r\n", "", Status::VERSION_NOT_SUPPORTED),
            (
                "GET / HTTP/1.1\r\n",
                "Content-Length: x\r\n",
                Status::CONTENT_TOO_LARGE,
            ),
            (
                "GET / HTTP/1.1\r\n",
                "Content-Length:\r\n",
                Status::CONTENT_TOO_LARGE,
            ),
            (
                "GET / HTTP/1.1\r\n",
                "Content-Length: 1\r\n",
                Status::CONTENT_TOO_LARGE,
            ),
            (
                "GET / HTTP/1.0\r\n",
                "Transfer-Encoding: x\r\n",
                Status::CONTENT_TOO_LARGE,
            ),
            (
                "GET / HTTP/1.1\r\n",
                &many(65),
                Status::HEADER_FIELDS_TOO_LARGE,
            ),
        ];
        for (line, fields, status) in cases {
            let head = [line, fields, "\r\n"].concat();
            assert_eq!(parse(&head), Err(status), "{head:?}");
        }
        assert!(parse(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", many(63))).is_ok());
        assert!(parse("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 00\r\n\r\n").is_ok());
    }

    #[test]
    fn a_request_ends_with_its_head_however_that_is_split() {
        for head in [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.0\n\n",
            "\r\nGET / HTTP/1.1\r\nHost: x\r\n\n",
        ] {
            for cut in 0..head.len() {
                assert_eq!(Request::parse(&head.as_bytes()[..cut]), Ok(None));
            }
            let followed = [head, "GET /next"].concat();
            assert_eq!(parse(&followed), parse(head));
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
        assert!(matches!(Request::parse(&head(API_HEAD)), Ok(Some(_))));
        assert_eq!(Request::parse(&head(API_HEAD)[..API_HEAD - 1]), Ok(None));
        for octets in [
            head(API_HEAD + 1),
            vec![b'a'; API_HEAD],
            vec![b'\n'; API_HEAD],
        ] {
            let refused = Request::parse(&octets).map_err(|response| response.status);
            assert_eq!(refused, Err(Status::HEADER_FIELDS_TOO_LARGE));
        }
    }

    #[test]
    fn other_protocols_are_refused_at_their_first_control_character() {
        for octets in [&b"\x16\x03\x01"[..], b"GET /\0", b"abc\x7f", b"\t"] {
            let refused = Request::parse(octets);
            assert!(refused.is_err(), "{octets:?}: {refused:?}");
        }
    }
}
