//! Calls that the server has not processed are retried immediately, but only once; others are not.

use super::{PATH, Server, message, reply, trailers};
use crate::grpc::{CallError, Code, TransparentRetry};
use crate::http2::testing::{self as wire, Endpoint as _, ONE, THREE};
use crate::time::Time;

/// Returns a RST_STREAM with REFUSED_STREAM.
fn refusal(stream: u32) -> Vec<u8> {
    wire::reset(stream, 7)
}

/// Returns a complete response on stream 3.
fn answer() -> Vec<u8> {
    [
        wire::ok(THREE),
        wire::data(THREE, &message(b"fine"), false),
        wire::headers(THREE, &[("grpc-status", "0")], true),
    ]
    .concat()
}

#[test]
fn a_refused_call_is_made_again_in_the_time_left() {
    let (mut server, call) = Server::with_call();
    assert!(server.wait(400).is_empty());
    assert!(server.send(&refusal(ONE)).is_empty(), "it is retried");
    let octets = server.client.transmit().to_vec();
    assert_eq!(wire::frames_in(&octets), ["HEADERS 3", "DATA 3 12 end"]);
    assert!(octets.ends_with(b"request"));
    let fields = wire::fields_in(&octets);
    assert!(fields.contains(&format!(":path: {PATH}")), "{fields:?}");
    assert!(fields.contains(&"grpc-timeout: 600000u".to_owned()));
    server.receive();
    assert_eq!(server.send(&answer()), [(call, Ok(b"fine".to_vec()))]);
}

#[test]
fn a_server_that_refuses_every_call_gets_two_attempts() {
    let mut server = Server::connected(&[]);
    let call = server.start_call(b"request");
    let (mut attempts, mut stream) = (0, ONE);
    let error = loop {
        attempts += server.receive().len() / 2;
        let mut outcomes = server.send(&refusal(stream));
        if let Some((ended, result)) = outcomes.pop() {
            assert_eq!(ended, call);
            break result.expect_err("the call is refused");
        }
        stream += 2;
    };
    assert_eq!(attempts, 2);
    assert_eq!(error, CallError::Refused { again: false });
    assert_eq!(
        (error.code(), error.transparent_retry()),
        (Code::Unavailable, TransparentRetry::Never)
    );
    assert!(server.wait(100_000).is_empty(), "a call ends once");
    assert!(server.receive().is_empty());
}

#[test]
fn a_call_above_the_last_stream_may_be_retried_once() {
    let (mut server, call) = Server::with_call();
    let gone = Err(CallError::Refused { again: true });
    assert_eq!(
        server.send(&wire::goaway(0, 0, b"")),
        [(call, gone.clone())]
    );
    assert_eq!(
        gone.map_err(|error| error.transparent_retry()),
        Err(TransparentRetry::Once)
    );
    // The second refusal is final, even if the first one was on the same connection.
    let (mut server, call) = Server::with_call();
    server.send(&refusal(ONE));
    server.receive();
    let gone = Err(CallError::Refused { again: false });
    assert_eq!(server.send(&wire::goaway(ONE, 0, b"")), [(call, gone)]);
}

#[test]
fn a_call_that_was_never_written_may_be_retried_freely() {
    // On the same connection, the call is written as soon as a stream can be opened for it.
    let mut server = Server::connected(&[(3, 0)]);
    server.start_call(b"request");
    for _ in 0..10 {
        assert!(server.wait(99).is_empty());
        server.send(&wire::settings(&[(3, 0)]));
        assert_eq!(server.receive(), ["SETTINGS ack"]);
    }
    server.send(&wire::settings(&[(3, 1)]));
    assert_eq!(
        server.receive(),
        ["SETTINGS ack", "HEADERS 1", "DATA 1 12 end"]
    );
    // On another connection, a retry is up to the caller.
    server.send(&wire::settings(&[(3, 1)]));
    let waiting = server.start_call(b"request");
    let outcomes = server.send(&wire::goaway(ONE, 0, b""));
    let [(ended, Err(error))] = &outcomes[..] else {
        panic!("the unwritten call has failed: {outcomes:?}");
    };
    assert_eq!(*ended, waiting);
    assert_eq!(
        (error.code(), error.transparent_retry()),
        (Code::Unavailable, TransparentRetry::Unlimited)
    );
}

