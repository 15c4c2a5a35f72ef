//! A plugins directory: whether it exists, can be read, and answers; which users can change it.

use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;
use nix::unistd::{AccessFlags, access};

use super::finding::{Findings, Level, MAX_SHOWN};
use crate::daemon::fs::mounts::Mounts;
use crate::daemon::fs::open_path::{OpenError, open_path};
use crate::daemon::fs::permissions::{self, ProgramProblem};
use crate::daemon::fs::scan;
use crate::daemon::fs::stat::Stat;
use crate::watch::Problem;

/// A plugins directory.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// The device and the inode, if it is a directory on a file system that answers. Only then may
    /// its path be used.
    pub(super) id: Option<(u64, u64)>,
    /// The reason why it cannot be used.
    problem: Option<Problem>,
}

impl Place {
    /// Returns whether two paths lead to one directory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.dir == other.dir || self.id.is_some() && self.id == other.id
    }
}

/// Looks at a directory without following its path to a file system that may not answer.
pub(super) fn look(dir: &Path, mounts: &Mounts) -> Place {
    let held = open_path(dir, OFlag::empty(), mounts);
    let (id, problem) = match held.and_then(|held| Ok(Stat::of(&held)?)) {
        Ok(found) if found.file_type == SFlag::S_IFDIR => {
            (Some((found.identity.device, found.identity.inode)), None)
        }
        Ok(_) => (None, Some(Problem::NotADirectory)),
        Err(error) => (None, Some(why_not(dir, &error, mounts))),
    };
    Place {
        dir: dir.to_owned(),
        id,
        problem,
    }
}

/// Returns the problem with a directory that cannot be opened. A missing one is
/// [`Problem::NotCreated`] if this user cannot create it.
fn why_not(dir: &Path, error: &OpenError, mounts: &Mounts) -> Problem {
    let problem = scan::cannot_open(error);
    let mut above = dir.ancestors().skip(1);
    let existing = above.find(|it| open_path(it, OFlag::empty(), mounts).is_ok());
    match existing.map(|it| access(it, AccessFlags::W_OK | AccessFlags::X_OK)) {
        Some(Err(errno)) if matches!(problem, Problem::Missing) => {
            Problem::NotCreated(scan::cause(&errno.into()))
        }
        _ => problem,
    }
}

/// Judges a directory. `mounts` knows those that can be used as roots.
pub(super) fn judge(place: &Place, mounts: &Mounts, found: &mut Findings) {
    let dir = &*place.dir;
    if let Some(problem) = &place.problem {
        return judge_unusable(dir, problem, found);
    }
    let facts = Usable {
        others: permissions::trusted_file(&dir.join("any")).err(),
        unreported: mounts.unreported(dir),
        has_birth_times: Stat::follow(dir).is_ok_and(|found| found.has_birth_time),
    };
    judge_usable(dir, facts, found);
}

fn judge_unusable(dir: &Path, problem: &Problem, found: &mut Findings) {
    let (level, remedy) = match problem {
        Problem::Missing => {
            let message = "does not exist; the daemon creates it";
            return found.add(Level::Note, CHECK, &[dir], &message, &"");
        }
        Problem::MayNotAnswer(_) => (Level::Warning, "name a directory on a local file system"),
        _ => (Level::Problem, problem.remedy()),
    };
    found.add(level, CHECK, &[dir], problem, &remedy);
}

/// The facts about a directory that can be used.
struct Usable {
    /// The reason why users other than root and this one can change what is in it.
    others: Option<ProgramProblem>,
    /// The type of its file system, if that does not report all changes.
    unreported: Option<String>,
    has_birth_times: bool,
}

