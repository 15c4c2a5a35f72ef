//! Input cut into arbitrary pieces leads to the same events, the same answers and bounded memory.

use crate::http2::testing::*;

/// A pseudo-random number generator (xorshift), so that a failure can be reproduced.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % bound as u64).expect("less than a usize")
    }

    fn octet(&mut self) -> u8 {
        self.below(256).to_le_bytes()[0]
    }
}

/// Returns the responses to two requests, in frames of nearly every kind.
fn answers() -> Vec<Vec<u8>> {
    let fields = [(":status", "200"), ("content-type", "application/grpc")];
    let fields = block(&fields);
    let (first, rest) = fields.split_at(7);
    let end = [("grpc-status", "0"), ("grpc-message", "fine")];
    vec![
        settings(&[(3, 100), (4, 70_000), (0xfe03, 1)]),
        frame(SETTINGS, ACK, 0, b""),
        headers(ONE, &[(":status", "103")], false),
        frame(HEADERS, 0, ONE, first),
        frame(CONTINUATION, END_HEADERS, ONE, rest),
        frame(DATA, PADDED, ONE, b"\x03hello\0\0\0"),
        ping(1),
        window_update(0, 1000),
        window_update(ONE, 1000),
        data(ONE, &[7; 3000], false),
        frame(PRIORITY, 0, THREE, &[0; 5]),
        frame(
            HEADERS,
            END_HEADERS,
            THREE,
            b"\x3f\xe1\x1f\x88\x40\x01a\x03abc\xbe",
        ),
        headers(ONE, &end, true),
        reset(ONE, 0),
        data(THREE, b"", false),
        data(THREE, b"the end", true),
        frame(0xee, 0xff, 99, b"extension"),
        goaway(THREE, 0, b"bye"),
    ]
}

/// Returns two requests, and a third that is malformed, in frames of nearly every kind.
fn requests() -> Vec<Vec<u8>> {
    let fields = block(&REQUEST);
    let (first, rest) = fields.split_at(7);
    vec![
        PREFACE.to_vec(),
        settings(&[(2, 0), (4, 70_000), (0xfe03, 1)]),
        frame(SETTINGS, ACK, 0, b""),
        window_update(0, 1000),
        frame(HEADERS, 0, ONE, first),
        frame(CONTINUATION, END_HEADERS, ONE, rest),
        frame(DATA, PADDED, ONE, b"\x03hello\0\0\0"),
        ping(1),
        request(THREE, false),
        data(ONE, &[7; 3000], true),
        headers(5, &REQUEST[1..], true),
        window_update(THREE, 1000),
        headers(THREE, &[("a", "b")], true),
        reset(ONE, 8),
        frame(0xee, 0xff, 99, b"extension"),
        goaway(0, 0, b"bye"),
    ]
}

/// Returns a client that has made two requests.
fn client() -> Peer {
    let mut peer = Peer::server();
    peer.open(true);
    peer.open(true);
    peer
}

/// Feeds the pieces and then EOF to one end; returns its events, and the frames that it wrote
/// before EOF.
fn feed_all<'a>(
    mut peer: Peer,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<String>, Vec<String>) {
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(peer.send(piece));
    }
    let received = peer.receive();
    events.extend(peer.close());
    // How much an error quotes of another protocol depends on how much was received at that point.
    for event in &mut events {
        let kept = event.find("received=").unwrap_or(event.len());
        event.truncate(kept);
    }
    assert!(peer.peak < 128 * 1024, "{} octets", peer.peak);
    (events, received)
}

/// An end of a connection, and the frames that its peer sends.
type End = (fn() -> Peer, fn() -> Vec<Vec<u8>>);

/// The client and the server, each with the frames of its peer.
const ENDS: [End; 2] = [(client, answers), (Peer::client, requests)];

#[test]
fn frames_lead_to_the_same_events_wherever_they_are_cut() {
    for (end, script) in ENDS {
        let octets = script().concat();
        let whole = feed_all(end(), std::iter::once(&octets[..]));
        assert_eq!(whole.0.len(), 8, "{:?}", whole.0);
        for size in 1..100 {
            let pieces = feed_all(end(), octets.chunks(size));
            assert_eq!(pieces, whole, "in pieces of {size}");
        }
    }
}

#[test]
fn mutated_frames_lead_to_the_same_events_wherever_cut() {
    for seed in 1..=6000 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let (end, script) = ENDS[random.below(2)];
        let octets = mutated(script(), &mut random);
        let whole = feed_all(end(), std::iter::once(&octets[..]));
        let size = 1 + random.below(40);
        let pieces = feed_all(end(), octets.chunks(size));
        assert_eq!(pieces, whole, "seed {seed}, pieces of {size}");
    }
}

/// Returns a script with frames left out, doubled and swapped, and octets changed.
fn mutated(mut frames: Vec<Vec<u8>>, random: &mut Random) -> Vec<u8> {
    for _ in 0..random.below(4) {
        let (one, other) = (random.below(frames.len()), random.below(frames.len()));
        match random.below(3) {
            0 => frames.swap(one, other),
            1 => frames.insert(one, frames[other].clone()),
            _ => drop(frames.remove(one)),
        }
    }
    let mut octets = frames.concat();
    for _ in 0..random.below(6) {
        let at = random.below(octets.len());
        octets[at] = random.octet();
    }
    octets
}