#[test]
fn a_call_that_may_have_been_processed_is_not_retried() {
    let codes = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 0xffff];
    let ends = codes.map(|code| wire::reset(ONE, code));
    let no = wire::headers(ONE, &[(":status", "200"), ("grpc-status", "14")], true);
    let http = wire::headers(ONE, &[(":status", "503")], true);
    for end in ends.into_iter().chain([no, http]) {
        let (mut server, _) = Server::with_call();
        let outcomes = server.send(&end);
        let [(_, Err(error))] = &outcomes[..] else {
            panic!("the call has ended: {outcomes:?}");
        };
        assert_eq!(
            error.transparent_retry(),
            TransparentRetry::Never,
            "{error}"
        );
        assert!(server.receive().is_empty(), "{error}");
    }
}

#[test]
fn a_call_refused_after_its_headers_is_not_retried() {
    for end in [refusal(ONE), wire::goaway(0, 0, b"")] {
        let (mut server, call) = Server::with_call();
        assert!(
            server
                .send(&[wire::ok(ONE), reply(b"half")].concat())
                .is_empty()
        );
        let refused = Err(CallError::Refused { again: false });
        assert_eq!(server.send(&end), [(call, refused)]);
        assert!(server.receive().is_empty());
    }
}

#[test]
fn a_request_is_kept_until_the_server_answers_and_no_longer() {
    const LARGE: usize = 20_000;
    let mut server = Server::connected(&[]);
    let call = server.start_call(&vec![7; LARGE]);
    let sent = |server: &mut Server| {
        let received =
            std::iter::from_fn(|| Some(server.receive()).filter(|received| !received.is_empty()));
        received.flatten().collect::<Vec<_>>()
    };
    assert_eq!(
        sent(&mut server),
        ["HEADERS 1", "DATA 1 16384", "DATA 1 3621 end"]
    );
    assert!(server.client.mem_used() > LARGE);
    server.send(&refusal(ONE));
    assert_eq!(
        sent(&mut server),
        ["HEADERS 3", "DATA 3 16384", "DATA 3 3621 end"]
    );
    server.send(&wire::ok(THREE));
    assert!(server.client.mem_used() < LARGE);
    let end = wire::headers(THREE, &[("grpc-status", "5")], true);
    assert_eq!(server.send(&end)[0].0, call);
}

#[test]
fn a_refused_streaming_call_is_retried_too() {
    let mut server = Server::connected(&[]);
    let now = Time::ZERO;
    server.client.server_streaming(PATH, b"", 100, None, now);
    server.receive();
    server.send(&refusal(ONE));
    assert_eq!(server.receive(), ["HEADERS 3", "DATA 3 5 end"]);
}

#[test]
fn a_refused_call_waits_for_a_stream_like_any_other() {
    let mut server = Server::connected(&[]);
    let (first, second) = (server.start_call(b"one"), server.start_call(b"two"));
    server.receive();
    server.send(&[wire::settings(&[(3, 1)]), refusal(THREE)].concat());
    assert_eq!(server.receive(), ["SETTINGS ack"]);
    let end = [
        wire::ok(ONE),
        reply(b"1"),
        trailers(&[("grpc-status", "0")]),
    ];
    assert_eq!(server.send(&end.concat()), [(first, Ok(b"1".to_vec()))]);
    assert_eq!(server.receive(), ["HEADERS 5", "DATA 5 8 end"]);
    let exceeded = Err(CallError::DeadlineExceeded);
    assert_eq!(server.wait(1_000), [(second, exceeded)]);
}
