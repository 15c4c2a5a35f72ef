//! Tests of what gRPC requires of a server, with a test client that sends hand-written octets.

use std::time::Duration;

use super::{message, status};
use crate::config;
use crate::grpc::{Client, Code, Event, Incoming, Server, Status};
use crate::http2::testing::{self as wire, ONE, THREE};
use crate::http2::{ConnectionError, Endpoint as _, StreamId, carry};
use crate::time::Time;

pub(super) const UNARY: &str = "/a.B/Unary";
pub(super) const WATCH: &str = "/a.B/Watch";
const METHODS: &[&str] = &[UNARY, WATCH];

/// The largest request here, in octets.
pub(super) const LIMIT: usize = 100;

/// A server, and the test client at its other end.
pub(super) struct Caller {
    pub(super) server: Server,
    pub(super) now: Time,
}

impl Caller {
    /// Returns a client that has sent its connection preface to the server.
    pub(super) fn connected(settings: &[(u16, u32)]) -> Self {
        let mut caller = Self {
            server: Server::new(METHODS, LIMIT, Time::ZERO),
            now: Time::ZERO,
        };
        let preface = [wire::PREFACE, &wire::settings(settings)].concat();
        assert!(caller.send(&preface).is_empty());
        caller.receive();
        caller
    }

    /// Returns a client that has called a method, on stream 1.
    pub(super) fn calling(method: &'static str) -> Self {
        Self::calling_with(&[], method)
    }

    /// Returns a client that has sent these settings and called a method, on stream 1.
    pub(super) fn calling_with(settings: &[(u16, u32)], method: &'static str) -> Self {
        let mut caller = Self::connected(settings);
        let call = [
            wire::headers(ONE, &headers(method), false),
            wire::data(ONE, &message(b"ask"), true),
        ];
        assert_eq!(
            caller.send(&call.concat()),
            [called_event(ONE, method, b"ask")]
        );
        caller
    }

    pub(super) fn send(&mut self, mut octets: &[u8]) -> Vec<Incoming> {
        let mut events = Vec::new();
        loop {
            let n = self.server.receive_from(octets, self.now);
            octets = &octets[n..];
            while let Some(event) = self.server.poll_event(self.now) {
                events.push(event);
            }
            if octets.is_empty() || n == 0 {
                return events;
            }
        }
    }

    pub(super) fn receive(&mut self) -> Vec<String> {
        let octets = self.server.transmit().to_vec();
        self.server.sent(octets.len(), self.now);
        wire::frames_in(&octets)
    }

    fn wait(&mut self, millis: u64) -> Vec<Incoming> {
        self.now += Duration::from_millis(millis);
        self.server.handle_timeout(self.now);
        self.send(b"")
    }

    /// Returns the fields of the header blocks that the server writes.
    pub(super) fn receive_fields(&mut self) -> Vec<String> {
        let octets = self.server.transmit().to_vec();
        self.server.sent(octets.len(), self.now);
        wire::fields_in(&octets)
    }
}

pub(super) fn id(number: u32) -> StreamId {
    StreamId::new(number).expect("a stream's number")
}

pub(super) fn headers(method: &str) -> [(&str, &str); 6] {
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
}

pub(super) fn called_event(call: u32, method: &'static str, message: &[u8]) -> Incoming {
    Incoming::Called {
        call: id(call),
        method,
        message: message.to_vec(),
    }
}

/// Returns the fields with which a server answers a request without reporting it to its owner.
fn refusal_fields(fields: &[(&str, &str)], content: &[u8]) -> Vec<String> {
    let mut caller = Caller::connected(&[]);
    let call = [
        wire::headers(ONE, fields, false),
        wire::data(ONE, content, true),
    ];
    assert!(caller.send(&call.concat()).is_empty());
    assert!(caller.server.calls.is_empty(), "the call is answered");
    caller.receive_fields()
}

#[test]
fn a_unary_call_has_headers_one_message_and_a_status() {
    let mut caller = Caller::calling(UNARY);
    caller.server.reply(id(ONE), b"answer", caller.now);
    assert_eq!(
        wire::frames_in(caller.server.transmit()),
        ["HEADERS 1", "DATA 1 11", "HEADERS 1 end"]
    );
    let expected = [
        ":status: 200",
        "content-type: application/grpc",
        "grpc-status: 0",
    ];
    assert_eq!(caller.receive_fields(), expected);
    assert_eq!(caller.server.poll_timeout(), None);
}

