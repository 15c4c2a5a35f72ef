//! Peers that are not gRPC servers: each is named for what it is, and nothing hangs.

use plugind::grpc::{CallError, Code, NotGrpc};
use plugind::http2::{ConnectionError, OtherProtocol};

use crate::support::caller::Caller;
use crate::support::frames::{END_HEADERS, END_STREAM, Frame, HEADERS};
use crate::support::server::{Server, Then};

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
