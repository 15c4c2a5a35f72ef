//! The server: `h2`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use tokio::io::DuplexStream;

use super::super::input::Input;
use super::super::pipe::{SIZES, Tasks};
use super::super::wire;

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

    /// Sends the answer. Errors are ignored: the client may have given up the call.
    fn send(&self, respond: &mut SendResponse<Bytes>) {
        for _ in 0..self.informational {
            let _ = respond.send_informational(response(103));
        }
        let _ = match self.end {
            End::Reset => {
                respond.send_reset(h2::Reason::INTERNAL_ERROR);
                Ok(())
            }
            End::Nothing => respond.send_response(response(200), true).map(drop),
            End::Status(code) if self.is_short => {
                let mut head = response(200);
                head.headers_mut().extend(status(code));
                respond.send_response(head, true).map(drop)
            }
            End::Status(code) => send(respond, &self.messages, code),
        };
    }

    /// Returns the length of the messages (octets).
    pub(super) fn len(&self) -> usize {
        self.messages.iter().map(Vec::len).sum()
    }
}

/// The content of each request that was received as a whole, by its number; clones share them.
pub(super) type Requests = Rc<RefCell<BTreeMap<usize, Vec<u8>>>>;

/// Adds the tasks of a server with an answer for each call. Returns the requests, which arrive as
/// the tasks run.
pub(super) fn start(
    settings: &Settings,
    end: DuplexStream,
    answers: Vec<Answer>,
    tasks: &Tasks,
) -> Requests {
    let requests = Requests::default();
    let handshake = settings.builder.handshake::<_, Bytes>(end);
    let (received, more) = (requests.clone(), tasks.clone());
    tasks.spawn(async move {
        let mut connection = handshake.await.expect("h2 does not report an error");
        while let Some(accepted) = connection.accept().await {
            let (request, respond) = accepted.expect("h2 does not report an error");
            let number = request.uri().path()[1..].parse().expect("our path");
            let (answer, received) = (Answer::clone(&answers[number]), received.clone());
            more.spawn(async move {
                let content = serve(request.into_body(), respond, &answer).await;
                received.borrow_mut().extend(content.map(|it| (number, it)));
            });
        }
    });
    requests
}

/// Reads a request and answers it. Returns its content, or `None` if that does not arrive whole.
async fn serve(
    request: RecvStream,
    mut respond: SendResponse<Bytes>,
    answer: &Answer,
) -> Option<Vec<u8>> {
    if answer.is_early {
        answer.send(&mut respond);
    }
    let content = read(request).await?;
    if !answer.is_early {
        answer.send(&mut respond);
    }
    Some(content)
}

/// Returns the whole content of a request; `None` if the client gives it up.
async fn read(mut request: RecvStream) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    while let Some(data) = request.data().await {
        let data = data.ok()?;
        content.extend(&data);
        let released = request.flow_control().release_capacity(data.len());
        released.expect("the capacity was used");
    }
    Some(content)
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
