//! The symbolic links to sockets, which are examined when a socket is lost or replaced.
//!
//! Pure. The kernel reports nothing for a link whose target is removed or replaced. Nor is the
//! target known to be the target: a socket that is replaced and removed during the pause of its
//! path (`pauses`) is lost under its earlier identity, and the link may have been found to lead to
//! the later one meanwhile. So whenever a socket is lost or replaced, every link is examined. That
//! is done for a few links at a time, because a neighbour can make thousands, and does not count as
//! a doubt about any of them: the pauses of the links do not grow.

use std::path::Path;
use std::sync::Arc;

use super::Watch;
use crate::config;
use crate::time::Time;

/// The current round, in which every link is examined, and whether another one follows.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The link that was examined last in the current round.
    passed: Option<Arc<Path>>,
    /// Whether another round is wanted.
    is_again: bool,
    /// The end of the pause after the last examinations.
    pause_end: Time,
}

impl Links {
    /// Returns when to call [`Watch::examine_links`]; `None` if there is nothing to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        (self.is_again || self.passed.is_some()).then_some(self.pause_end)
    }
}

impl Watch {
    /// Has every link examined soon: a socket has been lost or replaced.
    pub(super) fn doubt_links(&mut self) {
        self.links.is_again = self.tree.is_any_link();
    }

    /// Examines some more links, if that is due.
    pub(super) fn examine_links(&mut self, now: Time) {
        let links = &mut self.links;
        if links.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        if links.passed.is_none() {
            links.is_again = false;
        }
        let next = self.tree.links_after(links.passed.as_deref(), AT_ONCE);
        links.passed = next.last().filter(|_| next.len() == AT_ONCE).cloned();
        links.pause_end = now + config::LINK_PAUSE;
        for path in next {
            self.examine(path);
        }
    }
}

/// The number of links that are examined at once: all of them, unless a neighbour makes many.
const AT_ONCE: usize = config::MAX_LINKS;
