//! The reasons for which the manager wants to be woken.
//!
//! Pure.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use super::execute::AttemptId;
use super::links::LinkId;
use crate::handler::EffectId;

/// The reason for which the manager wants to be woken.
#[derive(Clone, Debug)]
pub enum Wake {
    /// The operation of this attempt has timed out.
    Operation(AttemptId),
    /// The backoff of this socket ends, or it may be dialled again.
    Retry(Arc<Path>),
    /// A call on this connection has timed out, or dialling it.
    Link(LinkId),
    /// The timer of a handler fires.
    Timer(EffectId),
    /// The program of a handler has timed out.
    Program(EffectId),
    /// The registered plugin behind this socket is asked again whether it is up.
    Check(Arc<Path>),
    /// The registered plugin behind this socket has been down for its grace period.
    Grace(Arc<Path>),
    /// The grace period of a process whose plugin's socket was removed is over.
    Outlived(LinkId),
    /// A handler has not answered the question of this attempt for a while.
    Stalled(AttemptId),
    /// Sockets wait for a place, and operations may have held theirs for long enough.
    Line,
    /// Every socket is examined.
    Resync,
    /// The grace period of running operations is over, because the daemon stops.
    Stop,
}

impl Wake {
    /// Returns a number for the variant, and the number of the attempt, connection or effect, or 0
    /// if it has none.
    ///
    /// Reasons are keys of an index that is searched on every step of every operation: most of them
    /// differ in these numbers.
    fn number(&self) -> (u8, u64) {
        match self {
            Self::Operation(AttemptId(id)) => (0, *id),
            Self::Retry(_) => (1, 0),
            Self::Link(LinkId(id)) => (2, *id),
            Self::Timer(EffectId(id)) => (3, *id),
            Self::Program(EffectId(id)) => (4, *id),
            Self::Check(_) => (5, 0),
            Self::Grace(_) => (6, 0),
            Self::Outlived(LinkId(id)) => (7, *id),
            Self::Stalled(AttemptId(id)) => (8, *id),
            Self::Line => (9, 0),
            Self::Resync => (10, 0),
            Self::Stop => (11, 0),
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Retry(path) | Self::Check(path) | Self::Grace(path) => Some(path),
            _ => None,
        }
    }
}

impl PartialEq for Wake {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Wake {}

impl PartialOrd for Wake {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wake {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_number = self.number().cmp(&other.number());
        by_number.then_with(|| {
            // `Path` would compare component by component.
            let [a, b] = [self, other].map(|it| it.path().map(Path::as_os_str));
            a.cmp(&b)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_apart_by_kind_and_then_by_whom_they_are_about() {
        let path = |path: &str| Arc::<Path>::from(Path::new(path));
        let reasons = [
            Wake::Operation(AttemptId(1)),
            Wake::Operation(AttemptId(2)),
            Wake::Retry(path("/r/a")),
            Wake::Retry(path("/r/b")),
            Wake::Link(LinkId::OUTSIDE),
            Wake::Check(path("/r/a")),
            Wake::Grace(path("/r/a")),
            Wake::Resync,
            Wake::Stop,
        ];
        assert!(reasons.is_sorted_by(|a, b| a < b));
        assert_eq!(reasons[2], Wake::Retry(path("/r/a")));
    }
}
