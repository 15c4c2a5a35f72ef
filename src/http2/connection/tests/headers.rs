//! Header blocks: how they are received, and what they may contain.

use crate::http2::testing::*;

/// Returns the events of a response that begins with these fields.
fn events_of_response(fields: &[(&str, &str)]) -> Vec<String> {
    Peer::server_with_requests(1).send(&headers(ONE, fields, false))
}

#[test]
fn no_other_frame_may_interrupt_a_fragmented_block() {
    let fields = block(&[(":status", "200"), ("a", "b")]);
    let (first, rest) = fields.split_at(3);
    let mut peer = Peer::server_with_requests(1);
    assert!(peer.send(&frame(HEADERS, 0, ONE, first)).is_empty());
    assert!(peer.send(&frame(CONTINUATION, 0, ONE, b"")).is_empty());
    assert_eq!(
        peer.send(&frame(CONTINUATION, END_HEADERS, ONE, rest)),
        ["head 1 200"]
    );

    let intruders = [
        ping(1),
        data(ONE, b"x", false),
        frame(0xee, 0, ONE, b"unknown"),
        frame(PRIORITY, 0, ONE, &[0; 5]),
        frame(CONTINUATION, END_HEADERS, THREE, rest),
        headers(ONE, &[], false),
    ];
    for intruder in intruders {
        let mut peer = Peer::server_with_requests(2);
        peer.send(&frame(HEADERS, 0, ONE, first));
        let events = peer.send(&intruder);
        assert!(events[0].starts_with("closed PROTOCOL_ERROR"), "{events:?}");
    }
}

#[test]
fn a_stray_continuation_ends_the_connection() {
    let mut peer = Peer::server_with_requests(1);
    let events = peer.send(&frame(CONTINUATION, END_HEADERS, ONE, b""));
    assert!(events[0].starts_with("closed PROTOCOL_ERROR"), "{events:?}");
}

#[test]
fn a_block_must_be_complete_within_ten_seconds() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&frame(HEADERS, 0, ONE, b""));
    assert!(peer.wait(9_999).is_empty());
    let events = peer.wait(1);
    assert!(
        events[0].starts_with("closed ENHANCE_YOUR_CALM"),
        "{events:?}"
    );
}

/// C-core sends `:status` with a literal name and incremental indexing, after it has set the size
/// of the table to 0.
#[test]
fn a_status_with_a_literal_name_is_a_status() {
    let mut peer = Peer::server_with_requests(1);
    let block = b"\x20\x40\x07:status\x03200";
    let events = peer.send(&frame(HEADERS, END_HEADERS, ONE, block));
    assert_eq!(events, ["head 1 200"]);
}

#[test]
fn a_block_that_does_not_decode_is_a_compression_error() {
    for block in [
        &b"\x80"[..],
        b"\x7f\x81\xff\xff\x7f",
        b"\xff\x80\x80\x80\x80\x80\x80\x00",
    ] {
        let mut peer = Peer::server_with_requests(1);
        let events = peer.send(&frame(HEADERS, END_HEADERS, ONE, block));
        assert!(
            events[0].starts_with("closed COMPRESSION_ERROR"),
            "{events:?}"
        );
        assert_eq!(peer.receive(), ["GOAWAY 0 COMPRESSION_ERROR"]);
    }
}

#[test]
fn the_block_of_a_stream_that_was_reset_is_decoded() {
    let mut peer = Peer::server_with_requests(2);
    peer.machine.reset(
        crate::http2::StreamId::FIRST,
        crate::http2::ErrorCode::CANCEL,
        peer.now,
    );
    // The first block adds ":status: 200" and "a: b" to the table; the second refers to both.
    let entry = b"\x48\x03200\x40\x01a\x01b";
    assert!(
        peer.send(&frame(HEADERS, END_HEADERS, ONE, entry))
            .is_empty()
    );
    let events = peer.send(&frame(HEADERS, END_HEADERS, THREE, b"\xbf\xbe"));
    assert_eq!(events, ["head 3 200"]);
}

