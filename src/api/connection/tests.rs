//! A connection with a client that behaves, and with those that do not.

use std::time::Duration;

use super::*;

/// A connection, and what its client reads.
struct Play {
    connection: Connection,
    now: Time,
    read: Vec<u8>,
    targets: Vec<String>,
}

impl Play {
    fn new() -> Self {
        Self {
            connection: Connection::new(Time::ZERO),
            now: Time::ZERO,
            read: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Returns a connection whose client has sent this and reads nothing yet.
    fn with(octets: &[u8]) -> Self {
        let mut play = Self::new();
        play.connection.receive(octets, play.now);
        play
    }

    /// Takes the next request, which there has to be.
    fn request(&mut self) -> Request {
        let request = self.connection.poll_request(self.now);
        request.expect("a request is complete")
    }

    /// Takes every request, responds to each, and reads each response.
    fn serve(&mut self) {
        while let Some(request) = self.connection.poll_request(self.now) {
            self.respond_to(&request.target);
            self.targets.push(request.target);
            self.read_all();
        }
        self.read_all();
    }

    /// Responds as the target asks for: in parts, or at once.
    fn respond_to(&mut self, target: &str) {
        let (connection, now) = (&mut self.connection, self.now);
        if let Some(parts) = target.strip_prefix("/parts/") {
            if connection.begin_body(ContentType::Json, now) {
                for part in parts.split('/') {
                    connection.send_body(&mut |out| out.extend_from_slice(part.as_bytes()), now);
                }
                connection.finish_body(now);
            }
        } else {
            connection.respond(&text(target), now);
        }
    }

    fn read_all(&mut self) {
        self.read.extend_from_slice(self.connection.pending());
        let octets = self.connection.pending().len();
        self.connection.sent(octets, self.now);
    }

    /// Returns what the client has read since the last call, without the fields that every
    /// response has.
    fn text(&mut self) -> String {
        let read = String::from_utf8(mem::take(&mut self.read)).expect("responses are text");
        read.replace("HTTP/1.1 ", "")
            .replace("Content-Type: application/json\r\n", "")
    }

    /// Passes time, and does what is due then.
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

fn text(text: &str) -> Response {
    Response::new(Status::Ok, ContentType::Json, text.as_bytes().to_vec())
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn a_request_is_answered_and_the_connection_persists() {
    let mut play = Play::with(get("/a").as_bytes());
    assert_eq!(play.request().target, "/a");
    assert_eq!(
        play.connection.poll_request(play.now),
        None,
        "one at a time"
    );
    assert!(!play.connection.wants_input());
    play.respond_to("abc");
    play.read_all();
    assert_eq!(
        play.text(),
        "200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc"
    );
    assert!(play.connection.wants_input() && !play.connection.is_finished());
}

#[test]
fn a_body_of_unknown_length_is_chunked_and_ended_by_the_end_for_http_1_0() {
    let mut play = Play::with(get("/parts/ab//c").as_bytes());
    play.serve();
    let wanted = "200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n\
                  00000002\r\nab\r\n00000001\r\nc\r\n0\r\n\r\n";
    assert_eq!(play.text(), wanted);
    let old = b"GET /parts/ab/c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    play.connection.receive(old, play.now);
    play.serve();
    assert_eq!(play.text(), "200 OK\r\nConnection: close\r\n\r\nabc");
    assert!(play.connection.is_finished());
}

#[test]
fn head_has_the_head_of_get_and_no_body() {
    for (version, ends) in [("HTTP/1.1\r\nHost: a", false), ("HTTP/1.0", true)] {
        for target in ["/abc", "/parts/a/b"] {
            let mut heads = [String::new(), String::new()];
            for (method, head) in ["HEAD", "GET"].iter().zip(&mut heads) {
                let request = format!("{method} {target} {version}\r\n\r\n");
                let mut play = Play::with(request.as_bytes());
                play.serve();
                *head = play.text();
                assert_eq!(play.connection.is_finished(), ends);
            }
            let [head, get] = heads;
            assert!(
                head.ends_with("\r\n\r\n") && get.starts_with(&head),
                "{head:?}"
            );
            assert!(get.len() > head.len());
        }
    }
}

#[test]
fn a_refused_head_request_has_no_body_either() {
    let mut play = Play::with(b"HEAD / HTTP/1.1\r\n\r\n");
    play.serve();
    let text = play.text();
    assert!(
        text.starts_with("400 ") && text.ends_with("\r\n\r\n"),
        "{text:?}"
    );
    assert!(play.connection.is_finished());
}

#[test]
fn the_connection_ends_after_a_response_if_the_client_asks_for_it() {
    let close = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for request in [close, "GET /a HTTP/1.0\r\n\r\n"] {
        let mut play = Play::with([request, &get("/b")].concat().as_bytes());
        play.request();
        play.respond_to("/a");
        assert!(
            !play.connection.is_finished(),
            "the response is not written"
        );
        play.serve();
        assert!(play.text().contains("Connection: close\r\n"));
        assert!(play.connection.is_finished() && play.targets.is_empty());
    }
}

#[test]
fn what_is_not_a_request_is_refused_and_nothing_is_read_behind_it() {
    let long = format!("GET /{}", "a".repeat(API_HEAD));
    let cases = [
        (&b"GET /\r\n\r\n"[..], "400"),
        (b"\x16\x03\x01\x02\0\x01", "400"),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "413",
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
        (long.as_bytes(), "431"),
    ];
    for (octets, status) in cases {
        let mut play = Play::with(&[get("/a").as_bytes(), octets, get("/b").as_bytes()].concat());
        play.serve();
        let text = play.text();
        assert_eq!(play.targets, ["/a"]);
        assert!(text.starts_with("200 "), "{text}");
        assert!(text.contains(&format!("/a{status} ")), "{text}");
        assert!(text.ends_with("\"}\n"), "{text}");
        assert!(play.connection.is_finished());
        play.connection.receive(b"x", play.now);
        assert!(play.connection.is_finished() && play.connection.mem_used() < API_OUTPUT);
    }
}

#[test]
fn the_split_of_the_input_makes_no_difference() {
    let parts = get("/parts/b/c");
    let inputs = [
        [
            &*get("/a"),
            &*parts,
            "\r\nHEAD /d HTTP/1.1\nHost: a\n\n",
            "GET",
        ]
        .concat()
        .into_bytes(),
        [&*parts, "GET /e HTTP/1.0\r\n\r\n", &*parts]
            .concat()
            .into_bytes(),
        [&*get("/a"), "GET / HTTP/1.1\r\n\r\n", &*parts]
            .concat()
            .into_bytes(),
        [
            &*get("/a"),
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
        ]
        .concat()
        .into(),
        [get("/a").as_bytes(), b"GET /\0 HTTP/1.1\r\n\r\n"].concat(),
        [get("/a").as_bytes(), &[b'a'; API_HEAD + 1]].concat(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
    ];
    for input in inputs {
        let play = |sizes: &[usize]| {
            let mut play = Play::new();
            let mut rest = &input[..];
            for size in sizes.iter().chain(&[usize::MAX]) {
                let (piece, behind) = rest.split_at(rest.len().min(*size));
                rest = behind;
                play.connection.receive(piece, play.now);
                play.serve();
            }
            play.connection.eof();
            play.serve();
            assert!(play.connection.is_finished());
            play.read
        };
        let whole = play(&[]);
        for cut in 0..input.len() {
            assert_eq!(play(&[cut]), whole);
        }
        assert_eq!(play(&vec![1; input.len()]), whole);
    }
}

#[test]
fn ten_thousand_requests_at_once_are_answered_in_order_in_little_memory() {
    let requests: String = (0..10_000).map(|n| get(&format!("/{n}"))).collect();
    let mut rest = requests.as_bytes();
    let mut play = Play::new();
    for _ in 0..1000 {
        // The client writes if it can, and reads only if it cannot.
        if play.connection.wants_input() {
            let (piece, behind) = rest.split_at(rest.len().min(4096));
            rest = behind;
            play.connection.receive(piece, play.now);
        } else {
            play.read_all();
        }
        while let Some(request) = play.connection.poll_request(play.now) {
            play.respond_to(&request.target);
            play.targets.push(request.target);
        }
        let held = play.connection.pending().len();
        assert!((held..64 * 1024).contains(&play.connection.mem_used()));
    }
    play.read_all();
    let is_next = |(n, target): (usize, &String)| *target == format!("/{n}");
    assert!(play.targets.iter().enumerate().all(is_next));
    assert_eq!(play.targets.len(), 10_000);
    assert_eq!(play.text().matches("200 OK").count(), 10_000);
}

#[test]
fn a_client_that_never_reads_is_not_read_either_and_closed() {
    let mut play = Play::with(get("/a").repeat(1000).as_bytes());
    let mut served = 0;
    while let Some(request) = play.connection.poll_request(play.now) {
        play.respond_to(&request.target);
        served += 1;
    }
    assert!((100..300).contains(&served), "{served}");
    assert!(!play.connection.wants_input());
    play.pass(29_000);
    play.connection.sent(1, play.now);
    assert_eq!(play.millis_left(), Some(30_000), "one octet was read");
    play.pass(29_999);
    assert!(!play.connection.is_finished());
    play.pass(1);
    assert!(play.connection.is_finished());
    assert_eq!(play.connection.poll_timeout(), None);
}

#[test]
fn half_a_head_has_two_seconds_from_its_first_octet() {
    let mut play = Play::new();
    play.pass(10_000);
    play.connection.receive(b"GET /", play.now);
    play.serve();
    assert_eq!(play.millis_left(), Some(2000));
    play.pass(1500);
    play.connection.receive(b"a", play.now);
    play.serve();
    assert_eq!(
        play.millis_left(),
        Some(500),
        "a further octet does not prolong it"
    );
    play.pass(500);
    play.serve();
    assert!(play.text().starts_with("408 Request Timeout\r\n"));
    assert!(play.connection.is_finished());
}

#[test]
fn the_two_seconds_of_a_pipelined_head_begin_when_it_is_its_turn() {
    let mut play = Play::with([&*get("/a"), "GET /b"].concat().as_bytes());
    play.request();
    assert_eq!(play.millis_left(), None, "the response may take its time");
    play.pass(60_000);
    play.respond_to("/a");
    assert_eq!(play.millis_left(), Some(2000));
    play.serve();
    play.pass(1999);
    assert!(play.connection.wants_input());
    play.connection
        .receive(b" HTTP/1.1\r\nHost: a\r\n\r\n", play.now);
    play.serve();
    assert_eq!(play.targets, ["/b"]);
}

#[test]
fn a_head_that_waits_for_room_does_not_lose_its_time() {
    let mut play = Play::with([&*get("/a"), "GET /b"].concat().as_bytes());
    play.request();
    play.respond_to(&"x".repeat(API_OUTPUT));
    play.pass(10_000);
    assert!(!play.connection.wants_input());
    play.read_all();
    assert_eq!(play.millis_left(), Some(2000));
}

#[test]
fn an_idle_client_is_closed_after_thirty_seconds() {
    let mut play = Play::new();
    assert_eq!(play.millis_left(), Some(30_000));
    play.pass(20_000);
    play.connection.receive(get("/a").as_bytes(), play.now);
    play.request();
    play.respond_to("/a");
    play.pass(20_000);
    assert_eq!(
        play.millis_left(),
        Some(10_000),
        "it has not read the response"
    );
    play.read_all();
    assert_eq!(play.millis_left(), Some(30_000));
    play.pass(30_000);
    assert!(play.connection.is_finished() && play.connection.pending().is_empty());
}

#[test]
fn a_body_in_progress_without_anything_pending_has_no_deadline() {
    let mut play = Play::with(get("/parts/").as_bytes());
    play.request();
    assert!(play.connection.begin_body(ContentType::Json, play.now));
    assert_eq!(play.millis_left(), Some(30_000));
    play.read_all();
    assert_eq!(play.millis_left(), None);
    play.pass(1_000_000);
    play.connection
        .send_body(&mut |out| out.push(b'x'), play.now);
    assert_eq!(play.millis_left(), Some(30_000));
    play.pass(30_000);
    assert!(play.connection.is_finished());
}

#[test]
fn the_requests_before_the_end_of_the_input_are_answered() {
    let mut play = Play::with([&*get("/a"), &*get("/b"), "GET /c"].concat().as_bytes());
    play.connection.eof();
    assert!(!play.connection.wants_input());
    play.serve();
    assert_eq!(play.targets, ["/a", "/b"]);
    assert!(play.connection.is_finished());
    assert_eq!(play.text().matches("200 OK").count(), 2);

    let mut play = Play::new();
    play.connection.eof();
    assert_eq!(play.connection.poll_request(play.now), None);
    assert!(play.connection.is_finished());
}

#[test]
fn a_stop_completes_the_response_in_progress_and_no_other() {
    let mut play = Play::with([get("/parts/"), get("/b")].concat().as_bytes());
    play.request();
    assert!(play.connection.begin_body(ContentType::Json, play.now));
    play.connection.stop();
    assert!(!play.connection.is_finished());
    play.connection.finish_body(play.now);
    play.serve();
    assert!(play.text().ends_with("0\r\n\r\n") && play.targets.is_empty());
    assert!(play.connection.is_finished());

    let mut play = Play::with(b"GET /half");
    play.connection.stop();
    assert!(play.connection.is_finished());
}

#[test]
fn a_response_without_a_request_is_not_written() {
    let mut play = Play::new();
    play.connection.respond(&text("a"), play.now);
    assert!(!play.connection.begin_body(ContentType::Json, play.now));
    play.connection
        .send_body(&mut |_| panic!("the body has ended"), play.now);
    play.connection.finish_body(play.now);
    assert!(play.connection.pending().is_empty() && play.connection.wants_input());
}
