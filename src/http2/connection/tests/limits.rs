//! Every limit of a connection: accepted when it is reached, rejected when it is exceeded, and
//! reported by name.

use crate::config;
use crate::hpack;
use crate::http2::testing::*;
use crate::http2::{
    Awaited, ConnectionError, ErrorCode, Excess, HeadersError, OpenError, StreamId, Taken,
    Violation, WindowError,
};

const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// A function that returns a peer which has reached a limit without exceeding it.
type Reached = fn() -> Peer;

/// Sends the octets this many times and asserts that the connection stays open; returns the peer.
fn after_sending(mut peer: Peer, octets: &[u8], times: u32) -> Peer {
    for _ in 0..times {
        let events = peer.send(octets);
        assert!(!peer.machine.is_ended(), "{events:?}");
        peer.receive();
    }
    peer
}

/// Returns an HPACK string of `length` octets, with its length in front.
fn hpack_string(length: usize) -> Vec<u8> {
    let rest = u16::try_from(length - 127).expect("a short string");
    let low = u8::try_from(rest & 127).expect("seven bits");
    let high = u8::try_from(rest >> 7).expect("seven bits");
    [&[127, 128 | low, high][..], &vec![b'v'; length]].concat()
}

/// Returns the HEADERS of a response whose header list counts this many octets: `:status`, which
/// counts 42, a field of 4,033 that is repeated, and a field for the rest.
fn headers_with_list_size(octets: usize) -> Vec<u8> {
    let copies = (octets - 42 - 33 - 127) / 4033;
    let rest = octets - 42 - 4033 * copies - 33;
    let block = [
        &b"\x88\x40\x01a"[..],
        &hpack_string(4000),
        &vec![0xbe; copies - 1],
        b"\x00\x01b",
        &hpack_string(rest),
    ];
    frame(HEADERS, END_HEADERS, ONE, &block.concat())
}

/// Checks that a connection stays open at each limit, and ends with the violation beyond the limit.
fn check_limits(limits: impl IntoIterator<Item = (Reached, Vec<u8>, Violation)>) {
    for (reached, beyond, violation) in limits {
        let mut peer = reached();
        assert!(!peer.machine.is_ended(), "{violation}");
        peer.send(&beyond);
        let error = ConnectionError::Violation(violation);
        let code = error.code().to_string();
        assert!(peer.machine.is_closing());
        assert_eq!(peer.machine.close_reason(), Some(error));
        let last = peer.receive().pop().expect("it sends GOAWAY");
        assert!(
            last.starts_with("GOAWAY ") && last.ends_with(&code),
            "{last}"
        );
    }
}

#[test]
fn a_header_block_beyond_a_limit_ends_the_connection() {
    let excess = |excess| Violation::Excess(excess);
    let too_large = hpack::Error::SizeUpdateAboveLimit;
    let limits: [(Reached, _, _); 4] = [
        (
            || {
                after_sending(
                    server_inside_block(b""),
                    &frame(CONTINUATION, 0, ONE, b""),
                    config::MAX_CONTINUATIONS,
                )
            },
            frame(CONTINUATION, 0, ONE, b""),
            excess(Excess::Continuations),
        ),
        (
            || {
                let fragment = [0; 16_384];
                let further = frame(CONTINUATION, 0, ONE, &fragment);
                let times = config::MAX_HEADER_LIST / fragment.len() - 1;
                after_sending(server_inside_block(&fragment), &further.repeat(times), 1)
            },
            frame(CONTINUATION, 0, ONE, b"\0"),
            excess(Excess::HeaderBlock),
        ),
        (
            // A dynamic table size update to 4,096 octets, and one to 4,097.
            || {
                after_sending(
                    Peer::server_with_requests(2),
                    &frame(HEADERS, END_HEADERS, ONE, b"\x3f\xe1\x1f\x88"),
                    1,
                )
            },
            frame(HEADERS, END_HEADERS, THREE, b"\x3f\xe2\x1f\x88"),
            Violation::Compression(too_large),
        ),
        (
            || {
                after_sending(
                    Peer::server_with_requests(1),
                    &headers_with_list_size(config::MAX_DECODED_HEADERS),
                    1,
                )
            },
            // The first list has caused a reset of its stream, whose blocks are still decoded.
            headers_with_list_size(config::MAX_DECODED_HEADERS + 1),
            excess(Excess::HeaderList),
        ),
    ];
    check_limits(limits);
}

