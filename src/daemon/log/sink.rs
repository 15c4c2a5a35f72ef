//! Writes to standard error without ever waiting for its reader.

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

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use nix::pty::openpty;

    use super::*;

    /// Writes until the pipe is full. Returns how many bytes that took.
    fn fill(sink: &Sink<OwnedFd>) -> usize {
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
            let taken = fill(&sink);
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
