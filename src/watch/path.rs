//! A path, put together from a directory and a name, and taken apart into them again.
//!
//! Pure. As [`Path`] itself does it, for a path that is only that: each octet is copied once and
//! looked at once, where [`Path`] reads components and makes room twice.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The path of a name in a directory.
pub(super) fn join(dir: &Path, name: &OsStr) -> Arc<Path> {
    let mut path = PathBuf::with_capacity(dir.as_os_str().len() + 1 + name.len());
    path.push(dir);
    path.push(name);
    path.into()
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
        for dir in ["/", "/p", "/p/", "/p/q", "p", ""] {
            let (dir, name) = (Path::new(dir), OsStr::new("a"));
            let path = join(dir, name);
            assert_eq!(path, dir.join(name).into());
            assert_eq!(split(&path), (dir, name));
        }
    }
}
