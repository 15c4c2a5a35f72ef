//! A [`Response`], and how responses are written.
//!
//! Pure. Responses do not have a Date field: the core has no clock (RFC 9110 §6.6.1: "An origin
//! server without a clock MUST NOT generate a Date header field"), and clients do not need one.

use crate::escape;

/// A response whose body is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: Status,
    /// The type of the body.
    pub content_type: ContentType,
    /// The methods that are allowed for the target (`Allow`), in a response that refuses another.
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

    /// Returns a response whose body states an error, as `{"error":"..."}`.
    pub fn error(status: Status, message: &str) -> Self {
        let mut body = b"{\"error\":".to_vec();
        escape::json_string(message, &mut body);
        body.extend_from_slice(b"}\n");
        Self::new(status, ContentType::Json, body)
    }
}

/// The status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// 200.
    Ok,
    /// 400: the request is not valid.
    BadRequest,
    /// 403: the client may not do that.
    Forbidden,
    /// 404: nothing has that path or name.
    NotFound,
    /// 405: the method is not allowed for the target.
    MethodNotAllowed,
    /// 408: the request head was not complete within 2 s.
    RequestTimeout,
    /// 409: the request does not fit the state of a plugin.
    Conflict,
    /// 413: the request has a body.
    ContentTooLarge,
    /// 422: the configuration is not valid.
    UnprocessableContent,
    /// 431: the head of the request is too large.
    HeaderFieldsTooLarge,
    /// 503: there are too many clients, or the daemon is not ready.
    ServiceUnavailable,
    /// 505: the request has another version of HTTP.
    VersionNotSupported,
}

impl Status {
    /// Returns the code with its phrase.
    const fn text(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::Conflict => "409 Conflict",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::UnprocessableContent => "422 Unprocessable Content",
            Self::HeaderFieldsTooLarge => "431 Request Header Fields Too Large",
            Self::ServiceUnavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// The type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// One JSON value, or one in each line.
    Json,
    /// Plain text.
    Text,
    /// The text format of Prometheus.
    Metrics,
}

impl ContentType {
    const fn text(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
            Self::Metrics => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// By its length (octets).
    Length(usize),
    /// By a last chunk.
    Chunks,
    /// By the end of the connection.
    End,
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: Status,
    pub(super) content_type: ContentType,
    pub(super) allow: Option<&'static str>,
    pub(super) framing: Framing,
    /// Whether the connection persists.
    pub(super) keep_alive: bool,
}

impl Head {
    /// Appends the head.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut put = |parts: [&str; 3]| {
            for part in parts {
                out.extend_from_slice(part.as_bytes());
            }
        };
        put(["HTTP/1.1 ", self.status.text(), "\r\n"]);
        put(["Content-Type: ", self.content_type.text(), "\r\n"]);
        if let Some(methods) = self.allow {
            put(["Allow: ", methods, "\r\n"]);
        }
        match self.framing {
            Framing::Length(octets) => put(["Content-Length: ", &octets.to_string(), "\r\n"]),
            Framing::Chunks => put(["Transfer-Encoding: chunked", "\r\n", ""]),
            Framing::End => {}
        }
        // HTTP/1.0 closes unless it reads the first of these, HTTP/1.1 keeps unless it reads the
        // second.
        let connection = if self.keep_alive {
            "keep-alive"
        } else {
            "close"
        };
        put(["Connection: ", connection, "\r\n\r\n"]);
    }
}

/// Appends what `render` appends as one chunk, and nothing if that is nothing.
///
/// The size has leading zeros, because it is known last (RFC 9112 §7.1: `chunk-size = 1*HEXDIG`).
pub(super) fn write_chunk(out: &mut Vec<u8>, render: &mut dyn FnMut(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(b"00000000\r\n");
    let data = out.len();
    render(out);
    let size = out.len() - data;
    if size == 0 {
        out.truncate(start);
        return;
    }
    let digits = out[start..start + 8].iter_mut().rev();
    for (place, digit) in digits.enumerate() {
        *digit = HEX[(size >> (4 * place)) & 0xf];
    }
    out.extend_from_slice(b"\r\n");
}

/// The chunk that ends a body, with no trailers.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_names_what_a_client_needs() {
        let mut out = Vec::new();
        let mut head = Head {
            status: Status::MethodNotAllowed,
            content_type: ContentType::Json,
            allow: Some("GET, HEAD"),
            framing: Framing::Length(12),
            keep_alive: true,
        };
        head.write(&mut out);
        let wanted = "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json\r\n\
                      Allow: GET, HEAD\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&out), wanted);
        for (framing, field) in [
            (Framing::Chunks, "Transfer-Encoding: chunked\r\n"),
            (Framing::End, ""),
        ] {
            head.framing = framing;
            (head.status, head.allow, head.keep_alive) = (Status::Ok, None, false);
            out.clear();
            head.write(&mut out);
            let wanted = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{field}\
                 Connection: close\r\n\r\n"
            );
            assert_eq!(String::from_utf8_lossy(&out), wanted);
        }
    }

    #[test]
    fn an_error_is_a_json_object_in_plain_ascii() {
        let response = Response::error(Status::NotFound, "no \"größe\"\n");
        let body = String::from_utf8(response.body).expect("the body is text");
        assert_eq!(body, "{\"error\":\"no \\\"gr\\u00f6\\u00dfe\\\"\\n\"}\n");
    }

    #[test]
    fn a_chunk_has_the_size_of_what_was_rendered() {
        let mut out = Vec::new();
        for size in [0, 1, 15, 16, 255, 70_000] {
            out.clear();
            write_chunk(&mut out, &mut |out| out.resize(out.len() + size, b'x'));
            if size == 0 {
                assert!(out.is_empty(), "an empty chunk would end the body");
                continue;
            }
            let parsed = httparse::parse_chunk_size(&out).expect("the size is valid");
            assert_eq!(parsed, httparse::Status::Complete((10, size as u64)));
            assert_eq!(out.len(), 10 + size + 2);
        }
    }
}
