//! Peers that are not gRPC servers: each is named for what it is, and nothing hangs.

use std::time::Duration;

use plugind::grpc::{CallError, Code, NotGrpc};
use plugind::http2::{ConnectionError, ErrorCode, OtherProtocol};
use plugind::proto::pluginregistration::{InfoRequest, registration};

use crate::support::caller::Caller;
use crate::support::frames::{DATA, END_HEADERS, END_STREAM, Frame, HEADERS, SETTINGS};
use crate::support::server::{Server, Then, accept};

/// Returns the error of a `GetInfo` to which the peer responds with these octets.
fn error_of(octets: impl Into<Vec<u8>>, then: Then) -> CallError {
    let server = Server::saying(octets, then);
    Caller::connect(server.socket()).get_info().unwrap_err()
}

/// Returns the connection error when the peer sends these octets.
fn connection_error(octets: impl Into<Vec<u8>>, then: Then) -> ConnectionError {
    match error_of(octets, then) {
        CallError::Connection { error, .. } => error,
        other => panic!("the call failed, not the connection: {other}"),
    }
}

#[test]
fn an_http_1_server_is_recognized_whether_it_closes_or_waits() {
    let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for then in [Then::Close, Then::Wait] {
        let error = connection_error(answer, then);
        assert_eq!(
            error,
            ConnectionError::NotHttp2(OtherProtocol::Http1(Some(400)))
        );
    }
}

#[test]
fn a_tls_server_is_recognized_whether_it_closes_or_waits() {
    // A TLS alert: fatal, unexpected message.
    let alert = b"\x15\x03\x03\x00\x02\x02\x0a";
    let error = connection_error(alert, Then::Close);
    assert_eq!(error, ConnectionError::NotHttp2(OtherProtocol::Tls));
    // The beginning of a TLS handshake record.
    let handshake = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03";
    let error = connection_error(handshake, Then::Wait);
    assert_eq!(error, ConnectionError::NotHttp2(OtherProtocol::Tls));
}

#[test]
fn garbage_is_quoted_in_part() {
    let garbage = b"SSH-2.0-OpenSSH_9.9\r\n\x1b[2J".repeat(1000);
    let error = connection_error(garbage, Then::Wait);
    assert!(
        matches!(&error, ConnectionError::NotHttp2(OtherProtocol::Other(octets))
            if octets.starts_with(b"SSH-2.0") && octets.len() < 200),
        "{error:?}"
    );
    assert!(error.to_string().contains("\"SSH-2.0"), "{error}");
    assert!(!error.to_string().contains('\x1b'), "{error}");
}

#[test]
fn a_peer_that_closes_after_the_request_has_said_nothing() {
    let error = connection_error(b"", Then::Close);
    assert_eq!(error, ConnectionError::NotHttp2(OtherProtocol::Nothing));
}

#[test]
fn a_peer_that_closes_at_once_has_said_nothing() {
    let server = Server::run(async move |listener| {
        drop(accept(&listener).await);
    });
    let error = Caller::connect(server.socket()).get_info().unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(
        matches!(
            error,
            CallError::Connection {
                error: ConnectionError::NotHttp2(OtherProtocol::Nothing),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_silent_peer_costs_the_call_its_time_and_no_more() {
    let server = Server::saying(b"", Then::Wait);
    let mut caller = Caller::connect(server.socket());
    let timeout = Duration::from_millis(30);
    let call = caller.begin(registration::GET_INFO, &InfoRequest {}, 1000, timeout);
    assert_eq!(caller.end(call), Err(CallError::DeadlineExceeded));
}

#[test]
fn a_peer_that_goes_on_with_garbage_breaks_the_connection() {
    let begin = Frame::settings(&[]).octets();
    let error = connection_error(
        [&begin[..], b"HTTP/1.1 400 Bad Request\r\n"].concat(),
        Then::Wait,
    );
    assert_eq!(error.code(), ErrorCode::FRAME_SIZE_ERROR, "{error}");
    let stray = Frame::new(DATA, 0, 3, b"nobody asked").octets();
    let error = connection_error([begin, stray].concat(), Then::Wait);
    assert_eq!(error.code(), ErrorCode::PROTOCOL_ERROR, "{error}");
}

#[test]
fn a_header_block_that_does_not_decode_breaks_the_connection() {
    let octets = [
        Frame::settings(&[]).octets(),
        Frame::new(HEADERS, END_HEADERS, 1, b"\x88\xbe").octets(),
    ]
    .concat();
    let error = connection_error(octets, Then::Wait);
    assert_eq!(error.code(), ErrorCode::COMPRESSION_ERROR, "{error}");
}

#[test]
fn a_setting_that_must_not_be_breaks_the_connection() {
    let error = connection_error(Frame::settings(&[(ENABLE_PUSH, 1)]).octets(), Then::Wait);
    assert_eq!(error.code(), ErrorCode::PROTOCOL_ERROR, "{error}");
    let error = connection_error(Frame::new(SETTINGS, 0, 0, [0; 7]).octets(), Then::Wait);
    assert_eq!(error.code(), ErrorCode::FRAME_SIZE_ERROR, "{error}");
}

#[test]
fn a_web_server_that_speaks_http_2_is_no_grpc_server() {
    let answers = |block: &[u8]| {
        let head = Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block).octets();
        error_of([Frame::settings(&[]).octets(), head].concat(), Then::Wait)
    };
    // `:status: 404`, and nothing else.
    let error = answers(b"\x8d");
    assert_eq!(error, CallError::NotGrpc(NotGrpc::HttpStatus(404)));
    assert_eq!(error.code(), Code::Unimplemented);
    // `:status: 200`, `content-type: text/html`.
    let error = answers(b"\x88\x0f\x10\x09text/html");
    assert_eq!(
        error,
        CallError::NotGrpc(NotGrpc::ContentType(b"text/html".to_vec()))
    );
}

/// RFC 9113 §6.5.2.
const ENABLE_PUSH: u16 = 0x2;
