//! What the manager measures for the metrics.
//!
//! Pure: values only. A measurement is neither logged nor kept: it leaves the manager as an
//! [`Output::Measured`](super::Output::Measured), and the reader of the outputs counts it.
//! Durations are differences of the times at which the manager received its inputs.

use std::sync::Arc;
use std::time::Duration;

use crate::grpc::{CallError, Code};
use crate::handler::{CallFailure, Plugin, ProgramEnd};

/// A fact for the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// A unary call to a plugin has ended.
    Called {
        /// The method: `/<package>.<Service>/<Method>`.
        method: &'static str,
        /// The result.
        code: Code,
        /// The duration of the call. For a call of a handler, this includes the dial and the
        /// repetitions until its endpoint was ready.
        took: Duration,
    },
    /// A program that a handler has run for a plugin has ended.
    Ran {
        /// The plugin.
        plugin: Arc<Plugin>,
        /// The action of the handler: `add`, `re-add`, `del`.
        action: &'static str,
        /// The result, in one word.
        result: &'static str,
        /// The duration of the run.
        took: Duration,
    },
    /// Something had to wait or was refused because of a limit.
    LimitHit(Limit),
}

/// A limit of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The operations that run at once: a socket waits.
    Operations,
    /// The file descriptors: a plugin waits, or a call or stream is not opened.
    Descriptors,
    /// The programs that run at once: a program waits.
    Programs,
    /// The memory budget: a call or a list is refused.
    Memory,
}

impl Limit {
    /// Returns the value of the label `limit`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Descriptors => "descriptors",
            Self::Programs => "programs",
            Self::Memory => "memory",
        }
    }
}

/// Returns the code of a call's result.
pub(super) fn code_of<T>(result: &Result<T, CallError>) -> Code {
    result.as_ref().err().map_or(Code::Ok, CallError::code)
}

/// Returns the code of the result of a handler's call. An endpoint that cannot be dialled is
/// unavailable, as in gRPC.
pub(super) fn code_of_reply(result: &Result<Vec<u8>, CallFailure>) -> Code {
    match result {
        Ok(_) => Code::Ok,
        Err(CallFailure::Dial(_)) => Code::Unavailable,
        Err(CallFailure::Call(error)) => error.code(),
    }
}

/// Returns the result of a program in one word.
pub(super) fn result_of(end: &ProgramEnd) -> &'static str {
    match end {
        ProgramEnd::Exited(0) => "success",
        ProgramEnd::Exited(_) => "failure",
        ProgramEnd::Killed(_) => "killed",
        ProgramEnd::TimedOut => "timeout",
        ProgramEnd::NotStarted(_) | ProgramEnd::NotInTime => "not_started",
    }
}

/// The result of a program that was killed because its handler cancelled it.
pub(super) const CANCELLED: &str = "cancelled";
