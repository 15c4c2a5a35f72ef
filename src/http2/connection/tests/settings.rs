//! The preface, SETTINGS and PING.

use crate::http2::testing::*;
use crate::http2::{OpenError, Taken};

const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

#[test]
fn preface_settings_and_the_first_request_are_written_at_once() {
    let mut peer = Peer::server();
    let stream = peer.open(false);
    assert_eq!(
        peer.machine.send_data(stream, b"hello", true, peer.now),
        Taken::All
    );
    assert_eq!(
        peer.receive(),
        ["preface", "SETTINGS of 2", "HEADERS 1", "DATA 1 5 end"]
    );
}

#[test]
fn our_settings_refuse_pushes_and_limit_the_header_list() {
    let peer = Peer::server();
    let octets = &peer.machine.transmit()[24..];
    assert_eq!(
        octets,
        frame(SETTINGS, 0, 0, b"\0\x02\0\0\0\0\0\x06\0\x01\0\0")
    );
}

#[test]
fn our_settings_as_a_server_limit_the_streams() {
    let peer = Peer::client();
    assert_eq!(
        peer.machine.transmit(),
        frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\x64\0\x06\0\x01\0\0")
    );
}

#[test]
fn settings_are_acknowledged_once_each() {
    let mut peer = Peer::server_with_requests(1);
    assert!(peer.send(&settings(&[(0xfe03, 1)])).is_empty());
    assert!(peer.send(&settings(&[])).is_empty());
    assert_eq!(peer.receive(), ["SETTINGS ack", "SETTINGS ack"]);
    assert!(peer.send(&frame(SETTINGS, ACK, 0, b"")).is_empty());
    assert!(peer.receive().is_empty());
    assert_eq!(peer.send(&ok(ONE)), ["head 1 200"]);
}

#[test]
fn the_peers_settings_are_available_once_received() {
    let mut peer = Peer::server();
    assert_eq!(peer.machine.peer_settings(), None);
    peer.send(&settings(&[(MAX_CONCURRENT_STREAMS, 7)]));
    let wanted = peer.machine.peer_settings().expect("they were received");
    assert_eq!(wanted.max_concurrent_streams, Some(7));
    assert_eq!(wanted.initial_window_size, 65_535);
}

#[test]
fn invalid_settings_end_the_connection() {
    let table = [
        (settings(&[(2, 1)]), "PROTOCOL_ERROR"),
        (
            settings(&[(INITIAL_WINDOW_SIZE, 0x8000_0000)]),
            "FLOW_CONTROL_ERROR",
        ),
        (settings(&[(MAX_FRAME_SIZE, 16_383)]), "PROTOCOL_ERROR"),
        (settings(&[(9, 0); 33]), "ENHANCE_YOUR_CALM"),
        (frame(SETTINGS, 0, 0, b"12345"), "FRAME_SIZE_ERROR"),
        (frame(SETTINGS, 0, 1, b""), "PROTOCOL_ERROR"),
        (frame(SETTINGS, ACK, 0, b"123456"), "FRAME_SIZE_ERROR"),
    ];
    for (octets, code) in table {
        let mut peer = Peer::server_with_settings(&[]);
        let events = peer.send(&octets);
        assert!(
            events.len() == 1 && events[0].starts_with("closed"),
            "{events:?}"
        );
        assert_eq!(peer.receive(), [format!("GOAWAY 0 {code}")]);
    }
    let mut peer = Peer::server_with_settings(&[]);
    assert!(peer.send(&settings(&[(9, 0); 32])).is_empty());
}

#[test]
fn a_stream_is_opened_only_when_the_peer_allows_it() {
    let mut peer = Peer::server_with_settings(&[(MAX_CONCURRENT_STREAMS, 0)]);
    let fields: [(&str, &[u8]); 1] = [(":method", b"POST")];
    assert_eq!(
        peer.machine.open(&fields, true, peer.now),
        Err(OpenError::Later)
    );
    peer.send(&settings(&[(MAX_CONCURRENT_STREAMS, 1)]));
    peer.open(true);
    assert_eq!(
        peer.machine.open(&fields, true, peer.now),
        Err(OpenError::Later)
    );
    peer.send(&headers(ONE, &[(":status", "200")], true));
    peer.open(true);
}

#[test]
fn a_limit_on_streams_may_fall_below_what_is_open() {
    let fields: [(&str, &[u8]); 1] = [(":method", b"POST")];
    let mut peer = Peer::server_with_requests(3);
    peer.send(&settings(&[(MAX_CONCURRENT_STREAMS, 1)]));
    for stream in [ONE, THREE, 5] {
        let opened = peer.machine.open(&fields, true, peer.now);
        assert_eq!(opened, Err(OpenError::Later));
        let answer = peer.send(&headers(stream, &[(":status", "200")], true));
        assert_eq!(answer, [format!("head {stream} 200 end")], "they go on");
    }
    peer.open(true);
}

