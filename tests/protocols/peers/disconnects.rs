//! Servers that close the connection in the middle of a call, gracefully or not.

use plugind::grpc::{CallError, Code, TransparentRetry};
use plugind::http2::ConnectionError;
use plugind::proto::pluginregistration::{InfoRequest, registration};
use prost::Message as _;
use tokio::sync::oneshot;

use super::{h2_plugin, info};
use crate::support::caller::{Caller, PATIENCE};
use crate::support::frames::{DATA, Frame, GOAWAY};
use crate::support::server::{Call, Server, Then, accept_h2};

/// Returns what an `h2` server sends in the course of one `GetInfo`.
fn recording() -> Vec<u8> {
    let server = h2_plugin();
    let mut caller = Caller::connect(server.socket());
    caller.get_info().unwrap();
    caller.received.concat()
}

/// Returns the position of the first frame of this type in `octets`, and the length of its payload.
fn find(octets: &[u8], kind: u8) -> (usize, usize) {
    let mut rest = octets.to_vec();
    loop {
        let at = octets.len() - rest.len();
        let frame = Frame::take(&mut rest).expect("a frame of this type");
        if frame.kind == kind {
            return (at, frame.payload.len());
        }
    }
}

/// Returns the error of a `GetInfo` after which the server sends these octets and closes the
/// connection.
fn after(octets: &[u8]) -> CallError {
    let server = Server::saying(octets, Then::Close);
    let mut caller = Caller::connect(server.socket());
    let error = caller.get_info().unwrap_err();
    assert!(caller.client.is_closed());
    error
}

#[test]
fn a_server_that_closes_before_its_trailers_is_unavailable() {
    let octets = recording();
    let (data, length) = find(&octets, DATA);
    let error = after(&octets[..data + 9 + length]);
    assert_eq!(error, eof(false));
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(
        error.transparent_retry(),
        TransparentRetry::Never,
        "the server may have acted on it"
    );
}

#[test]
fn a_server_that_drains_still_answers_the_call_that_it_has() {
    let (go, gone) = oneshot::channel::<()>();
    let server = Server::run(async move |listener| {
        let mut connection = accept_h2(&listener).await;
        let (request, respond) = connection.accept().await.unwrap().unwrap();
        connection.graceful_shutdown();
        tokio::spawn(async move {
            let call = Call::read(request, respond).await;
            gone.await.unwrap();
            call.reply(&info().encode_to_vec());
        });
        assert!(connection.accept().await.is_none(), "no other call arrives");
    });
    let mut caller = Caller::connect(server.socket());
    let call = caller.begin(registration::GET_INFO, &InfoRequest {}, 1000, PATIENCE);
    // The first GOAWAY announces the shutdown, the second one holds the last stream ID.
    caller.run_until(|caller| goaways(caller) == 2);
    let late = caller.begin(registration::GET_INFO, &InfoRequest {}, 1000, PATIENCE);
    let late = caller.end(late).unwrap_err();
    assert_eq!(late.code(), Code::Unavailable);
    assert_ne!(
        late.transparent_retry(),
        TransparentRetry::Never,
        "the call never reached the server"
    );
    go.send(()).unwrap();
    assert_eq!(caller.end(call), Ok(info().encode_to_vec()));
    caller.run_until(|caller| caller.client.is_closed());
}

fn goaways(caller: &Caller) -> usize {
    let mut octets = caller.received.concat();
    std::iter::from_fn(|| Frame::take(&mut octets))
        .filter(|frame| frame.kind == GOAWAY)
        .count()
}

fn eof(inside_frame: bool) -> CallError {
    CallError::Connection {
        error: ConnectionError::Eof { inside_frame },
        written: true,
    }
}
