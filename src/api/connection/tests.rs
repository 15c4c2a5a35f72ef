//! Connections with a well-behaved client, and with clients that misbehave.

use std::time::Duration;

use super::*;
use crate::api::response::ContentType;
use crate::config::API_HEAD;

/// A connection, its request, and the octets that its client has read.
struct Exchange {
    connection: Connection,
    now: Time,
    request: Option<Request>,
    read: Vec<u8>,
}

impl Exchange {
    fn new() -> Self {
        Self {
            connection: Connection::new(Time::ZERO),
            now: Time::ZERO,
            request: None,
            read: Vec::new(),
        }
    }

    /// Returns an exchange whose client has sent these octets and has read nothing yet.
    fn with_input(octets: &[u8]) -> Self {
        let mut exchange = Self::new();
        exchange.receive(octets);
        exchange
    }

    fn receive(&mut self, octets: &[u8]) {
        let request = self.connection.receive(octets, self.now);
        assert!(request.is_none() || self.request.is_none(), "one request");
        self.request = self.request.take().or(request);
    }

    /// Responds to the request: with the lines that follow `/lines/` in its target, or else with
    /// the target. Reads the response.
    fn serve(&mut self) {
        let (connection, now) = (&mut self.connection, self.now);
        if let Some(Request { target, .. }) = &self.request {
            if let Some(lines) = target.strip_prefix("/lines/") {
                if connection.begin_stream(now) {
                    for line in lines.split('/') {
                        connection.send(line.into(), now);
                    }
                    connection.finish_stream();
                }
            } else {
                let body = target.as_bytes().to_vec();
                let response = Response::new(Status::OK, ContentType::JSON, body);
                connection.respond(&response, now);
            }
        }
        self.read_all();
    }

    fn read_all(&mut self) {
        self.read
            .extend_from_slice(self.connection.pending_output());
        let octets = self.connection.pending_output().len();
        self.connection.sent(octets, self.now);
    }

    /// Returns the text that the client has read, without the parts that all responses share.
    fn text(&self) -> String {
        let read = String::from_utf8_lossy(&self.read);
        read.replace("HTTP/1.1 ", "")
            .replace("Content-Type: application/json\r\n", "")
            .replace("Connection: close\r\n", "")
    }

    /// Advances the time, and handles the timeouts.
    fn advance_time(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.connection.handle_timeout(self.now);
    }

    /// Returns the time until the next deadline (milliseconds).
    fn millis_left(&self) -> Option<u128> {
        let deadline = self.connection.poll_timeout()?;
        Some(deadline.saturating_since(self.now).as_millis())
    }
}

fn get_request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn a_request_is_answered_and_nothing_is_read_after_it() {
    let mut exchange =
        Exchange::with_input([get_request("/a"), get_request("/b")].concat().as_bytes());
    assert!(!exchange.connection.wants_input());
    exchange.receive(get_request("/c").as_bytes());
    exchange.serve();
    assert_eq!(exchange.text(), "200 OK\r\nContent-Length: 2\r\n\r\n/a");
    assert!(exchange.connection.is_finished());
    let wanted = Response::new(Status::OK, ContentType::JSON, b"/a".to_vec());
    assert_eq!(exchange.read, wanted.encode(false), "one response");
}

#[test]
fn a_stream_ends_with_the_connection() {
    for request in [
        get_request("/lines/ab//c"),
        "GET /lines/ab//c HTTP/1.0\r\n\r\n".into(),
    ] {
        let mut exchange = Exchange::with_input(request.as_bytes());
        exchange.serve();
        assert_eq!(exchange.text(), "200 OK\r\n\r\nabc");
        assert!(exchange.connection.is_finished());
    }
}

#[test]
fn head_has_the_head_of_get_and_no_body() {
    for version in ["HTTP/1.1\r\nHost: a", "HTTP/1.0"] {
        for target in ["/abc", "/lines/a/b"] {
            let [head, get] = ["HEAD", "GET"].map(|method| {
                let request = format!("{method} {target} {version}\r\n\r\n");
                let mut exchange = Exchange::with_input(request.as_bytes());
                exchange.serve();
                assert!(exchange.connection.is_finished());
                exchange.text()
            });
            assert!(head.ends_with("\r\n\r\n"), "{head:?}");
            assert!(get.starts_with(&head) && get.len() > head.len());
        }
    }
}

