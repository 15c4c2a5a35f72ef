//! Our gRPC client against a server made of the `h2` crate, over a pipe in memory.

use std::future::Future;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use plugind::config;
use plugind::grpc::{CallError, CallId, Client, Code, Event, Status};
use plugind::http2::{ConnectionError, Endpoint as _};
use plugind::time::Time;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

/// The deadline of every call here; time does not pass.
const DEADLINE: Time = Time::from_millis(1000);

#[tokio::test]
async fn a_message_there_and_the_same_message_back() {
    for length in [0, 1, 100, 16_379, 16_380, 65_530, 65_531, 1_000_000] {
        let message = random(length);
        let mut client = Client::new(Time::ZERO);
        let call = ask(&mut client, &message);
        let outcomes = talk(&mut client, h2::server::Builder::new(), echo).await;
        assert_eq!(outcomes, [(call, Ok(message))], "{length} octets");
        assert!(client.mem_used() < 64 * 1024, "{}", client.mem_used());
    }
}

#[tokio::test]
async fn a_server_with_small_windows_gets_the_whole_message() {
    let mut server = h2::server::Builder::new();
    server.initial_window_size(10);
    let message = random(5000);
    let mut client = Client::new(Time::ZERO);
    let call = ask(&mut client, &message);
    let outcomes = talk(&mut client, server, echo).await;
    assert_eq!(outcomes, [(call, Ok(message))]);
}

#[tokio::test]
async fn calls_wait_for_a_server_that_takes_one_at_a_time() {
    let mut server = h2::server::Builder::new();
    server.max_concurrent_streams(1);
    let mut client = Client::new(Time::ZERO);
    let (mut ours, theirs) = duplex(1 << 16);
    let serving = tokio::spawn(serve(theirs, server, echo));
    // Until the server's SETTINGS arrive, its limit is not known: the first call is made alone.
    for numbers in [0..1, 1..6] {
        let calls = numbers.len();
        let expected: Outcomes = numbers
            .map(|number| (ask(&mut client, &[number; 10]), Ok(vec![number; 10])))
            .collect();
        assert_eq!(exchange(&mut client, &mut ours, calls).await, expected);
    }
    drop(ours);
    serving.await.expect("the server ends");
}

#[tokio::test]
async fn an_error_status_comes_with_its_decoded_message() {
    let mut client = Client::new(Time::ZERO);
    let call = ask(&mut client, b"");
    let fail = |_request, mut respond: SendResponse<Bytes>| async move {
        let mut response = Response::new(());
        for (name, value) in [("grpc-status", "9"), ("grpc-message", "caf%C3%A9 100%25")] {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        respond.send_response(response, true).unwrap();
    };
    let outcomes = talk(&mut client, h2::server::Builder::new(), fail).await;
    let status = Status::new(Code::FailedPrecondition, "caf\u{e9} 100%");
    assert_eq!(outcomes, [(call, Err(CallError::Status(status)))]);
}

#[tokio::test]
async fn headers_that_fill_a_frame_are_read() {
    let mut client = Client::new(Time::ZERO);
    let call = ask(&mut client, b"");
    let fail = |_request, mut respond: SendResponse<Bytes>| async move {
        let mut response = Response::new(());
        let filler = HeaderValue::from_bytes(&[b'!'; 12_000]).unwrap();
        response.headers_mut().insert("filler", filler);
        response
            .headers_mut()
            .insert("grpc-status", HeaderValue::from_static("5"));
        respond.send_response(response, true).unwrap();
    };
    let outcomes = talk(&mut client, h2::server::Builder::new(), fail).await;
    let status = Status::new(Code::NotFound, "");
    assert_eq!(outcomes, [(call, Err(CallError::Status(status)))]);
}

/// The server splits a block that does not fit in a frame into CONTINUATION frames.
#[tokio::test]
async fn a_reply_with_20_kib_of_metadata_is_accepted() {
    for (first, last) in [(20_000, 0), (0, 20_000), (20_000, 20_000), (65_000, 65_000)] {
        let mut client = Client::new(Time::ZERO);
        let call = ask(&mut client, b"");
        let answer = move |_request, respond| async move { answer_with(respond, first, last) };
        let outcomes = talk(&mut client, h2::server::Builder::new(), answer).await;
        assert_eq!(outcomes, [(call, Ok(b"info".to_vec()))], "{first}, {last}");
        assert!(client.mem_used() < 32 * 1024, "{}", client.mem_used());
    }
}

#[tokio::test]
async fn a_reply_with_more_metadata_than_is_accepted_is_refused() {
    for (first, last) in [(66_000, 0), (0, 66_000)] {
        let mut client = Client::new(Time::ZERO);
        let call = ask(&mut client, b"");
        let answer = move |_request, respond| async move { answer_with(respond, first, last) };
        let outcomes = talk(&mut client, h2::server::Builder::new(), answer).await;
        let (ended, Err(error)) = &outcomes[0] else {
            panic!("the reply is too large: {outcomes:?}");
        };
        assert_eq!((*ended, error.code()), (call, Code::ResourceExhausted));
        let words = "the peer caused an HTTP/2 stream error: \
                     a header list of more than 65536 octets";
        assert_eq!(error.to_string(), words);
    }
}

#[tokio::test]
async fn a_server_that_refuses_a_call_twice_ends_it() {
    let mut client = Client::new(Time::ZERO);
    let call = ask(&mut client, b"");
    let refuse = |_request, mut respond: SendResponse<Bytes>| async move {
        respond.send_reset(Reason::REFUSED_STREAM);
    };
    let outcomes = talk(&mut client, h2::server::Builder::new(), refuse).await;
    assert_eq!(outcomes, [(call, Err(CallError::Refused { again: false }))]);
}

#[tokio::test]
async fn a_server_that_goes_away_in_mid_call_ends_it() {
    let mut client = Client::new(Time::ZERO);
    let call = ask(&mut client, b"");
    let (mut ours, theirs) = duplex(1 << 16);
    let serving = tokio::spawn(async move {
        let mut connection = h2::server::handshake(theirs).await.unwrap();
        let _request = connection.accept().await;
    });
    let outcomes = exchange(&mut client, &mut ours, 1).await;
    serving.await.expect("the server ends");
    let (ended, Err(CallError::Connection { error, written })) = &outcomes[0] else {
        panic!("the connection is lost: {outcomes:?}");
    };
    assert_eq!((*ended, *written), (call, true));
    assert!(matches!(error, ConnectionError::Eof { .. }), "{error}");
}

#[tokio::test]
async fn a_graceful_shutdown_lets_the_running_call_finish() {
    let mut client = Client::new(Time::ZERO);
    let call = ask(&mut client, b"last");
    let (mut ours, theirs) = duplex(1 << 16);
    let serving = tokio::spawn(async move {
        let mut connection = h2::server::handshake(theirs).await.unwrap();
        let (request, respond) = connection.accept().await.unwrap().unwrap();
        connection.graceful_shutdown();
        let answering = tokio::spawn(echo(request, respond));
        while connection.accept().await.is_some() {}
        answering.await.expect("the answer is sent");
    });
    let outcomes = exchange(&mut client, &mut ours, 1).await;
    assert_eq!(outcomes, [(call, Ok(b"last".to_vec()))]);
    assert!(client.is_closed());
    drop(ours);
    serving.await.expect("the server ends");
}

type Outcomes = Vec<(CallId, Result<Vec<u8>, CallError>)>;

/// Makes a call.
fn ask(client: &mut Client, message: &[u8]) -> CallId {
    let path = "/test.Echo/Echo";
    client.unary(path, message, config::MAX_REPLY, DEADLINE, Time::ZERO)
}

/// Connects the client to a server that answers every request with `answer`, until one call ends.
async fn talk<A, F>(client: &mut Client, server: h2::server::Builder, answer: A) -> Outcomes
where
    A: Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    // Smaller than most frames, so that both sides see partial writes.
    let (mut ours, theirs) = duplex(1000);
    let serving = tokio::spawn(serve(theirs, server, answer));
    let outcomes = exchange(client, &mut ours, 1).await;
    drop(ours);
    serving.await.expect("the server ends");
    outcomes
}

