//! The journal beside the state file, as the daemon writes it: an entry is numbered when its
//! program is requested, and appended before the program is started.

use plugind::manager::{JournalEntry, Manager};

use super::restart::BOOT;

/// The two files of the journal, and the numbers of its entries.
#[derive(Debug, Default)]
pub(super) struct Journal {
    files: [Vec<u8>; 2],
    /// The index of the file to which entries are appended.
    current: usize,
    /// Whether the state file does not contain all entries of the other file.
    is_other_needed: bool,
    /// The number of the next entry.
    next: u64,
    /// The number of the first entry that the state file does not contain.
    first: u64,
}

/// An entry that is appended before its program is started.
#[derive(Debug)]
pub(super) struct PendingEntry {
    file: usize,
    line: Vec<u8>,
    is_required: bool,
}

impl Journal {
    /// Numbers an entry.
    pub(super) fn add(&mut self, entry: &JournalEntry) -> PendingEntry {
        let number = self.next;
        self.next += 1;
        PendingEntry {
            file: self.current,
            line: entry.encode(number, BOOT),
            is_required: entry.is_required(),
        }
    }

    /// Appends an entry, or a part of it if the disk is full. Returns whether the program may be
    /// started.
    pub(super) fn append(&mut self, entry: &PendingEntry, is_full: bool) -> bool {
        let len = entry.line.len();
        let len = if is_full { len / 2 } else { len };
        self.files[entry.file].extend(&entry.line[..len]);
        !is_full || !entry.is_required
    }

    /// Returns the number of the first entry that the state file does not contain.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns whether there are entries that the state file does not contain.
    pub(super) fn is_dirty(&self) -> bool {
        self.next != self.first
    }

    /// Returns the number of the first entry that a snapshot which is taken now does not contain.
    pub(super) fn begin(&mut self) -> u64 {
        if !self.files[self.current].is_empty() && !self.is_other_needed {
            self.current = 1 - self.current;
            self.files[self.current].clear();
            self.is_other_needed = true;
        }
        self.next
    }

    /// Records that the snapshot with this number is in place.
    pub(super) fn contained(&mut self, first: u64) {
        self.first = first;
        if std::mem::take(&mut self.is_other_needed) {
            self.files[1 - self.current].clear();
        }
    }

    /// Ends the process that writes.
    pub(super) fn restarted(&mut self) {
        let files = std::mem::take(&mut self.files);
        *self = Self {
            files,
            ..Self::default()
        };
    }

    /// Replays the entries that begin with the number `first` in a manager.
    pub(super) fn replay(&mut self, first: u64, manager: &mut Manager) {
        let [a, b] = [0, 1].map(|file| self.entries(file, first));
        for (file, entries) in [&a, &b].into_iter().enumerate() {
            if entries.is_empty() {
                self.files[file].clear();
            }
        }
        let number = |entries: &[JournalEntry]| entries.first().map(|entry| entry.number);
        self.is_other_needed = !a.is_empty() && !b.is_empty();
        self.current = usize::from(number(&a) < number(&b));
        let entries = if self.current == 0 { [b, a] } else { [a, b] };
        (self.first, self.next) = (first, first);
        for entry in entries.into_iter().flatten() {
            assert!(entry.number >= self.next, "{entry:?} is out of order");
            self.next = entry.number + 1;
            manager.replay(entry);
        }
    }

    fn entries(&self, file: usize, first: u64) -> Vec<JournalEntry> {
        JournalEntry::decode(&self.files[file], BOOT, first).0
    }

    /// Returns the lines of both files, some of which may be torn.
    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let files = self.files.iter();
        files.flat_map(|file| file.split(|octet| *octet == b'\n'))
    }
}
