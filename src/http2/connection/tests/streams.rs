//! What may be received on a stream, and when (RFC 9113 §5.1).

use crate::http2::stream::Stream;
use crate::http2::testing::*;
use crate::http2::{ConnectionError, ErrorCode, HeadersError, OpenError, StreamId};

#[test]
fn a_response_is_headers_data_and_trailers() {
    let mut peer = Peer::server_with_requests(1);
    let answer = [
        ok(ONE),
        data(ONE, b"hello", false),
        headers(ONE, &[("grpc-status", "0")], true),
    ];
    assert_eq!(
        peer.send(&answer.concat()),
        ["head 1 200", "data 1 5", "trailers 1"]
    );
}

#[test]
fn a_response_may_end_with_its_headers_or_with_data() {
    let mut peer = Peer::server_with_requests(2);
    assert_eq!(
        peer.send(&headers(ONE, &[(":status", "200")], true)),
        ["head 1 200 end"]
    );
    peer.send(&ok(THREE));
    assert_eq!(peer.send(&data(THREE, b"", true)), ["data 3 0 end"]);
}

#[test]
fn headers_data_resets_and_updates_on_idle_streams_are_errors() {
    for stream in [2, 3, 4, 0x7fff_ffff] {
        let frames = [
            ok(stream),
            frame(HEADERS, 0, stream, b""),
            data(stream, b"x", false),
            reset(stream, 8),
            window_update(stream, 1),
        ];
        for octets in frames {
            let mut peer = Peer::server_with_requests(1);
            let events = peer.send(&octets);
            assert!(
                events[0].starts_with("closed PROTOCOL_ERROR"),
                "{stream}: {events:?}"
            );
        }
    }
}

#[test]
fn after_our_reset_late_frames_are_ignored_and_not_answered() {
    let mut peer = Peer::server_with_requests(1);
    peer.machine
        .reset(StreamId::FIRST, ErrorCode::CANCEL, peer.now);
    assert_eq!(peer.receive(), ["RST_STREAM 1 CANCEL"]);
    let late = [
        ok(ONE),
        data(ONE, b"x", false),
        headers(ONE, &[("a", "b")], true),
        reset(ONE, 8),
        reset(ONE, 8),
        window_update(ONE, 5),
    ];
    for octets in late {
        assert!(peer.send(&octets).is_empty());
        assert!(peer.receive().is_empty());
    }
    peer.machine
        .reset(StreamId::FIRST, ErrorCode::CANCEL, peer.now);
    assert!(peer.receive().is_empty(), "a stream is reset once");
}

#[test]
fn a_reset_is_never_answered_with_a_reset() {
    let mut peer = Peer::server_with_requests(1);
    assert_eq!(peer.send(&reset(ONE, 7)), ["reset 1 REFUSED_STREAM"]);
    assert!(peer.send(&reset(ONE, 7)).is_empty());
    assert!(peer.receive().is_empty());
}

#[test]
fn a_reset_after_the_end_is_ignored() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    peer.send(&headers(ONE, &[("grpc-status", "0")], true));
    assert!(peer.send(&reset(ONE, 0)).is_empty());
    assert!(peer.receive().is_empty());
}

#[test]
fn frames_after_the_end_of_a_message_are_errors() {
    // Closed in both directions.
    for late in [data(ONE, b"x", false), headers(ONE, &[("a", "b")], true)] {
        let mut peer = Peer::server_with_requests(1);
        peer.send(&headers(ONE, &[(":status", "200")], true));
        let events = peer.send(&late);
        assert!(events[0].starts_with("closed STREAM_CLOSED"), "{events:?}");
    }
    // Half-closed: the client may still send.
    for late in [data(ONE, b"x", false), headers(ONE, &[("a", "b")], true)] {
        let mut peer = Peer::server_with_settings(&[]);
        peer.open(false);
        peer.send(&headers(ONE, &[(":status", "200")], true));
        let events = peer.send(&late);
        assert!(
            events[0].starts_with("failed 1 STREAM_CLOSED"),
            "{events:?}"
        );
    }
}

#[test]
fn a_frame_with_a_wrong_stream_or_size_ends_the_connection() {
    let table = [
        (data(0, b"x", false), "PROTOCOL_ERROR"),
        (headers(0, &[], false), "PROTOCOL_ERROR"),
        (reset(0, 8), "PROTOCOL_ERROR"),
        (frame(PING, 0, ONE, &[0; 8]), "PROTOCOL_ERROR"),
        (frame(GOAWAY, 0, ONE, &[0; 8]), "PROTOCOL_ERROR"),
        (frame(PING, 0, 0, &[0; 7]), "FRAME_SIZE_ERROR"),
        (frame(RST_STREAM, 0, ONE, &[0; 5]), "FRAME_SIZE_ERROR"),
        (frame(WINDOW_UPDATE, 0, ONE, &[0; 3]), "FRAME_SIZE_ERROR"),
        (frame(PRIORITY, 0, ONE, &[0; 4]), "FRAME_SIZE_ERROR"),
        (frame(DATA, PADDED, ONE, b"\x05hi"), "PROTOCOL_ERROR"),
        (
            b"\x00\x40\x01\x00\x00\x00\x00\x00\x01".to_vec(),
            "FRAME_SIZE_ERROR",
        ),
    ];
    for (octets, code) in table {
        let mut peer = Peer::server_with_requests(1);
        let events = peer.send(&octets);
        assert!(
            events[0].starts_with(&format!("closed {code}")),
            "{octets:?}: {events:?}"
        );
        assert_eq!(peer.receive(), [format!("GOAWAY 0 {code}")]);
        assert!(
            peer.send(&ping(1)).is_empty(),
            "an ended connection receives nothing"
        );
        assert!(peer.machine.recv_buf().is_empty());
    }
}

