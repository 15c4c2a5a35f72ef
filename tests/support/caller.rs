//! A gRPC client on a real unix socket, driven as the simplest program would: write pending octets,
//! read with a timeout, poll events.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use plugind::grpc::{CallError, CallId, Client, Event};
use plugind::http2::Endpoint as _;
use plugind::proto::pluginregistration::{InfoRequest, PluginInfo, registration};
use plugind::time::Time;
use prost::Message;

/// The outcome of a call.
pub(crate) type Outcome = Result<Vec<u8>, CallError>;

/// A client and its socket.
pub(crate) struct Caller {
    client: Client,
    stream: UnixStream,
    start: Instant,
    /// Whether the peer still reads. If not, it may still have written something.
    is_writable: bool,
    finished: Vec<(CallId, Outcome)>,
}

impl Caller {
    pub(crate) fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("the server listens");
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            client: Client::new(Time::ZERO),
            stream,
            start: Instant::now(),
            is_writable: true,
            finished: Vec::new(),
        }
    }

    /// Calls `GetInfo`.
    pub(crate) fn get_info(&mut self) -> Result<PluginInfo, CallError> {
        let reply = self.unary(registration::GET_INFO, &InfoRequest {})?;
        Ok(PluginInfo::decode(&*reply).expect("a PluginInfo"))
    }

    /// Makes a call with generous limits for its reply and its time.
    pub(crate) fn unary(&mut self, path: &str, message: &impl Message) -> Outcome {
        let call = self.begin(path, message, 4 << 20, PATIENCE);
        self.end(call)
    }

    /// Begins a call that accepts a reply of up to `max_reply` octets within `timeout`.
    pub(crate) fn begin(
        &mut self,
        path: &str,
        message: &impl Message,
        max_reply: usize,
        timeout: Duration,
    ) -> CallId {
        let now = self.now();
        let message = message.encode_to_vec();
        self.client
            .unary(path, &message, max_reply, now + timeout, now)
    }

    /// Moves octets until the outcome of a call is known.
    pub(crate) fn end(&mut self, call: CallId) -> Outcome {
        loop {
            self.write();
            while let Some(event) = self.client.poll_event(self.now()) {
                if let Event::Finished { call, result } = event {
                    self.finished.push((call, result));
                }
            }
            let mut finished = self.finished.iter();
            if let Some(at) = finished.position(|(finished, _)| *finished == call) {
                // The last event may have queued something, a WINDOW_UPDATE for example.
                self.write();
                return self.finished.remove(at).1;
            }
            if self.client.transmit().is_empty() || !self.is_writable {
                self.read();
            }
        }
    }

    fn now(&self) -> Time {
        Time::after_origin(self.start.elapsed())
    }

    fn write(&mut self) {
        while self.is_writable && !self.client.transmit().is_empty() {
            match self.stream.write(self.client.transmit()) {
                Ok(count) => self.client.sent(count, self.now()),
                Err(_) => self.is_writable = false,
            }
        }
    }

    /// Reads once, or waits until a deadline expires.
    fn read(&mut self) {
        let now = self.now();
        let deadline = self.client.poll_timeout();
        let wait = deadline.map_or(PATIENCE, |deadline| deadline.saturating_since(now));
        let wait = wait.clamp(Duration::from_millis(1), PATIENCE);
        self.stream.set_read_timeout(Some(wait)).unwrap();
        let buffer = self.client.recv_buf();
        assert!(!buffer.is_empty(), "nothing to write and no room to read");
        match self.stream.read(buffer) {
            Ok(0) => self.client.eof(self.now()),
            Ok(count) => self.client.received(count, self.now()),
            Err(error) if is_timeout(error.kind()) => {
                assert!(wait < PATIENCE, "nothing happened for {PATIENCE:?}");
                self.client.handle_timeout(self.now());
            }
            // signal(7): a read with a timeout ends with EINTR after a signal, and is not
            // restarted.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The peer has closed the connection with unread octets.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                self.client.eof(self.now());
            }
            Err(error) => panic!("cannot read from the peer: {error}"),
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The time limit for everything that these tests wait for, generous even for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
