//! Signals as something to read.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals that the program listens to.
#[derive(Debug)]
pub(super) struct Signals(SignalFd);

/// The signals that ask the program to end.
pub(super) const ENDING: [Signal; 2] = [Signal::SIGTERM, Signal::SIGINT];

/// The signals that ask the daemon for something else: to read its configuration again, and to log
/// its status.
pub(super) const ASKING: [Signal; 2] = [Signal::SIGHUP, Signal::SIGUSR1];

impl Signals {
    /// Takes these signals away from their default, which is to end the process at once.
    pub(super) fn block(signals: &[Signal]) -> io::Result<Self> {
        let mut set = SigSet::empty();
        for &signal in signals {
            set.add(signal);
        }
        set.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(SignalFd::with_flags(&set, flags)?))
    }

    /// The next signal that came, if one did.
    pub(super) fn read(&self) -> io::Result<Option<Signal>> {
        match self.0.read_signal() {
            Ok(Some(info)) => Ok(i32::try_from(info.ssi_signo)
                .ok()
                .and_then(|number| Signal::try_from(number).ok())),
            Ok(None) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