/// Serves requests until the client disconnects.
async fn serve<A, F>(io: DuplexStream, builder: h2::server::Builder, answer: A)
where
    A: Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connection = builder.handshake(io).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond));
    }
}

/// Answers with the request's message and status OK.
async fn echo(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let mut response = Response::new(());
    let content_type = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", content_type);
    let mut send = respond.send_response(response, false).unwrap();
    let mut body = request.into_body();
    let mut message = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        message.extend_from_slice(&piece);
    }
    send.send_data(message.freeze(), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    send.send_trailers(trailers).unwrap();
}

/// Answers with status OK and metadata of these sizes in the headers and in the trailers.
fn answer_with(mut respond: SendResponse<Bytes>, first: usize, last: usize) {
    let metadata = |octets| HeaderValue::from_bytes(&vec![b'v'; octets]).expect("a valid value");
    let mut response = Response::new(());
    let content_type = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", content_type);
    response.headers_mut().insert("x", metadata(first));
    let mut send = respond.send_response(response, false).unwrap();
    let message = Bytes::from_static(b"\0\0\0\0\x04info");
    send.send_data(message, false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("x", metadata(last));
    send.send_trailers(trailers).unwrap();
}

/// Drives the client over `io` until this many calls have ended.
async fn exchange(client: &mut Client, io: &mut DuplexStream, calls: usize) -> Outcomes {
    let mut outcomes = Vec::new();
    loop {
        while let Some(Event::Finished { call, result }) = client.poll_event(Time::ZERO) {
            outcomes.push((call, result));
        }
        if outcomes.len() >= calls {
            return outcomes;
        }
        let unsent = client.transmit().to_vec();
        let mut room = vec![0; client.recv_buf().len()];
        let (mut reading, mut writing) = tokio::io::split(&mut *io);
        tokio::select! {
            read = reading.read(&mut room), if !room.is_empty() => match read.unwrap_or(0) {
                0 => client.eof(Time::ZERO),
                octets => _ = client.receive_from(&room[..octets], Time::ZERO),
            },
            written = writing.write(&unsent), if !unsent.is_empty() => match written {
                Ok(octets) => client.sent(octets, Time::ZERO),
                Err(_) => client.eof(Time::ZERO),
            },
        }
    }
}

/// Returns octets without a pattern.
fn random(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let octets = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    });
    octets.take(length).collect()
}
