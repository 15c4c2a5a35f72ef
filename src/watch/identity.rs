//! The kind and the identity of a file, which the shell reads.

use std::ffi::OsString;

/// The identity of the file at a path: the same path may hold another socket a moment later, even
/// with the same inode number.
///
/// The birth time distinguishes them. On file systems without birth times (tmpfs before Linux 5.18,
/// ramfs), the modification time is used instead, which for a socket only `utimes` changes. The
/// change time is not suitable: most plugins set the mode of their socket after binding it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The device that holds the file.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// The birth time, or the time that is used instead: nanoseconds since 1970, for comparison
    /// only.
    pub btime: i64,
}

impl Identity {
    /// Returns the identity of a plugin that has announced itself by the call with this number. It
    /// contains a device number that no device has.
    pub(crate) fn of_announcement(number: u64) -> Self {
        Self {
            device: ANNOUNCED,
            inode: number,
            btime: 0,
        }
    }

    /// Returns a birth time in nanoseconds, saturating in the years 1677 and 2262.
    pub(crate) fn btime_of(seconds: i64, nanoseconds: u32) -> i64 {
        let whole = seconds.saturating_mul(NANOS_PER_SECOND);
        whole.saturating_add(nanoseconds.into())
    }

    /// Returns the seconds and nanoseconds of the birth time.
    pub(crate) fn btime_parts(&self) -> (i64, u32) {
        let nanoseconds = self.btime.rem_euclid(NANOS_PER_SECOND);
        let nanoseconds = u32::try_from(nanoseconds).expect("it is less than a second");
        (self.btime.div_euclid(NANOS_PER_SECOND), nanoseconds)
    }

    /// Returns whether this is the identity of a plugin that has announced itself.
    pub(crate) fn is_of_announcement(&self) -> bool {
        self.device == ANNOUNCED
    }
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The device number in the identities of plugins that have announced themselves.
const ANNOUNCED: u64 = u64::MAX;

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A socket.
    Socket(Identity),
    /// A symbolic link that leads to a socket; the identity is the socket's.
    Link(Identity),
    /// A directory; not a symbolic link to one.
    Directory,
    /// Another kind of file, or nothing.
    Other,
    /// A file that cannot be examined now: what is known of the path stays valid.
    Unknown,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// The kind of file that it names.
    pub kind: EntryKind,
}

/// The entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The entries that were read. Those that are [`EntryKind::Other`] may be left out.
    pub entries: Vec<Entry>,
    /// Whether entries were left out because the directory holds more than a limit allows.
    pub is_cut: bool,
    /// The type of the directory's file system if that does not report all changes: the directory
    /// is then also scanned at short intervals.
    pub unreported: Option<String>,
}
