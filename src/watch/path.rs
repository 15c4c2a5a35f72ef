//! A path, put together from a directory and a name, and taken apart into them again.
//!
//! Pure. As [`Path`] does it, for paths that are only that: none of them is read component by
//! component, and all are put together in one place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The place where a path is put together before it gets one of its own.
#[derive(Debug, Default)]
pub(super) struct Joint(PathBuf);

impl Joint {
    /// The path of a name in a directory.
    pub(super) fn join(&mut self, dir: &Path, name: &OsStr) -> Arc<Path> {
        self.0.clear();
        self.0.push(dir);
        self.0.push(name);
        self.0.as_path().into()
    }
}

/// The directory and the name of such a path.
pub(super) fn split(path: &Path) -> (&Path, &OsStr) {
    let octets = path.as_os_str().as_bytes();
    let slash = octets.iter().rposition(|&octet| octet == b'/');
    // The slash belongs to neither, unless it is all that there is of the directory.
    let (dir_end, name_at) = slash.map_or((0, 0), |slash| (slash.max(1), slash + 1));
    let dir = OsStr::from_bytes(&octets[..dir_end]);
    (Path::new(dir), OsStr::from_bytes(&octets[name_at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_together_comes_apart_again() {
        let mut joint = Joint::default();
        for dir in ["/", "/p", "/p/", "/p/q", "p", ""] {
            let (dir, name) = (Path::new(dir), OsStr::new("a"));
            let path = joint.join(dir, name);
            assert_eq!(path, dir.join(name).into());
            assert_eq!(split(&path), (dir, name));
        }
    }
}
