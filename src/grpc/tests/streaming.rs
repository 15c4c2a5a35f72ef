//! Server-streaming calls: many messages, as long as the server keeps the stream open.

use std::time::Duration;

use super::{PATH, Server, message};
use crate::grpc::{CallError, CallId, Code, Event, ProtocolError};
use crate::http2::ErrorCode;
use crate::http2::testing::{self as wire, Endpoint as _, ONE};

/// The largest message here, in octets.
const LIMIT: usize = 100_000;

/// Returns a server that has received a streaming call.
fn server_with_stream() -> (Server, CallId) {
    let mut server = Server::connected(&[]);
    let now = server.now;
    let call = server
        .client
        .server_streaming(PATH, b"watch", LIMIT, None, now);
    assert_eq!(server.receive(), ["HEADERS 1", "DATA 1 10 end"]);
    (server, call)
}

/// Returns a server that has received a streaming call and has sent the headers of its response.
fn server_with_response_headers() -> (Server, CallId) {
    let (mut server, call) = server_with_stream();
    assert!(send(&mut server, &wire::ok(ONE)).is_empty());
    (server, call)
}

/// Sends octets to the client; returns its events.
fn send(server: &mut Server, mut octets: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while !octets.is_empty() {
        octets = &octets[server.feed(octets)..];
        while let Some(event) = server.client.poll_event(server.now) {
            events.push(event);
        }
    }
    events
}

fn message_event(call: CallId, content: &[u8]) -> Event {
    let message = content.to_vec();
    Event::Message { call, message }
}

fn closed_event(call: CallId, result: Result<(), CallError>) -> Event {
    Event::Closed { call, result }
}

fn status_trailers(status: &str) -> Vec<u8> {
    wire::headers(ONE, &[("grpc-status", status)], true)
}

#[test]
fn every_message_is_reported_and_then_the_end() {
    let (mut server, call) = server_with_response_headers();
    let answer = [
        wire::data(ONE, &[message(b"one"), message(b"")].concat(), false),
        wire::data(ONE, &message(b"three"), false),
        status_trailers("0"),
    ];
    assert_eq!(
        send(&mut server, &answer.concat()),
        [
            message_event(call, b"one"),
            message_event(call, b""),
            message_event(call, b"three"),
            closed_event(call, Ok(()))
        ]
    );
}

#[test]
fn messages_are_the_same_wherever_the_answer_is_cut() {
    let answer = [
        wire::ok(ONE),
        wire::data(ONE, &[message(b"one"), message(b"two")].concat(), false),
        status_trailers("0"),
    ]
    .concat();
    for cut in 0..=answer.len() {
        let (mut server, call) = server_with_stream();
        let mut all = send(&mut server, &answer[..cut]);
        all.extend(send(&mut server, &answer[cut..]));
        let expected = [
            message_event(call, b"one"),
            message_event(call, b"two"),
            closed_event(call, Ok(())),
        ];
        assert_eq!(all, expected, "cut at {cut}");
    }
}

#[test]
fn a_stream_without_messages_may_end_well() {
    let (mut server, call) = server_with_stream();
    let fields = [
        (":status", "200"),
        ("content-type", "application/grpc"),
        ("grpc-status", "0"),
    ];
    let answer = wire::headers(ONE, &fields, true);
    assert_eq!(send(&mut server, &answer), [closed_event(call, Ok(()))]);
}

#[test]
fn a_stream_without_a_deadline_sends_no_timeout() {
    let (server, _) = server_with_stream();
    assert_eq!(server.client.poll_timeout(), None);
    let mut client = super::Client::new(server.now);
    client.server_streaming(PATH, b"", LIMIT, None, server.now);
    let octets = client.transmit();
    let timeout = b"grpc-timeout";
    assert!(!octets.windows(timeout.len()).any(|it| it == timeout));
    assert!(octets.windows(8).any(|it| it == b"trailers"));
}

