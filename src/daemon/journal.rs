//! The journal beside the state file: an entry for each program that was about to be started.
//!
//! The state file is written some time after a change, so a daemon that is killed may have run a
//! program for a plugin that the file does not have. The journal has that plugin: an entry is
//! appended before each program that registers or deregisters a plugin is started. Where the daemon
//! forks itself, the child appends the entry and then executes the program (`child`), so a slow
//! disk delays programs and not the loop. Until then the child also holds the locks of the daemon:
//! the next daemon waits until the entry is written or the child has ended (`lock`).
//!
//! ```text
//! state file        | snapshot of entries < 7 |        | snapshot of entries < 9 |
//! FILE.journal-a    1 2 3 4 5 6               | removed when the snapshot is in place
//! FILE.journal-b                7 8 ..........................
//! ```
//!
//! There are two files. From a snapshot on, entries are appended to the other file, unless that one
//! is still needed because the last snapshot could not be written. The entries that a snapshot
//! contains are known by their numbers, wherever they are, so nothing depends on the removal of a
//! file. Like the state file, the journal is useful during one boot only and not forced onto the
//! disk.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
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
    /// The path of its file, as the kernel takes it; an empty one never exists.
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

    /// Returns the paths of its files.
    pub(super) fn files(&self) -> &[PathBuf; 2] {
        &self.files
    }

    /// Returns the entries that the state file does not contain, which begin with the number
    /// `first`, in order. Files that are not needed or cannot be used are removed; what cannot be
    /// used is logged.
    pub(super) fn read(&mut self, first: u64, boot: &str) -> Vec<JournalEntry> {
        let (mut entries, len) = read(&self.files[0], first, boot);
        let (mut later, later_len) = read(&self.files[1], first, boot);
        self.is_other_needed = !entries.is_empty() && !later.is_empty();
        let number = |entries: &[JournalEntry]| entries.first().map(|entry| entry.number);
        // `None` is less than every number.
        if number(&entries) < number(&later) {
            (self.current, self.len) = (1, later_len);
        } else {
            (self.current, self.len) = (0, len);
            std::mem::swap(&mut entries, &mut later);
        }
        entries.append(&mut later);
        let last = entries.iter().map(|entry| entry.number.saturating_add(1));
        self.first = first;
        self.next = last.fold(first, u64::max);
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
        let is_required = entry.is_required();
        if line.len() > limit.saturating_sub(self.len) {
            return if is_required { Err(FULL) } else { Ok(None) };
        }
        self.next = self.next.saturating_add(1);
        self.len += line.len();
        let file = self.files[self.current].as_os_str().as_bytes();
        Ok(Some(PendingEntry {
            file: CString::new(file).unwrap_or_default(),
            line,
            is_required,
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
    /// Appends the entry to its file in one piece. Only calls open, write and close, because a
    /// child calls this between fork and exec.
    pub(super) fn append(&self) -> Result<(), Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_CLOEXEC;
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = open(&*self.file, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let written = write(&file, &self.line)?;
        // write(2): fewer octets are written if the disk is full.
        if written == self.line.len() {
            Ok(())
        } else {
            Err(Errno::ENOSPC)
        }
    }
}

/// Returns the entries of a file that begin with the number `first`, and the length of the file
/// (octets). Logs what cannot be used. A file without such entries is removed.
fn read(file: &Path, first: u64, boot: &str) -> (Vec<JournalEntry>, usize) {
    let mut read = (Vec::new(), 0);
    let problem = match read_trusted(file, MAX_JOURNAL, false) {
        Ok(content) => {
            let (entries, damaged) = JournalEntry::decode(&content, boot, first);
            read = (entries, content.len());
            let is_whole = damaged == 0 && content.len() < MAX_JOURNAL;
            (!is_whole).then(|| format!("damaged or too long, damaged={damaged}"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    };
    if let Some(problem) = problem {
        let path = escape::path(file);
        log::warn!("{path}: entries of the state file's journal are ignored: {problem}");
    }
    if read.0.is_empty() {
        remove(file);
        read.1 = 0;
    }
    read
}

/// Removes a file that is not needed. If that fails, its entries are ignored.
fn remove(file: &Path) {
    let _ = fs::remove_file(file);
}

/// The reason why a program is not started for want of room.
const FULL: &str = "the journal of the state file is full";

#[cfg(test)]
mod tests;
