//! The [`Response`] type, and the encoding of responses.
//!
//! Responses do not have a Date field: the core has no clock (RFC 9110 §6.6.1: "An origin server
//! without a clock MUST NOT generate a Date header field"), and clients do not need one.

use serde::Serialize;
use serde_json::json;

use crate::config::API_BODY;
use crate::escape;

/// A response whose body is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: Status,
    /// The type of the body.
    pub content_type: ContentType,
    /// The methods that are allowed for the target (`Allow`), in a response that refuses another
    /// method.
    pub allow: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns a response with this body.
    pub const fn new(status: Status, content_type: ContentType, body: Vec<u8>) -> Self {
        Self {
            status,
            content_type,
            allow: None,
            body,
        }
    }

    /// Returns a response whose body is a value as JSON, or an error if that is longer than
    /// [`API_BODY`].
    pub fn json(value: &impl Serialize) -> Self {
        let mut body = Vec::new();
        if escape::append_json_up_to(API_BODY, value, &mut body).is_err() {
            let why = "the response is longer than 16 MiB; ask for a part of it";
            return Self::error(Status::INTERNAL_SERVER_ERROR, why);
        }
        body.push(b'\n');
        Self::new(Status::OK, ContentType::JSON, body)
    }

    /// Returns a response whose body states an error, as `{"error":"..."}`.
    pub fn error(status: Status, message: &str) -> Self {
        Self {
            status,
            ..Self::json(&json!({ "error": message }))
        }
    }

    /// Returns the octets of the response, without the body if the method of the request is HEAD.
    pub fn encode(&self, is_head: bool) -> Vec<u8> {
        let allow = self.allow.map(|methods| format!("Allow: {methods}\r\n"));
        let allow = allow.unwrap_or_default();
        let length = self.body.len();
        let fields = format!("{allow}Content-Length: {length}\r\n");
        let mut octets = encode_head(self.status, self.content_type, &fields);
        // mutation: the response to HEAD has a body
        if !is_head {
            octets.extend_from_slice(&self.body);
        }
        octets
    }
}

/// The status of a response: its code with its phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub &'static str);

impl Status {
    /// 200.
    pub const OK: Self = Self("200 OK");
    /// 400: the request is not valid.
    pub const BAD_REQUEST: Self = Self("400 Bad Request");
    /// 403: the client is not permitted to make the request.
    pub const FORBIDDEN: Self = Self("403 Forbidden");
    /// 404: the path, socket, plugin or resource does not exist, or the daemon does not offer the
    /// change.
    pub const NOT_FOUND: Self = Self("404 Not Found");
    /// 405: the method is not allowed for the target.
    pub const METHOD_NOT_ALLOWED: Self = Self("405 Method Not Allowed");
    /// 408: the request was not complete within 10 s.
    pub const REQUEST_TIMEOUT: Self = Self("408 Request Timeout");
    /// 409: the request conflicts with the state of a plugin or of its devices.
    pub const CONFLICT: Self = Self("409 Conflict");
    /// 413: the request has a body.
    pub const CONTENT_TOO_LARGE: Self = Self("413 Content Too Large");
    /// 422: the configuration is not valid.
    pub const UNPROCESSABLE_CONTENT: Self = Self("422 Unprocessable Content");
    /// 431: the head of the request is too large.
    pub const HEADER_FIELDS_TOO_LARGE: Self = Self("431 Request Header Fields Too Large");
    /// 500: the response would be too long.
    pub const INTERNAL_SERVER_ERROR: Self = Self("500 Internal Server Error");
    /// 502: a plugin has refused a call, or its reply is not valid.
    pub const BAD_GATEWAY: Self = Self("502 Bad Gateway");
    /// 503: there are too many clients, or the daemon is not ready or is stopping.
    pub const SERVICE_UNAVAILABLE: Self = Self("503 Service Unavailable");
    /// 505: the version of HTTP is not supported.
    pub const VERSION_NOT_SUPPORTED: Self = Self("505 HTTP Version Not Supported");
}

/// The type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentType(&'static str);

impl ContentType {
    /// One JSON value, or one in each line.
    pub const JSON: Self = Self("application/json");
    /// Plain text.
    pub const TEXT: Self = Self("text/plain; charset=utf-8");
    /// The text format of Prometheus.
    pub const METRICS: Self = Self("text/plain; version=0.0.4; charset=utf-8");
}

/// Returns the head of a response whose body follows in lines of JSON, until the end of the
/// connection.
pub(super) fn stream_head() -> Vec<u8> {
    // mutation: a response that follows changes has a length
    encode_head(Status::OK, ContentType::JSON, "")
}

/// Returns the head of a response.
///
/// RFC 9112 §9.3: "A server that does not support persistent connections MUST send the "close"
/// connection option in every response message that does not have a 1xx (Informational) status
/// code."
fn encode_head(status: Status, content_type: ContentType, fields: &str) -> Vec<u8> {
    let (Status(status), ContentType(content_type)) = (status, content_type);
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{fields}Connection: close\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_the_fields_that_clients_need() {
        let mut response =
            Response::new(Status::METHOD_NOT_ALLOWED, ContentType::JSON, vec![b'x'; 3]);
        response.allow = Some("GET, HEAD");
        let wanted = "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json\r\n\
                      Allow: GET, HEAD\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        assert_eq!(text(&response.encode(true)), wanted);
        assert_eq!(text(&response.encode(false)), format!("{wanted}xxx"));
        let wanted = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                      Connection: close\r\n\r\n";
        assert_eq!(text(&stream_head()), wanted);
    }

    #[test]
    fn an_error_is_a_json_object_in_plain_ascii() {
        let response = Response::error(Status::NOT_FOUND, "no \"größe\"\n");
        let body = String::from_utf8(response.body).expect("the body is text");
        assert_eq!(body, "{\"error\":\"no \\\"gr\\u00f6\\u00dfe\\\"\\n\"}\n");
    }

    #[test]
    fn a_body_that_is_too_long_is_refused() {
        let refused = Response::json(&vec!["x".repeat(1024); API_BODY / 1024]);
        assert_eq!(refused.status, Status::INTERNAL_SERVER_ERROR);
        assert!(refused.body.starts_with(b"{\"error\":"));
    }
}
