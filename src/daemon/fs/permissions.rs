//! Checks of owners and modes: whether a program may be run with the daemon's privileges, whether a
//! file may be read or written, and whether a directory is trusted.
//!
//! The path that a `resolve` function returns stays valid, because only trusted users can change
//! the file and its directories.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, ROOT, Uid, access};

use crate::daemon::SetupError;
use crate::escape;

/// The reason why a program, a file or a directory is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum ProgramProblem {
    /// The file does not exist, or cannot be examined.
    #[error("{0}")]
    NotFound(io::Error),
    /// The program is not a regular file that this user may execute.
    #[error("it is not a regular file that the daemon's user may execute")]
    NotExecutable,
    /// The file, or a directory above it, belongs to a user other than root and this user.
    #[error(
        "{} belongs to user {uid}, not to root or the daemon's user",
        escape::path(path)
    )]
    Foreign {
        /// The file or directory that belongs to the other user.
        path: PathBuf,
        /// The other user's id.
        uid: u32,
    },
    /// The file, or a directory above it, can be changed by other users.
    #[error("{} is writable by its group or others", escape::path(.0))]
    Writable(PathBuf),
}

/// Returns the path of a program, free of symbolic links, if only root and this user can put
/// another program in its place. With `may_be_shared`, other users may add names to the directories
/// above the program's own, if these are sticky like /tmp.
pub(crate) fn resolve_trusted_program(
    path: &Path,
    may_be_shared: bool,
) -> Result<PathBuf, ProgramProblem> {
    let program = fs::canonicalize(path).map_err(ProgramProblem::NotFound)?;
    let file = fs::metadata(&program).map_err(ProgramProblem::NotFound)?;
    if !file.is_file() || access(&program, AccessFlags::X_OK).is_err() {
        return Err(ProgramProblem::NotExecutable);
    }
    let owners = [ROOT.as_raw(), Uid::effective().as_raw()];
    check_owner_and_mode(&program, &file, &owners, false)?;
    check_directories(&program, &owners, may_be_shared)?;
    Ok(program)
}

/// Returns the path of a file that need not exist, with its directory free of symbolic links, if
/// only root and this user can put another file in its place.
///
/// In a user namespace `/` may belong to a user outside the namespace, as may other directories
/// that existed before. That user could replace every file anyway, and is trusted here.
pub(crate) fn resolve_trusted_file(path: &Path) -> Result<PathBuf, ProgramProblem> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ProgramProblem::NotFound(io::ErrorKind::IsADirectory.into()));
    };
    Ok(resolve_trusted_directory(dir, true)?.join(name))
}

/// Returns the path of a directory, free of symbolic links, if only root, this user and the owner
/// of `/` (see [`resolve_trusted_file`]) can change the directory and those above it. With
/// `may_be_shared`, other users may add names to those above it, if these are sticky.
pub(crate) fn resolve_trusted_directory(
    dir: &Path,
    may_be_shared: bool,
) -> Result<PathBuf, ProgramProblem> {
    let dir = fs::canonicalize(dir).map_err(ProgramProblem::NotFound)?;
    let top = fs::metadata("/").map_err(ProgramProblem::NotFound)?.uid();
    let owners = [ROOT.as_raw(), Uid::effective().as_raw(), top];
    check_directories(&dir.join("any"), &owners, may_be_shared)?;
    Ok(dir)
}

/// Fails if other users can change one of these directories or those above it. Instead of a missing
/// directory, the nearest directory above it that exists is checked.
pub(crate) fn require_trusted_directories(dirs: &[PathBuf]) -> Result<(), SetupError> {
    for dir in dirs {
        let existing = dir.ancestors().find(|dir| dir.exists());
        let checked = resolve_trusted_directory(existing.unwrap_or(dir), false);
        checked.map_err(|problem| {
            let (dir, remedy) = (escape::path(dir), problem.remedy());
            SetupError::Unusable(format!(
                "cannot trust the directory {dir}: {problem}; {remedy}, or use --trust warn"
            ))
        })?;
    }
    Ok(())
}

