//! The server's end: what differs if the peer opens the streams.

use crate::http2::testing::*;
use crate::http2::{ErrorCode, HeadersError, OpenError, StreamId, Taken};

const HEAD: [(&str, &[u8]); 1] = [(":status", b"200")];
const STATUS: [(&str, &[u8]); 1] = [("grpc-status", b"0")];

fn id(number: u32) -> StreamId {
    StreamId::new(number).expect("a stream's number")
}

/// Returns a client with open requests on these streams, whose content is still to be sent.
pub(super) fn client_with_requests(streams: &[u32]) -> Peer {
    let mut peer = Peer::client_with_settings(&[]);
    for &stream in streams {
        assert_eq!(
            peer.send(&request(stream, false)),
            [format!("request {stream}")]
        );
    }
    peer
}

/// Sends a complete response to a request.
pub(super) fn answer(peer: &mut Peer, stream: u32) {
    let now = peer.now;
    let sent = peer.machine.send_headers(id(stream), &HEAD, false, now);
    assert_eq!(sent, Ok(()));
    let taken = peer.machine.send_data(id(stream), b"reply", false, now);
    assert_eq!(taken, Taken::All);
    let sent = peer.machine.send_headers(id(stream), &STATUS, true, now);
    assert_eq!(sent, Ok(()));
}

#[track_caller]
pub(super) fn assert_closed(events: &[String], code: &str) {
    let last = events.last().expect("something happened");
    assert!(last.starts_with(&format!("closed {code}")), "{last}");
}

/// RFC 9113 §3.4: "The client connection preface starts with a sequence of 24 octets".
#[test]
fn a_server_sends_settings_before_it_receives_the_preface() {
    let mut peer = Peer::client();
    assert_eq!(peer.receive(), ["SETTINGS of 2"]);
    for octet in [PREFACE, &settings(&[])[..8]].concat() {
        assert!(peer.send(&[octet]).is_empty());
    }
    assert!(peer.machine.peer_settings().is_none());
    peer.send(&settings(&[])[8..]);
    assert!(peer.machine.peer_settings().is_some());
    assert_eq!(peer.receive(), ["SETTINGS ack"]);
}

#[test]
fn a_client_that_does_not_speak_http2_is_recognised() {
    let others: [(&[u8], &str); 4] = [
        (b"GET / HTTP/1.1\r\n\r\n", "it sent an HTTP/1 request"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc", "it sent a TLS record"),
        (b"\0\0\0\x04\0\0\0\0\0", "unknown protocol received="),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\0",
            "unknown protocol received=",
        ),
    ];
    for (words, expected) in others {
        let mut peer = Peer::client();
        let events = peer.send(words);
        assert_closed(&events, "PROTOCOL_ERROR");
        assert!(events[0].contains(expected), "{events:?}");
    }
}

#[test]
fn a_client_has_five_seconds_for_its_preface() {
    let mut peer = Peer::client();
    peer.receive();
    peer.send(&PREFACE[..10]);
    assert!(peer.wait(4_999).is_empty());
    assert_closed(&peer.wait(1), "SETTINGS_TIMEOUT");
}

#[test]
fn a_request_is_answered_with_headers_data_and_trailers() {
    let mut peer = client_with_requests(&[ONE]);
    assert_eq!(peer.send(&data(ONE, b"hello", true)), ["data 1 5 end"]);
    answer(&mut peer, ONE);
    assert_eq!(peer.receive(), ["HEADERS 1", "DATA 1 5", "HEADERS 1 end"]);
    let late = peer.machine.send_headers(id(ONE), &HEAD, true, peer.now);
    assert_eq!(late, Ok(()), "there is nothing left to do");
    assert!(peer.receive().is_empty());
}

#[test]
fn requests_may_end_with_their_headers_or_with_trailers() {
    let mut peer = Peer::client_with_settings(&[]);
    assert_eq!(peer.send(&request(ONE, true)), ["request 1 end"]);
    assert_eq!(peer.send(&request(THREE, false)), ["request 3"]);
    assert_eq!(
        peer.send(&headers(THREE, &[("a", "b")], true)),
        ["trailers 3"]
    );
}

