//! Why the manager wants to be woken.
//!
//! Pure. The reasons are keys of an index that is searched on every step of every operation, so
//! their paths are compared by their octets, as in [`by_path`](super::by_path).

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use super::LinkId;
use super::by_path::ByOctets;
use crate::handler::EffectId;

/// Why the manager wants to be woken.
#[derive(Clone, Debug)]
pub enum Wake {
    /// The operation on this socket has waited long enough.
    Operation(Arc<Path>),
    /// This socket's backoff ends.
    Retry(Arc<Path>),
    /// A call on this connection has, or dialling it.
    Link(LinkId),
    /// A handler's timer ends.
    Timer(EffectId),
    /// A handler's program has run long enough.
    Program(EffectId),
    /// The registered plugin behind this socket, which did not answer, is asked again.
    Check(Arc<Path>),
    /// The registered plugin behind this socket has been down for long enough.
    Grace(Arc<Path>),
    /// Every socket is looked at.
    Resync,
    /// Running operations have had their time to end.
    Stop,
}

/// What reasons are compared by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Operation(ByOctets<'a>),
    Retry(ByOctets<'a>),
    Link(LinkId),
    Timer(EffectId),
    Program(EffectId),
    Check(ByOctets<'a>),
    Grace(ByOctets<'a>),
    Resync,
    Stop,
}

impl Wake {
    fn key(&self) -> Key<'_> {
        match self {
            Self::Operation(path) => Key::Operation(ByOctets(path)),
            Self::Retry(path) => Key::Retry(ByOctets(path)),
            Self::Link(link) => Key::Link(*link),
            Self::Timer(id) => Key::Timer(*id),
            Self::Program(id) => Key::Program(*id),
            Self::Check(path) => Key::Check(ByOctets(path)),
            Self::Grace(path) => Key::Grace(ByOctets(path)),
            Self::Resync => Key::Resync,
            Self::Stop => Key::Stop,
        }
    }
}

impl PartialEq for Wake {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
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
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_apart_by_kind_and_then_by_whom_they_are_about() {
        let path = |path: &str| Arc::<Path>::from(Path::new(path));
        let reasons = [
            Wake::Operation(path("/r/a")),
            Wake::Operation(path("/r/b")),
            Wake::Retry(path("/r/a")),
            Wake::Check(path("/r/a")),
            Wake::Grace(path("/r/a")),
            Wake::Resync,
            Wake::Stop,
        ];
        assert!(reasons.is_sorted_by(|a, b| a < b));
        assert_eq!(reasons[0], Wake::Operation(path("/r/a")));
    }
}
