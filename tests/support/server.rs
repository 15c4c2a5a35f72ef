//! Servers on unix sockets, each in a thread with its own runtime, which end when their [`Server`]
//! is dropped.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    socket: PathBuf,
    _dir: TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Runs `serve` on a socket that already listens when this returns.
    pub(crate) fn run<S, F>(serve: S) -> Self
    where
        S: FnOnce(UnixListener) -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let socket = dir.path().join("plugin.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || async move {
            let listener = UnixListener::from_std(listener).expect("a runtime");
            tokio::select! {
                () = serve(listener) => {}
                _ = stopped => {}
            }
        };
        let thread = thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(serve());
        });
        Self {
            socket,
            _dir: dir,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Runs an `h2` server that passes each call, with its complete message, to `answer`.
    pub(crate) fn h2<A>(answer: A) -> Self
    where
        A: Fn(Call) + Clone + Send + 'static,
    {
        Self::run(async move |listener| {
            loop {
                let mut connection = accept_h2(&listener).await;
                let answer = answer.clone();
                tokio::spawn(async move {
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let answer = answer.clone();
                        tokio::spawn(async move {
                            let call = Call::read(request, respond).await;
                            answer(call);
                        });
                    }
                });
            }
        })
    }

    /// Runs a peer that sends these octets as soon as it receives anything.
    pub(crate) fn saying(octets: impl Into<Vec<u8>>, then: Then) -> Self {
        let octets = octets.into();
        Self::run(async move |listener| {
            let mut stream = accept(&listener).await;
            let mut ignored = [0; 4096];
            let _ = stream.read(&mut ignored).await;
            stream.write_all(&octets).await.expect("the client reads");
            if then == Then::Wait {
                while stream.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
            }
        })
    }

    /// Returns the path of the socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended
                .expect("dropped once")
                .expect("the server did not panic");
        }
    }
}

/// What a peer does after it has sent everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The peer closes the connection.
    Close,
    /// The peer waits for the client to close the connection.
    Wait,
}

/// A call that was received as a whole and is not answered yet.
pub(crate) struct Call {
    pub(crate) path: String,
    /// The message, without its length prefix.
    pub(crate) message: Vec<u8>,
    pub(crate) headers: HeaderMap,
    respond: SendResponse<Bytes>,
}

impl Call {
    /// Receives the whole message. The connection has to be polled meanwhile.
    pub(crate) async fn read(request: Request<RecvStream>, respond: SendResponse<Bytes>) -> Self {
        let (head, mut body) = request.into_parts();
        let mut message = Vec::new();
        while let Some(part) = body.data().await {
            let part = part.expect("data");
            message.extend_from_slice(&part);
            let window = body.flow_control();
            window
                .release_capacity(part.len())
                .expect("the octets were received");
        }
        Self {
            path: head.uri.path().to_owned(),
            message: message.split_off(PREFIX),
            headers: head.headers,
            respond,
        }
    }

    /// Answers with a message and success.
    pub(crate) fn reply(self, message: &[u8]) {
        self.answer(Some(message), 0, None);
    }

    /// Answers with headers, and a status in trailers.
    pub(crate) fn fail(self, status: u8, message: &'static str) {
        self.answer(None, status, Some(message));
    }

    /// Answers with a status in the only headers.
    pub(crate) fn fail_at_once(mut self, status: u8, message: &'static str) {
        let mut head = head();
        head.headers_mut().extend(trailers(status, Some(message)));
        self.respond
            .send_response(head, true)
            .expect("the stream is open");
    }

    /// Answers with RST_STREAM and nothing else.
    pub(crate) fn reset(mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }

    fn answer(mut self, reply: Option<&[u8]>, status: u8, message: Option<&'static str>) {
        let mut stream = self
            .respond
            .send_response(head(), false)
            .expect("the stream is open");
        if let Some(reply) = reply {
            stream
                .send_data(prefixed(reply), false)
                .expect("the stream is open");
        }
        stream
            .send_trailers(trailers(status, message))
            .expect("the stream is open");
    }
}

pub(crate) async fn accept(listener: &UnixListener) -> UnixStream {
    listener.accept().await.expect("a connection").0
}

/// Accepts a connection and exchanges SETTINGS on it.
pub(crate) async fn accept_h2(listener: &UnixListener) -> Connection<UnixStream, Bytes> {
    let stream = accept(listener).await;
    h2::server::handshake(stream).await.expect("a preface")
}

fn head() -> Response<()> {
    let head = Response::builder().header("content-type", "application/grpc");
    head.body(()).expect("a valid response")
}

fn trailers(status: u8, message: Option<&'static str>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(HeaderName::from_static("grpc-status"), status_value(status));
    if let Some(message) = message {
        let name = HeaderName::from_static("grpc-message");
        trailers.insert(name, HeaderValue::from_static(message));
    }
    trailers
}

fn status_value(status: u8) -> HeaderValue {
    HeaderValue::from(u16::from(status))
}

/// Returns a message behind its length, as gRPC sends it.
fn prefixed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("a test's message is short");
    let mut octets = vec![0];
    octets.extend(length.to_be_bytes());
    octets.extend(message);
    octets.into()
}

/// The size of the prefix of a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
