//! A stream of octets in memory, between a machine that is told how much moved and a program that
//! awaits it.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Both directions; the server's end is the one that is awaited.
#[derive(Debug, Clone)]
pub(super) struct Pipe(Rc<RefCell<Both>>);

#[derive(Debug)]
struct Both {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// How much is taken at a time, and how much waits at most.
    size: usize,
    /// How much was moved, in either direction.
    moved: usize,
}

impl Pipe {
    /// A pipe that holds, and moves at a time, so many octets.
    pub(super) fn new(size: usize) -> Self {
        Self(Rc::new(RefCell::new(Both {
            to_server: Vec::new(),
            to_client: Vec::new(),
            size,
            moved: 0,
        })))
    }

    /// How much was moved so far.
    pub(super) fn moved(&self) -> usize {
        self.0.borrow().moved
    }

    /// Writes what fits; answers how much that is.
    pub(super) fn client_writes(&self, octets: &[u8]) -> usize {
        let Both {
            to_server,
            size,
            moved,
            ..
        } = &mut *self.0.borrow_mut();
        let count = write(to_server, octets, *size);
        *moved += count;
        count
    }

    /// Reads what fits; answers how much that is.
    pub(super) fn client_reads(&self, room: &mut [u8]) -> usize {
        let Both {
            to_client,
            size,
            moved,
            ..
        } = &mut *self.0.borrow_mut();
        let most = room.len().min(*size);
        let count = read(to_client, &mut room[..most]);
        *moved += count;
        count
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
            to_server,
            size,
            moved,
            ..
        } = &mut *self.0.borrow_mut();
        let most = buf.remaining().min(*size);
        let count = read(to_server, buf.initialize_unfilled_to(most));
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
            to_client,
            size,
            moved,
            ..
        } = &mut *self.0.borrow_mut();
        let count = write(to_client, octets, *size);
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