fn judge_usable(dir: &Path, facts: Usable, found: &mut Findings) {
    let before = found.0.len();
    if let Some(problem) = facts.others {
        let message = format!("other users can put sockets here: {problem}");
        found.add(Level::Warning, CHECK, &[dir], &message, &problem.remedy());
    }
    if let Some(file_system) = facts.unreported {
        let problem = Problem::NotReported(file_system);
        found.add(Level::Warning, CHECK, &[dir], &problem, &problem.remedy());
    }
    if !facts.has_birth_times {
        let message = "birth times are missing (statx: Linux 4.11, on tmpfs 5.18), so sockets \
                       are identified by inode and modification time";
        found.add(Level::Note, CHECK, &[dir], &message, &"");
    }
    if found.0.len() == before {
        found.add(Level::Ok, CHECK, &[dir], &"can be used", &"");
    }
}

/// Judges the directories in a tree that were not read, or not to the end.
pub(super) fn judge_unread(
    root: &Path,
    unread: &[(PathBuf, Option<Problem>)],
    found: &mut Findings,
) {
    for (dir, problem) in unread.iter().take(MAX_SHOWN) {
        let problem = problem.as_ref().unwrap_or(&Problem::TooManyNames);
        let level = match problem {
            Problem::NotRead(_) if dir == root => Level::Problem,
            _ => Level::Warning,
        };
        found.add(level, CHECK, &[dir], problem, &problem.remedy());
    }
}

const CHECK: &str = "directory";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Cause;

    #[test]
    fn a_directory_that_cannot_be_used_is_a_problem_unless_it_is_only_missing_or_remote() {
        let mut found = Findings::default();
        for (problem, expected) in [
            (
                Problem::Missing,
                "note /r: does not exist; the daemon creates it; ",
            ),
            (
                Problem::MayNotAnswer("fuse.x".to_owned()),
                "warning /r: its file system may not answer, so it is not read: \
                 file_system=fuse.x; name a directory on a local file system",
            ),
            (
                Problem::NotADirectory,
                "problem /r: it is not a directory; remove the file, or name another directory",
            ),
            (
                Problem::NotCreated(Cause::Denied),
                "problem /r: it cannot be created: permission denied; \
                 run as a user that may read and write it, usually root",
            ),
        ] {
            judge_unusable(Path::new("/r"), &problem, &mut found);
            assert_eq!(found.take_lines(), [expected]);
        }
    }

    #[test]
    fn a_directory_that_can_be_used_is_fine_unless_others_change_it_or_changes_are_not_reported() {
        let judge = |others, unreported, has_birth_times| {
            let facts = Usable {
                others,
                unreported,
                has_birth_times,
            };
            let mut found = Findings::default();
            judge_usable(Path::new("/r"), facts, &mut found);
            found.take_lines()
        };
        assert_eq!(judge(None, None, true), ["ok /r: can be used; "]);
        let writable = Some(ProgramProblem::Writable("/r".into()));
        assert_eq!(
            judge(writable, Some("proc".to_owned()), true),
            [
                "warning /r: other users can put sockets here: /r is writable by its group or \
                 others; run chmod go-w /r",
                "warning /r: its file system does not report all changes, so it is scanned every \
                 1s: file_system=proc; name a directory on a local file system, or accept the \
                 delay"
            ]
        );
        assert_eq!(
            judge(None, None, false),
            [
                "note /r: birth times are missing (statx: Linux 4.11, on tmpfs 5.18), so \
                 sockets are identified by inode and modification time; "
            ]
        );
    }

    #[test]
    fn what_was_not_read_is_a_problem_in_the_root_and_a_warning_below_it() {
        let denied = || Some(Problem::NotRead(Cause::Denied));
        let mut unread = vec![
            ("/r".into(), denied()),
            ("/r/a".into(), denied()),
            ("/r/b".into(), None),
        ];
        let mut found = Findings::default();
        judge_unread(Path::new("/r"), &unread, &mut found);
        let lines = found.take_lines();
        assert!(lines[0].starts_with("problem /r: it cannot be read: permission denied; "));
        assert!(lines[1].starts_with("warning /r/a: it cannot be read: permission denied; "));
        assert!(lines[2].starts_with("warning /r/b: it contains more than 16384 names; "));
        unread.resize(1000, ("/r/c".into(), None));
        judge_unread(Path::new("/r"), &unread, &mut found);
        assert_eq!(found.0.len(), MAX_SHOWN);
    }
}