#[test]
fn a_stream_with_a_deadline_ends_with_it() {
    let mut server = Server::connected(&[]);
    let deadline = server.now + Duration::from_secs(1);
    let now = server.now;
    let call = server
        .client
        .server_streaming(PATH, b"", LIMIT, Some(deadline), now);
    server.receive();
    server.now = deadline;
    server.client.handle_timeout(deadline);
    let event = server.client.poll_event(deadline);
    assert_eq!(
        event,
        Some(closed_event(call, Err(CallError::DeadlineExceeded)))
    );
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
}

/// The server sends a message every ten seconds and a PING every second, for three days.
#[test]
fn a_stream_stays_open_for_days() {
    let (mut server, call) = server_with_response_headers();
    for second in 0..3 * 24 * 3600 {
        server.now += Duration::from_secs(1);
        let now = server.now;
        server.client.handle_timeout(now);
        assert!(send(&mut server, &wire::ping(1)).is_empty());
        if second % 10 == 0 {
            let data = wire::data(ONE, &message(b"devices"), false);
            assert_eq!(send(&mut server, &data), [message_event(call, b"devices")]);
        }
        server.receive();
    }
    assert_eq!(
        send(&mut server, &status_trailers("0")),
        [closed_event(call, Ok(()))]
    );
}

#[test]
fn a_stream_can_be_silent_for_days() {
    let (mut server, call) = server_with_response_headers();
    server.now += Duration::from_secs(10 * 24 * 3600);
    server.client.handle_timeout(server.now);
    assert_eq!(server.client.poll_event(server.now), None);
    let data = wire::data(ONE, &message(b"still there"), false);
    assert_eq!(
        send(&mut server, &data),
        [message_event(call, b"still there")]
    );
}

#[test]
fn the_window_is_returned_only_as_messages_are_taken() {
    let (mut server, _) = server_with_response_headers();
    // A frame holds four messages, and nine messages are more than half a window.
    let frame = wire::data(ONE, &message(&[7; 4_000]).repeat(4), false);
    let mut rest = &frame.repeat(3)[..];
    let mut taken = 0;
    while !rest.is_empty() {
        rest = &rest[server.feed(rest)..];
        while server.client.poll_event(server.now).is_some() {
            taken += 1;
            let updates = server.receive();
            let is_given_back = updates.contains(&"WINDOW_UPDATE 1 36045".to_owned());
            assert_eq!(is_given_back, taken == 9, "{updates:?}");
        }
    }
    assert_eq!(taken, 12);
}

/// The window is 65,535 octets, so it must be updated before the message is complete.
#[test]
fn a_message_larger_than_the_window_is_received() {
    let (mut server, call) = server_with_response_headers();
    let content = vec![7; LIMIT];
    let mut all = Vec::new();
    for piece in message(&content).chunks(16_384) {
        all.extend(send(&mut server, &wire::data(ONE, piece, false)));
        server.receive();
    }
    assert_eq!(all, [message_event(call, &content)]);
}

#[test]
fn a_message_above_the_limit_ends_the_stream_on_its_prefix() {
    let (mut server, call) = server_with_response_headers();
    let prefix = [0, 0xff, 0xff, 0xff, 0xff];
    let all = send(&mut server, &wire::data(ONE, &prefix, false));
    let too_large = CallError::TooLarge {
        announced: u32::MAX,
        limit: LIMIT,
    };
    assert_eq!(too_large.code(), Code::ResourceExhausted);
    assert_eq!(all, [closed_event(call, Err(too_large))]);
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
}

/// Each frame holds 3,000 messages, which are returned one by one.
#[test]
fn a_flood_of_empty_messages_costs_no_memory() {
    let (mut server, _) = server_with_response_headers();
    let flood = wire::data(ONE, &message(b"").repeat(3_000), false);
    let (mut peak, mut count) = (0, 0);
    for _ in 0..100 {
        let mut rest = &flood[..];
        while !rest.is_empty() {
            rest = &rest[server.feed(rest)..];
            while server.client.poll_event(server.now).is_some() {
                peak = peak.max(server.client.mem_used());
                count += 1;
            }
        }
        server.receive();
    }
    assert_eq!(count, 300_000);
    assert!(peak < 64 * 1024, "{peak} octets");
}

