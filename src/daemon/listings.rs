//! The directories that are being listed, a piece at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::mounts::Mounts;
use super::scan::{self, Names};
use crate::watch::{Listing, Problem, Rest};

/// The listings that have not come to their end: few, because the watch asks for few.
#[derive(Debug, Default)]
pub(super) struct Listings {
    open: Vec<(Arc<Path>, Names)>,
    /// How many names were read so far, and opened to follow symbolic links.
    cost: usize,
    /// Until when names are read.
    until: Option<Instant>,
}

impl Listings {
    /// Sets until when names are read.
    pub(super) fn set_until(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Lists a directory from its beginning; through its descriptor, if it is open.
    pub(super) fn begin(
        &mut self,
        dir: &Arc<Path>,
        held: Option<File>,
        mounts: &Mounts,
    ) -> Result<Listing, Problem> {
        self.close(dir);
        let names = Names::open(dir, held)?;
        if self.until.is_some_and(|until| until <= Instant::now()) {
            // To open it has taken all the time: the names are read in the next turn.
            self.open.push((Arc::clone(dir), names));
            return Ok(scan::piece(Vec::new(), Rest::Follows));
        }
        self.read_piece(Arc::clone(dir), names, mounts)
    }

    /// Goes on with a listing that had not come to its end. Returns `None` if there is none of this
    /// directory, which says nothing about the directory itself.
    pub(super) fn go_on(
        &mut self,
        dir: &Path,
        mounts: &Mounts,
    ) -> Option<Result<Listing, Problem>> {
        let place = self.open.iter().position(|(open, _)| **open == *dir)?;
        let (dir, names) = self.open.remove(place);
        Some(self.read_piece(dir, names, mounts))
    }

    /// Ends a listing early.
    pub(super) fn close(&mut self, dir: &Path) {
        self.open.retain(|(open, _)| **open != *dir);
    }

    /// Returns how many names were read since the last call, and opened to follow symbolic links.
    pub(super) fn take_cost(&mut self) -> usize {
        std::mem::take(&mut self.cost)
    }

    fn read_piece(
        &mut self,
        dir: Arc<Path>,
        mut names: Names,
        mounts: &Mounts,
    ) -> Result<Listing, Problem> {
        let before = names.cost();
        let piece = names.next_piece(self.until, mounts);
        self.cost += names.cost() - before;
        if matches!(&piece, Ok(listing) if listing.rest == Rest::Follows) {
            self.open.push((dir, names));
        }
        piece
    }
}