#[test]
fn a_streaming_call_may_return_many_messages() {
    let mut caller = Caller::calling(WATCH);
    for content in [&b"one"[..], b"two"] {
        assert_eq!(caller.server.send(id(ONE), content, caller.now), Ok(()));
        caller.now += Duration::from_secs(24 * 3600);
    }
    caller.server.finish(id(ONE), Status::ok(), caller.now);
    assert_eq!(
        caller.receive(),
        ["HEADERS 1", "DATA 1 8", "DATA 1 8", "HEADERS 1 end"]
    );
}

#[test]
fn an_error_without_messages_is_trailers_only() {
    let mut caller = Caller::calling(UNARY);
    let words = "50% of\n\u{20ac}";
    let error = Status::new(Code::NotFound, words);
    caller.server.finish(id(ONE), error, caller.now);
    assert_eq!(wire::frames_in(caller.server.transmit()), ["HEADERS 1 end"]);
    let expected = [
        ":status: 200",
        "content-type: application/grpc",
        "grpc-status: 5",
        "grpc-message: 50%25 of%0A%E2%82%AC",
    ];
    assert_eq!(caller.receive_fields(), expected);
}

#[test]
fn details_are_sent_up_to_their_limit() {
    let sent = |details: &[u8]| {
        let mut caller = Caller::calling(UNARY);
        let status = Status {
            details: details.to_vec(),
            ..Status::new(Code::Aborted, "")
        };
        caller.server.finish(id(ONE), status, caller.now);
        caller.receive_fields().split_off(3)
    };
    let expected = ["grpc-message: ", "grpc-status-details-bin: Zm9vYg"];
    assert_eq!(sent(b"foob"), expected);
    assert_eq!(sent(&[0; 1024]).len(), 2);
    assert!(sent(&[0; 1025]).is_empty());
}

#[test]
fn an_unknown_method_is_unimplemented() {
    let fields = refusal_fields(&headers("/a.B/Other"), &message(b""));
    assert_eq!(fields[2], "grpc-status: 12");
    assert_eq!(fields[3], "grpc-message: unknown method /a.B/Other");
}

#[test]
fn a_request_that_is_not_grpc_gets_an_http_status() {
    let mut get = headers(UNARY);
    get[0].1 = "GET";
    assert_eq!(refusal_fields(&get, b""), [":status: 405"]);
    let mut html = headers(UNARY);
    html[5].1 = "text/html";
    assert_eq!(refusal_fields(&html, b""), [":status: 415"]);
}

#[test]
fn a_request_has_exactly_one_message_that_is_not_compressed() {
    let code = |content: &[u8]| refusal_fields(&headers(UNARY), content)[2].clone();
    assert_eq!(code(b""), "grpc-status: 13");
    assert_eq!(code(&message(b"cut")[..7]), "grpc-status: 13");
    assert_eq!(code(&message(b"").repeat(2)), "grpc-status: 13");
    assert_eq!(code(b"\x01\0\0\0\0"), "grpc-status: 12");
    assert_eq!(code(b"\x02\0\0\0\0"), "grpc-status: 13");
}

#[test]
fn a_request_above_the_limit_is_refused_on_its_prefix() {
    let mut caller = Caller::connected(&[]);
    let call = [
        wire::headers(ONE, &headers(UNARY), false),
        wire::data(ONE, b"\0\xff\xff\xff\xff", false),
    ];
    assert!(caller.send(&call.concat()).is_empty());
    assert_eq!(
        wire::frames_in(caller.server.transmit()),
        ["HEADERS 1 end", "RST_STREAM 1 NO_ERROR"]
    );
    assert_eq!(caller.receive_fields()[2], "grpc-status: 8");
    assert!(caller.send(&wire::data(ONE, b"late", true)).is_empty());
}

