//! The directories that are being listed, one piece at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::mounts::Mounts;
use super::scan::{self, Names};
use crate::watch::{Listing, Problem, Rest};

/// The unfinished listings: few, because the watch requests few.
#[derive(Debug, Default)]
pub(super) struct Listings {
    open: Vec<(Arc<Path>, Names)>,
    /// The number of names that were read, plus those opened to follow symbolic links, since the
    /// last [`Listings::take_cost`].
    cost: usize,
    /// The time at which reading stops.
    until: Option<Instant>,
}

impl Listings {
    /// Sets the time at which reading stops.
    pub(super) fn set_until(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Starts to list a directory, through `held` if the directory is open already. Returns the
    /// first piece.
    pub(super) fn begin(
        &mut self,
        dir: &Arc<Path>,
        held: Option<File>,
        mounts: &Mounts,
    ) -> Result<Listing, Problem> {
        self.close(dir);
        let names = Names::open(dir, held)?;
        if self.until.is_some_and(|until| until <= Instant::now()) {
            // Opening the directory has taken all the time: the names are read in the next turn.
            self.open.push((Arc::clone(dir), names));
            return Ok(scan::piece(Vec::new(), Rest::Follows));
        }
        self.read_piece(Arc::clone(dir), names, mounts)
    }

    /// Returns the next piece of an unfinished listing, or `None` if the directory has none. `None`
    /// does not mean that anything is wrong with the directory.
    pub(super) fn read_next(
        &mut self,
        dir: &Path,
        mounts: &Mounts,
    ) -> Option<Result<Listing, Problem>> {
        let place = self.open.iter().position(|(open, _)| **open == *dir)?;
        let (dir, names) = self.open.remove(place);
        Some(self.read_piece(dir, names, mounts))
    }

    /// Drops the unfinished listing of a directory.
    pub(super) fn close(&mut self, dir: &Path) {
        self.open.retain(|(open, _)| **open != *dir);
    }

    /// Returns how many names were read since the last call, plus those opened to follow symbolic
    /// links.
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
