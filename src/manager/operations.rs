//! The operations that run.
//!
//! Pure. Events are addressed to attempts, so operations are kept by attempt; a second index finds
//! them by path.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::by_path::ByPath;
use super::execute::{Attempt, AttemptId, Running};

/// At most one operation for each socket.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// `None` while the operation is taken out. Boxed, because operations start and end all the
    /// time.
    by_attempt: BTreeMap<AttemptId, Option<Box<Running>>>,
    by_path: ByPath<AttemptId>,
}

impl Operations {
    /// Reserves a socket for an operation, which runs once it is put back.
    pub(super) fn begin(&mut self, path: Arc<Path>, id: AttemptId) {
        self.by_path.insert(path, id);
        self.by_attempt.insert(id, None);
    }

    /// Takes out the operation of that attempt, unless it has ended: the caller puts it back or
    /// ends it.
    pub(super) fn take_out(&mut self, id: AttemptId) -> Option<Box<Running>> {
        self.by_attempt.get_mut(&id)?.take()
    }

    /// Puts back an operation that was taken out.
    pub(super) fn put_back(&mut self, running: Box<Running>) {
        if let Some(place) = self.by_attempt.get_mut(&running.attempt.id) {
            *place = Some(running);
        }
    }

    /// Removes an operation that was taken out and has ended, and releases its socket.
    pub(super) fn end(&mut self, attempt: &Attempt) {
        self.by_attempt.remove(&attempt.id);
        self.by_path.remove(&attempt.path);
    }

    /// Returns the operation of that attempt, unless it has ended or is taken out.
    pub(super) fn get_mut(&mut self, id: AttemptId) -> Option<&mut Running> {
        self.by_attempt.get_mut(&id)?.as_deref_mut()
    }

    /// Returns the operation that runs on a socket.
    pub(super) fn at(&self, path: &Path) -> Option<&Running> {
        let id = self.by_path.get(path)?;
        self.by_attempt.get(id)?.as_deref()
    }

    /// Returns the operation that runs on a socket.
    pub(super) fn at_mut(&mut self, path: &Path) -> Option<&mut Running> {
        let id = *self.by_path.get(path)?;
        self.get_mut(id)
    }

    /// Returns whether an operation runs on a socket.
    pub(super) fn is_any_at(&self, path: &Path) -> bool {
        self.by_path.contains(path)
    }

    /// Returns every operation, in the order in which they began.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Running> {
        self.by_attempt.values().filter_map(Option::as_deref)
    }

    /// Removes and returns every operation.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Box<Running>> + use<> {
        std::mem::take(self).by_attempt.into_values().flatten()
    }

    /// Returns whether both indexes have the same size, as they must.
    pub(super) fn is_one_per_socket(&self) -> bool {
        self.by_attempt.len() == self.by_path.len()
    }

    /// Returns whether no operation runs.
    pub(super) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }
}
