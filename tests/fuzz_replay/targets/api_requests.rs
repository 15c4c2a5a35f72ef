//! A client of the API that sends anything gets one response, which is valid HTTP/1.1, and the same
//! one however its octets are split.
//!
//! The response is read with `httparse`, and compared with what the caller of the connection
//! responded. An input is the sizes of the client's pieces, and what it sends.

use plugind::api::{Call, Connection, ContentType, Method, Request, Response, Status, route};
use plugind::time::Time;

use super::input::Input;

/// Plays the octets in pieces of the size of a read, and in smaller ones.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let pieces = input.short();
    let octets = input.rest();
    assert_eq!(run(&[], octets), run(pieces, octets), "the response");
}

/// A response as the client reads it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: Vec<u8>,
}

/// Returns the response to these octets in these pieces, or in pieces of [`READ`] octets; `None` if
/// they end before a request.
fn run(pieces: &[u8], octets: &[u8]) -> Option<Answer> {
    let mut connection = Connection::new(Time::ZERO);
    let mut sizes = pieces.iter().map(|size| 1 + usize::from(*size)).cycle();
    let mut rest = octets;
    let mut request = None;
    while !rest.is_empty() && connection.wants_input() {
        let size = rest.len().min(sizes.next().unwrap_or(READ));
        let (piece, behind) = rest.split_at(size);
        rest = behind;
        request = connection.receive(piece, Time::ZERO);
    }
    connection.eof();
    let answer = match request {
        Some(request) => Some(respond(&mut connection, &request)),
        None if connection.pending_output().is_empty() => None,
        None => Some(parse_refusal(connection.pending_output())),
    };
    connection.sent(connection.pending_output().len(), Time::ZERO);
    assert!(
        connection.is_finished(),
        "the connection ends with its response"
    );
    answer
}

/// Responds to a request. Returns the response as the client reads it.
fn respond(connection: &mut Connection, request: &Request) -> Answer {
    let is_head = request.method == Method::Head;
    let (status, body) = match lines(route(request)) {
        Ok(count) => {
            if connection.begin_stream(Time::ZERO) {
                for _ in 0..count {
                    connection.send(LINE.to_vec(), Time::ZERO);
                }
                connection.finish_stream();
            }
            (200, LINE.repeat(count))
        }
        Err(response) => {
            connection.respond(&response, Time::ZERO);
            (code(response.status), response.body)
        }
    };
    let answer = parse(connection.pending_output(), is_head);
    let body = if is_head { Vec::new() } else { body };
    assert_eq!((answer.status, &answer.body), (status, &body));
    answer
}

/// Returns the number of lines in the stream for a call, or a response that is rendered as a whole.
fn lines(call: Result<Call, Response>) -> Result<usize, Response> {
    let text = |text: &str| Response::new(Status::OK, ContentType::TEXT, text.into());
    match call? {
        Call::Watch { since } => Ok(since.map_or(3, |since| since.min(30) as usize)),
        Call::Events { follow: true, .. } => Ok(0),
        Call::Change(_) => Err(Response::error(Status::FORBIDDEN, "not you")),
        Call::Ready => Err(text(&"r".repeat(1000))),
        Call::Live => Err(text("")),
        _ => Err(text("ok")),
    }
}

/// Parses a response, which is all there is.
fn parse(octets: &[u8], is_head: bool) -> Answer {
    let mut fields = [httparse::EMPTY_HEADER; 8];
    let mut head = httparse::Response::new(&mut fields);
    let length = match head.parse(octets) {
        Ok(httparse::Status::Complete(length)) => length,
        other => panic!("{other:?}: {:?}", String::from_utf8_lossy(octets)),
    };
    let field = |name: &str| {
        let mut fields = head.headers.iter().filter(|field| field.name == name);
        let value = fields.next().map(|field| field.value);
        assert_eq!(fields.next(), None, "{name}");
        value
    };
    assert!(head.version == Some(1) && field("Content-Type").is_some());
    assert_eq!(field("Connection"), Some(&b"close"[..]));
    let status = head.code.expect("the head is complete");
    assert_eq!(field("Allow").is_some(), status == 405);
    let body_length: Option<usize> = field("Content-Length")
        .map(|value| std::str::from_utf8(value).expect("ASCII"))
        .map(|value| value.parse().expect("a number"));
    let rest = &octets[length..];
    assert_eq!(field("Transfer-Encoding"), None);
    if is_head {
        assert!(rest.is_empty());
    } else {
        assert!(body_length.is_none_or(|length| length == rest.len()));
    }
    let body = rest.to_vec();
    Answer { status, body }
}

/// Parses the response to octets that are not a request.
fn parse_refusal(octets: &[u8]) -> Answer {
    let answer = parse(octets, false);
    assert!(matches!(answer.status, 400 | 413 | 431 | 505), "{answer:?}");
    assert!(answer.body.starts_with(b"{\"error\":\"") && answer.body.ends_with(b"\"}\n"));
    answer
}

/// Returns the number of a status.
fn code(Status(text): Status) -> u16 {
    text[..3].parse().expect("three digits")
}

/// One line of a stream.
const LINE: &[u8] = b"{\"event\":\"BOOKMARK\"}\n";

/// The octets of one read.
const READ: usize = 4096;
