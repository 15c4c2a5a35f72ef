//! Calls that end without a response: deadlines, resets, lost connections.

use super::{PATH, Server, code, message, outcome, reply, trailers};
use crate::grpc::{CallError, CallId, Client, Code, TransparentRetry};
use crate::http2::testing::{self as wire, Endpoint as _, ONE, THREE};
use crate::http2::{ConnectionError, ErrorCode, Malformed, OtherProtocol, StreamError};
use crate::time::Time;

#[test]
fn a_deadline_resets_the_stream() {
    let (mut server, call) = Server::with_call();
    assert_eq!(server.client.poll_timeout(), Some(Time::from_millis(1000)));
    assert!(server.wait(999).is_empty());
    assert_eq!(server.wait(1), [(call, Err(CallError::DeadlineExceeded))]);
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
    assert_eq!(server.client.poll_timeout(), None);
    let late = [
        wire::ok(ONE),
        reply(b"late"),
        trailers(&[("grpc-status", "0")]),
    ];
    assert!(server.send(&late.concat()).is_empty());
}

#[test]
fn a_deadline_holds_regardless_of_progress() {
    let (mut server, call) = Server::with_call();
    server.send(&wire::ok(ONE));
    for octet in message(&[7; 90]).chunks(1) {
        if let [(ended, result)] = &server.wait(20)[..] {
            assert_eq!((*ended, result), (call, &Err(CallError::DeadlineExceeded)));
            return;
        }
        server.send(&wire::data(ONE, octet, false));
    }
    panic!("the call has ended at its deadline");
}

#[test]
fn a_reset_has_a_code() {
    let table = [
        (0, Code::Internal),
        (1, Code::Internal),
        (2, Code::Internal),
        (3, Code::Internal),
        (4, Code::Internal),
        (6, Code::Internal),
        (7, Code::Unavailable),
        (8, Code::Cancelled),
        (9, Code::Internal),
        (11, Code::ResourceExhausted),
        (12, Code::PermissionDenied),
        (0xffff, Code::Internal),
    ];
    for (number, expected) in table {
        let answer = [wire::ok(ONE), wire::reset(ONE, number)];
        assert_eq!(code(&answer), expected, "{number}");
    }
    let answer = [wire::ok(ONE), reply(b"x"), wire::reset(ONE, 0)];
    assert_eq!(
        code(&answer),
        Code::Internal,
        "a reset before the trailers is an error"
    );
}

#[test]
fn a_broken_rule_on_a_stream_is_not_a_refusal() {
    let error = CallError::Stream(StreamError::Malformed(Malformed::Status));
    assert_eq!(error.code(), Code::Internal);
    assert_eq!(outcome(&[wire::headers(ONE, &[], false)]), Err(error));
    let early = wire::headers(ONE, &[(":status", "103")], false);
    assert_eq!(code(&vec![early; 9]), Code::Internal);
}

#[test]
fn a_call_in_every_state_meets_every_end() {
    type End = fn(&mut Server, CallId);
    let ends: [(End, Code); 6] = [
        (
            |server, _| {
                server.now += std::time::Duration::from_secs(1);
                server.client.handle_timeout(server.now);
            },
            Code::DeadlineExceeded,
        ),
        (
            |server, call| server.client.cancel(call, server.now),
            Code::Cancelled,
        ),
        (|server, _| server.client.close(server.now), Code::Cancelled),
        (|server, _| server.client.eof(server.now), Code::Unavailable),
        (
            |server, _| _ = server.feed(&wire::goaway(0, 0, b"")),
            Code::Unavailable,
        ),
        (
            |server, _| _ = server.feed(&wire::data(THREE, b"x", false)),
            Code::Unavailable,
        ),
    ];
    for (end, expected) in ends {
        let mut waiting = Server::connected(&[(3, 0)]);
        let call = waiting.start_call(b"");
        let (mut awaiting_head, _) = Server::with_call();
        let (mut awaiting_reply, _) = Server::with_call();
        awaiting_reply.send(&wire::ok(ONE));
        for server in [&mut waiting, &mut awaiting_head, &mut awaiting_reply] {
            end(server, call);
            let outcomes = server.poll_outcomes();
            let [(ended, Err(error))] = &outcomes[..] else {
                panic!("one call has failed: {outcomes:?}");
            };
            assert_eq!((*ended, error.code()), (call, expected));
            assert!(server.wait(100_000).is_empty(), "a call ends once");
        }
    }
}

