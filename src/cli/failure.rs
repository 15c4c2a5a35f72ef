//! The ways in which a command that asks the daemon fails, and the exit code of each.

use super::BAD_CONFIG;

/// The result of a command that asks the daemon, or of a part of it.
pub(super) type Result<T> = std::result::Result<T, Failure>;

/// The reason why a command did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Failure {
    pub(super) kind: FailureKind,
    /// The reason, for the terminal.
    pub(super) why: String,
}

/// A way to fail, which has an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The reader of standard output has closed it: nothing is left to do.
    OutputClosed = 0,
    /// The command failed, and would fail again.
    Failed = 1,
    /// No daemon listens on the socket, or the daemon has stopped.
    NoDaemon = 3,
    /// The plugin, socket or resource that was named does not exist.
    NotFound = 4,
    /// The plugin that was named exists, but is not in the requested state.
    OtherState = 5,
    /// The requested devices cannot be allocated now: `EX_TEMPFAIL` of sysexits(3).
    Busy = 75,
    /// The configuration that the daemon has read again is not valid.
    BadConfig = BAD_CONFIG as isize,
    /// The condition was not met in time: the status of timeout(1).
    TimedOut = 124,
    /// The command after `with` exists, but cannot be executed: the status of shells.
    NotExecutable = 126,
    /// The command after `with` does not exist: the status of shells.
    CommandNotFound = 127,
    /// The request conflicts with the state of a plugin or of its devices.
    Conflict,
    /// The daemon was too busy, not ready or stopping, or its response was late or incomplete; a
    /// retry may succeed.
    Interrupted,
}

impl Failure {
    /// Creates a failure with this reason.
    pub(super) fn new(kind: FailureKind, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { kind, why }
    }

    /// Returns the failure for a response that ended because the daemon has stopped.
    pub(super) fn daemon_stopped() -> Self {
        Self::new(FailureKind::NoDaemon, "the daemon has stopped")
    }

    /// Returns the exit code.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Interrupted | FailureKind::Conflict => FailureKind::Failed as u8,
            kind => kind as u8,
        }
    }
}
