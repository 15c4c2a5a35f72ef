//! The operations that run.
//!
//! Pure. Whatever happens to one is about an attempt, so they are kept by attempt; where each is at
//! work is known, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::by_path::ByPath;
use super::execute::{Attempt, AttemptId, Running};

/// At most one operation for each socket.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// None while it is taken out. Each in a place of its own, because they come and go.
    by_attempt: BTreeMap<AttemptId, Option<Box<Running>>>,
    by_path: ByPath<AttemptId>,
}

impl Operations {
    /// An operation begins to work on a socket; it runs once it is put back.
    pub(super) fn begin(&mut self, path: Arc<Path>, id: AttemptId) {
        self.by_path.insert(path, id);
        self.by_attempt.insert(id, None);
    }

    /// Takes out the operation of that attempt, unless it has ended: to be put back, or to end.
    pub(super) fn take_out(&mut self, id: AttemptId) -> Option<Box<Running>> {
        self.by_attempt.get_mut(&id)?.take()
    }

    /// Goes on with an operation that was taken out.
    pub(super) fn put_back(&mut self, running: Box<Running>) {
        if let Some(place) = self.by_attempt.get_mut(&running.attempt.id) {
            *place = Some(running);
        }
    }

    /// The operation that was taken out has ended, and nobody is at work on its socket any more.
    pub(super) fn end(&mut self, attempt: &Attempt) {
        self.by_attempt.remove(&attempt.id);
        self.by_path.remove(&attempt.path);
    }

    /// The operation of that attempt, unless it has ended.
    pub(super) fn get_mut(&mut self, id: AttemptId) -> Option<&mut Running> {
        self.by_attempt.get_mut(&id)?.as_deref_mut()
    }

    /// The operation at work on a socket.
    pub(super) fn at(&self, path: &Path) -> Option<&Running> {
        let id = self.by_path.get(path)?;
        self.by_attempt.get(id)?.as_deref()
    }

    /// The operation at work on a socket.
    pub(super) fn at_mut(&mut self, path: &Path) -> Option<&mut Running> {
        let id = *self.by_path.get(path)?;
        self.get_mut(id)
    }

    /// Whether an operation is at work on a socket.
    pub(super) fn is_any_at(&self, path: &Path) -> bool {
        self.by_path.contains(path)
    }

    /// Every operation, in the order in which they began.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Running> {
        self.by_attempt.values().filter_map(Option::as_deref)
    }

    /// Ends every operation. Returns them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Box<Running>> + use<> {
        std::mem::take(self).by_attempt.into_values().flatten()
    }

    /// What must hold as long as none is taken out.
    pub(super) fn is_one_per_socket(&self) -> bool {
        self.by_attempt.len() == self.by_path.len()
    }

    /// Whether none runs.
    pub(super) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }
}
