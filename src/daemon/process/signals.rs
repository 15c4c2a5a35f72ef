//! Signals that are read from a descriptor.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The signals that the program handles, as a signalfd.
#[derive(Debug)]
pub(crate) struct Signals(SignalFd);

/// The signals that ask the program to end.
pub(crate) const ENDING: [Signal; 2] = [Signal::SIGTERM, Signal::SIGINT];

/// The other signals of the daemon: SIGHUP, which asks for a reload of the configuration, and
/// SIGUSR1, which asks for the status.
pub(crate) const ASKING: [Signal; 2] = [Signal::SIGHUP, Signal::SIGUSR1];

impl Signals {
    /// Blocks these signals in this thread and those that it starts later, so that their default
    /// actions are not taken, and opens a descriptor to read the signals from.
    pub(crate) fn block_and_open(signals: &[Signal]) -> io::Result<Self> {
        let mut set = SigSet::empty();
        for &signal in signals {
            set.add(signal);
        }
        set.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(SignalFd::with_flags(&set, flags)?))
    }

    /// Returns the next pending signal, and whether a process has sent it, not the kernel, which
    /// sends the signals of a terminal. Returns `None` if no signal is pending.
    ///
    /// The code of a signal from a process is `SI_USER`, which is 0, or negative.
    pub(crate) fn read(&self) -> io::Result<Option<(Signal, bool)>> {
        Ok(self.0.read_signal()?.and_then(|info| {
            let number = i32::try_from(info.ssi_signo).ok()?;
            let signal = Signal::try_from(number).ok()?;
            Some((signal, info.ssi_code <= 0))
        }))
    }

    /// Returns the descriptor, which is readable while a signal is pending.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