#[test]
fn frames_beyond_a_limit_end_the_connection() {
    let excess = |excess| Violation::Excess(excess);
    let limits: [(Reached, _, _); 7] = [
        (
            || after_sending(server_that_answered(), &data(ONE, &[7; 16_384], false), 1),
            b"\x00\x40\x01\x00\x00\x00\x00\x00\x01".to_vec(),
            Violation::FrameTooLarge(16_385),
        ),
        (
            || {
                after_sending(
                    Peer::server_with_requests(1),
                    &settings(&[(9, 0); config::MAX_SETTINGS]),
                    1,
                )
            },
            settings(&[(9, 0); config::MAX_SETTINGS + 1]),
            excess(Excess::SettingsEntries),
        ),
        (
            || {
                after_sending(
                    server_that_answered(),
                    &ping(1),
                    config::MAX_FRAMES_WITHOUT_PROGRESS,
                )
            },
            ping(1),
            excess(Excess::WithoutProgress),
        ),
        (
            // Each SETTINGS frame is acknowledged, and counts like any other frame.
            || {
                after_sending(
                    server_that_answered(),
                    &settings(&[]),
                    config::MAX_FRAMES_WITHOUT_PROGRESS,
                )
            },
            settings(&[]),
            excess(Excess::WithoutProgress),
        ),
        (
            || {
                after_sending(
                    server_that_answered(),
                    &data(ONE, b"", false),
                    config::MAX_FRAMES_WITHOUT_PROGRESS,
                )
            },
            data(ONE, b"", false),
            excess(Excess::WithoutProgress),
        ),
        (
            || {
                let mut peer = Peer::client_with_settings(&[]);
                for stream in 0..config::MAX_STREAMS {
                    let stream = 1 + 2 * stream;
                    peer =
                        after_sending(peer, &[request(stream, true), reset(stream, 8)].concat(), 1);
                }
                after_sending(peer, &request(201, true), 1)
            },
            reset(201, 8),
            excess(Excess::Cancelled),
        ),
        (
            // Up to the largest window that the connection may have.
            || {
                after_sending(
                    Peer::server_with_settings(&[]),
                    &window_update(0, 0x7fff_ffff - 65_535),
                    1,
                )
            },
            window_update(0, 1),
            Violation::Window(WindowError::Overflow),
        ),
    ];
    check_limits(limits);
}

/// Returns a server that has sent the headers of a response.
fn server_that_answered() -> Peer {
    after_sending(Peer::server_with_requests(1), &ok(ONE), 1)
}

/// Returns a server in the middle of a header block, of which these octets were sent.
fn server_inside_block(octets: &[u8]) -> Peer {
    after_sending(
        Peer::server_with_requests(1),
        &frame(HEADERS, 0, ONE, octets),
        1,
    )
}