#[test]
fn a_cancelled_call_resets_its_stream() {
    let (mut server, call) = Server::with_call();
    server.client.cancel(call, server.now);
    server.client.cancel(call, server.now);
    assert_eq!(server.poll_outcomes(), [(call, Err(CallError::Cancelled))]);
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
}

#[test]
fn a_call_continues_after_a_graceful_goaway() {
    let (mut server, call) = Server::with_call();
    assert!(!server.client.is_closed());
    assert!(server.send(&wire::goaway(0x7fff_ffff, 0, b"")).is_empty());
    assert!(server.client.is_closed());
    assert!(server.send(&wire::goaway(ONE, 0, b"")).is_empty());
    let answer = [
        wire::ok(ONE),
        reply(b"x"),
        trailers(&[("grpc-status", "0")]),
    ];
    assert_eq!(server.send(&answer.concat()), [(call, Ok(b"x".to_vec()))]);

    let late = server.start_call(b"");
    let outcomes = server.poll_outcomes();
    assert_eq!(outcomes[0].0, late);
    let error = outcomes[0].1.as_ref().expect_err("no call can be made");
    assert_eq!(
        (error.code(), error.transparent_retry()),
        (Code::Unavailable, TransparentRetry::Unlimited)
    );
}

#[test]
fn calls_end_with_their_connection() {
    let mut server = Server::connected(&[]);
    let written = server.start_call(b"");
    server.receive();
    let queued = server.start_call(b"");
    server.client.eof(server.now);
    let error = ConnectionError::Eof {
        inside_frame: false,
    };
    let lost = |written| CallError::Connection {
        error: error.clone(),
        written,
    };
    let outcomes = server.poll_outcomes();
    assert_eq!(
        outcomes,
        [(written, Err(lost(true))), (queued, Err(lost(false)))]
    );
    assert_eq!(lost(true).code(), Code::Unavailable);
    assert_eq!(
        (
            lost(true).transparent_retry(),
            lost(false).transparent_retry()
        ),
        (TransparentRetry::Never, TransparentRetry::Unlimited)
    );
    assert!(server.client.is_closed());
    assert!(server.client.transmit().is_empty());
    assert_eq!(server.client.poll_timeout(), None);
}

#[test]
fn the_error_of_a_call_names_a_protocol_other_than_http2() {
    let mut client = Client::new(Time::ZERO);
    client.unary(PATH, b"", 100, Time::from_millis(1000), Time::ZERO);
    let mut server = Server {
        client,
        now: Time::ZERO,
    };
    let outcomes = server.send(b"HTTP/1.0 501 Unsupported method\r\n\r\n");
    let error = ConnectionError::NotHttp2(OtherProtocol::Http1(Some(501)));
    let lost = CallError::Connection {
        error,
        written: false,
    };
    assert_eq!(outcomes[0].1, Err(lost));
}

#[test]
fn a_violation_ends_all_calls_and_sends_goaway() {
    let (mut server, _) = Server::with_call();
    let outcomes = server.send(&wire::data(THREE, b"x", false));
    let error = outcomes[0].1.as_ref().expect_err("the connection is lost");
    assert_eq!(
        error.to_string(),
        "the peer caused an HTTP/2 connection error: \
         DATA on idle stream 3 code=PROTOCOL_ERROR"
    );
    assert_eq!(server.receive(), ["GOAWAY 0 PROTOCOL_ERROR"]);
}

#[test]
fn closing_cancels_all_calls_and_sends_goaway() {
    let (mut server, call) = Server::with_call();
    server.client.close(server.now);
    assert!(server.client.is_closed());
    assert_eq!(server.poll_outcomes(), [(call, Err(CallError::Cancelled))]);
    assert_eq!(
        server.receive(),
        ["RST_STREAM 1 CANCEL", "GOAWAY 0 NO_ERROR"]
    );
}

#[test]
fn a_call_reset_with_enhance_your_calm_is_not_retried() {
    let error = outcome(&[wire::reset(ONE, 11)]).expect_err("the call was reset");
    assert_eq!(error, CallError::Reset(ErrorCode::ENHANCE_YOUR_CALM));
    assert!(!error.may_retry());
}