/// Returns the first `limit` octets of a regular file. Fails if the file belongs to a user other
/// than root and this user, or if other users can write to it: they could make the daemon
/// deregister plugins, or run programs. The directories above the file are not checked. `follows`
/// permits a symbolic link.
pub(crate) fn read_trusted_file(path: &Path, limit: usize, follows: bool) -> io::Result<Vec<u8>> {
    let mut flags = OFlag::O_NONBLOCK;
    if !follows {
        flags |= OFlag::O_NOFOLLOW;
    }
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags.bits()).open(path)?;
    let found = file.metadata()?;
    let owner = found.uid();
    if !found.is_file() {
        Err(io::Error::other("it is not a regular file"))
    } else if owner != Uid::effective().as_raw() && owner != ROOT.as_raw() {
        Err(io::Error::other(format!("it belongs to user {owner}")))
    } else if is_writable_by_others(&found) {
        Err(io::Error::other("it is writable by its group or others"))
    } else {
        let mut content = Vec::new();
        file.take(limit as u64).read_to_end(&mut content)?;
        Ok(content)
    }
}

/// Returns the id of a user that is given by name or by id, or `None` if the name is unknown.
pub fn user_id(user: &str) -> Option<u32> {
    account_id(0, user)
}

/// Returns the id of a group that is given by name or by id, or `None` if the name is unknown.
pub fn group_id(group: &str) -> Option<u32> {
    account_id(1, group)
}

/// Returns the id of a user or group that is given by its name in the file with this index in
/// [`ACCOUNTS`], or by its id.
///
/// The C library's lookup would also ask other sources, unless it is linked statically, and would
/// add 6 kB of code.
fn account_id(at: usize, name: &str) -> Option<u32> {
    let preloaded = || PRELOADED.get().map(|it| it[at].clone());
    let accounts = fs::read(ACCOUNTS[at]).ok().or_else(preloaded);
    let accounts = accounts.unwrap_or_default();
    let accounts = String::from_utf8_lossy(&accounts);
    let by_name = accounts.lines().find_map(|line| {
        // group(5): "group_name:password:GID:user_list"; passwd(5): "name:password:UID:GID:..."
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        fields.nth(1).filter(|_| is_it)?.parse().ok()
    });
    by_name.or_else(|| name.parse().ok())
}

/// Reads the files of users and groups, for a process that will not be able to open them later.
#[cfg(feature = "cli")]
pub(crate) fn preload_accounts() {
    PRELOADED.get_or_init(|| ACCOUNTS.map(|file| fs::read(file).unwrap_or_default()));
}

static PRELOADED: OnceLock<[Vec<u8>; 2]> = OnceLock::new();

const ACCOUNTS: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// Checks the owner and the mode of every directory above a path, which must not contain symbolic
/// links. `may_be_shared` applies to the directories above the first one.
fn check_directories(
    path: &Path,
    owners: &[u32],
    may_be_shared: bool,
) -> Result<(), ProgramProblem> {
    for (level, dir) in path.ancestors().skip(1).enumerate() {
        let found = fs::metadata(dir).map_err(ProgramProblem::NotFound)?;
        check_owner_and_mode(dir, &found, owners, may_be_shared && level > 0)?;
    }
    Ok(())
}

/// Checks the owner and the mode of a file or directory. If `may_be_shared`, other users may add
/// names to a directory as long as they cannot remove files of others (as in /tmp).
fn check_owner_and_mode(
    path: &Path,
    found: &Metadata,
    owners: &[u32],
    may_be_shared: bool,
) -> Result<(), ProgramProblem> {
    let (uid, path) = (found.uid(), path.to_owned());
    if !owners.contains(&uid) {
        return Err(ProgramProblem::Foreign { path, uid });
    }
    let is_shared = may_be_shared && found.mode() & Mode::S_ISVTX.bits() != 0;
    if is_writable_by_others(found) && !is_shared {
        return Err(ProgramProblem::Writable(path));
    }
    Ok(())
}

/// Returns whether the group of a file or all users can write to it.
fn is_writable_by_others(found: &Metadata) -> bool {
    found.mode() & 0o022 != 0
}

impl ProgramProblem {
    /// Returns what can be done about the problem.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "name a program that exists",
            Self::NotExecutable => "name an executable file",
            Self::Foreign { .. } | Self::Writable(_) => {
                "use a path on which only root and the daemon's user can change anything"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::inside::inside;
    use crate::skip::{programs_can_be_trusted_or_skip, skip};

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns a directory, and a trustworthy program in it.
    fn program() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().canonicalize().unwrap().join("hook");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        chmod(&program, 0o755);
        (dir, program)
    }

    #[test]
    fn a_program_of_ones_own_is_trusted() {
        if !programs_can_be_trusted_or_skip() {
            return;
        }
        let (dir, program) = program();
        assert_eq!(resolve_trusted_program(&program, true).unwrap(), program);
        let link = dir.path().join("link");
        symlink("hook", &link).unwrap();
        assert_eq!(resolve_trusted_program(&link, true).unwrap(), program);
    }

