//! A stream of octets in memory, between our machine and `h2`, which polls it.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use plugind::http2::Endpoint;
use plugind::time::Time;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::listener::Listener;

/// Both directions; `h2` has the end that implements asynchronous I/O.
#[derive(Debug, Clone)]
pub(super) struct Pipe(Rc<RefCell<Both>>);

#[derive(Debug)]
struct Both {
    to_h2: Vec<u8>,
    to_us: Vec<u8>,
    /// The most that moves at a time, and the most that waits.
    size: usize,
    /// The number of octets that moved, in either direction.
    moved: usize,
}

impl Pipe {
    /// Returns a pipe with this size.
    pub(super) fn new(size: usize) -> Self {
        Self(Rc::new(RefCell::new(Both {
            to_h2: Vec::new(),
            to_us: Vec::new(),
            size,
            moved: 0,
        })))
    }

    /// Returns the number of octets that have moved so far.
    pub(super) fn moved(&self) -> usize {
        self.0.borrow().moved
    }

    /// Has our machine write as much as fits, which its listener checks.
    pub(super) fn write_from(&self, machine: &mut impl Endpoint, listener: &mut Listener) {
        let Both {
            to_h2, size, moved, ..
        } = &mut *self.0.borrow_mut();
        let octets = machine.transmit();
        let count = write(to_h2, octets, *size);
        listener.hear(&octets[..count]);
        machine.sent(count, Time::ZERO);
        *moved += count;
    }

    /// Has our machine read as much as is available.
    pub(super) fn read_into(&self, machine: &mut impl Endpoint) {
        let Both {
            to_us, size, moved, ..
        } = &mut *self.0.borrow_mut();
        let most = to_us.len().min(*size);
        let count = machine.receive_from(&to_us[..most], Time::ZERO);
        to_us.drain(..count);
        *moved += count;
    }
}

fn write(to: &mut Vec<u8>, octets: &[u8], size: usize) -> usize {
    let count = octets.len().min(size.saturating_sub(to.len()));
    to.extend_from_slice(&octets[..count]);
    count
}

fn read(from: &mut Vec<u8>, room: &mut [u8]) -> usize {
    let count = room.len().min(from.len());
    room[..count].copy_from_slice(&from[..count]);
    from.drain(..count);
    count
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Both {
            to_h2, size, moved, ..
        } = &mut *self.0.borrow_mut();
        let most = buf.remaining().min(*size);
        let count = read(to_h2, buf.initialize_unfilled_to(most));
        if count == 0 {
            return Poll::Pending;
        }
        buf.advance(count);
        *moved += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Both {
            to_us, size, moved, ..
        } = &mut *self.0.borrow_mut();
        let count = write(to_us, octets, *size);
        if count == 0 {
            return Poll::Pending;
        }
        *moved += count;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
