//! A stream of octets in memory between our machine and `h2`, and the tasks of `h2`, which are
//! polled by hand: neither side needs a runtime.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use plugind::http2::Endpoint;
use plugind::time::Time;
use tokio::io::{AsyncRead as _, AsyncWrite as _, DuplexStream, ReadBuf};

use super::listener::Listener;

/// Our end, with the listener of our machine.
pub(super) struct Pipe {
    end: DuplexStream,
    listener: Listener,
}

impl Pipe {
    /// Returns our end and that of `h2`. At most this many octets wait in each direction, but
    /// enough for `expected` octets to arrive soon.
    pub(super) fn new(size: usize, expected: usize, listener: Listener) -> (Self, DuplexStream) {
        let (end, theirs) = tokio::io::duplex(size.max(expected / MOST_TURNS));
        (Self { end, listener }, theirs)
    }

    /// Has our machine write as much as fits, which its listener checks. Returns whether it wrote.
    pub(super) fn write_from(&mut self, machine: &mut impl Endpoint) -> bool {
        let octets = machine.transmit();
        let written = Pin::new(&mut self.end).poll_write(&mut context(), octets);
        let Poll::Ready(written) = written else {
            return false;
        };
        let count = written.expect("h2 keeps its end");
        self.listener.hear(&octets[..count]);
        machine.sent(count, Time::ZERO);
        count > 0
    }

    /// Has our machine read as much as is available. Returns whether it read.
    pub(super) fn read_into(&mut self, machine: &mut impl Endpoint) -> bool {
        let mut room = ReadBuf::new(machine.recv_buf());
        let read = Pin::new(&mut self.end).poll_read(&mut context(), &mut room);
        assert!(!matches!(read, Poll::Ready(Err(_))), "{read:?}");
        let count = room.filled().len();
        machine.received(count, Time::ZERO);
        count > 0
    }
}

/// The tasks of `h2`; clones share them.
#[derive(Clone, Default)]
pub(super) struct Tasks(Rc<RefCell<Vec<Task>>>);

type Task = Pin<Box<dyn Future<Output = ()>>>;

impl Tasks {
    /// Adds a task.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.borrow_mut().push(Box::pin(task));
    }

    /// Drops all tasks. Those that add tasks hold clones of this list, which would never be freed.
    pub(super) fn clear(&self) {
        self.0.take();
    }

    /// Lets our side work, which returns whether octets have moved, and the tasks, until neither
    /// has anything to do.
    pub(super) fn run(&self, mut work: impl FnMut() -> bool) {
        let mut still = 0;
        while still < MOST_STILL {
            still = if work() { 0 } else { still + 1 };
            let mut tasks = self.0.take();
            tasks.retain_mut(|task| task.as_mut().poll(&mut context()).is_pending());
            self.0.borrow_mut().append(&mut tasks);
        }
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// How much moves through the pipe at a time (octets).
pub(super) const PIPES: [usize; 6] = [100_000, 1, 7, 9, 100, 1000];

/// The lengths of messages: around the limits of frames, windows and buffers (octets).
pub(super) const SIZES: [usize; 8] = [0, 1, 100, 1000, 1, 100, 16_384, 70_000];

/// The approximate number of turns of the two sides, however little moves at a time.
const MOST_TURNS: usize = 30;

/// The most turns in which `h2` passes something on among its tasks and writes nothing yet.
const MOST_STILL: usize = 5;
