//! A connection on a blocking stream: all that a program with one connection needs of the system.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use plugind::http2::{Connection, Endpoint as _};
use plugind::time::Time;

/// A stream, and the clock of the connection on it.
pub(crate) struct Line {
    stream: TcpStream,
    start: Instant,
    /// Whether the peer still reads. If not, it may still have written something.
    is_writable: bool,
}

impl Line {
    /// Returns a line whose time begins at `start`.
    pub(crate) fn new(stream: TcpStream, start: Instant) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            start,
            is_writable: true,
        })
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Time {
        Time::after_origin(self.start.elapsed())
    }

    /// Writes pending octets, or else waits for something to read: until `until`, or until the
    /// connection's next deadline.
    pub(crate) fn turn(&mut self, connection: &mut Connection, until: Time) -> io::Result<()> {
        let until = connection.poll_timeout().map_or(until, |at| at.min(until));
        self.wait_until(until)?;
        if connection.transmit().is_empty() {
            self.read(connection);
        } else {
            self.write(connection);
        }
        Ok(())
    }

    /// Ends the line so that the peer can read all that was written: a stream that is closed with
    /// unread octets may be reset, and the peer then loses what it has not read. The peer has
    /// [`GOAWAY_GRACE`] to close its end.
    pub(crate) fn hang_up(mut self) {
        let until = self.now() + GOAWAY_GRACE;
        let mut goes_on = self.stream.shutdown(Shutdown::Write).is_ok();
        let mut unheard = [0; 4096];
        while goes_on && self.now() < until {
            let read = self
                .wait_until(until)
                .and_then(|()| self.stream.read(&mut unheard));
            goes_on = match read {
                Ok(octets) => octets > 0,
                Err(error) => is_no_end(&error),
            };
        }
    }

    /// Makes reading and writing wait until `until`.
    fn wait_until(&self, until: Time) -> io::Result<()> {
        let left = until.saturating_since(self.now());
        let left = Some(left.max(SHORTEST_WAIT));
        self.stream.set_read_timeout(left)?;
        self.stream.set_write_timeout(left)
    }

    fn write(&mut self, connection: &mut Connection) {
        let octets = connection.transmit();
        let written = match self.is_writable.then(|| self.stream.write(octets)) {
            Some(Ok(written)) => written,
            Some(Err(error)) if is_no_end(&error) => 0,
            Some(Err(_)) | None => {
                self.is_writable = false;
                octets.len()
            }
        };
        connection.sent(written, self.now());
    }

    fn read(&mut self, connection: &mut Connection) {
        let room = connection.recv_buf();
        if room.is_empty() {
            return;
        }
        match self.stream.read(room) {
            Ok(octets @ 1..) => connection.received(octets, self.now()),
            Err(error) if is_no_end(&error) => {}
            Ok(0) | Err(_) => connection.eof(self.now()),
        }
    }
}

/// Returns whether the stream is still usable after the error: only its timeout has expired.
fn is_no_end(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// The time that a peer has to react to GOAWAY.
pub(crate) const GOAWAY_GRACE: Duration = Duration::from_secs(1);

/// The shortest timeout: a timeout of zero is not allowed.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
