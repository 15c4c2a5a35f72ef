//! The server: `h2`, polled by hand.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};

use super::super::input::Input;
use super::super::pipe::Pipe;
use super::super::wire;
use super::SIZES;

/// The settings of the server.
#[derive(Debug)]
pub(super) struct Settings {
    builder: Builder,
    /// Whether its streams have smaller windows than clients assume at first.
    pub(super) is_narrow: bool,
}

impl Settings {
    pub(super) fn new(input: &mut Input<'_>) -> Self {
        let mut builder = Builder::new();
        let window = input.pick(&[65_535, 10_000, 20_000, 1 << 20]);
        builder
            .initial_window_size(window)
            .initial_connection_window_size(input.pick(&[65_535, 1 << 20]))
            .max_frame_size(input.pick(&[1 << 14, 1 << 20]))
            .header_table_size(input.pick(&[4096, 0, 100]));
        let streams = input.pick(&[None, Some(1), Some(2)]);
        if let Some(streams) = streams {
            builder.max_concurrent_streams(streams);
        }
        Self {
            builder,
            is_narrow: window < 65_535,
        }
    }
}

/// The answer to a call.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) messages: Vec<Vec<u8>>,
    pub(super) end: End,
    /// Whether the answer is sent before the request is complete.
    pub(super) is_early: bool,
    /// The number of 1xx answers before it.
    informational: usize,
    /// Whether an answer without messages ends with its headers.
    is_short: bool,
}

/// The end of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// The answer ends with this status; 0 is OK.
    Status(usize),
    /// The stream is reset before the answer has begun.
    Reset,
    /// The answer ends without a status.
    Nothing,
}

impl Answer {
    pub(super) fn new(input: &mut Input<'_>) -> Self {
        let (messages, end) = match input.below(8) {
            0 => (0, End::Status(1 + input.below(16))),
            1 => (0, End::Reset),
            2 => (0, End::Nothing),
            3 => (input.below(4), End::Status(input.pick(&[0, 0, 5]))),
            _ => (1, End::Status(0)),
        };
        let mut message = || vec![input.octet(); input.pick(&SIZES)];
        Self {
            messages: (0..messages).map(|_| message()).collect(),
            end,
            is_early: input.below(4) == 1,
            informational: input.pick(&[0, 0, 0, 2]),
            is_short: messages == 0 && input.coin(),
        }
    }

    /// Returns the length of the messages (octets).
    pub(super) fn len(&self) -> usize {
        self.messages.iter().map(Vec::len).sum()
    }
}

/// The server.
pub(super) struct Server {
    state: State,
    answers: Vec<Answer>,
    requests: Vec<Incoming>,
    error: Option<String>,
}

enum State {
    Greeting(Handshake<Pipe, Bytes>),
    Serving(Connection<Pipe, Bytes>),
    Broken,
}

/// A request that is being received, and its pending answer.
struct Incoming {
    number: usize,
    stream: RecvStream,
    content: Vec<u8>,
    is_whole: bool,
    respond: Option<SendResponse<Bytes>>,
}

impl Server {
    /// Returns a server on its end of the pipe, with an answer for each call.
    pub(super) fn new(pipe: Pipe, settings: &Settings, answers: Vec<Answer>) -> Self {
        Self {
            state: State::Greeting(settings.builder.handshake(pipe)),
            answers,
            requests: Vec::new(),
            error: None,
        }
    }

    /// Returns the error that `h2` reported.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the content of the request with this number, if it is complete.
    pub(super) fn request(&self, number: usize) -> Option<&[u8]> {
        let mut requests = self.requests.iter();
        let request = requests.find(|request| request.number == number)?;
        request.is_whole.then_some(&request.content)
    }

    /// Makes progress without blocking.
    pub(super) fn work(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        match &mut self.state {
            State::Greeting(handshake) => match Pin::new(handshake).poll(&mut context) {
                Poll::Ready(Ok(connection)) => self.state = State::Serving(connection),
                Poll::Ready(Err(error)) => self.fail(&error),
                Poll::Pending => {}
            },
            State::Serving(connection) => {
                let accepted = connection.poll_accept(&mut context);
                match accepted {
                    Poll::Ready(Some(Ok((request, respond)))) => self.take(request, respond),
                    Poll::Ready(Some(Err(error))) => self.fail(&error),
                    Poll::Ready(None) | Poll::Pending => {}
                }
            }
            State::Broken => {}
        }
        for request in &mut self.requests {
            request.read(&mut context);
            let answer = &self.answers[request.number];
            if request.is_whole || answer.is_early {
                request.answer(answer);
            }
        }
    }

    fn take(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let number = request.uri().path()[1..].parse().expect("our path");
        self.requests.push(Incoming {
            number,
            stream: request.into_body(),
            content: Vec::new(),
            is_whole: false,
            respond: Some(respond),
        });
    }

    fn fail(&mut self, error: &h2::Error) {
        self.error = Some(error.to_string());
        self.state = State::Broken;
    }
}

impl Incoming {
    /// Reads what was received of the request.
    fn read(&mut self, context: &mut Context<'_>) {
        while !self.is_whole {
            match self.stream.poll_data(context) {
                Poll::Ready(Some(Ok(data))) => {
                    self.content.extend(&data);
                    let flow = self.stream.flow_control();
                    flow.release_capacity(data.len())
                        .expect("the capacity was used");
                }
                Poll::Ready(None) => self.is_whole = true,
                Poll::Ready(Some(Err(_))) | Poll::Pending => return,
            }
        }
    }

    /// Answers, once. Errors are ignored: the client may have given up the call.
    fn answer(&mut self, answer: &Answer) {
        let Some(mut respond) = self.respond.take() else {
            return;
        };
        for _ in 0..answer.informational {
            let _ = respond.send_informational(response(103));
        }
        let _ = match answer.end {
            End::Reset => {
                respond.send_reset(h2::Reason::INTERNAL_ERROR);
                Ok(())
            }
            End::Nothing => respond.send_response(response(200), true).map(drop),
            End::Status(code) if answer.is_short => {
                let mut head = response(200);
                head.headers_mut().extend(status(code));
                respond.send_response(head, true).map(drop)
            }
            End::Status(code) => send(&mut respond, &answer.messages, code),
        };
    }
}

/// Sends an answer with headers, messages and trailers.
fn send(
    respond: &mut SendResponse<Bytes>,
    messages: &[Vec<u8>],
    code: usize,
) -> Result<(), h2::Error> {
    let mut stream = respond.send_response(response(200), false)?;
    for message in messages {
        stream.send_data(wire::message(message).into(), false)?;
    }
    stream.send_trailers(status(code))
}

/// Returns the headers of an answer.
fn response(status: u16) -> Response<()> {
    let builder = Response::builder().status(status);
    let builder = builder.header("content-type", "application/grpc");
    builder.body(()).expect("valid headers")
}

/// Returns the trailers of an answer.
fn status(code: usize) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert("grpc-status", HeaderValue::from(code));
    fields.insert("grpc-message", HeaderValue::from_static("no"));
    fields
}
