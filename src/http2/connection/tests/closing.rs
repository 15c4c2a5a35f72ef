//! The end of a connection: GOAWAY, EOF, shutdown.

use crate::http2::testing::*;
use crate::http2::{ConnectionError, OpenError};

/// Missed by conformance suites (1 of 6): a response after a graceful GOAWAY is not lost.
#[test]
fn streams_in_progress_finish_after_a_graceful_goaway() {
    let mut peer = Peer::server_with_requests(1);
    assert_eq!(
        peer.send(&goaway(0x7fff_ffff, 0, b"")),
        ["goaway 2147483647 NO_ERROR"]
    );
    peer.send(&ping(9));
    assert_eq!(peer.receive(), ["PING ack 9"]);
    let opened = peer.machine.open(&[], true, peer.now);
    assert!(matches!(
        opened,
        Err(OpenError::Closing(ConnectionError::GoAwayReceived(_)))
    ));
    assert_eq!(peer.send(&goaway(ONE, 0, b"")), ["goaway 1 NO_ERROR"]);
    assert!(peer.wait(4_600).is_empty());
    let rest = [
        ok(ONE),
        data(ONE, b"reply", false),
        headers(ONE, &[("grpc-status", "0")], true),
    ];
    assert_eq!(
        peer.send(&rest.concat()),
        [
            "head 1 200",
            "data 1 5",
            "trailers 1",
            "closed NO_ERROR: the peer sent GOAWAY code=NO_ERROR",
        ]
    );
}

#[test]
fn streams_above_the_last_end_and_the_others_continue() {
    let mut peer = Peer::server_with_requests(2);
    assert_eq!(peer.send(&goaway(ONE, 0, b"")), ["goaway 1 NO_ERROR"]);
    assert!(peer.send(&ok(THREE)).is_empty(), "late, and ignored");
    assert_eq!(peer.send(&ok(ONE)), ["head 1 200"]);
}

#[test]
fn a_later_goaway_must_not_raise_the_last_stream() {
    let mut peer = Peer::server_with_requests(3);
    assert_eq!(peer.send(&goaway(5, 0, b"")).len(), 1);
    assert_eq!(peer.send(&goaway(5, 0, b"")).len(), 1);
    assert_eq!(peer.send(&goaway(3, 0, b"")).len(), 1);
    let events = peer.send(&goaway(5, 0, b""));
    assert!(events[0].starts_with("closed PROTOCOL_ERROR"), "{events:?}");
}

#[test]
fn a_goaway_about_an_even_stream_is_a_connection_error() {
    let mut peer = Peer::server_with_requests(1);
    let events = peer.send(&goaway(2, 0, b""));
    assert!(events[0].starts_with("closed PROTOCOL_ERROR"), "{events:?}");
}

#[test]
fn a_goaway_is_reported_with_its_code_and_debug_data() {
    let mut peer = Peer::server_with_settings(&[]);
    assert_eq!(
        peer.send(&goaway(0, 11, b"too_many_pings\x1b[2J")),
        [
            "goaway 0 ENHANCE_YOUR_CALM",
            "closed NO_ERROR: the peer sent GOAWAY \
             code=ENHANCE_YOUR_CALM debug=\"too_many_pings\\u{1b}[2J\"",
        ]
    );
}

#[test]
fn only_1024_octets_of_goaway_debug_data_are_kept() {
    let mut peer = Peer::server_with_requests(1);
    assert!(!peer.machine.is_closing());
    for _ in 0..64 {
        peer.send(&goaway(ONE, 0, &[b'x'; 16_376]));
        assert!(peer.peak < 32 * 1024, "{} octets", peer.peak);
    }
    let Some(ConnectionError::GoAwayReceived(gone)) = peer.machine.close_reason() else {
        panic!("no GOAWAY is reported");
    };
    assert!(peer.machine.is_closing());
    assert_eq!(gone.debug.len(), 1024);
}

#[test]
fn octets_received_before_eof_are_processed() {
    let mut peer = Peer::server_with_requests(1);
    let octets = [ok(ONE), data(ONE, b"x", true)].concat();
    assert_eq!(peer.machine.receive_from(&octets, peer.now), octets.len());
    assert_eq!(
        peer.close(),
        [
            "head 1 200",
            "data 1 1 end",
            "closed NO_ERROR: the peer closed the connection"
        ]
    );
    assert_eq!(peer.machine.poll_timeout(), None);
    assert!(peer.machine.is_ended());
}

#[test]
fn eof_after_goaway_with_an_error_reports_that_error() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&goaway(ONE, 11, b"too_many_pings"));
    assert_eq!(
        peer.close(),
        ["closed NO_ERROR: the peer sent GOAWAY \
             code=ENHANCE_YOUR_CALM debug=\"too_many_pings\""]
    );
    let mut peer = Peer::server_with_requests(1);
    peer.send(&goaway(ONE, 0, b""));
    let expected = "closed NO_ERROR: the peer closed the connection";
    assert_eq!(
        peer.close(),
        [expected],
        "a graceful GOAWAY does not explain the end"
    );
}

#[test]
fn an_end_inside_a_frame_is_reported() {
    let mut peer = Peer::server_with_requests(1);
    peer.send(&ok(ONE)[..5]);
    let expected = "closed NO_ERROR: the peer closed the connection mid-frame";
    assert_eq!(peer.close(), [expected]);
}

#[test]
fn shutting_down_sends_goaway_and_ends_with_the_last_stream() {
    let mut peer = Peer::server_with_requests(1);
    peer.machine.shutdown(peer.now);
    peer.machine.shutdown(peer.now);
    assert_eq!(peer.receive(), ["GOAWAY 0 NO_ERROR"]);
    let opened = peer.machine.open(&[], true, peer.now);
    assert_eq!(opened, Err(OpenError::Closing(ConnectionError::ShutDown)));
    assert_eq!(
        peer.send(&headers(ONE, &[(":status", "200")], true)),
        [
            "head 1 200 end",
            "closed NO_ERROR: the connection was shut down"
        ]
    );
}

#[test]
fn a_request_counts_as_written_from_its_first_octet() {
    let mut peer = Peer::server_with_settings(&[]);
    let stream = peer.open(true);
    assert!(!peer.machine.was_written(stream));
    peer.machine.sent(1, peer.now);
    assert!(peer.machine.was_written(stream));
    peer.close();
    assert!(peer.machine.was_written(stream));
}
