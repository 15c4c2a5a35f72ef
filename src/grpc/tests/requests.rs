//! Requests: what servers require, and how they are sent.

use super::{PATH, Server, reply, status, trailers};
use crate::grpc::{CallError, Client, Code};
use crate::http2::testing::{self as wire, Endpoint as _, ONE, THREE};
use crate::time::Time;

#[test]
fn a_request_has_the_headers_that_servers_require() {
    let mut client = Client::new(Time::ZERO);
    let deadline = Time::from_millis(1000);
    client.unary(PATH, b"", 100, deadline, Time::ZERO);
    let octets = client.transmit();
    assert_eq!(
        wire::frames_in(octets),
        ["preface", "SETTINGS of 2", "HEADERS 1", "DATA 1 5 end"]
    );
    let block = &octets[24 + 9 + 12 + 9..octets.len() - 9 - 5];
    let mut fields = Vec::new();
    crate::hpack::Decoder::new(4096)
        .decode(block, &mut |name, value| {
            let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).expect("ASCII");
            fields.push((text(name), text(value)));
        })
        .expect("the header block is valid");
    let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!(
        fields,
        [
            (":method", "POST"),
            // C-core responds to the scheme "unix" with status 13.
            (":scheme", "http"),
            // Without an authority, C-core and grpc-js reset the stream; if the authority contains
            // a path, grpc-js and tonic do.
            (":authority", "localhost"),
            (":path", PATH),
            // If the timeout has nine digits, grpc-go and grpc-java reset the stream.
            ("grpc-timeout", "1000000u"),
            // Without `te`, C-core resets the stream.
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", concat!("plugind/", env!("CARGO_PKG_VERSION"))),
        ]
    );
}

#[test]
fn a_large_request_is_sent_as_the_server_updates_the_windows() {
    let mut server = Server::connected(&[]);
    let call = server.start_call(&vec![7; 200_000]);
    let mut sent = 0;
    loop {
        let received = server.receive();
        let Some(last) = received.last() else {
            break;
        };
        for line in received.iter().filter(|line| line.starts_with("DATA")) {
            sent += line
                .split(' ')
                .nth(2)
                .map_or(0, |octets| octets.parse().expect("a number"));
        }
        if last.ends_with("end") {
            break;
        }
        server.send(&wire::window_update(0, 20_000));
        server.send(&wire::window_update(ONE, 20_000));
    }
    assert_eq!(sent, 200_005);
    let answer = [
        wire::ok(ONE),
        reply(b"x"),
        trailers(&[("grpc-status", "0")]),
    ];
    assert_eq!(server.send(&answer.concat()), [(call, Ok(b"x".to_vec()))]);
}

#[test]
fn a_request_continues_if_the_initial_window_is_raised() {
    let mut server = Server::connected(&[(4, 0)]);
    server.start_call(b"x");
    assert_eq!(server.receive(), ["HEADERS 1"]);
    server.send(&wire::settings(&[(4, 100)]));
    assert_eq!(server.receive(), ["SETTINGS ack", "DATA 1 6 end"]);
}

#[test]
fn calls_wait_for_a_stream_under_their_deadlines() {
    let mut server = Server::connected(&[(3, 1)]);
    let first = server.start_call(b"");
    let second = server.start_call(b"");
    assert_eq!(server.receive(), ["HEADERS 1", "DATA 1 5 end"]);
    let end = wire::headers(ONE, &[(":status", "200"), ("grpc-status", "5")], true);
    assert_eq!(
        server.send(&end),
        [(first, Err(status(Code::NotFound, "")))]
    );
    assert_eq!(server.receive(), ["HEADERS 3", "DATA 3 5 end"]);

    let third = server.start_call(b"");
    let ended = server.wait(1000);
    let exceeded = || Err(CallError::DeadlineExceeded);
    assert_eq!(ended, [(second, exceeded()), (third, exceeded())]);
    assert_eq!(server.receive(), ["RST_STREAM 3 CANCEL"]);
}

#[test]
fn calls_are_distinguished_and_may_end_in_any_order() {
    let mut server = Server::connected(&[]);
    let (first, second) = (server.start_call(b""), server.start_call(b""));
    let answer = |stream| {
        let end = [(":status", "200"), ("grpc-status", "5")];
        wire::headers(stream, &end, true)
    };
    let not_found = || Err(status(Code::NotFound, ""));
    assert_eq!(server.send(&answer(THREE)), [(second, not_found())]);
    assert_eq!(server.send(&answer(ONE)), [(first, not_found())]);
    assert_ne!(server.start_call(b""), first);
}

#[test]
fn a_call_whose_deadline_has_passed_is_not_made() {
    let mut server = Server::connected(&[]);
    let call = server.client.unary(PATH, b"", 100, server.now, server.now);
    assert_eq!(
        server.poll_outcomes(),
        [(call, Err(CallError::DeadlineExceeded))]
    );
    assert!(server.receive().is_empty());
}
