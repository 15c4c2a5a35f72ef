//! Malicious peers: each is stopped, at the cost of a bounded amount of memory.

use crate::http2::testing::*;
use crate::http2::{ErrorCode, StreamId};

/// The maximum number of octets of memory that a connection may hold in these tests.
const BOUND: usize = 128 * 1024;

#[track_caller]
fn assert_enhance_your_calm(peer: &mut Peer, events: &[String]) {
    let last = events.last().expect("something happened");
    assert!(last.starts_with("closed ENHANCE_YOUR_CALM"), "{last}");
    assert_eq!(
        peer.receive().last().map(String::as_str),
        Some("GOAWAY 0 ENHANCE_YOUR_CALM")
    );
    assert!(peer.peak < BOUND, "{} octets", peer.peak);
}

/// Missed by conformance suites (3 of 6). CVE-2019-9512, CVE-2019-9515.
#[test]
fn pings_and_settings_cause_backpressure_if_not_answered() {
    for octets in [ping(1), settings(&[(4, 1)]), settings(&[])] {
        let mut peer = Peer::server_with_settings(&[]);
        for _ in 0..1_000_000 {
            assert!(peer.send(&octets).is_empty());
        }
        assert!(peer.machine.recv_buf().is_empty(), "it has stopped reading");
        assert!(peer.peak < BOUND, "{} octets", peer.peak);
        assert!(peer.machine.transmit().len() <= 64 * (9 + 8));
        assert_eq!(peer.receive().len(), 64);
        assert!(
            !peer.machine.recv_buf().is_empty(),
            "and goes on when it can write"
        );
    }
}

/// CVE-2019-9514: a client that causes the server to reset streams and reads nothing.
#[test]
fn frames_answered_by_resets_cause_backpressure() {
    let mut peer = Peer::client_with_settings(&[]);
    for stream in 0..100_000 {
        assert!(peer.send(&headers(1 + 2 * stream, &[], true)).is_empty());
    }
    assert!(peer.machine.recv_buf().is_empty(), "it has stopped reading");
    assert!(peer.peak < BOUND, "{} octets", peer.peak);
    assert_eq!(peer.receive().len(), 64);
}

#[test]
fn a_peer_that_does_not_read_answers_times_out() {
    let mut peer = Peer::server_with_settings(&[]);
    peer.send(&ping(1));
    assert!(peer.wait(9_999).is_empty());
    peer.machine.sent(1, peer.now);
    assert!(peer.wait(9_999).is_empty());
    assert_eq!(
        peer.wait(1),
        ["closed ENHANCE_YOUR_CALM: the peer stopped reading"]
    );
}

/// Missed by conformance suites (4 of 6). CVE-2024-28182.
#[test]
fn a_million_empty_continuations_are_too_many() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&frame(HEADERS, 0, ONE, b""));
    let events = peer.flood(&frame(CONTINUATION, 0, ONE, b""), 1_000_000);
    assert_enhance_your_calm(&mut peer, &events);
}

#[test]
fn nine_continuations_are_too_many_and_eight_are_not() {
    for (empty, is_fine) in [(7, true), (8, false)] {
        let mut peer = Peer::server_with_requests(1);
        peer.send(&frame(HEADERS, 0, ONE, &block(&[(":status", "200")])));
        peer.flood(&frame(CONTINUATION, 0, ONE, b""), empty);
        let events = peer.send(&frame(CONTINUATION, END_HEADERS, ONE, b""));
        assert_eq!(events == ["head 1 200"], is_fine, "{events:?}");
    }
}

#[test]
fn a_block_of_more_than_64_kib_is_too_much() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&frame(HEADERS, 0, ONE, &[0; 16_384]));
    for _ in 0..3 {
        assert!(
            peer.send(&frame(CONTINUATION, 0, ONE, &[0; 16_384]))
                .is_empty()
        );
    }
    let events = peer.send(&frame(CONTINUATION, 0, ONE, &[0; 1]));
    assert_enhance_your_calm(&mut peer, &events);
}

