//! A client of the API: raw requests over the socket, as curl sends them.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// A connection to the API.
pub(crate) struct Client {
    reader: BufReader<UnixStream>,
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Response {
    /// Returns the body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Client {
    #[track_caller]
    pub(crate) fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream);
        Self { reader }
    }

    /// Sends bytes. A daemon that has closed the connection may have responded before.
    pub(crate) fn send(&mut self, bytes: &str) {
        match self.reader.get_mut().write_all(bytes.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            sent => sent.unwrap(),
        }
    }

    /// Sends a request without a body.
    pub(crate) fn request(&mut self, method: &str, target: &str) {
        self.send(&format!("{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }

    /// Returns the next line, or `None` at the end.
    #[track_caller]
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).unwrap();
        (count > 0).then(|| line.trim_end().to_owned())
    }

    /// Reads a head. Returns the status and the whole head.
    #[track_caller]
    pub(crate) fn head(&mut self) -> (u16, String) {
        let mut head = String::new();
        loop {
            let line = self.line().expect("the head is complete");
            if line.is_empty() {
                break;
            }
            head.push_str(&line);
            head.push('\n');
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head)
    }

    /// Reads a response, which ends with the connection.
    #[track_caller]
    pub(crate) fn response(&mut self) -> Response {
        let (status, _) = self.head();
        let mut body = String::new();
        self.reader.read_to_string(&mut body).unwrap();
        Response { status, body }
    }

    /// Returns whether the server has closed the connection, after waiting for that.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.reader.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Sends one request on a connection of its own, and returns the response.
#[track_caller]
pub(crate) fn ask(socket: &Path, method: &str, target: &str) -> Response {
    let mut client = Client::connect(socket);
    client.request(method, target);
    client.response()
}

/// The time limit for every wait here.
const PATIENCE: Duration = Duration::from_secs(60);
