//! The directories that the user named, in the form that the watch needs: absolute, and without
//! duplicates.

use std::path::{self, Path, PathBuf};

use super::scan;
use super::stat::Stat;
use crate::escape;

/// Returns the directories as absolute paths, each directory once even if several of the paths lead
/// to it. Missing directories are created, because only directories that exist can be compared.
pub(super) fn resolve(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut resolved = Vec::new();
    for dir in dirs {
        resolved.extend(resolve_another(dir, &resolved));
    }
    resolved
}

/// Returns the absolute path of a directory, which is created if it is missing, or `None` if it is
/// one of those that were resolved before.
pub(super) fn resolve_another(dir: &Path, resolved: &[PathBuf]) -> Option<PathBuf> {
    let dir = absolute(dir);
    // If the directory cannot be created, the watch reports why.
    let _ = scan::create(&dir);
    if let Some(other) = resolved.iter().find(|other| is_same(&dir, other)) {
        log::info!(
            "{}: plugins directory was named twice and is watched once same_as={}",
            escape::path(&dir),
            escape::path(other)
        );
        return None;
    }
    Some(dir)
}

/// Returns whether two paths lead to one directory.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let inode_of_one = inode(one);
    one == other || (inode_of_one.is_some() && inode(other) == inode_of_one)
}

/// Returns the device and the inode number of a directory, or `None` if it does not exist.
fn inode(dir: &Path) -> Option<(u64, u64)> {
    let found = Stat::follow(dir).ok()?;
    Some((found.identity.device, found.identity.inode))
}

/// Returns the absolute form of a path, which is valid for handlers and programs in any working
/// directory.
pub(super) fn absolute(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_that_is_named_twice_in_whatever_way_is_resolved_once() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        symlink(&real, &link).unwrap();
        let dots = dir.path().join("real/../real");
        let other = dir.path().join("other");
        let named = [real.clone(), link, dots, other.clone(), real.clone()];
        assert_eq!(resolve(&named), [real, other]);
    }

    #[test]
    fn a_relative_path_is_made_absolute() {
        let here = env::current_dir().unwrap();
        assert_eq!(absolute(Path::new("a/b")), here.join("a/b"));
        assert_eq!(absolute(Path::new("/a")), Path::new("/a"));
        assert_eq!(absolute(Path::new("")), Path::new(""));
    }
}
