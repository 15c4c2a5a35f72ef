//! Every limit of a call, on either side: a value at the limit is accepted, a larger one is not.

use std::time::Duration;

use super::server::{Caller, LIMIT, UNARY, WATCH, called_event, headers, id};
use super::{PATH, Server, message, trailers};
use crate::config;
use crate::grpc::{Backpressure, CallError, Code, Status, TransparentRetry};
use crate::http2::testing::{self as wire, Endpoint as _, ONE};

/// Makes a call with a limit for the reply, and replies with `length` octets. Returns the length
/// of the reply that the call returned, or the error, and the last frames from the client.
fn result_of_reply(limit: usize, length: usize) -> (Result<usize, CallError>, Vec<String>) {
    let mut server = Server::connected(&[]);
    let (now, deadline) = (server.now, server.now + Duration::from_secs(1));
    server.client.unary(PATH, b"", limit, deadline, now);
    server.receive();
    let mut outcomes = server.send(&wire::ok(ONE));
    for piece in message(&vec![7; length]).chunks(16_384) {
        outcomes.extend(server.send(&wire::data(ONE, piece, false)));
        if let Some((_, result)) = outcomes.pop() {
            return (result.map(|reply| reply.len()), server.receive());
        }
        server.receive();
    }
    let mut outcomes = server.send(&trailers(&[("grpc-status", "0")]));
    let (_, result) = outcomes.pop().expect("the call has ended");
    (result.map(|reply| reply.len()), server.receive())
}

#[test]
fn a_reply_may_have_as_many_octets_as_the_call_accepts() {
    let limits = [
        config::MAX_GET_INFO_REPLY,
        config::MAX_SMALL_MESSAGE,
        config::MAX_REPLY,
        0,
    ];
    for limit in limits {
        assert_eq!(result_of_reply(limit, limit), (Ok(limit), vec![]));
        let announced = u32::try_from(limit + 1).expect("a short message");
        let error = CallError::TooLarge { announced, limit };
        assert_eq!(error.code(), Code::ResourceExhausted);
        assert_eq!(error.transparent_retry(), TransparentRetry::Never);
        let (result, received) = result_of_reply(limit, limit + 1);
        assert_eq!(result, Err(error));
        assert_eq!(
            received.last().map(String::as_str),
            Some("RST_STREAM 1 CANCEL")
        );
    }
}

#[test]
fn a_client_has_a_maximum_number_of_calls() {
    let mut server = Server::connected(&[(3, 0)]);
    for _ in 0..config::MAX_STREAMS {
        server.start_call(b"");
    }
    assert!(server.poll_outcomes().is_empty());
    let call = server.start_call(b"");
    let error = CallError::TooManyCalls;
    assert_eq!(error.transparent_retry(), TransparentRetry::Unlimited);
    assert_eq!(server.poll_outcomes(), [(call, Err(error))]);
}

/// C-core and grpc-java refuse headers above [`config::MAX_SENT_HEADER_BLOCK`]; a server may
/// advertise an even lower limit.
#[test]
fn a_call_with_too_large_headers_is_not_made() {
    let calls = [
        (None, 7_000, true),
        (None, config::MAX_SENT_HEADER_BLOCK, false),
        (Some((6, 1_000)), 100, true),
        (Some((6, 300)), 100, false),
    ];
    for (setting, length, is_fine) in calls {
        let mut server = Server::connected(setting.as_slice());
        let path = "/".repeat(length);
        let (now, deadline) = (server.now, server.now + Duration::from_secs(1));
        let call = server.client.unary(&path, b"", 100, deadline, now);
        if is_fine {
            assert_eq!(server.receive(), ["HEADERS 1", "DATA 1 5 end"]);
            continue;
        }
        let error = CallError::RequestHeaders;
        assert_eq!(error.code(), Code::ResourceExhausted);
        assert_eq!(server.poll_outcomes(), [(call, Err(error))]);
        assert!(server.receive().is_empty());
    }
}

#[test]
fn a_request_may_have_as_many_octets_as_the_server_accepts() {
    let head = wire::headers(ONE, &headers(UNARY), false);
    let (fits, beyond) = (vec![7; LIMIT], vec![7; LIMIT + 1]);
    let mut caller = Caller::connected(&[]);
    let events = caller.send(&[&head[..], &wire::data(ONE, &message(&fits), true)].concat());
    assert_eq!(events, [called_event(ONE, UNARY, &fits)]);

    let mut caller = Caller::connected(&[]);
    let events = caller.send(&[&head[..], &wire::data(ONE, &message(&beyond), true)].concat());
    assert!(events.is_empty());
    let fields = caller.receive_fields();
    assert_eq!(fields[2], "grpc-status: 8");
    let words = "the message is too large octets=101 limit=100";
    assert_eq!(fields[3], format!("grpc-message: {words}"));
}

#[test]
fn memory_for_a_request_grows_with_what_was_received() {
    let mut caller = Caller::connected(&[]);
    let before = caller.server.mem_used();
    caller.send(&wire::headers(ONE, &headers(UNARY), false));
    caller.send(&wire::data(ONE, &message(&[7; LIMIT])[..10], false));
    let held = caller.server.mem_used() - before;
    assert!((5..LIMIT + 1024).contains(&held), "{held} octets");
}

#[test]
fn messages_are_accepted_until_16_kib_are_unsent() {
    let mut caller = Caller::calling_with(&[(4, 0)], WATCH);
    let most = vec![7; config::MAX_UNSENT_OCTETS - 5 - 1];
    assert_eq!(caller.server.send(id(ONE), &most, caller.now), Ok(()));
    // One octet less than the limit is unsent, so one more message is accepted.
    assert_eq!(caller.server.send(id(ONE), &most, caller.now), Ok(()));
    assert_eq!(
        caller.server.send(id(ONE), b"", caller.now),
        Err(Backpressure)
    );
    assert!(caller.server.mem_used() < 5 * config::MAX_UNSENT_OCTETS);
    caller.send(&wire::settings(&[(4, 0x7fff_ffff)]));
    caller.send(&wire::window_update(0, 1 << 20));
    while !caller.receive().is_empty() {}
    assert_eq!(caller.server.send(id(ONE), b"", caller.now), Ok(()));
}

#[test]
fn a_response_with_too_large_headers_resets_the_stream() {
    let mut caller = Caller::calling_with(&[(6, 10)], UNARY);
    caller.server.reply(id(ONE), b"answer", caller.now);
    assert_eq!(caller.receive(), ["RST_STREAM 1 INTERNAL_ERROR"]);
    assert!(caller.server.calls.is_empty());
}

#[test]
fn the_message_of_a_status_is_sent_up_to_its_limit() {
    let mut caller = Caller::calling(UNARY);
    let words = "x".repeat(config::MAX_REASON + 1);
    let status = Status::new(Code::Aborted, &*words);
    caller.server.finish(id(ONE), status, caller.now);
    let sent = &caller.receive_fields()[3]["grpc-message: ".len()..];
    assert_eq!(sent, &words[1..]);
}
