//! A daemon that may run already: its run directory, its locks and the socket of its API.

use std::env;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::Options;
use super::directory::Place;
use super::finding::{Findings, Level};
use crate::daemon::fs::dial;
use crate::daemon::fs::lock;
use crate::daemon::fs::mounts::Mounts;
use crate::daemon::fs::open_path::{OpenError, open_path};
use crate::daemon::fs::run_dir::{self, RunDirProblem};
use crate::handler::DialError;

/// Examines the run directory, the locks of the plugins directories and the API socket.
pub(super) fn examine(options: &Options, named: &[Place], mounts: &Mounts, found: &mut Findings) {
    let run_dir = match usable_run_dir(options, mounts) {
        Ok(dir) => dir,
        Err((dir, problem)) => {
            let remedy = run_dir::remedy(&dir, &problem);
            return found.add(Level::Problem, RUN_DIR, &[&dir], &problem, &remedy);
        }
    };
    found.add(Level::Ok, RUN_DIR, &[&run_dir], &"can be used", &"");
    let mut is_expected = options.socket.is_some();
    for Place { dir, .. } in named.iter().filter(|it| it.id.is_some()) {
        if let Some(pid) = lock::holder_of(dir, &run_dir) {
            let message = format!(
                "another plugind uses it, a directory inside it or one above it: pid={pid}"
            );
            found.add(Level::Note, DAEMON, &[dir], &message, &"");
            is_expected = true;
        }
    }
    let usual = || run_dir::api_socket(&run_dir);
    let socket = options.socket.clone().unwrap_or_else(usual);
    let error = dial::dial_foreign(&socket, None, mounts).err();
    judge_socket(&socket, is_expected, error.as_ref(), found);
}

/// Returns the run directory, which need not exist.
fn usable_run_dir(options: &Options, mounts: &Mounts) -> Result<PathBuf, run_dir::Unusable> {
    let named = options.run_dir.clone();
    let of_user = || env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(dir) = named.or_else(of_user) {
        if let Err(error @ OpenError::MayNotAnswer(_)) = open_path(&dir, OFlag::empty(), mounts) {
            let error = std::io::Error::other(error.to_string());
            return Err((dir, RunDirProblem::Unusable(error)));
        }
    }
    let dir = run_dir::find(options.run_dir.as_deref())?;
    if dir.exists() {
        run_dir::find_private(&dir, lock::LOCKS)?;
    }
    Ok(dir)
}

/// Judges the API socket, by the error of a connection. `is_expected`: the user has named it, or a
/// daemon runs.
fn judge_socket(socket: &Path, is_expected: bool, error: Option<&DialError>, found: &mut Findings) {
    let Some(error) = error else {
        return found.add(Level::Ok, DAEMON, &[socket], &"a daemon listens", &"");
    };
    let (level, remedy) = match error {
        DialError::Gone if !is_expected => (Level::Note, ""),
        DialError::Refused => (
            Level::Warning,
            "start plugind run: it replaces the socket of a daemon that was killed",
        ),
        DialError::Denied => (
            Level::Warning,
            "run as root, as the daemon's user or in the group of the socket",
        ),
        DialError::Busy => (Level::Warning, "restart the daemon"),
        _ => (Level::Warning, "name the daemon's socket with --socket"),
    };
    found.add(level, DAEMON, &[socket], error, &remedy);
}

const RUN_DIR: &str = "run-dir";

const DAEMON: &str = "daemon";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_without_a_daemon_is_a_warning_unless_no_daemon_is_expected() {
        let mut found = Findings::default();
        for (is_expected, error, expected) in [
            (false, None, "ok /p: a daemon listens; "),
            (
                false,
                Some(DialError::Gone),
                "note /p: the socket does not exist; ",
            ),
            (
                true,
                Some(DialError::Gone),
                "warning /p: the socket does not exist; name the daemon's socket with --socket",
            ),
            (
                false,
                Some(DialError::Refused),
                "warning /p: nothing listens on the socket; \
                 start plugind run: it replaces the socket of a daemon that was killed",
            ),
            (
                false,
                Some(DialError::Denied),
                "warning /p: permission denied; \
                 run as root, as the daemon's user or in the group of the socket",
            ),
            (
                false,
                Some(DialError::Busy),
                "warning /p: the listener's backlog is full; restart the daemon",
            ),
            (
                false,
                Some(DialError::NotASocket),
                "warning /p: the file at the path is not a socket; \
                 name the daemon's socket with --socket",
            ),
        ] {
            judge_socket(Path::new("/p"), is_expected, error.as_ref(), &mut found);
            assert_eq!(found.take_lines(), [expected]);
        }
    }
}