#[test]
fn a_stream_fails_beyond_each_limit_and_not_at_it() {
    let count = |fields: usize| {
        let rest = vec![("a", "b"); fields - 1];
        headers(ONE, &[&[(":status", "200")], &rest[..]].concat(), false)
    };
    let early = headers(ONE, &[(":status", "100")], false);
    let octets = [
        ok(ONE),
        data(ONE, &[7; 16_384], false).repeat(3),
        data(ONE, &[7; 16_383], false),
    ];
    let table = [
        (
            vec![],
            headers_with_list_size(config::MAX_HEADER_LIST),
            headers_with_list_size(config::MAX_HEADER_LIST + 1),
            "ENHANCE_YOUR_CALM: a header list of more than 65536 octets",
        ),
        (
            vec![],
            count(config::MAX_FIELDS),
            count(config::MAX_FIELDS + 1),
            "ENHANCE_YOUR_CALM: a header list of more than 256 fields",
        ),
        (
            early.repeat(config::MAX_INFORMATIONAL.into()),
            ok(ONE),
            early,
            "ENHANCE_YOUR_CALM: too many 1xx responses",
        ),
        (
            octets.concat(),
            data(ONE, b"", true),
            data(ONE, b"x", false),
            "FLOW_CONTROL_ERROR: more data than the flow-control window allows",
        ),
        (
            window_update(ONE, 0x7fff_ffff - 65_535),
            ok(ONE),
            window_update(ONE, 1),
            "FLOW_CONTROL_ERROR: WINDOW_UPDATE that makes the window exceed 2^31-1",
        ),
    ];
    for (before, fine, beyond, error) in table {
        for (octets, is_fine) in [(fine, true), (beyond, false)] {
            let mut peer = Peer::server_with_requests(2);
            peer.consumes = false;
            peer.send(&before);
            peer.receive();
            let events = peer.send(&octets);
            let failed = format!("failed 1 {error}");
            assert_eq!(events.contains(&failed), !is_fine, "{events:?}");
            let code = error.split(':').next().expect("the code");
            let expected = [format!("RST_STREAM 1 {code}")];
            assert_eq!(peer.receive() == expected, !is_fine, "{error}");
            assert_eq!(peer.send(&ok(THREE)), ["head 3 200"], "the other goes on");
        }
    }
}

#[test]
fn a_connection_times_out_exactly_at_each_deadline() {
    let table: [(Reached, _, Awaited, ErrorCode); 4] = [
        (
            || {
                let mut peer = Peer::server();
                peer.receive();
                peer
            },
            config::DIAL_TIMEOUT,
            Awaited::Settings {
                within: config::DIAL_TIMEOUT,
            },
            ErrorCode::SETTINGS_TIMEOUT,
        ),
        (
            || {
                let mut peer = Peer::client();
                peer.receive();
                peer
            },
            config::HANDSHAKE_TIMEOUT,
            Awaited::Settings {
                within: config::HANDSHAKE_TIMEOUT,
            },
            ErrorCode::SETTINGS_TIMEOUT,
        ),
        (
            || server_inside_block(b""),
            config::PEER_TIMEOUT,
            Awaited::HeaderBlock,
            ErrorCode::ENHANCE_YOUR_CALM,
        ),
        (
            || {
                let mut peer = Peer::server_with_requests(1);
                peer.send(&ping(1));
                peer
            },
            config::PEER_TIMEOUT,
            Awaited::Reading,
            ErrorCode::ENHANCE_YOUR_CALM,
        ),
    ];
    for (reached, time, awaited, code) in table {
        let mut peer = reached();
        assert_eq!(peer.machine.poll_timeout(), Some(peer.now + time));
        let millis = u64::try_from(time.as_millis()).expect("seconds");
        assert!(peer.wait(millis - 1).is_empty());
        peer.wait(1);
        let error = ConnectionError::TimedOut(awaited);
        assert_eq!(error.code(), code);
        assert_eq!(peer.machine.close_reason(), Some(error));
    }
}

#[test]
fn frames_without_progress_are_forgiven_after_60_s() {
    for (wait, is_fine) in [(59_999, false), (60_000, true)] {
        let mut peer = after_sending(
            server_that_answered(),
            &ping(1),
            config::MAX_FRAMES_WITHOUT_PROGRESS,
        );
        peer.wait(wait);
        peer.send(&ping(1));
        assert_eq!(!peer.machine.is_ended(), is_fine, "{wait} ms");
    }
}

#[test]
fn a_stream_beyond_the_limit_of_streams_is_refused() {
    let mut peer = Peer::client_with_settings(&[]);
    for stream in 0..config::MAX_STREAMS {
        assert_eq!(peer.send(&request(1 + 2 * stream, true)).len(), 1);
    }
    assert!(peer.receive().is_empty());
    let next = 1 + 2 * config::MAX_STREAMS;
    assert!(peer.send(&request(next, true)).is_empty());
    assert_eq!(
        peer.receive(),
        [format!("RST_STREAM {next} REFUSED_STREAM")]
    );
}

