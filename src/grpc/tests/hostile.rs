//! Servers that stall a call, respond octet by octet, or flood the client: the call ends on time,
//! at a bounded cost.

use std::time::Duration;

use super::{PATH, Server, message, reply, status, trailers};
use crate::config;
use crate::grpc::{CallError, Client, Code, Event, ProtocolError};
use crate::http2::testing::{self as wire, Endpoint as _, ONE};
use crate::http2::{Awaited, ConnectionError, StreamError};
use crate::time::Time;

/// The maximum memory that a client may hold for a call with a reply of a few octets.
const BOUND: usize = 64 * 1024;

#[test]
fn a_stalled_call_ends_at_its_deadline() {
    let (initial_window, max_streams) = ((4, 0), (3, 0));
    let servers = [
        (Server::connected(&[initial_window]), 1),
        (Server::connected(&[max_streams]), 0),
        (Server::connected(&[]), 1),
    ];
    for (mut server, opened) in servers {
        let call = server.start_call(b"x");
        server.receive();
        assert!(server.wait(999).is_empty());
        let exceeded = Err(CallError::DeadlineExceeded);
        assert_eq!(server.wait(1), [(call, exceeded)]);
        assert_eq!(server.receive(), vec!["RST_STREAM 1 CANCEL"; opened]);
        assert!(server.client.mem_used() < BOUND);
    }
}

/// The server sends an octet every 100 ms, and what it sends is incomplete at the deadline.
#[test]
fn slow_octets_do_not_extend_any_deadline() {
    let large = incomplete_block(&"x".repeat(10_000));
    let table: [(Vec<u8>, Duration, CallError); 5] = [
        (
            // An incomplete connection preface: a part of a SETTINGS frame.
            wire::settings(&[(0xfe03, 1); 2_000])[..12_000].to_vec(),
            config::DIAL_TIMEOUT,
            timeout_error(NO_SETTINGS),
        ),
        (
            // A header block.
            [wire::settings(&[]), large].concat(),
            config::PEER_TIMEOUT,
            timeout_error(Awaited::HeaderBlock),
        ),
        (
            // One frame.
            [wire::settings(&[]), wire::data(ONE, &[7; 10_000], false)].concat(),
            CALL,
            CallError::DeadlineExceeded,
        ),
        (
            // A message in complete frames.
            [
                wire::settings(&[]),
                wire::ok(ONE),
                wire::data(ONE, b"\0\0\0\x27\x10", false),
                wire::data(ONE, b"x", false).repeat(1_000),
            ]
            .concat(),
            CALL,
            CallError::DeadlineExceeded,
        ),
        (
            // Frames that do not advance the call, below the flood limit.
            [wire::settings(&[]), wire::ping(1).repeat(1_000)].concat(),
            CALL,
            CallError::DeadlineExceeded,
        ),
    ];
    for (octets, time, expected) in table {
        let now = Time::ZERO;
        let mut client = Client::new(now);
        client.unary(PATH, b"", 10_000, now + CALL, now);
        let mut server = Server { client, now };
        let mut outcomes = Vec::new();
        let mut octets = octets.iter();
        while outcomes.is_empty() {
            let octet = octets.next().expect("the octets outlast the time");
            outcomes = server.send(&[*octet]);
            server.receive();
            outcomes.extend(server.wait(100));
        }
        assert_eq!(outcomes[0].1, Err(expected));
        let took = server.now.saturating_since(Time::ZERO);
        // The octets in front of the unfinished part also take time.
        assert!(
            (time..=time + Duration::from_secs(2)).contains(&took),
            "{took:?}"
        );
        assert!(server.client.mem_used() < BOUND);
    }
}

/// The time limit of a call here: longer than the deadlines of a connection.
const CALL: Duration = Duration::from_secs(30);

/// Returns an incomplete header block: a HEADERS and a CONTINUATION frame, without END_HEADERS.
fn incomplete_block(filler: &str) -> Vec<u8> {
    let fields = wire::block(&[(":status", "200"), ("filler", filler)]);
    let (first, rest) = fields.split_at(1);
    let head = wire::frame(wire::HEADERS, 0, ONE, first);
    [head, wire::frame(wire::CONTINUATION, 0, ONE, rest)].concat()
}

/// The cause of the timeout if the server had all of [`config::DIAL_TIMEOUT`] for its SETTINGS.
const NO_SETTINGS: Awaited = Awaited::Settings {
    within: config::DIAL_TIMEOUT,
};

fn timeout_error(awaited: Awaited) -> CallError {
    CallError::Connection {
        error: ConnectionError::TimedOut(awaited),
        written: true,
    }
}

#[test]
fn a_message_of_4_gib_is_refused_on_its_prefix() {
    let (mut server, call) = Server::with_call();
    let prefix = wire::data(ONE, b"\0\xff\xff\xff\xff", false);
    let outcomes = server.send(&[wire::ok(ONE), prefix].concat());
    let too_large = CallError::TooLarge {
        announced: u32::MAX,
        limit: 100,
    };
    assert_eq!(outcomes, [(call, Err(too_large))]);
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
    assert!(server.client.mem_used() < 8 * 1024);
}