    #[test]
    fn a_file_that_is_not_a_program_is_refused() {
        let (dir, program) = program();
        let missing = resolve_trusted_program(&dir.path().join("none"), true);
        assert!(matches!(missing, Err(ProgramProblem::NotFound(_))));
        chmod(&program, 0o644);
        for bad in [&*program, dir.path()] {
            let found = resolve_trusted_program(bad, true);
            assert!(matches!(found, Err(ProgramProblem::NotExecutable)));
        }
    }

    #[test]
    fn a_program_that_others_can_change_is_refused_with_what_to_do() {
        for mode in [0o775, 0o757] {
            let (dir, program) = program();
            chmod(&program, mode);
            let problem = resolve_trusted_program(&program, true).unwrap_err();
            let said = format!("{problem}; {}", problem.remedy());
            let shown = program.display();
            assert_eq!(
                said,
                format!(
                    "{shown} is writable by its group or others; use a path on which only root and \
                     the daemon's user can change anything"
                )
            );

            chmod(&program, 0o755);
            chmod(dir.path(), mode | 0o1000);
            let problem = resolve_trusted_program(&program, true).unwrap_err();
            let dir = program.parent().unwrap();
            assert!(matches!(problem, ProgramProblem::Writable(path) if path == dir));
        }
    }

    #[test]
    fn a_file_in_a_directory_of_ones_own_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(
            resolve_trusted_file(&real.join("file")).unwrap(),
            real.join("file")
        );
        let outside = tempfile::tempdir().unwrap();
        let link = outside.path().join("link");
        symlink(&real, &link).unwrap();
        assert_eq!(
            resolve_trusted_file(&link.join("file")).unwrap(),
            real.join("file")
        );
    }

    #[test]
    fn a_file_in_a_directory_that_others_can_change_is_refused() {
        for mode in [0o775, 0o757, 0o1777] {
            let dir = tempfile::tempdir().unwrap();
            chmod(dir.path(), mode);
            let real = dir.path().canonicalize().unwrap();
            let problem = resolve_trusted_file(&real.join("file")).unwrap_err();
            assert!(matches!(problem, ProgramProblem::Writable(path) if path == real));
        }
    }

    #[test]
    fn a_file_below_a_directory_that_others_can_change_is_refused() {
        for (mode, is_trusted) in [(0o777, false), (0o1777, true)] {
            let dir = tempfile::tempdir().unwrap();
            let own = dir.path().join("own");
            fs::create_dir(&own).unwrap();
            chmod(&own, 0o755);
            chmod(dir.path(), mode);
            assert_eq!(resolve_trusted_file(&own.join("file")).is_ok(), is_trusted);
        }
    }

    #[test]
    fn a_shared_directory_above_is_trusted_only_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        fs::create_dir(&own).unwrap();
        chmod(&own, 0o755);
        chmod(dir.path(), 0o1777);
        assert!(resolve_trusted_directory(&own, true).is_ok());
        let found = resolve_trusted_directory(&own, false);
        assert!(
            matches!(found, Err(ProgramProblem::Writable(_))),
            "{found:?}"
        );
        let missing = own.join("missing/one");
        let refused = require_trusted_directories(&[missing])
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("; use a path on which only root ")
                && refused.ends_with("--trust warn")
        );
    }

    #[test]
    fn a_program_of_another_user_is_refused() {
        let (_dir, program) = program();
        let nobody = 65_534;
        if std::os::unix::fs::chown(&program, Some(nobody), None).is_err() {
            // Only root can give a file away. In a user namespace, files of the real root have an
            // unknown owner.
            let module = module_path!().trim_start_matches("plugind::");
            let test = format!("{module}::a_program_of_another_user_is_refused");
            return inside(&test, "true", || {
                let shell = Path::new("/bin/sh").canonicalize().unwrap();
                if fs::metadata(&shell).unwrap().uid() == ROOT.as_raw() {
                    return skip("root cannot give files away in this user namespace");
                }
                let problem = resolve_trusted_program(&shell, true).unwrap_err();
                assert!(matches!(problem, ProgramProblem::Foreign { path, .. } if path == shell));
            });
        }
        let problem = resolve_trusted_program(&program, true).unwrap_err();
        assert!(matches!(problem, ProgramProblem::Foreign { uid, .. } if uid == nobody));
    }
}
