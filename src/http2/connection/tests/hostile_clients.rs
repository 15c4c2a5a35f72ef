//! Malicious clients: floods, and requests that cost the server work and the client only a frame.

use super::server::{answer, assert_closed, client_with_requests};
use crate::http2::testing::*;
use crate::http2::{StreamId, Taken};

/// CVE-2023-44487: requests that are cancelled at once, which `MAX_CONCURRENT_STREAMS` does not
/// limit.
#[test]
fn a_rapid_reset_of_100_requests_is_fine_and_one_more_is_not() {
    let mut peer = Peer::client_with_settings(&[]);
    for stream in 0..100 {
        let stream = 1 + 2 * stream;
        peer.send(&[request(stream, false), data(stream, b"x", false)].concat());
        assert_eq!(peer.send(&reset(stream, 8)).len(), 1);
    }
    peer.send(&request(201, true));
    assert_closed(&peer.send(&reset(201, 8)), "ENHANCE_YOUR_CALM");
    assert_eq!(peer.receive(), ["GOAWAY 201 ENHANCE_YOUR_CALM"]);
    assert!(peer.peak < 64 * 1024, "{} octets", peer.peak);
}

#[test]
fn an_answered_request_makes_up_for_a_cancelled_one() {
    let mut peer = Peer::client_with_settings(&[]);
    for stream in (1..1000).step_by(4) {
        peer.send(&[request(stream, true), reset(stream, 8)].concat());
        peer.send(&request(stream + 2, true));
        answer(&mut peer, stream + 2);
        peer.receive();
        assert!(!peer.machine.is_ended(), "stream {stream}");
    }
}

/// Cancels 101 requests before they are answered, and asserts that only the last one ends the
/// connection.
fn assert_rapid_resets_are_stopped(mut peer: Peer, first: u32) {
    for request_number in 0..=100 {
        let stream = first + 2 * request_number;
        assert!(!peer.machine.is_ended(), "{request_number} requests");
        peer.send(&[request(stream, true), reset(stream, 8)].concat());
        peer.receive();
    }
    assert!(peer.machine.is_ended());
}

/// The client has not ended its requests, so the streams are still open when it resets them.
#[test]
fn streams_reset_after_the_answer_are_not_rapid_resets() {
    for is_sent in [false, true] {
        let mut peer = Peer::client_with_settings(&[]);
        let streams = || (1..200).step_by(2);
        for stream in streams() {
            assert_eq!(peer.send(&request(stream, false)).len(), 1);
        }
        for stream in streams() {
            answer(&mut peer, stream);
        }
        if is_sent {
            peer.receive();
        }
        for stream in streams() {
            assert_eq!(
                peer.send(&reset(stream, 8)),
                [format!("reset {stream} CANCEL")]
            );
        }
        peer.receive();
        assert_rapid_resets_are_stopped(peer, 201);
    }
}

#[test]
fn a_broken_rule_on_an_answered_stream_is_not_a_rapid_reset() {
    let mut peer = Peer::client_with_settings(&[]);
    let streams = || (1..200).step_by(2);
    for stream in streams() {
        peer.send(&request(stream, false));
    }
    for stream in streams() {
        answer(&mut peer, stream);
        peer.receive();
    }
    for stream in streams() {
        assert_eq!(peer.send(&window_update(stream, 0)).len(), 1);
        peer.receive();
    }
    assert_rapid_resets_are_stopped(peer, 201);
}

/// A client that has received enough of a streaming response resets the stream: that is not an
/// attack.
#[test]
fn streams_reset_after_their_answer_began_are_not_rapid_resets() {
    let mut peer = Peer::client_with_settings(&[]);
    for stream in (1..400).step_by(2) {
        peer.send(&request(stream, true));
        let id = StreamId::new(stream).expect("it is a stream");
        let head: [(&str, &[u8]); 1] = [(":status", b"200")];
        let sent = peer.machine.send_headers(id, &head, false, peer.now);
        assert_eq!(sent, Ok(()));
        let taken = peer.machine.send_data(id, b"so far", false, peer.now);
        assert_eq!(taken, Taken::All);
        peer.receive();
        let events = peer.send(&reset(stream, 8));
        assert_eq!(events, [format!("reset {stream} CANCEL")]);
    }
    assert_rapid_resets_are_stopped(peer, 401);

    let mut peer = Peer::server_with_settings(&[]);
    for stream in (1..400).step_by(2) {
        peer.open(true);
        peer.receive();
        let events = peer.send(&[ok(stream), reset(stream, 8)].concat());
        let head = format!("head {stream} 200");
        assert_eq!(events, [head, format!("reset {stream} CANCEL")]);
    }
}

