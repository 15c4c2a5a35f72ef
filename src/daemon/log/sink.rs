//! Writes lines to standard error without ever waiting for its reader.
//!
//! Lines that standard error does not accept yet, because its reader does not keep up, are kept in
//! a buffer. Lines that do not fit in the buffer are dropped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::errno::Errno;
use nix::libc::{O_NONBLOCK, PIPE_BUF};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::write;

use crate::config::{LOG_BUFFER, LOG_BUFFER_OF_PEERS, READER_RETRY};
use crate::time::Time;

/// Whole lines, the first of which may have been written in part.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// The number of lines that were dropped and not reported.
    lost: u64,
    /// Whether the last byte that was written is in the middle of a line.
    is_line_open: bool,
    /// Whether the last attempt to write failed for a reason other than lack of room.
    is_broken: bool,
    /// The time of the next [`Buffer::flush`] even if nothing more is logged.
    pub(super) retry_at: Option<Time>,
}

/// The origin of a line, which determines how much of the buffer the line may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A line that a peer causes.
    Peer,
    /// A line of the daemon about itself.
    Daemon,
}

impl Buffer {
    /// Writes a line, after those in the buffer. What cannot be written now is kept. Drops the line
    /// if it does not fit in the buffer together with the lines that are kept.
    pub(super) fn add<F: AsFd>(&mut self, line: &[u8], origin: Origin, sink: &Sink<F>, now: Time) {
        self.flush(sink, now);
        let room = match origin {
            Origin::Peer => LOG_BUFFER_OF_PEERS,
            Origin::Daemon => LOG_BUFFER,
        };
        if self.bytes.len() + line.len() > room {
            self.lost += 1;
            return;
        }
        if self.bytes.is_empty() && self.is_line_open {
            self.bytes.push(b'\n'); // The rest of the line was lost.
        }
        self.bytes.extend_from_slice(line);
        self.flush(sink, now);
    }

    /// Writes as much of the buffer as standard error accepts. If writing fails for a reason other
    /// than lack of room, drops the rest.
    pub(super) fn flush<F: AsFd>(&mut self, sink: &Sink<F>, now: Time) {
        let mut written = 0;
        self.is_broken = false;
        while written < self.bytes.len() && !self.is_broken {
            match sink.write(&self.bytes[written..]) {
                Ok(n) if n > 0 => written += n,
                Ok(_) | Err(Errno::EAGAIN) => break,
                Err(_) => self.is_broken = true,
            }
        }
        if let Some(last) = written.checked_sub(1) {
            self.is_line_open = self.bytes[last] != b'\n';
        }
        self.bytes.drain(..written);
        if self.is_broken {
            // The reader has closed its end, or the disk is full: waiting does not help.
            let lines = self.bytes.split_inclusive(|byte| *byte == b'\n').count();
            self.lost += lines as u64;
            self.bytes.clear();
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT);
            self.retry_at = None;
        } else if self.retry_at.is_none_or(|at| at <= now) {
            self.retry_at = Some(now + READER_RETRY);
        }
    }

    /// Returns the number of lines that were lost, and resets the number. Returns `None` if no line
    /// was lost, or if a report of that could not be written now.
    pub(super) fn take_lost(&mut self) -> Option<u64> {
        let is_due = self.lost > 0 && self.bytes.is_empty() && !self.is_broken;
        is_due.then(|| std::mem::take(&mut self.lost))
    }
}

/// A descriptor that other processes may share, so its flags are not changed.
#[derive(Debug)]
pub(super) struct Sink<F> {
    fd: F,
    method: Method,
}

/// A way to write without waiting.
#[derive(Debug)]
enum Method {
    /// A pipe that was opened a second time: `O_NONBLOCK` applies only to the new open file.
    Reopened(File),
    /// A socket: send(2) has a flag for not waiting.
    Socket,
    /// A file or a device, such as `/dev/null`: writing does not wait for a reader.
    Direct,
    /// A terminal, or a pipe that cannot be opened again: poll(2) reports when there is room, in a
    /// pipe for at least [`PIPE_BUF`] bytes.
    Polled,
}

