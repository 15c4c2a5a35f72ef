//! A client for our servers: `h2`, polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::{HeaderMap, Request};

use super::input::Input;
use super::pipe::Pipe;

/// Returns a builder with the client's settings.
pub(super) fn builder(input: &mut Input<'_>) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(input.pick(&[65_535, 10_000, 20_000, 1 << 20]))
        .initial_connection_window_size(input.pick(&[65_535, 1 << 20]))
        .max_frame_size(input.pick(&[1 << 14, 1 << 20]))
        .header_table_size(input.pick(&[4096, 0, 100]))
        .enable_push(input.coin());
    builder
}

/// The client.
pub(super) struct Client {
    state: State,
    /// The paths and contents of the requests that are not made yet.
    unasked: Vec<(String, Vec<u8>)>,
    asked: Vec<Asked>,
}

/// The `h2` client after the handshake.
type Greeted = (SendRequest<Bytes>, Connection<Pipe, Bytes>);

enum State {
    Greeting(Pin<Box<dyn Future<Output = Result<Greeted, h2::Error>>>>),
    Asking(Box<Greeted>),
}

/// A request that was made, and the part of the answer that was received.
pub(super) struct Asked {
    pub(super) path: String,
    /// All content.
    pub(super) reply: Vec<u8>,
    /// The last header block of the answer.
    pub(super) fields: Option<HeaderMap>,
    head: Option<ResponseFuture>,
    stream: Option<RecvStream>,
}

impl Client {
    /// Returns a client on its end of the pipe, with these requests to make.
    pub(super) fn new(builder: &Builder, pipe: Pipe, requests: Vec<(String, Vec<u8>)>) -> Self {
        let builder = builder.clone();
        Self {
            state: State::Greeting(Box::pin(async move { builder.handshake(pipe).await })),
            unasked: requests,
            asked: Vec::new(),
        }
    }

    /// Returns all requests that were made.
    pub(super) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// Makes progress without blocking.
    pub(super) fn work(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        match &mut self.state {
            State::Greeting(handshake) => {
                if let Poll::Ready(greeted) = handshake.as_mut().poll(&mut context) {
                    let greeted = greeted.expect("the pipe does not break");
                    self.state = State::Asking(Box::new(greeted));
                }
            }
            State::Asking(greeted) => {
                let (requests, connection) = &mut **greeted;
                while let Poll::Ready(ready) = requests.poll_ready(&mut context) {
                    ready.expect("h2 does not report an error");
                    let Some((path, content)) = self.unasked.pop() else {
                        break;
                    };
                    self.asked.push(ask(requests, path, content));
                }
                if let Poll::Ready(ended) = Pin::new(connection).poll(&mut context) {
                    panic!("h2 ends the connection: {ended:?}");
                }
            }
        }
        for asked in &mut self.asked {
            asked.read(&mut context);
        }
    }
}

/// Makes a request with all of its content.
fn ask(requests: &mut SendRequest<Bytes>, path: String, content: Vec<u8>) -> Asked {
    let request = Request::post(format!("http://localhost{path}"));
    let request = request.header("content-type", "application/grpc");
    let request = request.body(()).expect("a valid request");
    let is_empty = content.is_empty();
    let (head, mut stream) = requests
        .send_request(request, is_empty)
        .expect("h2 is ready");
    if !is_empty {
        let sent = stream.send_data(content.into(), true);
        sent.expect("the stream is open");
    }
    Asked {
        path,
        reply: Vec::new(),
        fields: None,
        head: Some(head),
        stream: None,
    }
}

impl Asked {
    /// Returns the value of `grpc-status`.
    pub(super) fn status(&self) -> Option<&str> {
        let status = self.fields.as_ref()?.get("grpc-status")?;
        status.to_str().ok()
    }

    /// Reads what was received of the answer.
    fn read(&mut self, context: &mut Context<'_>) {
        if let Some(head) = &mut self.head {
            if let Poll::Ready(response) = Pin::new(head).poll(context) {
                let response = response.expect("the server answers");
                assert_eq!(response.status(), 200);
                let (head, stream) = response.into_parts();
                self.fields = Some(head.headers);
                self.stream = Some(stream);
                self.head = None;
            }
        }
        let Some(stream) = &mut self.stream else {
            return;
        };
        while let Poll::Ready(Some(data)) = stream.poll_data(context) {
            let data = data.expect("the content is complete");
            self.reply.extend(&data);
            let flow = stream.flow_control();
            flow.release_capacity(data.len())
                .expect("the capacity was used");
        }
        if let Poll::Ready(trailers) = stream.poll_trailers(context) {
            let trailers = trailers.expect("the trailers are complete");
            self.fields = trailers.or_else(|| self.fields.take());
        }
    }
}