#[test]
fn successive_header_blocks_need_the_memory_of_one() {
    let value = "v".repeat(1000);
    let metadata = vec![("a", &*value); 60];
    let fields = block(&[&[(":status", "200")], &metadata[..]].concat());
    let pieces: Vec<_> = fields.chunks(16_384).collect();
    let (last, others) = pieces.split_last().expect("there are some");
    let in_frames = |stream| {
        let mut octets = frame(HEADERS, 0, stream, others[0]);
        for piece in &others[1..] {
            octets.extend(frame(CONTINUATION, 0, stream, piece));
        }
        [octets, frame(CONTINUATION, END_HEADERS, stream, last)].concat()
    };
    let mut peer = Peer::server_with_requests(2);
    let events = peer.send(&[in_frames(ONE), in_frames(THREE)].concat());
    assert_eq!(events, ["head 1 200", "head 3 200"]);
    assert!(peer.peak < BOUND, "{} octets", peer.peak);
    let held = peer.machine.mem_used();
    assert!(held < 20 * 1024, "{held} octets");
}

/// Missed by conformance suites (5 of 6). CVE-2019-9518.
#[test]
fn a_million_empty_data_frames_are_too_many_and_cause_no_events() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    let events = peer.flood(&data(ONE, b"", false), 1_000_000);
    assert_eq!(events.len(), 1);
    assert_enhance_your_calm(&mut peer, &events);
}

#[test]
fn a_million_octets_in_as_many_frames_cost_no_memory() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    let events = peer.flood(&data(ONE, b"x", false), 1_000_000);
    assert_eq!(events.len(), 1_000_000);
    assert!(peer.peak < BOUND, "{} octets", peer.peak);
}

/// The measures against floods must not stop a legitimate peer with small frames.
#[test]
fn ten_thousand_frames_of_600_octets_are_fine_read_and_unread() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    let events = peer.flood(&data(ONE, &[7; 600], false), 10_000);
    assert_eq!(events.len(), 10_000);
    // Unread: as many frames as the window allows are received before they are consumed.
    let mut peer = Peer::server_with_requests(1);
    peer.consumes = false;
    peer.send(&ok(ONE));
    let (mut came, mut unread) = (0, 0);
    while came < 10_000 {
        if unread == 65_535 / 600 {
            peer.machine
                .consume(StreamId::FIRST, 600 * unread, peer.now);
            unread = 0;
        }
        assert_eq!(peer.send(&data(ONE, &[7; 600], false)), ["data 1 600"]);
        peer.receive();
        (came, unread) = (came + 1, unread + 1);
    }
    assert!(peer.peak < BOUND, "{} octets", peer.peak);
}

#[test]
fn a_hundred_thousand_frames_without_progress_are_too_many() {
    let floods = [
        ping(1),
        frame(PING, ACK, 0, &[0; 8]),
        settings(&[(4, 1)]),
        frame(SETTINGS, ACK, 0, b""),
        frame(PRIORITY, 0, ONE, &[0; 5]),
        frame(0x0a, 0, 0, b"altsvc"),
        frame(0xee, 0, 0, b""),
        window_update(0, 1),
        window_update(ONE, 1),
        reset(ONE, 8),
        goaway(ONE, 0, b""),
        headers(ONE, &[("a", "b")], true),
        headers(THREE, &[(":status", "103")], false),
    ];
    for octets in floods {
        let mut peer = Peer::server_with_requests(2);
        peer.machine
            .reset(StreamId::FIRST, ErrorCode::CANCEL, peer.now);
        peer.receive();
        if octets[3] == GOAWAY {
            // On a connection without streams, a GOAWAY ends the connection before it is a flood.
            peer = Peer::server_with_requests(1);
        }
        let events = peer.flood(&octets, 100_000);
        assert_enhance_your_calm(&mut peer, &events);
    }
}

#[test]
fn progress_of_a_call_resets_the_flood_counters() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    for _ in 0..100 {
        let events = peer.flood(&ping(1), 900);
        assert!(events.is_empty(), "{events:?}");
        peer.send(&data(ONE, b"x", false));
    }
}