#[test]
fn a_cancelled_stream_reports_nothing_more() {
    let (mut server, call) = server_with_response_headers();
    let two = [message(b"one"), message(b"two")].concat();
    server.feed(&wire::data(ONE, &two, false));
    assert_eq!(
        server.client.poll_event(server.now),
        Some(message_event(call, b"one"))
    );
    server.client.cancel(call, server.now);
    assert_eq!(
        server.client.poll_event(server.now),
        Some(closed_event(call, Err(CallError::Cancelled)))
    );
    assert_eq!(server.client.poll_event(server.now), None);
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
    assert!(send(&mut server, &wire::data(ONE, &two, false)).is_empty());
}

#[test]
fn a_stream_can_be_cancelled_before_its_headers() {
    let (mut server, call) = server_with_stream();
    server.client.cancel(call, server.now);
    let event = server.client.poll_event(server.now);
    assert_eq!(event, Some(closed_event(call, Err(CallError::Cancelled))));
    assert!(send(&mut server, &wire::ok(ONE)).is_empty(), "ignored");
}

#[test]
fn the_error_that_ended_a_stream_is_reported() {
    let cut = message(b"cut")[..6].to_vec();
    let broken = |broken| CallError::Protocol(broken);
    let table = [
        (wire::data(ONE, b"", true), broken(ProtocolError::NoStatus)),
        (
            wire::data(ONE, &message(b"x"), true),
            broken(ProtocolError::NoStatus),
        ),
        (
            wire::data(ONE, &cut, true),
            broken(ProtocolError::CutMessage),
        ),
        (
            [wire::data(ONE, &cut, false), status_trailers("0")].concat(),
            broken(ProtocolError::CutMessage),
        ),
        (
            wire::data(ONE, b"\x01\0\0\0\0", false),
            broken(ProtocolError::Compressed),
        ),
        (status_trailers("14"), super::status(Code::Unavailable, "")),
        (wire::reset(ONE, 7), CallError::Refused { again: false }),
        (wire::reset(ONE, 0), CallError::Reset(ErrorCode::NO_ERROR)),
        (wire::goaway(0, 0, b""), CallError::Refused { again: false }),
    ];
    for (answer, expected) in table {
        let (mut server, call) = server_with_response_headers();
        let all = send(&mut server, &answer);
        assert_eq!(all.last(), Some(&closed_event(call, Err(expected))));
    }
}

#[test]
fn a_stream_ends_with_its_connection() {
    let (mut server, call) = server_with_response_headers();
    server.client.eof(server.now);
    let event = server.client.poll_event(server.now);
    let Some(Event::Closed {
        call: ended,
        result,
    }) = event
    else {
        panic!("the stream ends");
    };
    assert_eq!(ended, call);
    assert_eq!(result.map_err(|error| error.code()), Err(Code::Unavailable));
}

#[test]
fn a_stream_does_not_delay_unary_calls() {
    let (mut server, call) = server_with_response_headers();
    let unary = server.start_call(b"");
    server.receive();
    let answer = [
        wire::data(ONE, &message(b"one"), false),
        wire::ok(wire::THREE),
        wire::data(wire::THREE, &message(b"reply"), false),
        wire::headers(wire::THREE, &[("grpc-status", "0")], true),
        wire::data(ONE, &message(b"two"), false),
    ];
    let reply = Event::Finished {
        call: unary,
        result: Ok(b"reply".to_vec()),
    };
    assert_eq!(
        send(&mut server, &answer.concat()),
        [
            message_event(call, b"one"),
            reply,
            message_event(call, b"two")
        ]
    );
}