#[test]
fn what_is_not_a_request_is_refused_however_it_is_split() {
    let long = format!("GET /{}", "a".repeat(API_HEAD));
    let cases = [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "400"),
        (b"\x16\x03\x01\x02\0\x01", "400"),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "413",
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
        (long.as_bytes(), "431"),
    ];
    for (octets, status) in cases {
        for size in [1, 3, usize::MAX] {
            let mut exchange = Exchange::new();
            for piece in octets.chunks(size) {
                exchange.receive(piece);
            }
            assert_eq!(exchange.request, None);
            exchange.serve();
            let text = exchange.text();
            assert!(text.starts_with(status), "{text}");
            assert!(text.ends_with("\"}\n"), "{text}");
            assert!(exchange.connection.is_finished());
        }
    }
}

#[test]
fn a_request_has_ten_seconds_from_the_connection() {
    for begin in ["", "GET /"] {
        let mut exchange = Exchange::new();
        exchange.advance_time(9000);
        exchange.receive(begin.as_bytes());
        assert_eq!(exchange.millis_left(), Some(1000));
        exchange.advance_time(999);
        assert!(exchange.connection.wants_input());
        exchange.advance_time(1);
        exchange.serve();
        assert!(exchange.text().starts_with("408 Request Timeout\r\n"));
        assert!(exchange.connection.is_finished());
    }
    let mut exchange = Exchange::with_input(get_request("/a").as_bytes());
    assert_eq!(exchange.millis_left(), None, "responses may take long");
    exchange.advance_time(60_000);
    exchange.serve();
    assert!(exchange.text().starts_with("200 "));
}

#[test]
fn a_client_that_does_not_read_for_thirty_seconds_is_closed() {
    for target in ["/a", "/lines/a/b"] {
        let mut exchange = Exchange::with_input(get_request(target).as_bytes());
        let body = vec![b'x'; 3 * MAX_UNSENT_OCTETS];
        if exchange.connection.begin_stream(exchange.now) {
            assert!((1..MAX_UNSENT_OCTETS).contains(&exchange.connection.room()));
            exchange.connection.send(body, exchange.now);
        }
        assert_eq!(exchange.connection.room(), 0);
        exchange.advance_time(29_000);
        exchange.connection.sent(1, exchange.now);
        assert_eq!(exchange.millis_left(), Some(30_000), "one octet was read");
        exchange.advance_time(29_999);
        assert!(!exchange.connection.is_finished());
        exchange.advance_time(1);
        assert!(
            exchange.connection.is_finished() && exchange.connection.pending_output().is_empty()
        );
        assert_eq!(exchange.connection.poll_timeout(), None);
    }
}

#[test]
fn a_stream_without_anything_pending_has_no_deadline() {
    let mut exchange = Exchange::with_input(get_request("/").as_bytes());
    assert!(exchange.connection.begin_stream(exchange.now));
    assert_eq!(exchange.millis_left(), Some(30_000));
    exchange.read_all();
    assert_eq!(exchange.millis_left(), None);
    exchange.advance_time(1_000_000);
    exchange.connection.send(b"x".to_vec(), exchange.now);
    assert_eq!(exchange.millis_left(), Some(30_000));
    exchange.advance_time(30_000);
    assert!(exchange.connection.is_finished());
}

#[test]
fn the_end_of_the_input_ends_a_connection() {
    let mut exchange = Exchange::with_input(get_request("/a").as_bytes());
    exchange.connection.eof();
    exchange.serve();
    assert!(exchange.text().ends_with("/a"));

    let mut exchange = Exchange::with_input(get_request("/").as_bytes());
    assert!(exchange.connection.begin_stream(exchange.now));
    exchange.connection.eof();
    assert!(!exchange.connection.is_finished());
    exchange.connection.finish_stream();
    exchange.read_all();
    assert!(exchange.text().ends_with("\r\n\r\n") && exchange.connection.is_finished());

    let mut exchange = Exchange::with_input(b"GET /half");
    exchange.connection.eof();
    assert!(exchange.connection.is_finished());
}

#[test]
fn a_response_without_a_request_is_not_written() {
    let mut exchange = Exchange::new();
    let response = Response::new(Status::OK, ContentType::JSON, Vec::new());
    exchange.connection.respond(&response, exchange.now);
    assert!(!exchange.connection.begin_stream(exchange.now));
    exchange.connection.send(b"x".to_vec(), exchange.now);
    exchange.connection.finish_stream();
    assert!(exchange.connection.pending_output().is_empty() && exchange.connection.wants_input());
}
