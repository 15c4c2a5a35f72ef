//! A daemon's API socket with prepared responses: valid, invalid and incomplete ones.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// What is done with one connection after its request was read.
pub(crate) type Play = Box<dyn FnOnce(UnixStream) + Send>;

/// A socket that plays one answer for each connection, and is closed after the last.
pub(crate) struct Canned {
    dir: TempDir,
    requests: Receiver<String>,
}

impl Canned {
    /// Starts to listen.
    pub(crate) fn start(plays: impl IntoIterator<Item = Play>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let requests = Self::listen(dir.path().join(NAME), plays);
        Self { dir, requests }
    }

    /// Returns a socket that does not exist.
    pub(crate) fn missing() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (_, requests) = mpsc::channel();
        Self { dir, requests }
    }

    /// Starts to listen on a socket that does not exist.
    pub(crate) fn appear(&mut self, plays: impl IntoIterator<Item = Play>) {
        self.requests = Self::listen(self.socket(), plays);
    }

    fn listen(socket: PathBuf, plays: impl IntoIterator<Item = Play>) -> Receiver<String> {
        let plays: Vec<Play> = plays.into_iter().collect();
        let listener = UnixListener::bind(socket).unwrap();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for play in plays {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = sender.send(request(&mut stream));
                play(stream);
            }
        });
        requests
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join(NAME)
    }

    /// Returns the request lines so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        let lines = self.requests.try_iter();
        lines
            .map(|head| head.lines().next().unwrap_or_default().to_owned())
            .collect()
    }

    /// Waits for the next request and returns its head.
    #[track_caller]
    pub(crate) fn request(&self) -> String {
        let request = self.requests.recv_timeout(PATIENCE);
        request.expect("a request arrives")
    }
}

/// Reads the head of a request.
fn request(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|len| len == 1) {
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

/// Returns the play that sends these bytes and closes the connection.
pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Play {
    let bytes = bytes.into();
    Box::new(move |mut stream| {
        let _ = stream.write_all(&bytes);
    })
}

/// Returns the play that answers with this status and body.
pub(crate) fn answer(status: u16, body: &str) -> Play {
    let length = body.len();
    raw(format!(
        "HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    ))
}

/// Returns the play that answers with this body, byte after byte, and closes the connection. The
/// client may close it first: it needs the answer only up to an event that ends it.
pub(crate) fn slow(body: &str) -> Play {
    let bytes = [HEAD, body].concat().into_bytes();
    Box::new(move |mut stream| {
        let _ = bytes.iter().try_for_each(|byte| stream.write_all(&[*byte]));
    })
}

/// Returns the play that sends this body and leaves the connection open until the client ends it.
pub(crate) fn endless(body: &str) -> Play {
    let bytes = [HEAD, body].concat();
    Box::new(move |mut stream| {
        stream.write_all(bytes.as_bytes()).unwrap();
        let _ = stream.read(&mut [0]);
    })
}

/// Returns the play that repeats these bytes until the client closes the connection.
pub(crate) fn flood(first: &'static str, again: &'static str) -> Play {
    Box::new(move |mut stream| {
        let mut written = stream.write_all(first.as_bytes());
        while written.is_ok() {
            written = stream.write_all(again.as_bytes());
        }
    })
}

/// The head of an answer that ends with the connection.
pub(crate) const HEAD: &str = "HTTP/1.1 200 OK\r\n\r\n";

/// The name of the socket.
const NAME: &str = "plugind.sock";

/// The time limit for a request, a hundred times what it takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
