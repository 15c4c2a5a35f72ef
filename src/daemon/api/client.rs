//! Connects the commands that query a running daemon to its API socket, waits for responses until a
//! deadline, and finds the default path of the socket.
//!
//! This code blocks, in contrast to the daemon's side of the API: it runs in a process of its own,
//! never in the daemon. A command that prints changes also watches standard output while it waits,
//! so that it ends as soon as the reader of its pipe does, not at the next change.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mio::net::UnixStream;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::daemon::clock::time_of_day;
use crate::daemon::fs::dial::dial;
use crate::daemon::fs::run_dir;
use crate::handler::DialError;
use crate::time;

/// The moment at which waiting ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The deadline that never passes.
    pub const NEVER: Self = Self(None);

    /// Returns the deadline that passes after this time.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    /// Returns the earlier of two deadlines.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self(self.0.into_iter().chain(other.0).min())
    }

    /// Returns the deadline if at least this time is left, else one after this time.
    #[must_use]
    pub fn at_least(self, time: Duration) -> Self {
        let earliest = Self::after(time);
        Self(self.0.max(earliest.0).filter(|_| self.0.is_some()))
    }

    /// Returns whether the deadline has passed.
    pub fn is_over(self) -> bool {
        self.0.is_some_and(|at| at <= Instant::now())
    }

    /// Waits until the deadline. A signal may end this early.
    pub fn wait(self) {
        let _ = poll(&mut [], self.timeout());
    }

    /// Waits a moment before a request that failed is sent again, at most until the deadline.
    pub fn wait_to_retry(self) {
        self.min(Self::after(Duration::from_millis(50))).wait();
    }

    /// Returns the time that is left, or `None` if the deadline never passes.
    pub fn time_left(self) -> Option<Duration> {
        Some(self.0?.saturating_duration_since(Instant::now()))
    }

    /// Returns the time that is left, rounded up to milliseconds.
    fn timeout(self) -> PollTimeout {
        let Some(left) = self.time_left() else {
            return PollTimeout::NONE;
        };
        let millis = time::micros(left).div_ceil(1000);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
    }
}

/// The reason why nothing was received.
#[derive(Debug)]
pub enum WaitError {
    /// The deadline has passed.
    TimedOut,
    /// The reader of standard output has closed it.
    OutputClosed,
    /// The connection failed.
    Failed(io::Error),
}

/// A connection to the API socket of a daemon.
#[derive(Debug)]
pub struct Connection {
    pub(super) stream: UnixStream,
    ends_with_output: bool,
}

impl Connection {
    /// Connects without waiting. A path that begins with `@` names an abstract socket. If
    /// `ends_with_output`, waiting ends when the reader of standard output has closed it.
    pub fn open(socket: &Path, ends_with_output: bool) -> Result<Self, DialError> {
        let stream = dial(socket)?;
        Ok(Self {
            stream,
            ends_with_output,
        })
    }

    /// Sends a request. If it does not fit into the kernel's buffer, the rest is not sent: the
    /// request is longer than the daemon accepts.
    ///
    /// If that happens, or if the daemon has closed the connection, this is not an error here: the
    /// daemon may have sent a refusal, which [`Connection::receive`] returns.
    pub fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let sent = self.stream.write_all(request);
        sent.or_else(|error| match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::WouldBlock => Ok(()),
            _ => Err(error),
        })
    }

    /// Waits for bytes and returns their number, or 0 if the daemon has closed the connection.
    pub fn receive(&mut self, buf: &mut [u8], until: Deadline) -> Result<usize, WaitError> {
        loop {
            match self.stream.read(buf) {
                Ok(len) => return Ok(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(until)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(WaitError::Failed(error)),
            }
        }
    }

    /// Waits until bytes can be received.
    fn wait(&self, until: Deadline) -> Result<(), WaitError> {
        let output = io::stdout();
        let mut waiting = [
            PollFd::new(self.stream.as_fd(), PollFlags::POLLIN),
            PollFd::new(output.as_fd(), PollFlags::empty()), // POLLERR and POLLHUP are implied.
        ];
        let count = if self.ends_with_output { 2 } else { 1 };
        match poll(&mut waiting[..count], until.timeout()) {
            Ok(0) if until.is_over() => return Err(WaitError::TimedOut),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(WaitError::Failed(errno.into())),
        }
        let [_, output] = waiting;
        match output.revents() {
            Some(events) if !events.is_empty() => Err(WaitError::OutputClosed),
            _ => Ok(()),
        }
    }
}

/// Returns the time since the Unix epoch in milliseconds, on the clock of the daemon's timestamps.
pub fn time_of_day_millis() -> u64 {
    time::millis(time_of_day())
}

/// Returns the API socket to use if none was named: that of the user's own daemon if it exists,
/// else that of root's daemon.
pub fn default_socket() -> PathBuf {
    run_dir::default_api_socket()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_earlier_deadline_counts() {
        let soon = Deadline::after(Duration::ZERO);
        assert!(soon.is_over() && soon.min(Deadline::NEVER).is_over());
        let late = Deadline::after(Duration::from_secs(3600));
        assert!(!late.is_over() && late.min(soon).is_over() && soon.min(late).is_over());
        assert!(!Deadline::NEVER.is_over());
        assert!(!Deadline::after(Duration::MAX).is_over());
        assert!(!soon.at_least(Duration::from_secs(3600)).is_over());
        assert!(soon.at_least(Duration::ZERO).is_over());
        let left = late.at_least(Duration::ZERO).timeout();
        assert!(left > Deadline::after(Duration::from_secs(60)).timeout());
        assert_eq!(
            Deadline::NEVER.at_least(Duration::ZERO).timeout(),
            PollTimeout::NONE
        );
    }

    #[test]
    fn waiting_for_a_silent_daemon_ends_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("api.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut connection = Connection::open(&socket, false).unwrap();
        let until = Deadline::after(Duration::from_millis(20));
        let received = connection.receive(&mut [0; 8], until);
        assert!(matches!(received, Err(WaitError::TimedOut)), "{received:?}");
        assert!(until.is_over());
        drop(listener);
    }

    #[test]
    fn what_was_sent_before_the_connection_was_closed_is_received() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("api.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut connection = Connection::open(&socket, false).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"busy").unwrap();
        drop(accepted);
        connection.send(b"request").unwrap();
        let mut buf = [0; 8];
        assert_eq!(connection.receive(&mut buf, Deadline::NEVER).unwrap(), 4);
        assert_eq!(connection.receive(&mut buf, Deadline::NEVER).unwrap(), 0);
    }
}