impl<F: AsFd> Sink<F> {
    pub(super) fn new(fd: F) -> Self {
        let method = choose_method(&fd);
        Self { fd, method }
    }

    /// Writes as many of `bytes` as one system call accepts. Returns their number, or EAGAIN if
    /// it accepts none now.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        loop {
            let written = match &self.method {
                Method::Reopened(file) => write(file, bytes),
                Method::Socket => {
                    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                    send(self.fd.as_fd().as_raw_fd(), bytes, flags)
                }
                Method::Direct => write(&self.fd, bytes),
                Method::Polled => self.write_polled(bytes),
            };
            if written != Err(Errno::EINTR) {
                return written;
            }
        }
    }

    fn write_polled(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut polled = [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut polled, PollTimeout::ZERO)? == 0 {
            return Err(Errno::EAGAIN);
        }
        write(&self.fd, &bytes[..bytes.len().min(PIPE_BUF)])
    }
}

/// Returns the way to write to a descriptor. A terminal, or a pipe that cannot be opened again (no
/// `/proc`, another user's pipe), is polled.
fn choose_method(fd: &impl AsFd) -> Method {
    let Ok(stat) = fstat(fd) else {
        return Method::Polled;
    };
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFIFO => reopen(fd).map_or(Method::Polled, Method::Reopened),
        SFlag::S_IFSOCK => Method::Socket,
        _ if fd.as_fd().is_terminal() => Method::Polled,
        _ => Method::Direct,
    }
}

fn reopen(fd: &impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(O_NONBLOCK);
    options.open(path)
}