#[test]
fn the_timeout_of_the_client_is_enforced() {
    let with_timeout = |timeout| {
        let mut fields = headers(UNARY).to_vec();
        fields.push(("grpc-timeout", timeout));
        fields
    };
    let mut caller = Caller::connected(&[]);
    let call = [
        wire::headers(ONE, &with_timeout("500m"), false),
        wire::data(ONE, &message(b""), true),
    ];
    assert_eq!(caller.send(&call.concat()).len(), 1);
    assert_eq!(caller.server.poll_timeout(), Some(Time::from_millis(500)));
    assert!(caller.wait(499).is_empty());
    assert_eq!(caller.wait(1), [Incoming::Ended { call: id(ONE) }]);
    assert_eq!(caller.receive_fields()[2], "grpc-status: 4");
    caller.server.reply(id(ONE), b"late", caller.now);
    assert!(caller.receive().is_empty());

    let fields = refusal_fields(&with_timeout("123456789S"), &message(b""));
    assert_eq!(fields[2], "grpc-status: 13");
}

#[test]
fn a_request_must_be_complete_within_ten_seconds() {
    let mut caller = Caller::connected(&[]);
    caller.send(&wire::headers(ONE, &headers(UNARY), false));
    let request = message(&[7; 100]);
    for octet in &request[..99] {
        assert!(caller.wait(100).is_empty());
        caller.send(&wire::data(ONE, &[*octet], false));
    }
    assert!(caller.wait(100).is_empty());
    assert_eq!(
        wire::frames_in(caller.server.transmit()),
        ["HEADERS 1 end", "RST_STREAM 1 NO_ERROR"]
    );
    assert_eq!(caller.receive_fields()[2], "grpc-status: 4");
}

#[test]
fn a_response_that_cannot_be_written_in_time_is_reset() {
    let mut caller = Caller::calling_with(&[(4, 0)], UNARY);
    caller.server.reply(id(ONE), b"answer", caller.now);
    assert_eq!(caller.receive(), ["HEADERS 1"]);
    assert!(caller.wait(9_999).is_empty());
    assert!(caller.receive().is_empty());
    caller.wait(1);
    assert_eq!(caller.receive(), ["RST_STREAM 1 CANCEL"]);
    assert!(caller.server.calls.is_empty());
}

#[test]
fn unread_messages_are_accepted_up_to_a_limit() {
    let mut caller = Caller::calling_with(&[(4, 0)], WATCH);
    let content = [7; 1_000];
    let mut taken = 0;
    while caller.server.send(id(ONE), &content, caller.now) == Ok(()) {
        taken += 1;
        caller.receive();
    }
    assert_eq!(taken, 17);
    assert!(caller.server.mem_used() < 5 * config::MAX_UNSENT_OCTETS);
    caller.send(&wire::window_update(ONE, 10_000));
    caller.receive();
    assert_eq!(caller.server.send(id(ONE), &content, caller.now), Ok(()));
    let unknown = caller.server.send(id(THREE), &content, caller.now);
    assert_eq!(unknown, Ok(()), "messages on an unknown call are dropped");
}

#[test]
fn a_request_may_end_with_trailers() {
    let mut caller = Caller::connected(&[]);
    let call = [
        wire::headers(ONE, &headers(UNARY), false),
        wire::data(ONE, &message(b"ask"), false),
        wire::headers(ONE, &[("a", "b")], true),
    ];
    assert_eq!(
        caller.send(&call.concat()),
        [called_event(ONE, UNARY, b"ask")]
    );
}

#[test]
fn a_client_that_sent_goaway_still_gets_its_response() {
    let mut caller = Caller::calling(UNARY);
    assert!(caller.send(&wire::goaway(0, 0, b"")).is_empty());
    caller.server.reply(id(ONE), b"answer", caller.now);
    let events = caller.send(b"");
    assert!(
        matches!(
            &events[..],
            [Incoming::Closed(ConnectionError::GoAwayReceived(_))]
        ),
        "{events:?}"
    );
    assert_eq!(
        caller.receive(),
        ["HEADERS 1", "DATA 1 11", "HEADERS 1 end"]
    );
}

#[test]
fn a_cancelled_call_is_reported_and_its_response_dropped() {
    let mut caller = Caller::calling(WATCH);
    let reset = wire::reset(ONE, 8);
    assert_eq!(caller.send(&reset), [Incoming::Ended { call: id(ONE) }]);
    assert_eq!(caller.server.send(id(ONE), b"late", caller.now), Ok(()));
    assert!(caller.receive().is_empty());
    assert!(caller.server.calls.is_empty());
}

