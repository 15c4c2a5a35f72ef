//! A client for our servers: `h2`.

use std::cell::RefCell;
use std::future;
use std::rc::Rc;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;
use tokio::io::DuplexStream;

use super::input::Input;
use super::pipe::Tasks;

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

/// A whole answer.
pub(super) struct Answer {
    /// The path of the request.
    pub(super) path: String,
    /// All content.
    pub(super) reply: Vec<u8>,
    /// The value of `grpc-status`.
    pub(super) status: Option<String>,
}

/// The answers that a client has received; clones share them.
pub(super) type Answers = Rc<RefCell<Vec<Answer>>>;

/// Adds the tasks of a client that makes these requests, each a path and its content. Returns the
/// answers, which arrive as the tasks run.
pub(super) fn start(
    builder: Builder,
    end: DuplexStream,
    mut requests: Vec<(String, Vec<u8>)>,
    tasks: &Tasks,
) -> Answers {
    let answers = Answers::default();
    let (received, more) = (answers.clone(), tasks.clone());
    tasks.spawn(async move {
        let greeted = builder.handshake(end).await;
        let (mut sender, connection) = greeted.expect("the pipe does not break");
        more.spawn(async { panic!("h2 ends the connection: {:?}", connection.await) });
        while let Some((path, content)) = requests.pop() {
            sender = sender.ready().await.expect("h2 does not report an error");
            let response = ask(&mut sender, &path, content);
            let received = received.clone();
            more.spawn(async move {
                let answer = read(path, response).await;
                received.borrow_mut().push(answer);
            });
        }
        // A connection ends with its sender.
        future::pending::<()>().await;
    });
    answers
}

/// Makes a request with all of its content.
fn ask(sender: &mut SendRequest<Bytes>, path: &str, content: Vec<u8>) -> ResponseFuture {
    let request = Request::post(format!("http://localhost{path}"));
    let request = request.header("content-type", "application/grpc");
    let request = request.body(()).expect("a valid request");
    let is_empty = content.is_empty();
    let asked = sender.send_request(request, is_empty);
    let (response, mut stream) = asked.expect("h2 is ready");
    if !is_empty {
        let sent = stream.send_data(content.into(), true);
        sent.expect("the stream is open");
    }
    response
}

/// Reads the answer to a request.
async fn read(path: String, response: ResponseFuture) -> Answer {
    let response = response.await.expect("the server answers");
    assert_eq!(response.status(), 200);
    let (head, mut stream) = response.into_parts();
    let mut reply = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.expect("the content is complete");
        reply.extend(&data);
        let released = stream.flow_control().release_capacity(data.len());
        released.expect("the capacity was used");
    }
    let trailers = stream.trailers().await;
    let fields = trailers.expect("the trailers are complete");
    let fields = fields.unwrap_or(head.headers);
    let status = fields.get("grpc-status").and_then(|it| it.to_str().ok());
    let status = status.map(str::to_owned);
    Answer {
        path,
        reply,
        status,
    }
}
