//! A minimal gRPC server on the `h2` crate: unary calls, and streams.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::future;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};

/// A server on a thread of its own, which serves every connection until it is dropped.
pub(crate) struct Server {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start(listener: StdListener, service: impl Service) -> Self {
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel();
        let serve = async {
            let listener = UnixListener::from_std(listener).unwrap();
            tokio::select! {
                () = accept(Arc::new(service), listener) => {}
                _ = stopped => {}
            }
        };
        let thread = thread::spawn(|| block_on(serve));
        Self { stop, thread }
    }

    /// Ends the server, whose connections are closed when this returns.
    pub(crate) fn stop(self) {
        drop(self.stop);
        self.thread.join().unwrap();
    }
}

/// Runs a future to its end, on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// A service that answers calls.
pub(crate) trait Service: Send + Sync + 'static {
    /// Answers one call with the reply message, or with an error status.
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status>;

    /// Returns the stream with which a method replies, if it is not called in vain.
    fn stream(&self, _path: &str) -> Option<Stream> {
        None
    }

    /// Returns whether a method replies with content that is sent again and again, as fast as it is
    /// received, until the connection ends.
    fn is_endless(&self, _path: &str) -> bool {
        false
    }
}

impl<F> Service for F
where
    F: Fn(&str, &[u8]) -> Result<Vec<u8>, Status> + Send + Sync + 'static,
{
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status> {
        self(path, message)
    }
}

/// The latest message of a stream, as the body of a reply, or the status that ends the stream.
pub(crate) type Stream = watch::Receiver<Result<Bytes, Status>>;

/// A gRPC status, as in the trailers `grpc-status` and `grpc-message`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status(pub(crate) u16, pub(crate) &'static str);

/// The call succeeded.
const OK: Status = Status(0, "");

/// The request is not valid for the method.
pub(crate) const INVALID_ARGUMENT: Status = Status(3, "");

/// The method does not exist.
pub(crate) const UNIMPLEMENTED: Status = Status(12, "");

/// Serves every connection.
pub(crate) async fn accept<S: Service>(service: Arc<S>, listener: UnixListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(Arc::clone(&service), stream));
    }
}

/// Serves one connection until it ends. A caller that breaks the rules harms only itself.
pub(crate) async fn serve<S: Service>(service: Arc<S>, stream: UnixStream) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            if let Err(error) = answer(&*service, request, respond).await {
                eprintln!("a call failed: {error}");
            }
        });
    }
}

/// Answers one request with headers, a message, and trailers that hold the status.
async fn answer<S: Service>(
    service: &S,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let path = request.uri().path().to_owned();
    let body = read_to_end(&mut request.into_body(), MAX_REQUEST).await?;
    let reply = match unframe(&body) {
        Some(message) => service.call(&path, message),
        None => Err(INVALID_ARGUMENT),
    };
    let head = Response::builder().header("content-type", "application/grpc");
    let head = head.body(()).expect("the header is valid");
    let mut stream = respond.send_response(head, false)?;
    let status = match reply {
        Ok(content) if service.is_endless(&path) => return repeat(stream, content.into()).await,
        Ok(message) => {
            if let Some(messages) = service.stream(&path) {
                send_each(&mut stream, messages).await?
            } else {
                stream.send_data(frame(&message, 0), false)?;
                OK
            }
        }
        Err(status) => status,
    };
    stream.send_trailers(trailers(status))
}

/// Sends each message of a stream. Returns the status that ends it.
async fn send_each(
    stream: &mut SendStream<Bytes>,
    mut messages: Stream,
) -> Result<Status, h2::Error> {
    loop {
        let message = messages.borrow_and_update().clone();
        match message {
            Ok(message) => stream.send_data(message, false)?,
            Err(status) => return Ok(status),
        }
        if messages.changed().await.is_err() {
            return Ok(OK);
        }
    }
}

/// Sends the same content again and again.
async fn repeat(mut stream: SendStream<Bytes>, content: Bytes) -> Result<(), h2::Error> {
    loop {
        let mut rest = content.clone();
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            while stream.capacity() == 0 {
                let capacity = future::poll_fn(|context| stream.poll_capacity(context)).await;
                if capacity.transpose()?.is_none() {
                    return Ok(()); // The connection has ended.
                }
            }
            let piece = rest.split_to(stream.capacity().min(rest.len()));
            stream.send_data(piece, false)?;
        }
    }
}

/// Receives a whole body of at most this many octets, and releases flow-control capacity as the
/// data arrives.
pub(crate) async fn read_to_end(body: &mut RecvStream, most: usize) -> Result<Vec<u8>, h2::Error> {
    let mut whole = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        whole.extend_from_slice(&part);
        if whole.len() > most {
            return Err(Reason::ENHANCE_YOUR_CALM.into());
        }
    }
    Ok(whole)
}

/// Returns the message in a body that is one gRPC message: a zero octet, four octets of length, the
/// message.
pub(crate) fn unframe(body: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = body.split_at_checked(5)?;
    let length = u32::from_be_bytes(prefix[1..].try_into().ok()?);
    (prefix[0] == 0 && u32::try_from(message.len()) == Ok(length)).then_some(message)
}

/// Returns the message, of which some octets are missing, as the body of a gRPC reply.
pub(crate) fn frame(message: &[u8], missing: usize) -> Bytes {
    let length = u32::try_from(message.len() + missing).expect("a reply is short");
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(length);
    framed.put_slice(message);
    framed.freeze()
}

/// Returns the trailers that end a reply.
fn trailers(Status(code, message): Status) -> HeaderMap {
    let code = (HeaderName::from_static("grpc-status"), code.into());
    let message = (
        HeaderName::from_static("grpc-message"),
        HeaderValue::from_static(message),
    );
    HeaderMap::from_iter([code, message])
}

/// The maximum size of a request (octets): the methods of a plugin need far less.
const MAX_REQUEST: usize = 64 * 1024;