/// The capacity in bytes that an empty buffer keeps: more than a usual line.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use nix::pty::openpty;

    use super::*;

    fn pipe() -> (File, Sink<OwnedFd>) {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        (reader.into(), Sink::new(writer))
    }

    /// Fills the pipe and the part of the buffer that is for lines of peers. Returns how many lines
    /// that took, of 100 bytes each.
    fn fill(buffer: &mut Buffer, sink: &Sink<OwnedFd>) -> usize {
        let mut line = [b'x'; 100];
        line[99] = b'\n';
        let mut lines = 0;
        while buffer.lost == 0 {
            buffer.add(&line, Origin::Peer, sink, Time::ZERO);
            lines += 1;
        }
        lines - 1
    }

    /// Reads from the pipe, and writes the buffer to it, until the buffer is empty. Returns what
    /// was read.
    fn drain(buffer: &mut Buffer, reader: &mut File, sink: &Sink<OwnedFd>) -> String {
        let mut all = Vec::new();
        let mut part = vec![0; 65_536];
        while !buffer.bytes.is_empty() {
            let n = reader.read(&mut part).unwrap();
            all.extend_from_slice(&part[..n]);
            buffer.flush(sink, Time::ZERO);
        }
        let n = reader.read(&mut part).unwrap();
        all.extend_from_slice(&part[..n]);
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn lines_fill_the_pipe_and_then_the_buffer() {
        let (mut reader, sink) = pipe();
        let mut buffer = Buffer::default();
        let kept = fill(&mut buffer, &sink);
        assert!(buffer.bytes.len() <= LOG_BUFFER_OF_PEERS);
        assert!(buffer.bytes.len() > LOG_BUFFER_OF_PEERS - 200);
        buffer.add(b"lost\n", Origin::Peer, &sink, Time::ZERO);
        let mut long = vec![b'y'; 200];
        long.push(b'\n');
        buffer.add(&long, Origin::Daemon, &sink, Time::ZERO);
        assert_eq!(buffer.take_lost(), None, "the report does not fit");
        let text = drain(&mut buffer, &mut reader, &sink);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), kept + 1 + 1);
        assert_eq!(lines[kept], "lost", "a shorter line still fits");
        assert!(
            lines[kept + 1].starts_with("yyy"),
            "the last room is for the daemon"
        );
        assert_eq!(buffer.take_lost(), Some(1));
        assert_eq!(buffer.take_lost(), None);
    }

    #[test]
    fn buffered_lines_are_retried_after_a_pause() {
        let (mut reader, sink) = pipe();
        let mut buffer = Buffer::default();
        assert_eq!(buffer.retry_at, None);
        fill(&mut buffer, &sink);
        let at = Time::ZERO + READER_RETRY;
        assert_eq!(buffer.retry_at, Some(at));
        let early = Time::from_millis(1);
        buffer.add(&vec![b'x'; 60_000], Origin::Peer, &sink, early);
        assert_eq!(buffer.retry_at, Some(at), "a line does not delay it");
        buffer.flush(&sink, at);
        assert_eq!(buffer.retry_at, Some(at + READER_RETRY));
        drain(&mut buffer, &mut reader, &sink);
        assert_eq!(buffer.retry_at, None);
        assert!(buffer.bytes.capacity() <= KEPT, "memory is given back");
    }

    #[test]
    fn lines_without_a_reader_are_counted_and_nothing_waits_for_one() {
        let (reader, sink) = pipe();
        drop(reader);
        let mut buffer = Buffer::default();
        for count in 1..=3 {
            buffer.add(b"line\n", Origin::Daemon, &sink, Time::ZERO);
            assert_eq!((buffer.lost, buffer.retry_at), (count, None));
            assert_eq!(buffer.take_lost(), None, "the report would be lost, too");
        }
    }

    #[test]
    fn a_line_after_half_a_line_begins_a_new_one() {
        let (mut reader, sink) = pipe();
        let mut buffer = Buffer::default();
        buffer.add(b"half", Origin::Peer, &sink, Time::ZERO);
        buffer.add(b"next\n", Origin::Peer, &sink, Time::ZERO);
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "half\nnext\n");
    }

    /// Writes until the pipe is full. Returns how many bytes that took.
    fn fill_sink(sink: &Sink<OwnedFd>) -> usize {
        let mut total = 0;
        loop {
            match sink.write(&[b'x'; 1000]) {
                Ok(n) => total += n,
                Err(errno) => {
                    assert_eq!(errno, Errno::EAGAIN);
                    return total;
                }
            }
        }
    }

    fn is_blocking(fd: &impl AsFd) -> bool {
        let flags = fcntl(fd, FcntlArg::F_GETFL).unwrap();
        !OFlag::from_bits_truncate(flags).contains(OFlag::O_NONBLOCK)
    }

    #[test]
    fn a_full_pipe_or_socket_or_terminal_is_not_waited_for() {
        let (pipe_reader, pipe) = nix::unistd::pipe().unwrap();
        let (socket_reader, socket) = UnixStream::pair().unwrap();
        let terminal = openpty(None, None).unwrap();
        let ends: [(OwnedFd, OwnedFd, bool); 4] = [
            (
                pipe_reader.try_clone().unwrap(),
                pipe.try_clone().unwrap(),
                false,
            ),
            (pipe_reader, pipe, true),
            (socket_reader.into(), socket.into(), false),
            (terminal.master, terminal.slave, false),
        ];
        for (reader, writer, is_polled) in ends {
            let shared = writer.try_clone().unwrap();
            let mut sink = Sink::new(writer);
            if is_polled {
                sink.method = Method::Polled;
            }
            let taken = fill_sink(&sink);
            assert!(is_blocking(&shared));
            let mut reader = File::from(reader);
            let mut left = taken;
            while left > 0 {
                left -= reader.read(&mut vec![0; left]).unwrap();
            }
            assert_eq!(sink.write(b"next"), Ok(4));
            reader.read_exact(&mut [0; 4]).unwrap();
        }
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error_and_not_a_signal() {
        let (pipe_reader, pipe) = nix::unistd::pipe().unwrap();
        let (socket_reader, socket) = UnixStream::pair().unwrap();
        let sinks = [Sink::new(pipe), Sink::new(socket.into())];
        drop((pipe_reader, socket_reader));
        for sink in sinks {
            assert_eq!(sink.write(b"line\n"), Err(Errno::EPIPE));
        }
    }
}