#[test]
fn a_flood_of_empty_messages_ends_a_unary_call_with_the_second() {
    let (mut server, call) = Server::with_call();
    let flood = wire::data(ONE, &message(b"").repeat(3_000), false);
    let outcomes = server.send(&[wire::ok(ONE), flood].concat());
    let second = CallError::Protocol(ProtocolError::SecondMessage);
    assert_eq!(outcomes, [(call, Err(second))]);
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
    assert!(server.client.mem_used() < BOUND);
}

#[test]
fn trailers_that_are_too_large_fail_the_call_and_cost_no_memory() {
    let (mut server, call) = Server::with_call();
    let many = [("a", "b"); 257];
    let outcomes = server.send(&[wire::ok(ONE), reply(b"x"), trailers(&many)].concat());
    let error = CallError::Stream(StreamError::TooManyFields);
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert_eq!(outcomes, [(call, Err(error))]);
    assert!(server.client.mem_used() < BOUND);
}

/// The message may contain any octets: it is truncated, and escaped when it is displayed.
#[test]
fn a_grpc_message_is_decoded_lossily_escaped_and_cut_at_1_kib() {
    let (long, percent) = ("x".repeat(16_000), "%41".repeat(5_000));
    let wide = "%E2%82%AC".repeat(1_000);
    let table = [
        ("%ff%fe", "\u{fffd}\u{fffd}".to_owned()),
        ("%c3", "\u{fffd}".to_owned()),
        ("%1b[2J%07%9b", "\u{1b}[2J\u{7}\u{fffd}".to_owned()),
        ("\u{9b}2J", "\u{9b}2J".to_owned()),
        (&*long, "x".repeat(1024)),
        (&*percent, "A".repeat(1024)),
        (&*wide, "\u{20ac}".repeat(341) + "\u{fffd}"),
    ];
    for (encoded, expected) in table {
        let (mut server, _) = Server::with_call();
        let end = trailers(&[("grpc-status", "13"), ("grpc-message", encoded)]);
        let outcomes = server.send(&[wire::ok(ONE), end].concat());
        let Err(error) = &outcomes[0].1 else {
            panic!("the status is an error");
        };
        assert_eq!(*error, status(Code::Internal, &expected));
        let shown = error.to_string();
        assert!(shown.chars().all(|c| !c.is_control()), "{shown}");
        assert!(server.client.mem_used() < BOUND);
    }
}

/// Returns the server of a client whose deadlines start when the server is ready, which must be
/// within `until` milliseconds. One call was made, with a deadline of one second.
fn unready_server(until: u64) -> Server {
    let now = Time::ZERO;
    let mut client = Client::new(now);
    client.start_deadlines_when_ready(Time::from_millis(until));
    client.unary(PATH, b"", 100, Time::from_millis(1_000), now);
    let mut server = Server { client, now };
    server.receive();
    server
}

#[test]
fn the_deadline_of_a_call_starts_with_the_server_s_settings() {
    let exceeded = Err(CallError::DeadlineExceeded);
    for settings_after in [3_000, 8_000, 9_999] {
        let mut server = unready_server(10_000);
        assert!(server.wait(settings_after).is_empty());
        server.send(&wire::settings(&[]));
        assert!(server.client.peer_settings().is_some());
        assert!(server.wait(999).is_empty());
        assert_eq!(server.wait(1)[0].1, exceeded, "{settings_after}");
    }
    let mut server = Server::connected(&[]);
    let until = Time::from_millis(10_000);
    server.client.start_deadlines_when_ready(until);
    server.start_call(b"");
    assert_eq!(server.wait(1_000)[0].1, exceeded, "the server is ready");
}

#[test]
fn a_server_without_settings_fails() {
    for (until, within) in [(4_000, "4.0s"), (10_000, "10.0s"), (60_000, "60.0s")] {
        let mut server = unready_server(until);
        assert_eq!(
            server.client.poll_timeout(),
            Some(Time::from_millis(until)),
            "the deadline of the call has not started"
        );
        assert!(server.wait(until - 1).is_empty());
        let outcomes = server.wait(1);
        let error = outcomes[0].1.as_ref().expect_err("the server is not ready");
        let words = format!(
            "the peer sent no SETTINGS within {within} of connecting: \
             the HTTP/2 handshake timed out"
        );
        assert_eq!(error.to_string(), words);
        assert_eq!(error.code(), Code::Unavailable);
        assert_eq!(server.receive(), ["GOAWAY 0 SETTINGS_TIMEOUT"]);
    }
}

#[test]
fn a_cancelled_call_with_a_blocked_request_resets_its_stream() {
    let mut server = Server::connected(&[(4, 0)]);
    let call = server.start_call(&[7; 100]);
    assert_eq!(server.receive(), ["HEADERS 1"]);
    server.client.cancel(call, server.now);
    let cancelled = Event::Finished {
        call,
        result: Err(CallError::Cancelled),
    };
    assert_eq!(server.client.poll_event(server.now), Some(cancelled));
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
    server.send(&wire::window_update(ONE, 100));
    assert!(server.receive().is_empty());
}
