//! The run directory, for files that are of use only until the next boot: `/run/plugind` for root,
//! and another directory for other users ([`open`]).
//!
//! The directory must belong to the daemon's user, and only that user may be able to change it.

use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use nix::unistd::Uid;

use crate::config::Config;
use crate::escape;

/// The reason why a run directory cannot be used, and what can be done about that.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct RunDirProblem {
    why: String,
    remedy: String,
    is_denied: bool,
}

impl RunDirProblem {
    /// Returns the problem with a directory that cannot be created or used.
    pub(crate) fn unusable(error: &io::Error) -> Self {
        Self {
            why: error.to_string(),
            remedy: "name a directory on a writable file system with --run-dir".to_owned(),
            is_denied: error.kind() == io::ErrorKind::PermissionDenied,
        }
    }

    /// Returns what can be done about the problem.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

/// A run directory that cannot be used, and the reason.
pub(crate) type Unusable = (PathBuf, RunDirProblem);

/// Returns the run directory: `named` if it is given, else the default of this user. A missing
/// directory is created.
///
/// - root: `/run/plugind`
/// - others: `plugind` in `$XDG_RUNTIME_DIR`, else in `/run/user/UID`, else `/tmp/plugind-UID`
///
/// If root may not create `/run/plugind`, for example in a user namespace, the process counts as
/// another user. A read-only file system is an error: with another directory, two daemons would not
/// exclude each other.
pub(crate) fn open(named: Option<&Path>) -> Result<PathBuf, Unusable> {
    if let Some(dir) = named {
        return create_or_check(dir, Audience::Shared);
    }
    let uid = Uid::effective();
    if uid.is_root() {
        match create_or_check(Path::new(ROOT_DIR), Audience::Shared) {
            Err((_, problem)) if problem.is_denied => {}
            other => return other,
        }
    }
    create_or_check(&own_dir(uid), Audience::Private)
}

/// Returns the path of the API socket in a run directory.
pub(crate) fn api_socket(run_dir: &Path) -> PathBuf {
    run_dir.join(API_SOCKET)
}

/// Returns whether a path is the run directory, which is created at the start. The directory that
/// root uses if `/run/plugind` cannot be created does not count.
pub(crate) fn is_run_dir(dir: &Path, config: &Config) -> bool {
    let named = config.run_dir.as_deref();
    let uid = Uid::effective();
    let usual = if uid.is_root() {
        ROOT_DIR.into()
    } else {
        own_dir(uid)
    };
    dir == named.unwrap_or(&usual)
}

/// Returns the API socket that clients use if none was named: that of the user's own daemon if it
/// exists, else that of root's daemon. Does not create any file.
pub(crate) fn default_api_socket() -> PathBuf {
    let uid = Uid::effective();
    let socket = api_socket(Path::new(ROOT_DIR));
    let own = check_owner_and_mode(&own_dir(uid), Audience::Private).map(|dir| api_socket(&dir));
    let is_first = !uid.is_root() || !socket.exists();
    let own = own.ok().filter(|own| is_first && own.exists());
    own.unwrap_or(socket)
}

/// Returns the default run directory of a user other than root, and of root if root may not create
/// `/run/plugind`.
fn own_dir(uid: Uid) -> PathBuf {
    match runtime_dir(uid) {
        Some(dir) => dir.join(NAME),
        None => format!("/tmp/{NAME}-{uid}").into(),
    }
}

/// Returns the runtime directory that the system created for this user, if there is one.
fn runtime_dir(uid: Uid) -> Option<PathBuf> {
    let named = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{uid}"));
    let is_own = |dir: &PathBuf| {
        // If `su` or `sudo` has kept the variable, it names the directory of another user.
        let found = fs::metadata(dir);
        dir.is_absolute() && found.is_ok_and(|it| it.is_dir() && it.uid() == uid.as_raw())
    };
    named.into_iter().chain([usual]).find(is_own)
}

/// The users that may use a directory. The value is the mode of a directory that is created.
#[derive(Clone, Copy)]
enum Audience {
    /// Other users may read and search the directory.
    Shared = 0o755,
    /// Only the owner may use the directory.
    Private = 0o700,
}

/// Creates a directory for this audience if it is missing, and checks an existing one as
/// [`check_owner_and_mode`] does.
fn create_or_check(dir: &Path, audience: Audience) -> Result<PathBuf, Unusable> {
    let mode = audience as u32;
    let created = DirBuilder::new().mode(mode).create(dir);
    // The mode must not depend on the umask: other users need to reach the API and the links.
    match created.and_then(|()| fs::set_permissions(dir, Permissions::from_mode(mode))) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err((dir.to_owned(), RunDirProblem::unusable(&error)))
        }
        _ => check_owner_and_mode(dir, audience),
    }
}

