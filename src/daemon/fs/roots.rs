//! The directories that the user named, in the form that the watch needs: absolute, and without
//! duplicates.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{self, Path, PathBuf};

use super::scan;
use crate::daemon::SetupError;
use crate::escape;
use crate::watch::Problem;

/// Returns the directories as absolute paths, each directory once even if several of the paths lead
/// to it. Missing directories are created, because only directories that exist can be compared.
/// Fails if one directory is inside another.
pub(crate) fn resolve(dirs: &[PathBuf]) -> Result<Vec<PathBuf>, SetupError> {
    let mut resolved = Vec::new();
    for dir in dirs {
        resolved.extend(resolve_another(dir, &resolved)?);
    }
    Ok(resolved)
}

/// Returns the absolute path of a directory, which is created if it is missing, or `None` if the
/// directory is in `resolved`. Fails if the directory is inside or around one in `resolved`.
pub(crate) fn resolve_another(
    dir: &Path,
    resolved: &[PathBuf],
) -> Result<Option<PathBuf>, SetupError> {
    let dir = absolute(dir);
    // If the directory cannot be created, the watch reports why.
    let _ = scan::create_dir(&dir);
    if let Some(other) = resolved.iter().find(|other| is_same(&dir, other)) {
        log::info!(
            "{}: the plugins directory was named twice; watching it once same_as={}",
            escape::path(&dir),
            escape::path(other)
        );
        return Ok(None);
    }
    match resolved.iter().find(|other| overlap(&dir, other)) {
        Some(other) => Err(SetupError::Directory {
            problem: Problem::Nested(other.as_path().into()),
            dir: dir.into(),
        }),
        None => Ok(Some(dir)),
    }
}

/// Returns whether one of two directories is the other one, or inside it, by their paths or with
/// all symbolic links resolved.
pub(crate) fn overlap(one: &Path, other: &Path) -> bool {
    let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let is_inside = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
    is_inside(one, other) || is_inside(&real(one), &real(other))
}

/// Returns whether two paths lead to one directory.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |dir: &Path| fs::metadata(dir).ok().map(|it| (it.dev(), it.ino()));
    one == other || inode(one).is_some_and(|it| inode(other) == Some(it))
}

/// Returns the absolute form of a path, which is valid for handlers and programs in any working
/// directory. Returns the path unchanged if it is empty or the working directory is unknown.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_that_is_named_twice_is_resolved_once() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        symlink(&real, &link).unwrap();
        let dots = dir.path().join("real/../real");
        let other = dir.path().join("other");
        let named = [real.clone(), link, dots, other.clone(), real.clone()];
        assert_eq!(resolve(&named).unwrap(), [real.clone(), other.clone()]);
        let inside = real.join("inside");
        for named in [[inside.clone(), real.clone()], [real, inside]] {
            let refused = resolve(&named);
            assert!(matches!(
                refused,
                Err(SetupError::Directory {
                    problem: Problem::Nested(_),
                    ..
                })
            ));
        }
    }

    #[test]
    fn a_relative_path_is_made_absolute() {
        let here = env::current_dir().unwrap();
        assert_eq!(absolute(Path::new("a/b")), here.join("a/b"));
        assert_eq!(absolute(Path::new("/a")), Path::new("/a"));
        assert_eq!(absolute(Path::new("")), Path::new(""));
    }

    #[test]
    fn directories_overlap_if_one_is_inside_the_other() {
        let root = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| root.path().join(name));
        for dir in [&a, &b] {
            fs::create_dir(dir).unwrap();
        }
        assert!(overlap(&a, &a) && overlap(&a, root.path()) && overlap(root.path(), &b));
        assert!(!overlap(&a, &b));
    }
}