/// RFC 9113 §6.6: "An endpoint that has set this setting and has received acknowledgment MUST treat
/// the receipt of a PUSH_PROMISE frame as a connection error (Section 5.4.1) of type
/// PROTOCOL_ERROR."
#[test]
fn a_push_is_a_connection_error() {
    for stream in [0, ONE, 2, THREE] {
        let mut peer = Peer::server_with_requests(1);
        let push = frame(PUSH_PROMISE, END_HEADERS, stream, b"\0\0\0\x02\x82");
        let events = peer.send(&push);
        assert!(events[0].starts_with("closed PROTOCOL_ERROR"), "{events:?}");
        assert_eq!(peer.receive(), ["GOAWAY 0 PROTOCOL_ERROR"]);
    }
}

#[test]
fn no_stream_is_opened_when_the_identifiers_are_exhausted() {
    let mut peer = Peer::server_with_settings(&[]);
    let last = StreamId::new(0x7fff_ffff).expect("a stream's number");
    peer.machine.streams.insert(Stream::open(last, 0));
    assert_eq!(peer.send(&reset(last.get(), 8)).len(), 1);
    let opened = peer.machine.open(&[], true, peer.now);
    assert_eq!(opened, Err(OpenError::Exhausted));
}

#[test]
fn priorities_and_extensions_are_ignored() {
    let mut peer = Peer::server_with_requests(1);
    for octets in [
        frame(PRIORITY, 0, ONE, &[0; 5]),
        frame(PRIORITY, 0, 99, &[0; 5]),
        frame(0x0a, 0, 0, b"altsvc"),
        frame(0x0c, 0, 0, b"origin"),
        frame(0xff, 0xff, 0x7fff_ffff, b"whatever"),
    ] {
        assert!(peer.send(&octets).is_empty());
    }
    assert_eq!(peer.send(&ok(ONE)), ["head 1 200"]);
}

#[test]
fn each_reason_not_to_send_has_a_text() {
    let words = [
        OpenError::Later.to_string(),
        OpenError::Closing(ConnectionError::ShutDown).to_string(),
        OpenError::TooLarge.to_string(),
        OpenError::Exhausted.to_string(),
        HeadersError::Later.to_string(),
        HeadersError::TooLarge.to_string(),
    ];
    assert_eq!(
        words,
        [
            "cannot open a stream now: too many streams are open, or too much data is unsent",
            "cannot open a stream on a connection that is closing: the connection was shut down",
            "the headers are too large",
            "the stream identifiers are exhausted",
            "the peer reads too slowly: too much data is unsent",
            "the headers are too large",
        ]
    );
}

/// The payload has a valid length for the type; only the stream is wrong.
#[test]
fn a_frame_on_the_wrong_kind_of_stream_is_a_connection_error() {
    let cases = [
        (DATA, 0, 1, "DATA on stream 0"),
        (HEADERS, 0, 1, "HEADERS on stream 0"),
        (PRIORITY, 0, 5, "PRIORITY on stream 0"),
        (RST_STREAM, 0, 4, "RST_STREAM on stream 0"),
        (CONTINUATION, 0, 1, "CONTINUATION on stream 0"),
        (SETTINGS, ONE, 6, "SETTINGS on a stream other than 0"),
        (PING, ONE, 8, "PING on a stream other than 0"),
        (GOAWAY, ONE, 8, "GOAWAY on a stream other than 0"),
    ];
    for (kind, stream, length, words) in cases {
        let mut peer = Peer::server_with_requests(1);
        let events = peer.send(&frame(kind, 0, stream, &vec![0; length]));
        let said = events.concat();
        assert!(said.starts_with("closed PROTOCOL_ERROR"), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_frame_of_a_wrong_length_is_a_frame_size_error() {
    let cases = [
        (HEADERS, 0x20, ONE, 4),
        (HEADERS, 0x28, ONE, 5),
        (PRIORITY, 0, ONE, 4),
        (PRIORITY, 0, ONE, 6),
        (RST_STREAM, 0, ONE, 3),
        (RST_STREAM, 0, ONE, 5),
        (SETTINGS, 0, 0, 5),
        (SETTINGS, 0, 0, 7),
        (SETTINGS, ACK, 0, 6),
        (PING, 0, 0, 7),
        (PING, 0, 0, 9),
        (GOAWAY, 0, 0, 7),
        (WINDOW_UPDATE, 0, 0, 3),
        (WINDOW_UPDATE, 0, ONE, 5),
    ];
    for (kind, flags, stream, length) in cases {
        let mut peer = Peer::server_with_requests(1);
        let events = peer.send(&frame(kind, flags, stream, &vec![0; length]));
        let said = events.concat();
        let is_expected = said.starts_with("closed FRAME_SIZE_ERROR");
        assert!(is_expected, "{kind} of {length}: {said}");
    }
}

#[test]
fn padding_and_priority_are_stripped_in_the_right_order() {
    let mut peer = Peer::server_with_requests(1);
    let mut payload = b"\x03\x80\0\0\x01\xff".to_vec();
    payload.extend(block(&[(":status", "200")]));
    payload.extend([0; 3]);
    let headers = frame(HEADERS, PADDED | 0x20 | END_HEADERS, ONE, &payload);
    assert_eq!(peer.send(&headers), ["head 1 200"]);
}