/// RFC 9113 §8.1.1: "Malformed requests or responses that are detected MUST be treated as a stream
/// error [...] of type PROTOCOL_ERROR."
#[test]
fn a_malformed_request_is_reset_and_not_reported() {
    let malformed: [&[(&str, &str)]; 6] = [
        &[],
        &REQUEST[1..],
        &[REQUEST[0], REQUEST[0], REQUEST[1], REQUEST[2]],
        &[REQUEST[0], REQUEST[1], REQUEST[2], ("Upper", "x")],
        &[REQUEST[0], REQUEST[1], REQUEST[2], ("connection", "close")],
        &[(":status", "200")],
    ];
    for fields in malformed {
        let mut peer = Peer::client_with_settings(&[]);
        let events = peer.send(&headers(ONE, fields, false));
        assert!(events.is_empty(), "{fields:?}: {events:?}");
        assert_eq!(peer.receive(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
        assert!(peer.send(&data(ONE, b"late", true)).is_empty());
        assert_eq!(peer.send(&request(THREE, true)), ["request 3 end"]);
    }
}

#[test]
fn a_refusal_is_sent_ahead_of_a_queued_response() {
    let mut peer = client_with_requests(&[ONE]);
    let sent = peer.machine.send_headers(id(ONE), &HEAD, false, peer.now);
    assert_eq!(sent, Ok(()));
    peer.send(&[ping(1), headers(THREE, &[], true), ping(2)].concat());
    assert_eq!(
        peer.receive(),
        [
            "PING ack 1",
            "RST_STREAM 3 PROTOCOL_ERROR",
            "PING ack 2",
            "HEADERS 1"
        ]
    );
}

#[test]
fn a_request_with_too_many_headers_is_reset() {
    let mut peer = Peer::client_with_settings(&[]);
    let many: Vec<_> = REQUEST.into_iter().chain([("a", "b"); 253]).collect();
    assert!(peer.send(&headers(ONE, &many, true)).is_empty());
    assert_eq!(peer.receive(), ["RST_STREAM 1 ENHANCE_YOUR_CALM"]);
    assert_eq!(
        peer.send(&headers(THREE, &many[..256], true)),
        ["request 3 end"]
    );
}

/// RFC 9113 §5.1.1: "The identifier of a newly established stream MUST be numerically greater than
/// all streams that the initiating endpoint has opened or reserved."
#[test]
fn stream_identifiers_are_odd_and_increase() {
    let mut peer = client_with_requests(&[5]);
    assert_closed(&peer.send(&request(THREE, true)), "PROTOCOL_ERROR");
    let mut peer = client_with_requests(&[ONE]);
    assert_closed(&peer.send(&request(2, true)), "PROTOCOL_ERROR");
}

/// RFC 9113 §5.1: "Receiving any frame other than HEADERS or PRIORITY on a stream in this state
/// MUST be treated as a connection error [...] of type PROTOCOL_ERROR."
#[test]
fn nothing_but_headers_opens_a_stream() {
    let frames = [
        data(ONE, b"x", true),
        reset(ONE, 8),
        window_update(ONE, 1),
        frame(CONTINUATION, END_HEADERS, ONE, b""),
    ];
    for octets in frames {
        let mut peer = Peer::client_with_settings(&[]);
        assert_closed(&peer.send(&octets), "PROTOCOL_ERROR");
    }
    let mut peer = Peer::client_with_settings(&[]);
    assert!(peer.send(&frame(PRIORITY, 0, ONE, &[0; 5])).is_empty());
}

/// RFC 9113 §5.1, half-closed (remote): "it MUST respond with a stream error [...] of type
/// STREAM_CLOSED"; closed: "a connection error [...] of type STREAM_CLOSED".
#[test]
fn frames_after_the_end_of_a_request_are_errors() {
    for late in [data(ONE, b"x", true), request(ONE, true)] {
        let mut peer = Peer::client_with_settings(&[]);
        peer.send(&request(ONE, true));
        let events = peer.send(&late);
        assert!(
            events[0].starts_with("failed 1 STREAM_CLOSED"),
            "{events:?}"
        );

        let mut peer = Peer::client_with_settings(&[]);
        peer.send(&request(ONE, true));
        answer(&mut peer, ONE);
        assert_closed(&peer.send(&late), "STREAM_CLOSED");
    }
}

/// RFC 9113 §8.4: "A client cannot push. Thus, servers MUST treat the receipt of a PUSH_PROMISE
/// frame as a connection error [...] of type PROTOCOL_ERROR."
#[test]
fn a_client_cannot_push_and_a_server_does_not() {
    let mut peer = client_with_requests(&[ONE]);
    let push = frame(PUSH_PROMISE, END_HEADERS, ONE, b"\0\0\0\x02\x82");
    assert_closed(&peer.send(&push), "PROTOCOL_ERROR");
    let mut peer = Peer::client_with_settings(&[(2, 1)]);
    let opened = peer.machine.open(&HEAD, true, peer.now);
    assert_eq!(opened, Err(OpenError::Exhausted));
}

/// RFC 9113 §5.1.2: exceeding the limit is "a stream error [...] of type PROTOCOL_ERROR or
/// REFUSED_STREAM".
#[test]
fn the_101st_stream_at_a_time_is_refused() {
    let mut peer = Peer::client_with_settings(&[]);
    for stream in 0..100 {
        peer.send(&request(1 + 2 * stream, true));
    }
    assert!(peer.send(&request(201, true)).is_empty());
    assert_eq!(peer.receive(), ["RST_STREAM 201 REFUSED_STREAM"]);
    answer(&mut peer, ONE);
    assert_eq!(peer.send(&request(203, true)), ["request 203 end"]);
}

#[test]
fn a_header_block_is_decoded_even_if_its_stream_is_refused() {
    let mut peer = Peer::client_with_settings(&[]);
    for stream in 0..100 {
        peer.send(&request(1 + 2 * stream, true));
    }
    // The refused request adds "a: b" to the table; the next request refers to the entry.
    let mut indexing = block(&REQUEST);
    indexing[0] = 0x3f;
    indexing.splice(1..1, [0xe1, 0x1f]);
    indexing.extend(b"\x40\x01a\x01b");
    peer.send(&frame(HEADERS, END_HEADERS, 201, &indexing));
    answer(&mut peer, ONE);
    let mut referring = block(&REQUEST).split_off(1);
    referring.push(0xbe);
    let flags = END_HEADERS | END_STREAM;
    assert_eq!(
        peer.send(&frame(HEADERS, flags, 203, &referring)),
        ["request 203 end"]
    );
}

/// RFC 9113 §6.8: "the last stream identifier [...] the highest-numbered stream identifier for
/// which the sender of the GOAWAY frame might have taken some action on or might yet take action
/// on."
#[test]
fn shutdown_finishes_accepted_streams_and_ignores_new_ones() {
    let mut peer = client_with_requests(&[ONE, THREE]);
    peer.send(&data(ONE, b"x", true));
    peer.machine.shutdown(peer.now);
    assert_eq!(peer.receive(), ["GOAWAY 3 NO_ERROR"]);
    assert!(peer.send(&request(5, false)).is_empty(), "it is ignored");
    assert!(peer.send(&data(5, b"x", true)).is_empty());
    answer(&mut peer, ONE);
    peer.send(&data(THREE, b"x", true));
    answer(&mut peer, THREE);
    assert_eq!(
        peer.send(b""),
        ["closed NO_ERROR: the connection was shut down"]
    );
    assert_eq!(peer.receive().len(), 6);
}

#[test]
fn a_goaway_after_a_goaway_does_not_raise_the_last_stream() {
    let mut peer = client_with_requests(&[ONE]);
    peer.machine.shutdown(peer.now);
    assert_eq!(peer.receive(), ["GOAWAY 1 NO_ERROR"]);
    peer.send(&request(THREE, true));
    peer.send(&frame(PING, 0, 0, &[0; 7]));
    assert_eq!(peer.receive(), ["GOAWAY 1 FRAME_SIZE_ERROR"]);
}

#[test]
fn a_client_that_sent_goaway_is_still_answered() {
    let mut peer = client_with_requests(&[ONE]);
    assert_eq!(peer.send(&goaway(0, 0, b"")), ["goaway 0 NO_ERROR"]);
    assert_eq!(peer.send(&data(ONE, b"x", true)), ["data 1 1 end"]);
    answer(&mut peer, ONE);
    assert_closed(&peer.send(b""), "NO_ERROR: the peer sent GOAWAY");
}

#[test]
fn a_request_may_be_cancelled() {
    let mut peer = client_with_requests(&[ONE]);
    assert_eq!(peer.send(&reset(ONE, 8)), ["reset 1 CANCEL"]);
    assert_eq!(
        peer.machine.send_headers(id(ONE), &HEAD, true, peer.now),
        Ok(())
    );
    assert!(peer.receive().is_empty());
}

#[test]
fn responses_larger_than_the_client_accepts_are_not_sent() {
    let mut peer = Peer::client_with_settings(&[(6, 40)]);
    peer.send(&request(ONE, true));
    let sent = peer.machine.send_headers(id(ONE), &HEAD, true, peer.now);
    assert_eq!(sent, Err(HeadersError::TooLarge));
    peer.machine
        .reset(id(ONE), ErrorCode::INTERNAL_ERROR, peer.now);
    assert_eq!(peer.receive(), ["RST_STREAM 1 INTERNAL_ERROR"]);
}

#[test]
fn a_response_waits_for_a_client_that_does_not_read() {
    let mut peer = Peer::client_with_settings(&[]);
    peer.send(&request(ONE, true));
    let content = vec![7; 20_000];
    peer.machine
        .send_headers(id(ONE), &HEAD, false, peer.now)
        .expect("room");
    let taken = peer.machine.send_data(id(ONE), &content, false, peer.now);
    assert_eq!(taken, Taken::Some(16_384));
    let sent = peer.machine.send_headers(id(ONE), &STATUS, true, peer.now);
    assert_eq!(sent, Err(HeadersError::Later));
    assert_eq!(peer.receive(), ["HEADERS 1", "DATA 1 16384"]);
    let sent = peer.machine.send_headers(id(ONE), &STATUS, true, peer.now);
    assert_eq!(sent, Ok(()));
}