#[test]
fn a_malformed_response_resets_its_stream() {
    let malformed: [&[(&str, &str)]; 16] = [
        &[],
        &[("a", "b")],
        &[("a", "b"), (":status", "200")],
        &[(":status", "200"), (":status", "200")],
        &[(":status", "200"), ("a", "b"), (":status", "200")],
        &[(":status", "abc")],
        &[(":status", "20")],
        &[(":status", "200"), (":path", "/")],
        &[(":status", "200"), ("Upper", "x")],
        &[(":status", "200"), ("na me", "x")],
        &[(":status", "200"), ("", "x")],
        &[(":status", "200"), ("a", "x\0y")],
        &[(":status", "200"), ("a", "x\ry")],
        &[(":status", "200"), ("a", "x\ny")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("transfer-encoding", "chunked")],
    ];
    for fields in malformed {
        let mut peer = Peer::server_with_requests(2);
        let events = peer.send(&headers(ONE, fields, false));
        assert!(
            events[0].starts_with("failed 1 PROTOCOL_ERROR"),
            "{fields:?}: {events:?}"
        );
        assert_eq!(peer.receive(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
        assert_eq!(
            peer.send(&ok(THREE)),
            ["head 3 200"],
            "the other stream goes on"
        );
    }
}

#[test]
fn values_may_be_non_ascii() {
    assert_eq!(
        events_of_response(&[(":status", "200"), ("a", "gr\u{fc}n")]),
        ["head 1 200"]
    );
}

#[test]
fn malformed_trailers_reset_their_stream() {
    let malformed = [
        (":status", "200"),
        (":path", "/"),
        (":other", ""),
        ("Upper", "x"),
        ("a", "x\0y"),
        ("connection", "close"),
    ];
    for field in malformed {
        let mut peer = Peer::server_with_requests(1);
        peer.send(&ok(ONE));
        let events = peer.send(&headers(ONE, &[("grpc-status", "0"), field], true));
        assert!(
            events[0].starts_with("failed 1 PROTOCOL_ERROR"),
            "{field:?}: {events:?}"
        );
        assert_eq!(peer.receive(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
    }
}

/// Missed by conformance suites (6 of 6): a 103 is not the final response.
#[test]
fn informational_responses_are_not_final() {
    let mut peer = Peer::server_with_requests(1);
    let early = headers(ONE, &[(":status", "103"), ("link", "x")], false);
    for _ in 0..8 {
        assert!(peer.send(&early).is_empty());
    }
    assert_eq!(peer.send(&ok(ONE)), ["head 1 200"]);
    assert_eq!(peer.send(&data(ONE, b"x", false)), ["data 1 1"]);
}

#[test]
fn a_ninth_informational_response_is_too_many() {
    let mut peer = Peer::server_with_requests(1);
    let early = headers(ONE, &[(":status", "100")], false);
    for _ in 0..8 {
        peer.send(&early);
    }
    let events = peer.send(&early);
    assert_eq!(
        events,
        ["failed 1 ENHANCE_YOUR_CALM: too many 1xx responses"]
    );
}

#[test]
fn an_informational_response_must_not_end_the_stream() {
    for (status, end_stream) in [("100", true), ("101", false)] {
        let mut peer = Peer::server_with_requests(1);
        let events = peer.send(&headers(ONE, &[(":status", status)], end_stream));
        assert!(
            events[0].starts_with("failed 1 PROTOCOL_ERROR"),
            "{events:?}"
        );
    }
}

#[test]
fn data_before_the_final_headers_is_malformed() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&headers(ONE, &[(":status", "100")], false));
    let events = peer.send(&data(ONE, b"x", false));
    assert_eq!(events, ["failed 1 PROTOCOL_ERROR: DATA before HEADERS"]);
}

#[test]
fn second_headers_must_end_the_stream() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    let events = peer.send(&headers(ONE, &[("a", "b")], false));
    assert!(
        events[0].starts_with("failed 1 PROTOCOL_ERROR"),
        "{events:?}"
    );

    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    assert_eq!(
        peer.send(&headers(ONE, &[("a", "b")], true)),
        ["trailers 1"]
    );
}

#[test]
fn content_is_as_long_as_its_content_length() {
    let announce = |length: &str| {
        let mut peer = Peer::server_with_requests(1);
        let fields = [(":status", "200"), ("content-length", length)];
        let events = peer.send(&headers(ONE, &fields, false));
        (peer, events)
    };
    let (mut peer, _) = announce("3");
    assert_eq!(peer.send(&data(ONE, b"abc", true)), ["data 1 3 end"]);
    let (mut peer, _) = announce("3");
    let events = peer.send(&data(ONE, b"ab", true));
    assert!(
        events[0].starts_with("failed 1 PROTOCOL_ERROR"),
        "{events:?}"
    );
    let (mut peer, _) = announce("3");
    let events = peer.send(&data(ONE, b"abcd", false));
    assert!(
        events[0].starts_with("failed 1 PROTOCOL_ERROR"),
        "{events:?}"
    );
    let (_, events) = announce("three");
    assert!(
        events[0].starts_with("failed 1 PROTOCOL_ERROR"),
        "{events:?}"
    );
}
