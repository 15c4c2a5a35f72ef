//! A file that this process has created or locked, at a path where another file may replace it; and
//! how files are removed and directories created.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::escape;

/// A file that is removed on drop, unless another file has replaced it.
///
/// Must be dropped before the descriptor of the file is closed: while the file is open, no other
/// file can have its inode number.
#[derive(Debug)]
pub(crate) struct OwnFile {
    pub(crate) path: PathBuf,
    /// The device and inode numbers.
    id: (u64, u64),
}

impl OwnFile {
    /// Returns the file that this process has created at a path.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::of(path, &fs::symlink_metadata(path)?))
    }

    /// Returns the file with this metadata that this process has created or locked at a path.
    pub(crate) fn of(path: &Path, found: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            id: (found.dev(), found.ino()),
        }
    }

    /// Returns whether the file is still at its path.
    pub(crate) fn is_in_place(&self) -> bool {
        let found = fs::symlink_metadata(&self.path);
        found.is_ok_and(|it| (it.dev(), it.ino()) == self.id)
    }
}

/// Removes a file, unless it does not exist: another process may remove it first.
pub(crate) fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Creates a directory and those above it, unless they exist, with mode 0755 less the umask.
pub(crate) fn create_public_dir(dir: &Path) -> io::Result<()> {
    create_dir_all(dir, 0o755)
}

/// Creates a directory of plugins' sockets and those above it, unless they exist, with kubelet's
/// mode.
pub(crate) fn create_plugins_dir(dir: &Path) -> io::Result<()> {
    create_dir_all(dir, 0o750)
}

fn create_dir_all(dir: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(dir)
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if self.is_in_place() {
            if let Err(error) = fs::remove_file(&self.path) {
                let path = escape::path(&self.path);
                log::debug!("{path}: cannot remove the file: {error}");
            }
        }
    }
}