/// The client keeps the window closed, so the rest of the response, with END_STREAM, is not queued.
#[test]
fn streams_reset_while_their_answer_waits_are_rapid_resets() {
    let mut peer = Peer::client_with_settings(&[(4, 1)]);
    for stream in 0..=100 {
        let stream = 1 + 2 * stream;
        assert!(!peer.machine.is_ended(), "stream {stream}");
        peer.send(&request(stream, true));
        let id = StreamId::new(stream).expect("it is a stream");
        let sent = peer
            .machine
            .send_headers(id, &[(":status", b"200")], false, peer.now);
        assert_eq!(sent, Ok(()));
        let taken = peer.machine.send_data(id, b"answer", true, peer.now);
        assert_eq!(taken, Taken::Some(1));
        peer.receive();
        peer.send(&reset(stream, 8));
    }
    assert!(peer.machine.is_ended());
}

/// CVE-2025-8671: a client that causes the server to reset streams by breaking rules on them.
#[test]
fn requests_that_break_rules_count_like_resets() {
    let breaches: [fn(u32) -> Vec<u8>; 2] = [
        |stream| window_update(stream, 0),
        |stream| request(stream, true),
    ];
    for breach in breaches {
        let mut peer = Peer::client_with_settings(&[]);
        let mut events = Vec::new();
        for stream in (1..1_000).step_by(2) {
            events.extend(peer.send(&[request(stream, true), breach(stream)].concat()));
            peer.receive();
        }
        assert_closed(&events, "ENHANCE_YOUR_CALM");
        assert_eq!(events.len(), 202);
    }
}

/// The same floods end connections of clients and of servers, which share one state machine.
#[test]
fn a_server_limits_floods_like_a_client() {
    let floods: [(Vec<u8>, Vec<u8>); 12] = [
        (vec![], ping(1)),
        (vec![], frame(PING, ACK, 0, &[0; 8])),
        (vec![], settings(&[(4, 1)])),
        (vec![], frame(SETTINGS, ACK, 0, b"")),
        (vec![], frame(PRIORITY, 0, ONE, &[0; 5])),
        (vec![], frame(0xee, 0, 0, b"")),
        (vec![], window_update(0, 1)),
        (vec![], window_update(ONE, 1)),
        (vec![], data(ONE, b"", false)),
        (
            frame(HEADERS, 0, THREE, b""),
            frame(CONTINUATION, 0, THREE, b""),
        ),
        (
            frame(HEADERS, 0, THREE, &[0; 16_384]),
            frame(CONTINUATION, 0, THREE, b"\0"),
        ),
        (
            // The entry is added to the table even if its request is malformed.
            frame(
                HEADERS,
                END_HEADERS,
                THREE,
                &[&b"\x3f\xe1\x1f\x40\x01a\x7f\xa1\x1e"[..], &[b'v'; 4000]].concat(),
            ),
            frame(HEADERS, END_HEADERS, 5, &[0xbe; 16_000]),
        ),
    ];
    for (begin, flood) in floods {
        let mut peer = client_with_requests(&[ONE]);
        peer.send(&begin);
        peer.receive();
        let events = peer.flood(&flood, 100_000);
        assert_closed(&events, "ENHANCE_YOUR_CALM");
        assert_eq!(peer.receive(), ["GOAWAY 1 ENHANCE_YOUR_CALM"]);
        assert!(peer.peak < 128 * 1024, "{} octets", peer.peak);
    }
}

#[test]
fn endless_unanswered_requests_are_too_many() {
    let mut peer = Peer::client_with_settings(&[]);
    let mut stream = ONE;
    while !peer.machine.is_ended() {
        peer.send(&request(stream, true));
        peer.receive();
        stream += 2;
    }
    assert_eq!(stream, 2 * 1000 + 1);
    assert!(peer.peak < 64 * 1024, "{} octets", peer.peak);
}

#[test]
fn ten_thousand_requests_that_are_answered_cost_no_memory() {
    let mut peer = Peer::client_with_settings(&[]);
    for stream in (1..20_000).step_by(2) {
        let events = peer.send(&[request(stream, false), data(stream, b"x", true)].concat());
        assert_eq!(events.len(), 2);
        answer(&mut peer, stream);
        assert_eq!(peer.receive().len(), 3);
    }
    assert!(peer.peak < 16 * 1024, "{} octets", peer.peak);
}
