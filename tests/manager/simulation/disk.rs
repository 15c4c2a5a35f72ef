//! The disk with the state file, which may be full or slow: a version is written beside the last
//! one, piece by piece, and then replaces it. A version that is not complete is never read.

use std::time::Duration;

use plugind::config::{STATE_FILE_DELAY, STATE_FILE_RETRY};
use plugind::manager::{Manager, Snapshot};
use plugind::time::Time;

use super::restart::BOOT;

/// The state file, and the version that is being written, as the daemon does it.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// The version that was written last.
    pub(super) file: Option<Vec<u8>>,
    /// The step of the simulation that the file shows.
    step: u64,
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
    step: u64,
    revision: u64,
    content: Vec<u8>,
}

impl Disk {
    /// Writes what is due, as far as the disk allows.
    pub(super) fn advance(&mut self, manager: &Manager, now: Time, step: u64) {
        let revision = manager.revision();
        if self.due.is_none() && revision != self.written.unwrap_or(self.started) {
            self.due = Some(now + STATE_FILE_DELAY);
        }
        while self.due.is_some_and(|due| due <= now) {
            self.due = None;
            if self.is_full {
                // What was written of the version is lost.
                self.writing = None;
                let pause = self.pause.map_or(STATE_FILE_DELAY, |last| last * 2);
                self.pause = Some(pause.min(STATE_FILE_RETRY));
                self.due = self.pause.map(|pause| now + pause);
            } else if self.write_next(manager, step) {
                self.due = Some(now);
                if self.is_slow {
                    return;
                }
            }
        }
    }

    /// Writes the current version as a whole, if the disk is not full.
    pub(super) fn save(&mut self, manager: &Manager, step: u64) {
        self.writing = None;
        while !self.is_full && self.write_next(manager, step) {}
    }

    /// Returns the file, and the step that it shows.
    pub(super) fn version(&self) -> Option<(&[u8], u64)> {
        Some((self.file.as_deref()?, self.step))
    }

    /// Writes the next piece; after the last one, the version replaces the file. Returns whether
    /// there is more to write.
    fn write_next(&mut self, manager: &Manager, step: u64) -> bool {
        let writing = self.writing.get_or_insert_with(|| Writing {
            snapshot: manager.snapshot(BOOT),
            step,
            revision: manager.revision(),
            content: Vec::new(),
        });
        if let Some(piece) = writing.snapshot.encode_next(PIECE) {
            writing.content.extend(piece);
            return true;
        }
        if let Some(writing) = self.writing.take() {
            self.file = Some(writing.content);
            self.step = writing.step;
            self.written = Some(writing.revision);
            self.pause = None;
        }
        false
    }

    /// Ends the process that writes: what was written of a version is never read.
    pub(super) fn restarted(&mut self) {
        let file = self.file.take();
        let (is_full, is_slow) = (self.is_full, self.is_slow);
        *self = Self {
            file,
            step: self.step,
            is_full,
            is_slow,
            ..Self::default()
        };
    }

    /// Records what the manager has restored.
    pub(super) fn restored(&mut self, manager: &Manager) {
        self.started = manager.revision();
    }

    /// Checks that the file has what a restart needs, unless a change was announced since then.
    pub(super) fn check(&self, manager: &Manager) {
        if self.written == Some(manager.revision()) {
            let file = self.file.as_deref().expect("it was written");
            let current = manager.snapshot(BOOT).encode();
            assert_eq!(lines(file), lines(&current), "a change was not announced");
        }
    }

    /// Checks, after the disk has recovered, that the last change is written soon.
    pub(super) fn check_written(&mut self, manager: &Manager, now: Time, step: u64) {
        // Up to three turns: the version in progress is completed, and the next one begun.
        for retries in 0..3 {
            self.advance(manager, now + STATE_FILE_RETRY * retries, step);
        }
        let revision = manager.revision();
        let written = self.written.unwrap_or(self.started);
        assert_eq!(written, revision, "the state file was not written");
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
