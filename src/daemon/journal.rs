//! The journal beside the state file: an entry for each program that was about to be started.
//!
//! The state file is written some time after a change, so a daemon that is killed may have run a
//! program for a plugin that the file does not have. The journal has that plugin: an entry is
//! appended before each program that registers or deregisters a plugin is started. Where the daemon
//! forks itself, the child appends the entry and then executes the program (`child`), so a slow
//! disk delays programs and not the loop. Until then the child also holds the locks of the daemon:
//! the next daemon does not start before the entry is written or the child has ended.
//!
//! ```text
//! state file        | snapshot of entries < 7 |        | snapshot of entries < 9 |
//! FILE.journal-a    1 2 3 4 5 6               | removed when the snapshot is in place
//! FILE.journal-b                7 8 ..........................
//! ```
//!
//! There are two files. When a snapshot is taken, appending goes on in the other file, unless that
//! one is still needed because the last snapshot could not be written. The entries that a snapshot
//! contains are known by their numbers, wherever they are, so nothing depends on the removal of a
//! file. Like the state file, the journal is useful during one boot only and not forced onto the
//! disk.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::write;

use super::permissions::read_trusted;
use crate::config::{MAX_JOURNAL, MAX_SHARE};
use crate::escape;
use crate::manager::JournalEntry;

/// The journal of a state file.
#[derive(Debug)]
pub(super) struct Journal {
    files: [PathBuf; 2],
    /// The index of the file to which entries are appended.
    current: usize,
    /// Whether the state file does not contain all entries of the other file.
    is_other_needed: bool,
    /// The length of the entries in the current file (octets).
    len: usize,
    /// The number of the next entry.
    next: u64,
    /// The number of the first entry that the state file does not contain.
    first: u64,
}

/// An entry that is appended before its program is started.
#[derive(Debug)]
pub(super) struct PendingEntry {
    file: CString,
    line: Vec<u8>,
    /// Whether the program must not be started without the entry.
    pub(super) is_required: bool,
}

impl Journal {
    /// Returns the journal of the state file at `path`.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            files: [".journal-a", ".journal-b"].map(|suffix| {
                let mut file = path.as_os_str().to_owned();
                file.push(suffix);
                file.into()
            }),
            current: 0,
            is_other_needed: false,
            len: 0,
            next: 0,
            first: 0,
        }
    }

    /// Returns the entries that the state file does not contain, which begin with the number
    /// `first`, in order. Files that are not needed or cannot be used are removed; what cannot be
    /// used is logged.
    pub(super) fn read(&mut self, first: u64, boot: &str) -> Vec<JournalEntry> {
        (self.first, self.next) = (first, first);
        let mut lists = [Vec::new(), Vec::new()];
        for (list, file) in lists.iter_mut().zip(&self.files) {
            *list = read(file, boot);
            list.retain(|(number, _)| *number >= first);
            if list.is_empty() {
                remove(file);
            }
        }
        let [a, b] = lists.each_ref().map(|list| list.first().map(|it| it.0));
        self.current = usize::from(a < b); // `None` is less than every number.
        self.is_other_needed = a.is_some() && b.is_some();
        self.len = fs::metadata(&self.files[self.current]).map_or(0, |it| {
            usize::try_from(it.len()).unwrap_or(usize::MAX) // A full file.
        });
        if self.current == 0 {
            lists.swap(0, 1);
        }
        let mut entries = Vec::new();
        for (number, entry) in lists.into_iter().flatten() {
            self.next = self.next.max(number.saturating_add(1));
            entries.push(entry);
        }
        entries
    }

    /// Numbers an entry, and returns it to be appended before its program is started. `None`: the
    /// journal is full, and the program may be started without the entry.
    ///
    /// An entry of more than its share does not fit in the second half, so that few plugins with
    /// long descriptions do not keep others from being registered.
    pub(super) fn add(
        &mut self,
        entry: &JournalEntry,
        boot: &str,
    ) -> Result<Option<PendingEntry>, &'static str> {
        let line = entry.encode(self.next, boot);
        let is_large = line.len() > MAX_SHARE;
        let limit = MAX_JOURNAL / if is_large { 2 } else { 1 };
        let file = self.files[self.current].clone().into_os_string();
        let file = CString::new(OsString::into_vec(file));
        let (true, Ok(file)) = (line.len() <= limit.saturating_sub(self.len), file) else {
            let is_required = entry.is_required();
            return if is_required { Err(FULL) } else { Ok(None) };
        };
        self.next = self.next.saturating_add(1);
        self.len += line.len();
        Ok(Some(PendingEntry {
            file,
            line,
            is_required: entry.is_required(),
        }))
    }

    /// Returns whether there are entries that the state file does not contain.
    pub(super) fn is_dirty(&self) -> bool {
        self.next != self.first
    }

    /// Returns whether the next version of the state file is urgent.
    pub(super) fn is_half_full(&self) -> bool {
        self.is_dirty() && self.len > MAX_JOURNAL / 2
    }

    /// Returns the number of the first entry that a snapshot which is taken now does not contain.
    pub(super) fn begin(&mut self) -> u64 {
        if self.len > 0 && !self.is_other_needed {
            self.current = 1 - self.current;
            remove(&self.files[self.current]);
            (self.is_other_needed, self.len) = (true, 0);
        }
        self.next
    }

    /// Records that the snapshot with this number is in place.
    pub(super) fn contained(&mut self, first: u64) {
        self.first = first;
        if std::mem::take(&mut self.is_other_needed) {
            remove(&self.files[1 - self.current]);
        }
    }
}

impl PendingEntry {
    /// Appends the entry to its file. Async-signal-safe: opens, writes and closes.
    pub(super) fn append(&self) -> Result<(), Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_CLOEXEC;
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = open(self.file.as_c_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let written = write(&file, &self.line)?;
        // write(2): fewer octets are written if there is no more room.
        if written == self.line.len() {
            Ok(())
        } else {
            Err(Errno::ENOSPC)
        }
    }
}

/// Returns the numbered entries of a file in this boot. Logs what cannot be used.
fn read(file: &Path, boot: &str) -> Vec<(u64, JournalEntry)> {
    let path = escape::path(file);
    let content = match read_trusted(file, MAX_JOURNAL) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            log::warn!(
                "{path}: the journal of the state file is ignored: {error}; plugins whose \
                 programs were started in the last second are not known"
            );
            return Vec::new();
        }
    };
    let (entries, damaged) = JournalEntry::decode(&content, boot);
    if damaged > 0 {
        log::warn!(
            "{path}: damaged entries in the journal of the state file are ignored: their \
             programs were not started, unless the file was changed count={damaged}"
        );
    }
    if content.len() >= MAX_JOURNAL {
        log::warn!("{path}: only the first {MAX_JOURNAL} octets of the journal are read");
    }
    entries
}

/// Removes a file that is not needed. Its entries would be ignored.
fn remove(file: &Path) {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            log::debug!("{}: cannot remove the journal: {error}", escape::path(file));
        }
        _ => {}
    }
}

/// The reason why a program is not started for want of room.
const FULL: &str = "the journal of the state file is full";

#[cfg(test)]
mod tests;