#[test]
fn a_header_list_that_the_peer_would_refuse_is_not_sent() {
    let fields: [(&str, &[u8]); 1] = [("name", b"value")];
    let mut peer = Peer::server_with_settings(&[(MAX_HEADER_LIST_SIZE, 40)]);
    assert_eq!(
        peer.machine.open(&fields, true, peer.now),
        Err(OpenError::TooLarge)
    );
    peer.send(&settings(&[(MAX_HEADER_LIST_SIZE, 41)]));
    assert!(peer.machine.open(&fields, true, peer.now).is_ok());

    let large = vec![b'x'; 8 * 1024];
    let fields: [(&str, &[u8]); 1] = [("name", &large)];
    let mut peer = Peer::server_with_settings(&[]);
    assert_eq!(
        peer.machine.open(&fields, true, peer.now),
        Err(OpenError::TooLarge)
    );
    assert!(peer.receive().is_empty());
}

#[test]
fn a_ping_is_answered_with_its_octets_ahead_of_queued_data() {
    let mut peer = Peer::server_with_settings(&[]);
    let stream = peer.open(false);
    peer.machine
        .send_data(stream, &vec![7; 30_000], true, peer.now);
    peer.send(&ping(42));
    assert_eq!(peer.receive(), ["PING ack 42", "HEADERS 1", "DATA 1 16384"]);
}

/// grpc-go, C-core and grpc-java close a connection after more than a few PINGs, so none is ever
/// sent.
#[test]
fn an_idle_connection_sends_nothing_for_days() {
    let mut peer = Peer::server_with_requests(1);
    for _ in 0..10 {
        assert_eq!(peer.machine.poll_timeout(), None);
        assert!(peer.wait(24 * 3_600 * 1_000).is_empty());
        assert!(peer.receive().is_empty());
    }
    assert_eq!(peer.send(&ok(ONE)), ["head 1 200"]);
}

/// C-core closes the connection after padded HEADERS, and resets the stream after padded DATA.
#[test]
fn nothing_that_is_sent_is_padded_or_has_a_priority() {
    const PRIORITIZED: u8 = 0x20;
    let mut client = Peer::server_with_settings(&[]);
    let stream = client.open(false);
    let mut server = Peer::client_with_settings(&[]);
    server.send(&request(ONE, true));
    let head: [(&str, &[u8]); 1] = [(":status", b"200")];
    let sent = server
        .machine
        .send_headers(stream, &head, false, server.now);
    assert_eq!(sent, Ok(()));
    for peer in [&mut client, &mut server] {
        let taken = peer.machine.send_data(stream, &[7; 1000], true, peer.now);
        assert_eq!(taken, Taken::All);
        peer.send(&ping(1));
        let mut octets = peer.machine.transmit();
        assert!(!octets.is_empty());
        while let [_, l2, l3, kind, flags, _, _, _, _, rest @ ..] = octets {
            assert_ne!(*kind, PRIORITY);
            assert_eq!(flags & (PADDED | PRIORITIZED), 0);
            octets = &rest[usize::from(u16::from_be_bytes([*l2, *l3]))..];
        }
    }
}

#[test]
fn an_unexpected_ping_ack_is_ignored() {
    let mut peer = Peer::server_with_settings(&[]);
    assert!(peer.send(&frame(PING, ACK, 0, b"12345678")).is_empty());
    assert!(peer.receive().is_empty());
}

#[test]
fn a_first_frame_other_than_settings_is_not_http2() {
    let table: [(&[u8], &str); 5] = [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "it sent an HTTP/1 response http_status=400",
        ),
        (b"\x15\x03\x01\0\x02\x02\x46\0\0", "it sent a TLS record"),
        (
            b"SSH-2.0-OpenSSH",
            "unknown protocol received=\"SSH-2.0-OpenSSH\"",
        ),
        (
            &frame(SETTINGS, ACK, 0, b""),
            "unknown protocol received=\"\\u{0}\\u{0}\\u{0}\\u{4}\\u{1}\\u{0}\\u{0}\\u{0}\\u{0}",
        ),
        (
            &ping(1),
            "unknown protocol received=\"\\u{0}\\u{0}\\u{8}\\u{6}\\u{0}\\u{0}\\u{0}\\u{0}\\u{0}",
        ),
    ];
    for (octets, words) in table {
        let mut peer = Peer::server();
        peer.open(true);
        let events = peer.send(octets);
        let expected = format!("closed PROTOCOL_ERROR: the peer does not speak HTTP/2: {words}");
        assert!(events[0].starts_with(&expected), "{events:?}");
        assert!(
            peer.machine.transmit().is_empty(),
            "a peer that does not speak HTTP/2 is sent nothing"
        );
    }
}

#[test]
fn a_peer_that_closes_before_it_sends_anything_is_reported() {
    let mut peer = Peer::server();
    let expected = "closed PROTOCOL_ERROR: the peer closed the connection before it sent any data";
    assert_eq!(peer.close(), [expected]);
}

#[test]
fn a_server_has_ten_seconds_for_its_settings() {
    let mut peer = Peer::server();
    peer.receive();
    peer.send(b"\0\0\x06\x04\0\0\0\0\0\0");
    assert!(peer.wait(9_999).is_empty());
    assert_eq!(
        peer.machine.poll_timeout().map(|at| at > peer.now),
        Some(true)
    );
    let expected = "closed SETTINGS_TIMEOUT: the peer sent no SETTINGS within 10.0s of connecting: \
                    the HTTP/2 handshake timed out";
    assert_eq!(peer.wait(1), [expected]);
    assert_eq!(peer.machine.poll_timeout(), None);

    let mut peer = Peer::server_with_settings(&[]);
    assert!(peer.wait(1_000_000).is_empty());
}