#[test]
fn a_call_ends_if_its_client_rejects_the_headers() {
    let max_header_list_size = (6, 40);
    let mut caller = Caller::connected(&[max_header_list_size]);
    let call = [
        wire::headers(ONE, &headers(WATCH), false),
        wire::data(ONE, &message(b"ask"), true),
    ];
    assert_eq!(
        caller.send(&call.concat()),
        [called_event(ONE, WATCH, b"ask")]
    );
    caller.receive();
    assert_eq!(caller.server.send(id(1), b"one", caller.now), Ok(()));
    assert_eq!(caller.receive(), ["RST_STREAM 1 INTERNAL_ERROR"]);
    assert_eq!(caller.send(b""), [Incoming::Ended { call: id(1) }]);
}

#[test]
fn shutdown_finishes_running_calls_and_accepts_no_others() {
    let mut caller = Caller::calling(UNARY);
    caller.server.shutdown(caller.now);
    let call = [
        wire::headers(THREE, &headers(UNARY), false),
        wire::data(THREE, &message(b""), true),
    ];
    assert!(caller.send(&call.concat()).is_empty());
    assert!(!caller.server.is_closed());
    caller.server.reply(id(ONE), b"answer", caller.now);
    let closed = Incoming::Closed(ConnectionError::ShutDown);
    assert_eq!(caller.send(b""), [closed]);
    assert!(caller.server.is_closed());
    assert_eq!(
        caller.receive(),
        [
            "GOAWAY 1 NO_ERROR",
            "HEADERS 1",
            "DATA 1 11",
            "HEADERS 1 end"
        ]
    );
}

#[test]
fn the_calls_end_with_their_connection() {
    let mut caller = Caller::calling(WATCH);
    caller.server.eof(caller.now);
    let closed = Incoming::Closed(ConnectionError::Eof {
        inside_frame: false,
    });
    assert_eq!(
        caller.send(b""),
        [Incoming::Ended { call: id(ONE) }, closed]
    );
}

/// Moves octets between both ends until neither has any; returns the events of both.
fn exchange(client: &mut Client, server: &mut Server) -> (Vec<Event>, Vec<Incoming>) {
    let (mut events, mut incoming) = (Vec::new(), Vec::new());
    let now = Time::ZERO;
    loop {
        let before = (events.len(), incoming.len());
        let there = carry(client, server, now);
        incoming.extend(std::iter::from_fn(|| server.poll_event(now)));
        let back = carry(server, client, now);
        events.extend(std::iter::from_fn(|| client.poll_event(now)));
        if there + back == 0 && before == (events.len(), incoming.len()) {
            return (events, incoming);
        }
    }
}

#[test]
fn our_client_and_our_server_understand_each_other() {
    let now = Time::ZERO;
    let mut server = Server::new(METHODS, 1 << 20, now);
    let mut client = Client::new(now);
    let large: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let unary = client.unary(UNARY, &large, 1 << 20, Time::from_millis(1_000), now);
    let watch = client.server_streaming(WATCH, b"", 1 << 20, None, now);
    let unknown = client.unary("/a.B/C", b"", 100, Time::from_millis(1_000), now);
    let (events, incoming) = exchange(&mut client, &mut server);
    assert_eq!(incoming.len(), 2);
    let error = status(Code::Unimplemented, "unknown method /a.B/C");
    let result = Err(error);
    let call = unknown;
    assert_eq!(events, [Event::Finished { call, result }]);

    server.reply(id(ONE), &large, now);
    server.send(id(THREE), b"one", now).expect("there is room");
    let (events, _) = exchange(&mut client, &mut server);
    assert!(events.contains(&Event::Finished {
        call: unary,
        result: Ok(large),
    }));
    assert!(events.contains(&Event::Message {
        call: watch,
        message: b"one".to_vec(),
    }));

    client.cancel(watch, now);
    let (_, incoming) = exchange(&mut client, &mut server);
    assert_eq!(incoming, [Incoming::Ended { call: id(THREE) }]);
    server.shutdown(now);
    let (_, incoming) = exchange(&mut client, &mut server);
    assert_eq!(incoming, [Incoming::Closed(ConnectionError::ShutDown)]);
    assert!(client.is_closed());
}
