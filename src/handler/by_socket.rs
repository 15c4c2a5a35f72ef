//! The data that a handler keeps about each plugin, by registration socket.

use std::path::Path;
use std::sync::Arc;

use crate::octets::cmp_length_then_end;

/// A `T` for each plugin, sorted by registration socket.
#[derive(Debug)]
pub(super) struct BySocket<T>(Vec<(Arc<Path>, T)>);

impl<T> Default for BySocket<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> BySocket<T> {
    /// Sets the data about the plugin of a socket.
    pub(super) fn insert(&mut self, socket: &Arc<Path>, kept: T) {
        match self.position(socket) {
            Ok(at) => self.0[at].1 = kept,
            Err(at) => self.0.insert(at, (socket.clone(), kept)),
        }
    }

    pub(super) fn get_mut(&mut self, socket: &Arc<Path>) -> Option<&mut T> {
        let at = self.position(socket).ok()?;
        Some(&mut self.0[at].1)
    }

    pub(super) fn remove(&mut self, socket: &Arc<Path>) {
        if let Ok(at) = self.position(socket) {
            self.0.remove(at);
        }
    }

    fn position(&self, socket: &Arc<Path>) -> Result<usize, usize> {
        let key = socket.as_os_str().as_encoded_bytes();
        let places =
            |(it, _): &(Arc<Path>, T)| cmp_length_then_end(it.as_os_str().as_encoded_bytes(), key);
        self.0.binary_search_by(places)
    }
}