#[test]
fn a_large_entry_referred_to_16000_times_costs_no_memory() {
    let mut peer = Peer::server_with_requests(2);
    let mut entry = b"\x88\x40\x01a\x7f\xa1\x1e".to_vec();
    entry.extend([b'v'; 4000]);
    let events = peer.send(&frame(HEADERS, END_HEADERS, ONE, &entry));
    assert_eq!(events, ["head 1 200"]);
    let bomb = frame(HEADERS, END_HEADERS, THREE, &[0xbe; 16_000]);
    let events = peer.send(&bomb);
    assert_enhance_your_calm(&mut peer, &events);
}

/// CVE-2023-33953.
#[test]
fn a_huge_string_or_a_padded_integer_is_a_compression_error() {
    let blocks = [
        &b"\x7f\x81\xff\xff\x7f"[..],
        b"\xff\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
        // A value, and a Huffman-coded one, of 256 MiB.
        b"\x40\x01a\x7f\x80\xff\xff\x7f",
        b"\x40\x01a\xff\x80\xff\xff\x7f",
        // A name of 2^35 octets.
        b"\x40\x7f\xff\xff\xff\xff\x7f",
    ];
    for block in blocks {
        let mut peer = Peer::server_with_requests(1);
        let events = peer.send(&frame(HEADERS, END_HEADERS, ONE, block));
        assert!(
            events[0].starts_with("closed COMPRESSION_ERROR"),
            "{events:?}"
        );
        assert_eq!(peer.receive(), ["GOAWAY 0 COMPRESSION_ERROR"]);
        assert!(peer.peak < 4 * 1024, "{} octets", peer.peak);
    }
}

#[test]
fn single_octets_cost_no_more_work_than_the_whole() {
    let fields = block(&[(":status", "200"), ("filler", &"x".repeat(10_000))]);
    let (first, rest) = fields.split_at(5_000);
    let octets = [
        frame(HEADERS, 0, ONE, first),
        frame(CONTINUATION, END_HEADERS, ONE, rest),
        data(ONE, &[7; 16_384], false),
        data(ONE, &[7; 16_384], true),
    ]
    .concat();
    let work = |size: usize| {
        let mut peer = Peer::server_with_requests(1);
        work::take();
        let events: Vec<_> = octets.chunks(size).flat_map(|it| peer.send(it)).collect();
        let expected = ["head 1 200", "data 1 16384", "data 1 16384 end"];
        assert_eq!(events, expected, "{size} at a time");
        work::take()
    };
    let whole = work(octets.len());
    // Each octet is taken once, and those of the block are also decoded once.
    assert!(whole >= octets.len() + fields.len());
    for size in [1, 2, 9, 100] {
        assert!(work(size) <= whole, "{size} at a time");
    }
}

#[test]
fn a_flood_of_increments_is_an_error() {
    for (stream, error) in [(ONE, "failed 1"), (0, "closed")] {
        let mut peer = Peer::server_with_requests(1);
        let twice = window_update(stream, 0x7fff_ffff).repeat(2);
        let events = peer.send(&twice);
        let expected = format!("{error} FLOW_CONTROL_ERROR");
        assert!(events[0].starts_with(&expected), "{events:?}");
        assert_eq!(events.len(), 1);
    }
}

#[test]
fn endless_trailers_fail_the_stream_or_the_connection() {
    // One frame with too many fields; then more fragments than a block may have; then trailers
    // without END_STREAM, again and again.
    let many = [("a", "b"); 257];
    let mut peer = Peer::server_with_requests(2);
    peer.send(&ok(ONE));
    let events = peer.send(&headers(ONE, &many, true));
    assert!(
        events[0].starts_with("failed 1 ENHANCE_YOUR_CALM"),
        "{events:?}"
    );
    assert_eq!(peer.send(&ok(THREE)), ["head 3 200"]);

    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    peer.send(&frame(HEADERS, END_STREAM, ONE, &block(&many)));
    let more = frame(CONTINUATION, 0, ONE, &block(&many)[1..]);
    let events = peer.flood(&more, 100);
    assert_enhance_your_calm(&mut peer, &events);

    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE));
    let events = peer.flood(&headers(ONE, &[("a", "b")], false), 100_000);
    assert!(
        events[0].starts_with("failed 1 PROTOCOL_ERROR"),
        "{events:?}"
    );
    assert_enhance_your_calm(&mut peer, &events);
}
