//! A listening socket in the poll loop.
//!
//! Its type is that of Unix sockets, and so are its connections. A TCP socket that was passed in is
//! used as one, too: to read and to write, to wait and to close is the same for both.

use std::io;

use mio::net::{UnixListener, UnixStream};
use rustix::net::{SocketFlags, accept_with};

/// A socket that accepts connections, and what the loop has reported about it.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: UnixListener,
    /// Whether a connection may be waiting: readiness is reported once per change only.
    is_ready: bool,
}

impl Acceptor {
    pub(crate) fn new(listener: UnixListener) -> Self {
        Self {
            listener,
            is_ready: true,
        }
    }

    /// Returns the source of events.
    pub(crate) fn source(&mut self) -> &mut UnixListener {
        &mut self.listener
    }

    /// Records that a connection is waiting, as the loop has reported.
    pub(crate) fn set_ready(&mut self) {
        self.is_ready = true;
    }

    /// Returns whether [`Acceptor::accept`] may return a connection.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Accepts a connection, or returns `None` if no connection is waiting. Fails if no descriptor
    /// is left: then a connection may still be waiting.
    pub(crate) fn accept(&mut self) -> io::Result<Option<UnixStream>> {
        while self.is_ready {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(stream) => return Ok(Some(UnixStream::from_std(stream.into()))),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.is_ready = false,
                    // The client has closed the connection, or a signal has interrupted the call.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(None)
    }
}
