//! The client: `h2`, polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::{HeaderMap, Request};

use super::super::input::Input;
use super::super::pipe::Pipe;
use super::Exchange;

/// What the client wants of its server.
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
    /// What is not yet asked, the last first.
    unasked: Vec<(usize, Vec<u8>)>,
    asked: Vec<Asked>,
}

/// What `h2` becomes when it has greeted.
type Greeted = (SendRequest<Bytes>, Connection<Pipe, Bytes>);

enum State {
    Greeting(Pin<Box<dyn Future<Output = Result<Greeted, h2::Error>>>>),
    Asking(Box<Greeted>),
}

/// A request that was made, and the answer as far as it came.
struct Asked {
    number: usize,
    head: Option<ResponseFuture>,
    stream: Option<RecvStream>,
    reply: Vec<u8>,
    trailers: Option<HeaderMap>,
}

impl Client {
    /// A client on its end of the pipe, with these requests to make.
    pub(super) fn new(builder: &Builder, pipe: Pipe, exchanges: &[Exchange]) -> Self {
        let requests = exchanges.iter().map(|exchange| exchange.request.clone());
        let builder = builder.clone();
        Self {
            state: State::Greeting(Box::pin(async move { builder.handshake(pipe).await })),
            unasked: requests.enumerate().collect(),
            asked: Vec::new(),
        }
    }

    /// Does what can be done without waiting.
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
                    ready.expect("h2 finds no fault with us");
                    let Some((number, content)) = self.unasked.pop() else {
                        break;
                    };
                    self.asked.push(ask(requests, number, content));
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

    /// Holds what was received to what was sent.
    pub(super) fn check(&self, exchanges: &[Exchange]) {
        assert_eq!(self.asked.len(), exchanges.len());
        for asked in &self.asked {
            let exchange = &exchanges[asked.number];
            assert!(asked.reply == exchange.reply, "a reply is whole");
            let status = asked.trailers.as_ref().map(|t| &t["grpc-status"]);
            assert!(status.is_some_and(|status| status == "0"), "{status:?}");
        }
    }
}

/// Makes a request with all of its content.
fn ask(requests: &mut SendRequest<Bytes>, number: usize, content: Vec<u8>) -> Asked {
    let request = Request::post(format!("http://localhost/{number}"));
    let request = request.body(()).expect("a good request");
    let is_empty = content.is_empty();
    let (head, mut stream) = requests
        .send_request(request, is_empty)
        .expect("h2 is ready");
    if !is_empty {
        let sent = stream.send_data(content.into(), true);
        sent.expect("the stream is open");
    }
    Asked {
        number,
        head: Some(head),
        stream: None,
        reply: Vec::new(),
        trailers: None,
    }
}

impl Asked {
    /// Takes what came of the answer.
    fn read(&mut self, context: &mut Context<'_>) {
        if let Some(head) = &mut self.head {
            if let Poll::Ready(response) = Pin::new(head).poll(context) {
                let response = response.expect("we answer");
                assert_eq!(response.status(), 200);
                self.stream = Some(response.into_body());
                self.head = None;
            }
        }
        let Some(stream) = &mut self.stream else {
            return;
        };
        while let Poll::Ready(Some(data)) = stream.poll_data(context) {
            let data = data.expect("we send it whole");
            self.reply.extend(&data);
            let flow = stream.flow_control();
            flow.release_capacity(data.len()).expect("it was used");
        }
        if let Poll::Ready(trailers) = stream.poll_trailers(context) {
            if let Some(trailers) = trailers.expect("we send them") {
                self.trailers = Some(trailers);
            }
        }
    }
}
