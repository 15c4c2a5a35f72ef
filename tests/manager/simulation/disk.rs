//! The disk with the state file, which may be full or slow: a version is written beside the last
//! one, piece by piece, and then replaces it. A version that is not complete is never read. The
//! journal is beside it.

use std::time::Duration;

use plugind::config::{STATE_FILE_DELAY, STATE_FILE_RETRY};
use plugind::manager::{Manager, Snapshot};
use plugind::time::Time;

use super::journal::Journal;
use super::restart::{BOOT, decode};

/// The state file, and the version that is being written, as the daemon does it.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// The version that was written last.
    pub(super) file: Option<Vec<u8>>,
    pub(super) journal: Journal,
    pub(super) is_full: bool,
    /// Whether one piece is written at each step of the simulation, instead of all.
    pub(super) is_slow: bool,
    /// The manager's revision in the file; `None` if another process has written the file.
    written: Option<u64>,
    /// The manager's revision after the start.
    started: u64,
    due: Option<Time>,
    pause: Option<Duration>,
    writing: Option<Writing>,
}

#[derive(Debug)]
struct Writing {
    snapshot: Snapshot,
    revision: u64,
    /// The number of the first journal entry that the snapshot does not contain.
    journal: u64,
    content: Vec<u8>,
}

impl Disk {
    /// Writes what is due, as far as the disk allows.
    pub(super) fn advance(&mut self, manager: &Manager, now: Time) {
        if self.due.is_none() && self.is_changed(manager) {
            self.due = Some(now + STATE_FILE_DELAY);
        }
        while self.due.is_some_and(|due| due <= now) {
            self.due = None;
            if self.is_full {
                // What was written of the version is lost.
                if self.writing.take().is_none() {
                    self.journal.begin();
                }
                let pause = self.pause.map_or(STATE_FILE_DELAY, |last| last * 2);
                self.pause = Some(pause.min(STATE_FILE_RETRY));
                self.due = self.pause.map(|pause| now + pause);
            } else if self.write_next(manager) {
                self.due = Some(now);
                if self.is_slow {
                    return;
                }
            }
        }
    }

    /// Writes the current version as a whole, if the disk is not full.
    pub(super) fn save(&mut self, manager: &Manager) {
        self.writing = None;
        while !self.is_full && self.write_next(manager) {}
    }

    /// Returns whether the last version lacks something.
    fn is_changed(&self, manager: &Manager) -> bool {
        let written = self.written.unwrap_or(self.started);
        manager.revision() != written || self.journal.is_dirty()
    }

    /// Writes the next piece; after the last one, the version replaces the file. Returns whether
    /// there is more to write.
    fn write_next(&mut self, manager: &Manager) -> bool {
        let journal = &mut self.journal;
        let writing = self.writing.get_or_insert_with(|| {
            let journal = journal.begin();
            let mut snapshot = manager.snapshot(BOOT);
            snapshot.set_journal(journal);
            Writing {
                snapshot,
                revision: manager.revision(),
                journal,
                content: Vec::new(),
            }
        });
        if let Some(piece) = writing.snapshot.encode_next(PIECE) {
            writing.content.extend(piece);
            return true;
        }
        if let Some(writing) = self.writing.take() {
            self.file = Some(writing.content);
            self.journal.contained(writing.journal);
            self.written = Some(writing.revision);
            self.pause = None;
        }
        false
    }

    /// Ends the process that writes: what was written of a version is never read.
    pub(super) fn restarted(&mut self) {
        let (file, mut journal) = (self.file.take(), std::mem::take(&mut self.journal));
        journal.restarted();
        let (is_full, is_slow) = (self.is_full, self.is_slow);
        *self = Self {
            file,
            journal,
            is_full,
            is_slow,
            ..Self::default()
        };
    }

    /// Restores what the file and the journal have in a manager.
    pub(super) fn restore(&mut self, manager: &mut Manager) {
        let mut first = 0;
        if let Some(file) = &self.file {
            let state = decode(file);
            first = state.journal().expect("it was written");
            manager.restore(state);
        }
        self.journal.replay(first, manager);
        self.started = manager.revision();
    }

    /// Checks that the file has what a restart needs, unless a change was announced since then.
    pub(super) fn check(&self, manager: &Manager) {
        if self.written == Some(manager.revision()) {
            let file = self.file.as_deref().expect("it was written");
            let mut current = manager.snapshot(BOOT);
            current.set_journal(self.journal.first());
            let current = current.encode();
            assert_eq!(lines(file), lines(&current), "a change was not announced");
        }
    }

    /// Checks, after the disk has recovered, that the last change is written soon.
    pub(super) fn check_written(&mut self, manager: &Manager, now: Time) {
        // Up to three turns: the version in progress is completed, and the next one begun.
        for retries in 0..3 {
            self.advance(manager, now + STATE_FILE_RETRY * retries);
        }
        assert!(!self.is_changed(manager), "the state file was not written");
    }
}

/// Returns the lines of a file in an order of their own: plugins are written in any order.
fn lines(file: &[u8]) -> Vec<String> {
    let file = String::from_utf8_lossy(file);
    let lines = file.lines().map(|line| {
        let line = line.trim_end_matches(',');
        match (line.split_once("\"inode\""), line.split_once("\"type\"")) {
            // The number of an announcement means nothing after a restart.
            (Some((before, _)), Some((_, after))) if line.contains("\"announced\"") => {
                format!("{before}{after}")
            }
            _ => line.to_owned(),
        }
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

/// The size of a piece (octets): about one plugin.
const PIECE: usize = 256;