#[test]
fn reading_stops_when_64_answers_are_unsent() {
    let mut peer = Peer::server_with_settings(&[]);
    peer.send(&ping(1).repeat(config::MAX_UNSENT_ANSWERS as usize - 1));
    assert!(!peer.machine.recv_buf().is_empty());
    peer.send(&ping(1));
    assert!(peer.machine.recv_buf().is_empty());
    let stalled = peer.wait(10_000);
    assert_eq!(
        stalled,
        ["closed ENHANCE_YOUR_CALM: the peer stopped reading"]
    );
}

#[test]
fn a_write_leaves_work_if_a_frame_had_to_wait_for_it() {
    for (frames, is_left) in [(1, false), (2, true)] {
        let mut peer = Peer::server_with_settings(&[]);
        peer.send(&ping(1).repeat(config::MAX_UNSENT_ANSWERS as usize - 1));
        let (machine, now) = (&mut peer.machine, peer.now);
        machine.receive_from(&ping(1).repeat(frames), now);
        assert_eq!(machine.poll_event(now), None);
        machine.sent(machine.transmit().len() - 1, now);
        assert!(machine.has_work(), "an octet is to be written");
        machine.sent(1, now);
        assert_eq!(machine.has_work(), is_left);
    }
}

#[test]
fn a_shut_down_connection_has_work_until_it_reports_its_end() {
    let mut peer = Peer::server_with_settings(&[]);
    let (machine, now) = (&mut peer.machine, peer.now);
    machine.shutdown(now);
    machine.sent(machine.transmit().len(), now);
    assert!(machine.has_work());
    let end = machine.poll_event(now);
    assert!(
        matches!(end, Some(crate::http2::Event::Closed(_))),
        "{end:?}"
    );
    machine.sent(machine.transmit().len(), now);
    assert!(!machine.has_work());
}

#[test]
fn our_header_blocks_may_have_8_kib_and_not_an_octet_more() {
    // 0x20, the index of the name, the length of the value in three octets, and the value.
    let fits = config::MAX_SENT_HEADER_BLOCK - 5;
    for (length, is_fine) in [(fits, true), (fits + 1, false)] {
        let value = vec![b'/'; length];
        let mut peer = Peer::server_with_settings(&[]);
        let opened = peer.machine.open(&[(":path", &value)], true, peer.now);
        let expected = if is_fine {
            Ok(StreamId::FIRST)
        } else {
            Err(OpenError::TooLarge)
        };
        assert_eq!(opened, expected, "{length} octets");

        let mut peer = Peer::client_with_settings(&[(MAX_HEADER_LIST_SIZE, 1 << 20)]);
        peer.send(&request(ONE, true));
        let sent = peer
            .machine
            .send_headers(StreamId::FIRST, &[(":path", &value)], true, peer.now);
        assert_eq!(sent == Ok(()), is_fine, "{length} octets");
        assert_eq!(sent == Err(HeadersError::TooLarge), !is_fine);
    }
}

#[test]
fn nothing_is_queued_behind_16_kib_of_unsent_octets() {
    let mut peer = Peer::server_with_settings(&[(INITIAL_WINDOW_SIZE, 1 << 20)]);
    let (one, three) = (peer.open(false), peer.open(false));
    let content = vec![7; config::MAX_UNSENT_OCTETS - 9 - peer.machine.transmit().len() - 1];
    let now = peer.now;
    assert_eq!(
        peer.machine.send_data(one, &content, false, now),
        Taken::All
    );
    assert_eq!(peer.machine.transmit().len(), config::MAX_UNSENT_OCTETS - 1);
    let large = vec![7; 40_000];
    let taken = peer.machine.send_data(one, &large, false, now);
    assert_eq!(taken, Taken::Some(16_384));
    let taken = peer.machine.send_data(three, b"x", true, now);
    assert_eq!(taken, Taken::Some(0));
    let opened = peer.machine.open(&[], true, now);
    assert_eq!(opened, Err(OpenError::Later));
    assert!(peer.machine.transmit().len() < 2 * config::MAX_UNSENT_OCTETS + 9);
    peer.receive();
    assert_eq!(peer.machine.send_data(three, b"x", true, now), Taken::All);
}
