//! The sockets in a plugins directory: whether they have a listener to which this user may connect,
//! and which other users may.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::finding::{Findings, Level};
use crate::daemon::fs::dial;
use crate::daemon::fs::mounts::Mounts;
use crate::daemon::fs::open_path::open_path;
use crate::handler::DialError;

/// A socket, as this user sees it.
#[derive(Debug)]
struct Seen {
    path: PathBuf,
    /// The owner and the mode, if they can be read.
    owner: Option<(u32, u32)>,
    /// The error of a connection, if it failed.
    error: Option<DialError>,
}

/// Looks at sockets: connects to each as a daemon does, and closes the connection. What is not a
/// socket any more is left out.
fn look(paths: &[PathBuf], mounts: &Mounts) -> Vec<Seen> {
    let mut seen = Vec::new();
    for path in paths {
        let found = open_path(path, OFlag::empty(), mounts).ok();
        let found = found.and_then(|held| held.metadata().ok());
        let error = dial::dial_foreign(path, None, mounts).err();
        if !matches!(error, Some(DialError::Gone | DialError::NotASocket)) {
            seen.push(Seen {
                path: path.clone(),
                owner: found.map(|it| (it.uid(), it.mode())),
                error,
            });
        }
    }
    seen
}

/// Judges the sockets in a directory, for this user.
pub(super) fn judge(
    dir: &Path,
    paths: &[PathBuf],
    mounts: &Mounts,
    user: u32,
    found: &mut Findings,
) {
    judge_seen(dir, &look(paths, mounts), user, found);
}

fn judge_seen(dir: &Path, seen: &[Seen], user: u32, found: &mut Findings) {
    for kind in &KINDS {
        let mut paths: Vec<&Path> = Vec::new();
        for socket in seen.iter().filter(|it| (kind.has)(it, user)) {
            paths.push(&socket.path);
        }
        if !paths.is_empty() {
            found.add(kind.level, CHECK, &paths, &kind.what, &kind.remedy);
        }
    }
    if seen.is_empty() {
        found.add(Level::Note, CHECK, &[dir], &"contains no sockets", &"");
    }
}

/// What sockets can have in common.
struct Kind {
    level: Level,
    what: &'static str,
    remedy: &'static str,
    /// Returns whether a socket has that, for this user.
    has: fn(&Seen, u32) -> bool,
}

const KINDS: [Kind; 7] = [
    Kind {
        level: Level::Problem,
        what: "this user may not connect",
        remedy: "run as root, or as a user that may write to the socket",
        has: |it, _| matches!(it.error, Some(DialError::Denied)),
    },
    Kind {
        level: Level::Warning,
        what: "nothing listens",
        remedy: "start the plugin, or remove the socket",
        has: |it, _| matches!(it.error, Some(DialError::Refused)),
    },
    Kind {
        level: Level::Warning,
        what: "the plugin does not accept connections",
        remedy: "restart the plugin",
        has: |it, _| matches!(it.error, Some(DialError::Busy)),
    },
    Kind {
        level: Level::Warning,
        what: "no connection can be made",
        remedy: "run plugind probe for the reason",
        has: |it, _| {
            use DialError::{Busy, Denied, Refused};
            !matches!(it.error, None | Some(Denied | Refused | Busy))
        },
    },
    Kind {
        level: Level::Note,
        what: "belongs to a user other than root and this one",
        remedy: "",
        has: |it, user| it.owner.is_some_and(|(uid, _)| uid != 0 && uid != user),
    },
    Kind {
        level: Level::Note,
        what: "every user that can search the directory may connect",
        remedy: "",
        has: |it, _| {
            it.owner
                .is_some_and(|(_, mode)| mode & WRITABLE_BY_ALL != 0)
        },
    },
    Kind {
        level: Level::Ok,
        what: "accepts connections",
        remedy: "",
        has: |it, _| it.error.is_none(),
    },
];

/// The mode bit that lets all users connect: unix(7), "connecting to the socket object requires
/// write permission".
const WRITABLE_BY_ALL: u32 = 0o002;

const CHECK: &str = "sockets";

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(error: Option<DialError>, uid: u32, mode: u32) -> Seen {
        Seen {
            path: "/r/a".into(),
            owner: Some((uid, 0o140_000 | mode)),
            error,
        }
    }

    /// Returns the findings about one socket, for user 7.
    fn judged(seen: Seen) -> Vec<String> {
        let mut found = Findings::default();
        judge_seen(Path::new("/r"), &[seen], 7, &mut found);
        found.take_lines()
    }

    #[test]
    fn a_socket_is_judged_by_its_answer() {
        for (error, expected) in [
            (None, "ok /r/a: accepts connections; "),
            (
                Some(DialError::Denied),
                "problem /r/a: this user may not connect; \
                 run as root, or as a user that may write to the socket",
            ),
            (
                Some(DialError::Refused),
                "warning /r/a: nothing listens; start the plugin, or remove the socket",
            ),
            (
                Some(DialError::Busy),
                "warning /r/a: the plugin does not accept connections; restart the plugin",
            ),
            (
                Some(DialError::TimedOut),
                "warning /r/a: no connection can be made; run plugind probe for the reason",
            ),
        ] {
            assert_eq!(judged(seen(error, 0, 0o700)), [expected]);
        }
    }

    #[test]
    fn a_socket_that_other_users_own_or_may_use_is_noted() {
        let of_others = "note /r/a: belongs to a user other than root and this one; ";
        let for_all = "note /r/a: every user that can search the directory may connect; ";
        let fine = "ok /r/a: accepts connections; ";
        for (uid, mode, expected) in [
            (0, 0o775, &[fine][..]),
            (7, 0o700, &[fine]),
            (8, 0o700, &[of_others, fine]),
            (0, 0o777, &[for_all, fine]),
            (8, 0o702, &[of_others, for_all, fine]),
        ] {
            assert_eq!(judged(seen(None, uid, mode)), expected);
        }
    }

    #[test]
    fn many_sockets_are_counted_and_some_of_them_named() {
        let refused = || seen(Some(DialError::Refused), 0, 0o700);
        let all: Vec<Seen> = std::iter::repeat_with(refused).take(100).collect();
        let mut found = Findings::default();
        judge_seen(Path::new("/r"), &all, 0, &mut found);
        assert_eq!((found.0.len(), found.0[0].count), (1, 100));
        assert_eq!(found.0[0].paths.len(), 8);
        found.take_lines();
        judge_seen(Path::new("/r"), &[], 0, &mut found);
        assert_eq!(found.take_lines(), ["note /r: contains no sockets; "]);
    }
}
