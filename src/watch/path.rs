//! Joining a directory and a name to a path, and splitting such a path again.
//!
//! The results are those of [`Path`], but only for paths of this form: they are not parsed
//! component by component.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use memchr::memrchr;
use smallvec::SmallVec;

/// Returns the path of a name in a directory.
pub(super) fn join(dir: &Path, name: &OsStr) -> Arc<Path> {
    let mut path = SmallVec::<[u8; USUAL_LEN]>::new();
    path.extend_from_slice(dir.as_os_str().as_bytes());
    if !matches!(path.last(), None | Some(b'/')) {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
    Path::new(OsStr::from_bytes(&path)).into()
}

/// Returns the directory and the name of a path made by [`join`].
pub(super) fn dir_and_name(path: &Path) -> (&Path, &OsStr) {
    let octets = path.as_os_str().as_bytes();
    let (dir_end, name_at) = match memrchr(b'/', octets) {
        // The slash belongs to neither, unless the directory is the root directory.
        Some(slash) => (slash.max(1), slash + 1),
        None => (0, 0),
    };
    let dir = OsStr::from_bytes(&octets[..dir_end]);
    (Path::new(dir), OsStr::from_bytes(&octets[name_at..]))
}

/// The length in octets up to which a path is joined without a buffer on the heap: more than that
/// of a usual path.
const USUAL_LEN: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joined_path_is_split_into_its_parts() {
        for dir in ["/", "/p", "/p/", "/p/q", "p", ""] {
            let (dir, name) = (Path::new(dir), OsStr::new("a"));
            let path = join(dir, name);
            assert_eq!(path, dir.join(name).into());
            assert_eq!(dir_and_name(&path), (dir, name));
        }
    }
}
