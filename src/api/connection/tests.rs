//! A connection with a well-behaved client, and with misbehaving ones.

use std::time::Duration;

use super::*;
use crate::api::response::ContentType;
use crate::config::API_HEAD;

/// A connection, and what its client reads.
struct Play {
    connection: Connection,
    now: Time,
    request: Option<Request>,
    read: Vec<u8>,
}

impl Play {
    fn new() -> Self {
        Self {
            connection: Connection::new(Time::ZERO),
            now: Time::ZERO,
            request: None,
            read: Vec::new(),
        }
    }

    /// Returns a connection whose client has sent this and reads nothing yet.
    fn with(octets: &[u8]) -> Self {
        let mut play = Self::new();
        play.receive(octets);
        play
    }

    fn receive(&mut self, octets: &[u8]) {
        let request = self.connection.receive(octets, self.now);
        assert!(request.is_none() || self.request.is_none(), "one request");
        self.request = self.request.take().or(request);
    }

    /// Responds to the request as its target requires, in lines or as a whole, and reads the
    /// response.
    fn serve(&mut self) {
        let (connection, now) = (&mut self.connection, self.now);
        if let Some(Request { target, .. }) = &self.request {
            if let Some(lines) = target.strip_prefix("/lines/") {
                if connection.begin_stream(now) {
                    for line in lines.split('/') {
                        connection.send(line.into(), now);
                    }
                    connection.finish();
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
        self.read.extend_from_slice(self.connection.pending());
        let octets = self.connection.pending().len();
        self.connection.sent(octets, self.now);
    }

    /// Returns what the client has read, without the parts that all responses share.
    fn text(&self) -> String {
        let read = String::from_utf8_lossy(&self.read);
        read.replace("HTTP/1.1 ", "")
            .replace("Content-Type: application/json\r\n", "")
            .replace("Connection: close\r\n", "")
    }

    /// Advances the time, and handles the timeouts.
    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.connection.handle_timeout(self.now);
    }

    /// Returns the time until the next deadline (milliseconds).
    fn millis_left(&self) -> Option<u128> {
        let deadline = self.connection.poll_timeout()?;
        Some(deadline.saturating_since(self.now).as_millis())
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn a_request_is_answered_and_nothing_is_read_after_it() {
    let mut play = Play::with([get("/a"), get("/b")].concat().as_bytes());
    assert!(!play.connection.wants_input());
    play.receive(get("/c").as_bytes());
    play.serve();
    assert_eq!(play.text(), "200 OK\r\nContent-Length: 2\r\n\r\n/a");
    assert!(play.connection.is_finished());
    let wanted = Response::new(Status::OK, ContentType::JSON, b"/a".to_vec());
    assert_eq!(play.read, wanted.encode(false), "every response ends it");
}

#[test]
fn a_stream_ends_with_the_connection() {
    for request in [
        get("/lines/ab//c"),
        "GET /lines/ab//c HTTP/1.0\r\n\r\n".into(),
    ] {
        let mut play = Play::with(request.as_bytes());
        play.serve();
        assert_eq!(play.text(), "200 OK\r\n\r\nabc");
        assert!(play.connection.is_finished());
    }
}

#[test]
fn head_has_the_head_of_get_and_no_body() {
    for version in ["HTTP/1.1\r\nHost: a", "HTTP/1.0"] {
        for target in ["/abc", "/lines/a/b"] {
            let [head, get] = ["HEAD", "GET"].map(|method| {
                let request = format!("{method} {target} {version}\r\n\r\n");
                let mut play = Play::with(request.as_bytes());
                play.serve();
                assert!(play.connection.is_finished());
                play.text()
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
            let mut play = Play::new();
            for piece in octets.chunks(size) {
                play.receive(piece);
            }
            assert_eq!(play.request, None);
            play.serve();
            let text = play.text();
            assert!(text.starts_with(status), "{text}");
            assert!(text.ends_with("\"}\n"), "{text}");
            assert!(play.connection.is_finished());
        }
    }
}

#[test]
fn a_request_has_ten_seconds_from_the_connection() {
    for begin in ["", "GET /"] {
        let mut play = Play::new();
        play.pass(9000);
        play.receive(begin.as_bytes());
        assert_eq!(play.millis_left(), Some(1000));
        play.pass(999);
        assert!(play.connection.wants_input());
        play.pass(1);
        play.serve();
        assert!(play.text().starts_with("408 Request Timeout\r\n"));
        assert!(play.connection.is_finished());
    }
    let mut play = Play::with(get("/a").as_bytes());
    assert_eq!(play.millis_left(), None, "the response may take its time");
    play.pass(60_000);
    play.serve();
    assert!(play.text().starts_with("200 "));
}

#[test]
fn a_client_that_does_not_read_for_thirty_seconds_is_closed() {
    for target in ["/a", "/lines/a/b"] {
        let mut play = Play::with(get(target).as_bytes());
        let body = vec![b'x'; 3 * API_OUTPUT];
        if play.connection.begin_stream(play.now) {
            assert!((1..API_OUTPUT).contains(&play.connection.room()));
            play.connection.send(body, play.now);
        }
        assert_eq!(play.connection.room(), 0);
        play.pass(29_000);
        play.connection.sent(1, play.now);
        assert_eq!(play.millis_left(), Some(30_000), "one octet was read");
        play.pass(29_999);
        assert!(!play.connection.is_finished());
        play.pass(1);
        assert!(play.connection.is_finished() && play.connection.pending().is_empty());
        assert_eq!(play.connection.poll_timeout(), None);
    }
}

#[test]
fn a_stream_without_anything_pending_has_no_deadline() {
    let mut play = Play::with(get("/").as_bytes());
    assert!(play.connection.begin_stream(play.now));
    assert_eq!(play.millis_left(), Some(30_000));
    play.read_all();
    assert_eq!(play.millis_left(), None);
    play.pass(1_000_000);
    play.connection.send(b"x".to_vec(), play.now);
    assert_eq!(play.millis_left(), Some(30_000));
    play.pass(30_000);
    assert!(play.connection.is_finished());
}

#[test]
fn the_end_of_the_input_ends_a_connection() {
    let mut play = Play::with(get("/a").as_bytes());
    play.connection.eof();
    play.serve();
    assert!(play.text().ends_with("/a"));

    let mut play = Play::with(get("/").as_bytes());
    assert!(play.connection.begin_stream(play.now));
    play.connection.eof();
    assert!(!play.connection.is_finished());
    play.connection.finish();
    play.read_all();
    assert!(play.text().ends_with("\r\n\r\n") && play.connection.is_finished());

    let mut play = Play::with(b"GET /half");
    play.connection.eof();
    assert!(play.connection.is_finished());
}

#[test]
fn a_response_without_a_request_is_not_written() {
    let mut play = Play::new();
    let response = Response::new(Status::OK, ContentType::JSON, Vec::new());
    play.connection.respond(&response, play.now);
    assert!(!play.connection.begin_stream(play.now));
    play.connection.send(b"x".to_vec(), play.now);
    play.connection.finish();
    assert!(play.connection.pending().is_empty() && play.connection.wants_input());
}
