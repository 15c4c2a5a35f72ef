//! What is at a path, and which one it is. Pure: read from the file system by the shell.

use std::ffi::OsString;

/// Which file is at a path: the same path may hold another socket a moment later, even with the
/// same inode number.
///
/// The birth time tells them apart. On a file system that keeps none (tmpfs before Linux 5.18,
/// ramfs) the modification time has to do, which only `utimes` changes for a socket. The change
/// time would not do: most plugins set the mode of their socket after they have bound it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The device that holds it.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// When it was made: seconds and nanoseconds of the time of day, used for comparison only.
    pub born: (i64, u32),
}

impl Identity {
    /// Returns whether both are the same inode of the same device, whenever it was made.
    pub fn is_same_inode(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// What is at a path, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A socket.
    Socket(Identity),
    /// A symbolic link that leads to a socket; the identity is the socket's.
    Link(Identity),
    /// A directory; not a symbolic link to one.
    Directory,
    /// Nothing that counts, or nothing at all.
    Other,
    /// Something that cannot be examined now: what was known of the path still holds.
    Unknown,
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// What is there.
    pub kind: Kind,
}

/// The names of a directory, or the next piece of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// What was read. Names that are [`Kind::Other`] may be left out.
    pub entries: Vec<Entry>,
    /// What else the directory holds.
    pub rest: Rest,
    /// The type of the directory's file system, if that does not report all changes: then the
    /// directory is scanned on the tick, too.
    pub unreported: Option<String>,
}

/// What a directory holds beside the names that were listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: that was all.
    None,
    /// Names that are listed in further pieces.
    Follows,
    /// Names that are not listed, because there are too many.
    Ignored,
}
