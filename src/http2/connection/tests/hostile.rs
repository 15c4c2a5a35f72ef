//! Peers that mean harm, or behave as if: each is stopped, and costs a bounded amount of memory.

use crate::http2::testing::*;

/// No peer may make a connection without unread messages hold more than this.
const BOUND: usize = 128 * 1024;

#[track_caller]
fn assert_calmed(peer: &mut Peer, events: &[String]) {
    let last = events.last().expect("something happened");
    assert!(last.starts_with("closed ENHANCE_YOUR_CALM"), "{last}");
    assert_eq!(
        peer.hear().last().map(String::as_str),
        Some("GOAWAY 0 ENHANCE_YOUR_CALM")
    );
    assert!(peer.peak < BOUND, "{} octets", peer.peak);
}

/// The third of the six.
#[test]
fn a_million_pings_to_a_client_that_cannot_write_cost_no_memory() {
    let mut peer = Peer::greeted(&[]);
    for _ in 0..1_000_000 {
        assert!(peer.say(&ping(1)).is_empty());
    }
    assert!(peer.machine.recv_buf().is_empty(), "it has stopped reading");
    assert!(peer.peak < BOUND, "{} octets", peer.peak);
    assert_eq!(peer.hear().len(), 64);
    assert!(
        !peer.machine.recv_buf().is_empty(),
        "and goes on when it can write"
    );
}

#[test]
fn a_peer_that_reads_nothing_for_ten_seconds_is_given_up() {
    let mut peer = Peer::greeted(&[]);
    peer.say(&ping(1));
    assert!(peer.wait(9_999).is_empty());
    peer.machine.sent(1, peer.now);
    assert!(peer.wait(9_999).is_empty());
    assert_eq!(
        peer.wait(1),
        ["closed ENHANCE_YOUR_CALM: the peer stopped reading"]
    );
}

/// The fourth of the six.
#[test]
fn a_million_empty_continuations_are_too_many() {
    let mut peer = Peer::asked(1);
    peer.say(&frame(HEADERS, 0, ONE, b""));
    let events = peer.flood(&frame(CONTINUATION, 0, ONE, b""), 1_000_000);
    assert_calmed(&mut peer, &events);
}

#[test]
fn nine_continuations_are_too_many_and_eight_are_not() {
    for (empty, calm) in [(7, true), (8, false)] {
        let mut peer = Peer::asked(1);
        peer.say(&frame(HEADERS, 0, ONE, &block(&[(":status", "200")])));
        peer.flood(&frame(CONTINUATION, 0, ONE, b""), empty);
        let events = peer.say(&frame(CONTINUATION, END_HEADERS, ONE, b""));
        assert_eq!(events == ["head 1 200"], calm, "{events:?}");
    }
}

#[test]
fn a_block_of_more_than_16_kib_is_too_much() {
    let mut peer = Peer::asked(1);
    peer.say(&frame(HEADERS, 0, ONE, &[0; 16_384]));
    let events = peer.say(&frame(CONTINUATION, 0, ONE, &[0; 1]));
    assert_calmed(&mut peer, &events);
}

/// The fifth of the six.
#[test]
fn a_million_empty_data_frames_are_too_many_and_are_no_events() {
    let mut peer = Peer::asked(1);
    peer.say(&ok(ONE));
    let events = peer.flood(&data(ONE, b"", false), 1_000_000);
    assert_eq!(events.len(), 1);
    assert_calmed(&mut peer, &events);
}

#[test]
fn a_million_octets_in_as_many_frames_cost_no_memory() {
    let mut peer = Peer::asked(1);
    peer.say(&ok(ONE));
    let events = peer.flood(&data(ONE, b"x", false), 1_000_000);
    assert_eq!(events.len(), 1_000_000);
    assert!(peer.peak < BOUND, "{} octets", peer.peak);
}

#[test]
fn ten_thousand_frames_of_600_octets_are_fine() {
    let mut peer = Peer::asked(1);
    peer.say(&ok(ONE));
    let events = peer.flood(&data(ONE, &[7; 600], false), 10_000);
    assert_eq!(events.len(), 10_000);
    // Unread: as many as the window allows, and then one too many.
    let mut peer = Peer::asked(1);
    peer.consumes = false;
    peer.say(&ok(ONE));
    let events = peer.flood(&data(ONE, &[7; 600], false), 10_000);
    assert_eq!(
        events[..109]
            .iter()
            .filter(|line| *line == "data 1 600")
            .count(),
        109
    );
    assert!(
        events[109].starts_with("failed 1 FLOW_CONTROL_ERROR"),
        "{}",
        events[109]
    );
}

#[test]
fn frames_that_bring_nothing_forward_are_counted() {
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
    ];
    for octets in floods {
        let mut peer = Peer::asked(2);
        peer.machine.reset(
            crate::http2::StreamId::FIRST,
            crate::http2::ErrorCode::CANCEL,
            peer.now,
        );
        peer.hear();
        if octets[3] == GOAWAY {
            // A goodbye with no stream left ends the connection before it is a flood.
            peer = Peer::asked(1);
        }
        let events = peer.flood(&octets, 100_000);
        assert_calmed(&mut peer, &events);
    }
}

#[test]
fn a_call_that_goes_forward_buys_patience() {
    let mut peer = Peer::asked(1);
    peer.say(&ok(ONE));
    for _ in 0..100 {
        let events = peer.flood(&ping(1), 900);
        assert!(events.is_empty(), "{events:?}");
        peer.say(&data(ONE, b"x", false));
    }
}

#[test]
fn a_header_list_above_the_limit_costs_the_stream() {
    let value = "v".repeat(4000);
    let fields: Vec<_> = std::iter::once((":status", "200"))
        .chain(std::iter::repeat_n(("a", &*value), 4))
        .collect();
    let mut peer = Peer::asked(2);
    // Four values and their names fit a frame, and with 32 octets each they do not fit the list.
    let fitting = [&fields[..], &[("b", &value[..300])]].concat();
    let mut octets = frame(HEADERS, 0, ONE, &block(&fields[..2]));
    octets.extend(frame(
        CONTINUATION,
        END_HEADERS,
        ONE,
        &block(&fitting[2..])[1..],
    ));
    assert_eq!(
        peer.say(&octets),
        ["failed 1 ENHANCE_YOUR_CALM: too many or too large header fields"]
    );
    assert_eq!(peer.hear(), ["RST_STREAM 1 ENHANCE_YOUR_CALM"]);
    assert_eq!(peer.say(&ok(THREE)), ["head 3 200"]);
}

#[test]
fn a_compression_bomb_costs_the_connection_and_no_memory() {
    let mut peer = Peer::asked(1);
    // One entry of 4,000 octets enters the table, and is then referred to 12,000 times.
    let mut bomb = b"\x88\x40\x01a\x7f\xa1\x1e".to_vec();
    bomb.extend([b'v'; 4000]);
    bomb.extend([0xbe; 12_000]);
    let events = peer.say(&frame(HEADERS, END_HEADERS, ONE, &bomb));
    assert_calmed(&mut peer, &events);
}

#[test]
fn a_drip_of_single_octets_is_no_more_work_than_the_whole() {
    let mut peer = Peer::asked(1);
    let mut octets = ok(ONE);
    octets.extend(data(ONE, &[7; 16_384], true));
    let mut events = Vec::new();
    for octet in octets.chunks(1) {
        events.extend(peer.say(octet));
    }
    assert_eq!(events, ["head 1 200", "data 1 16384 end"]);
}
