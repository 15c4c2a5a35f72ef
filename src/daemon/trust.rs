//! Whether a program may be run in the daemon's name.
//!
//! Looked at once, at the start: who could change the answer later is somebody who is trusted.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Uid, access};

use crate::escape;

/// Why a program is not run.
#[derive(Debug)]
pub enum ProgramProblem {
    /// There is no such file, or it can't be looked at.
    NotFound(io::Error),
    /// It is not a file that this user may execute.
    NotExecutable,
    /// It, or a directory that it is in, belongs to somebody who is neither root nor this user.
    Foreign {
        /// What is somebody else's.
        path: PathBuf,
        /// The other user's id.
        uid: u32,
    },
    /// It, or a directory that it is in, may be changed by others.
    Writable(PathBuf),
}

/// The file behind `path`, free of links, when nobody but root and this user can put another
/// program in its place.
pub(super) fn trusted(path: &Path) -> Result<PathBuf, ProgramProblem> {
    let program = fs::canonicalize(path).map_err(ProgramProblem::NotFound)?;
    let file = fs::metadata(&program).map_err(ProgramProblem::NotFound)?;
    if !file.is_file() || access(&program, AccessFlags::X_OK).is_err() {
        return Err(ProgramProblem::NotExecutable);
    }
    check(&program, &file, false)?;
    for (level, dir) in program.ancestors().skip(1).enumerate() {
        let found = fs::metadata(dir).map_err(ProgramProblem::NotFound)?;
        check(dir, &found, level > 0)?;
    }
    Ok(program)
}

/// Above the program's own directory, others may add names as long as they can't take away what is
/// somebody else's (as in /tmp).
fn check(path: &Path, found: &Metadata, may_be_shared: bool) -> Result<(), ProgramProblem> {
    let (uid, path) = (found.uid(), path.to_owned());
    if uid != ROOT && uid != Uid::effective().as_raw() {
        return Err(ProgramProblem::Foreign { path, uid });
    }
    let is_shared = may_be_shared && found.mode() & STICKY != 0;
    if found.mode() & WRITABLE_BY_OTHERS != 0 && !is_shared {
        return Err(ProgramProblem::Writable(path));
    }
    Ok(())
}

impl ProgramProblem {
    /// What can be done about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::NotFound(_) => "name a program that is there".to_owned(),
            Self::NotExecutable => "name a file that is executable".to_owned(),
            Self::Foreign { path, .. } => format!("chown it to root: {}", escape::path(path)),
            Self::Writable(path) => format!("run chmod go-w {}", escape::path(path)),
        }
    }
}

impl fmt::Display for ProgramProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(error) => error.fmt(f),
            Self::NotExecutable => f.write_str("it is no file that this user may execute"),
            Self::Foreign { path, uid } => {
                let path = escape::path(path);
                write!(f, "{path} belongs to user {uid}, who is not trusted")
            }
            Self::Writable(path) => write!(f, "{} can be changed by others", escape::path(path)),
        }
    }
}

/// The user who may do everything anyway.
const ROOT: u32 = 0;

/// The mode bits of a file that its group or everybody may write to.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The mode bit of a directory in which everybody can only remove what is their own.
const STICKY: u32 = 0o1000;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::inside::inside;
    use crate::skip::{programs_can_be_trusted_or_skip, skip};

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A directory with a program that nothing is wrong with.
    fn program() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().canonicalize().unwrap().join("hook");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        chmod(&program, 0o755);
        (dir, program)
    }

    #[test]
    fn a_program_of_ones_own_is_trusted_and_a_link_to_it_leads_there() {
        if !programs_can_be_trusted_or_skip() {
            return;
        }
        let (dir, program) = program();
        assert_eq!(trusted(&program).unwrap(), program);
        let link = dir.path().join("link");
        symlink("hook", &link).unwrap();
        assert_eq!(trusted(&link).unwrap(), program);
    }

    #[test]
    fn what_is_no_program_is_named() {
        let (dir, program) = program();
        let missing = trusted(&dir.path().join("none"));
        assert!(matches!(missing, Err(ProgramProblem::NotFound(_))));
        chmod(&program, 0o644);
        for bad in [&*program, dir.path()] {
            let found = trusted(bad);
            assert!(matches!(found, Err(ProgramProblem::NotExecutable)));
        }
    }

    #[test]
    fn a_program_that_others_can_change_is_refused_with_what_to_do() {
        for mode in [0o775, 0o757] {
            let (dir, program) = program();
            chmod(&program, mode);
            let problem = trusted(&program).unwrap_err();
            let said = format!("{problem}; {}", problem.remedy());
            let shown = program.display();
            assert_eq!(
                said,
                format!("{shown} can be changed by others; run chmod go-w {shown}")
            );

            chmod(&program, 0o755);
            chmod(dir.path(), mode | STICKY);
            let problem = trusted(&program).unwrap_err();
            let dir = program.parent().unwrap();
            assert!(matches!(problem, ProgramProblem::Writable(path) if path == dir));
        }
    }

    #[test]
    fn a_program_of_somebody_else_is_refused() {
        let (_dir, program) = program();
        let nobody = 65_534;
        if std::os::unix::fs::chown(&program, Some(nobody), None).is_err() {
            // Only root can give a file away. In a user namespace root's files have no owner.
            let module = module_path!().trim_start_matches("plugind::");
            let test = format!("{module}::a_program_of_somebody_else_is_refused");
            return inside(&test, "true", || {
                let shell = Path::new("/bin/sh").canonicalize().unwrap();
                if fs::metadata(&shell).unwrap().uid() == ROOT {
                    return skip("root cannot give files away in this user namespace");
                }
                let problem = trusted(&shell).unwrap_err();
                assert!(matches!(problem, ProgramProblem::Foreign { path, .. } if path == shell));
            });
        }
        let problem = trusted(&program).unwrap_err();
        assert!(matches!(problem, ProgramProblem::Foreign { uid, .. } if uid == nobody));
    }
}