/// Checks that a directory belongs to this user, and that other users cannot change it or, if
/// it is private, access it at all. Returns its path.
fn check_owner_and_mode(dir: &Path, audience: Audience) -> Result<PathBuf, Unusable> {
    let found = fs::symlink_metadata(dir)
        .map_err(|error| (dir.to_owned(), RunDirProblem::unusable(&error)))?;
    let (shown, bits) = (escape::path(dir), found.mode() & 0o7777);
    let open = match audience {
        Audience::Shared => 0o022,
        Audience::Private => 0o077,
    };
    let other = format!("remove {shown}, or name another directory with --run-dir");
    let (why, remedy) = if !found.is_dir() {
        ("it is not a directory".to_owned(), other)
    } else if found.uid() != Uid::effective().as_raw() {
        (format!("it belongs to user {}", found.uid()), other)
    } else if bits & open == 0 {
        return Ok(dir.to_owned());
    } else {
        let why = format!("its mode, {bits:04o}, gives other users access");
        let own = "name a directory of the daemon's own with --run-dir";
        match audience {
            // A directory that all users share, such as /tmp.
            _ if bits & Mode::S_ISVTX.bits() != 0 => (why, own.to_owned()),
            Audience::Private => (why, format!("run chmod go-rwx {shown}")),
            Audience::Shared => (why, format!("run chmod go-w {shown}")),
        }
    };
    let problem = RunDirProblem {
        why,
        remedy,
        is_denied: false,
    };
    Err((dir.to_owned(), problem))
}

/// Creates the directory of the lock files, which other users cannot search. Returns its path.
pub(crate) fn create_locks_dir(run_dir: &Path) -> Result<PathBuf, Unusable> {
    create_or_check(&run_dir.join(LOCKS), Audience::Private)
}

/// The run directory of root.
const ROOT_DIR: &str = "/run/plugind";

/// The name of the API socket in the run directory.
const API_SOCKET: &str = "plugind.sock";

/// The name of the directory of the lock files in the run directory.
const LOCKS: &str = "locks";

/// The name of the run directory in a user's runtime directory, and the beginning of its name in
/// /tmp.
const NAME: &str = "plugind";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_user_without_a_runtime_directory_has_one_below_tmp() {
        let uid = Uid::from_raw(u32::MAX - 2);
        assert_eq!(own_dir(uid), Path::new("/tmp/plugind-4294967293"));
    }

    #[test]
    fn a_directory_is_created_and_used_again() {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("run");
        for _ in 0..2 {
            assert_eq!(open(Some(&dir)).unwrap(), dir);
            assert_eq!(create_locks_dir(&dir).unwrap(), dir.join("locks"));
        }
        let mode = fs::metadata(dir.join("locks")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o700);
    }

    #[test]
    fn a_path_that_is_not_a_private_directory_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let at = |name: &str| above.path().join(name);
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("open"), Permissions::from_mode(0o777)).unwrap();
        symlink(above.path(), at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        for (name, expected) in [
            ("open", "its mode, 0777, gives other users access"),
            ("link", "it is not a directory"),
            ("file", "it is not a directory"),
            ("no/where", "No such file or directory (os error 2)"),
        ] {
            let (dir, problem) = open(Some(&at(name))).unwrap_err();
            assert_eq!((dir, &*problem.to_string()), (at(name), expected));
            assert!(problem.remedy().contains("run"));
        }
    }

    #[test]
    fn the_directory_of_this_user_can_be_used_without_naming_it() {
        let dir = open(None).unwrap();
        let found = fs::symlink_metadata(&dir).unwrap();
        assert_eq!(found.uid(), Uid::effective().as_raw());
        assert_eq!(found.mode() & 0o022, 0);
    }
}
