//! The disk with the state file, which may be full: a version that is not written as a whole is
//! never read.

use std::time::Duration;

use plugind::config::{STATE_FILE_RETRY, UPDATE_INTERVAL};
use plugind::manager::Manager;
use plugind::time::Time;
use serde_json::Value;

use super::restart::{BOOT, decode};

/// The state file, written as the daemon does it.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// The version that was written last.
    pub(super) file: Option<Vec<u8>>,
    pub(super) is_full: bool,
    /// Whether one program is started at each step of the simulation, instead of all.
    pub(super) is_slow: bool,
    /// The manager's revision in the file; `None` if another process has written the file.
    written: Option<u64>,
    /// The manager's revision after the start.
    started: u64,
    due: Option<Time>,
    pause: Option<Duration>,
}

impl Disk {
    /// Writes what is due, as far as the disk allows.
    pub(super) fn advance(&mut self, manager: &Manager, now: Time) {
        if self.due.is_none() && self.is_changed(manager) {
            self.due = Some(now + UPDATE_INTERVAL);
        }
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        if self.is_full {
            self.pause = Some(STATE_FILE_RETRY.next_pause(self.pause));
            self.due = self.pause.map(|pause| now + pause);
        } else {
            self.save(manager);
        }
    }

    /// Writes the next version if the manager has changed. Returns whether the disk has it.
    pub(super) fn save(&mut self, manager: &Manager) -> bool {
        let is_changed = self.is_changed(manager);
        if is_changed && !self.is_full {
            self.file = Some(manager.snapshot(BOOT).encode());
            self.written = Some(manager.revision());
            self.pause = None;
        }
        !is_changed || !self.is_full
    }

    /// Returns whether the last version lacks something.
    fn is_changed(&self, manager: &Manager) -> bool {
        manager.revision() != self.written.unwrap_or(self.started)
    }

    /// Ends the process that writes: what was written of a version is never read.
    pub(super) fn restarted(&mut self) {
        let file = self.file.take();
        let (is_full, is_slow) = (self.is_full, self.is_slow);
        *self = Self {
            file,
            is_full,
            is_slow,
            ..Self::default()
        };
    }

    /// Restores what the file has in a manager.
    pub(super) fn restore(&mut self, manager: &mut Manager) {
        if let Some(file) = &self.file {
            manager.restore(decode(file));
        }
        self.started = manager.revision();
    }

    /// Checks that the file has what a restart needs, unless a change was announced since then.
    pub(super) fn check(&self, manager: &Manager) {
        if self.written == Some(manager.revision()) {
            let file = self.file.as_deref().expect("it was written");
            let current = manager.snapshot(BOOT).encode();
            assert_eq!(sorted(file), sorted(&current), "a change was not announced");
        }
    }

    /// Checks, after the disk has recovered, that the last change is written soon.
    pub(super) fn check_written(&mut self, manager: &Manager, now: Time) {
        for retries in 0..2 {
            self.advance(manager, now + STATE_FILE_RETRY.cap * retries);
        }
        assert!(!self.is_changed(manager), "the state file was not written");
    }
}

/// Returns a file with its plugins in an order of their own: they are written in any order.
fn sorted(file: &[u8]) -> Value {
    let mut file: Value = serde_json::from_slice(file).expect("it is JSON");
    for list in ["owed", "plugins"] {
        let plugins = file[list].as_array_mut().expect("it is a list");
        for plugin in plugins.iter_mut() {
            if plugin["announced"] == true {
                // The number of an announcement means nothing after a restart.
                plugin["inode"] = Value::Null;
                plugin["born"] = Value::Null;
            }
        }
        plugins.sort_by_cached_key(Value::to_string);
    }
    file
}
