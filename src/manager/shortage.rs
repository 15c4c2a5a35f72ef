//! The warning that descriptors run short.
//!
//! Pure. The log's limiter always admits the lines of this module: plugins can cause only one in
//! each [`SHORTAGE_WARNING_INTERVAL`].

use super::Manager;
use super::links::Use;
use crate::config::SHORTAGE_WARNING_INTERVAL;
use crate::time::Time;

/// The time of the last warning about a shortage of descriptors.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    warned_at: Option<Time>,
}

/// What waits for a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Plugins,
    Call,
    Stream,
}

impl Waiting {
    pub(super) fn of_effect(usage: Use) -> Self {
        match usage {
            Use::Lasting => Self::Stream,
            _ => Self::Call,
        }
    }

    /// Returns the consequence, for the warning.
    fn words(self) -> &'static str {
        match self {
            Self::Plugins => "plugins wait for others before they are asked",
            Self::Call => "a call to a plugin is not made",
            Self::Stream => "a stream or connection to a registered plugin is retried later",
        }
    }
}

impl Shortage {
    /// Returns whether a warning is due now, and counts it as logged.
    fn is_due(&mut self, now: Time) -> bool {
        let is_due = self
            .warned_at
            .is_none_or(|at| at + SHORTAGE_WARNING_INTERVAL <= now);
        if is_due {
            self.warned_at = Some(now);
        }
        is_due
    }
}

impl Manager {
    /// Warns that something waits for a descriptor, unless a recent warning exists.
    pub(super) fn warn_of_shortage(&mut self, waiting: Waiting, now: Time) {
        if self.shortage.is_due(now) {
            log::warn!(
                "file descriptors run short: {}; raise the hard limit of open files (ulimit -Hn)",
                waiting.words()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_that_lasts_is_warned_about_once_in_each_interval() {
        let mut shortage = Shortage::default();
        let start = Time::from_millis(5);
        assert!(shortage.is_due(start));
        assert!(!shortage.is_due(start));
        let next = start + SHORTAGE_WARNING_INTERVAL;
        assert!(shortage.is_due(next) && !shortage.is_due(next));
    }
}
