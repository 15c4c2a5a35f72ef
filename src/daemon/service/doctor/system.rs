//! What the system provides: `/proc`, kernel features, inotify and descriptors.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use mio::{Registry, Token};
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, openat2};
use nix::sys::socket::{getsockopt, sockopt};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::finding::{Findings, Level};
use crate::config::DESCRIPTOR_RESERVE;
use crate::daemon::fs::inotify::Inotify;
use crate::daemon::process::descriptors;
use crate::watch::{Cause, Place, Problem};

/// Examines the system, for a daemon that needs that many watches and has that many sockets. `dir`
/// is a directory that can be watched on trial.
pub(super) fn examine(
    dir: &Path,
    watches: usize,
    sockets: usize,
    registry: Registry,
    found: &mut Findings,
) {
    let has_proc = fs::metadata("/proc/self/mountinfo").is_ok();
    judge_kernel(has_proc, FEATURES.map(|feature| (feature.has)()), found);
    let trial = Inotify::new(registry, Token(0)).watch(dir, Place::Root);
    let limits = [limit("max_user_watches"), limit("max_user_instances")];
    judge_inotify(dir, trial.err().as_ref(), watches, limits, found);
    judge_descriptors(descriptors::hard_limit(), sockets, found);
}

/// Reads a limit of inotify. Without `/proc`, none is known.
fn limit(name: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}"));
    let limit = text.ok().and_then(|text| text.trim().parse().ok());
    limit.unwrap_or(usize::MAX)
}

/// A feature of the kernel, without which a daemon works less well.
struct Feature {
    level: Level,
    without: &'static str,
    remedy: &'static str,
    /// Tries it.
    has: fn() -> bool,
}

/// The features in the table of [`operator`](crate::guide::operator), except birth times, which the
/// file system of a directory has or lacks. Each is tried, because a version does not show what was
/// ported back, or is denied by a filter of system calls.
const FEATURES: [Feature; 3] = [
    Feature {
        level: Level::Warning,
        without: "pidfd_open (Linux 5.3) is missing: plugind run does not start with --exec",
        remedy: "use a later kernel, or allow the system call",
        has: || pidfd_open(getpid(), PidfdFlags::empty()).is_ok(),
    },
    Feature {
        level: Level::Note,
        without: "SO_PEERPIDFD (Linux 6.5) is missing: connections to plugins stay open",
        remedy: "",
        has: || {
            let pair = UnixStream::pair();
            pair.is_ok_and(|(one, _)| getsockopt(&one, sockopt::PeerPidfd).is_ok())
        },
    },
    Feature {
        level: Level::Note,
        without: "openat2 (Linux 5.6) is missing: beside a mount that may not answer, symbolic links \
                  are not followed",
        remedy: "",
        has: || openat2(AT_FDCWD, "/", OpenHow::new().flags(OFlag::O_PATH)).is_ok(),
    },
];

/// Judges the kernel by which of [`FEATURES`] it has, and by `/proc`.
fn judge_kernel(has_proc: bool, has: [bool; FEATURES.len()], found: &mut Findings) {
    let before = found.0.len();
    if !has_proc {
        let message = "/proc is not mounted: mounts and kubelets are not known, and sockets with \
                       long paths cannot be dialed";
        found.add(Level::Warning, KERNEL, &[], &message, &"mount /proc");
    }
    for (feature, _) in FEATURES.iter().zip(has).filter(|(_, has)| !has) {
        let Feature {
            without, remedy, ..
        } = feature;
        found.add(feature.level, KERNEL, &[], without, remedy);
    }
    if found.0.len() == before {
        found.add(Level::Ok, KERNEL, &[], &"has every feature in use", &"");
    }
}

/// Judges inotify, given the problem with a watch that was added on trial, the number of watches
/// that a daemon needs, and the limits on watches and instances.
fn judge_inotify(
    dir: &Path,
    trial: Option<&Problem>,
    needed: usize,
    [watches, instances]: [usize; 2],
    found: &mut Findings,
) {
    if let Some(problem) = trial {
        return found.add(Level::Warning, INOTIFY, &[dir], problem, &problem.remedy());
    }
    let (level, remedy) = if watches < needed {
        let problem = Problem::NotWatched(Cause::WatchesUsedUp);
        (Level::Warning, problem.remedy())
    } else {
        (Level::Ok, "")
    };
    let limits = if watches == usize::MAX {
        "the limits are not known without /proc".to_owned()
    } else {
        format!("max_user_instances={instances} max_user_watches={watches}")
    };
    let message = format!("a daemon needs an instance and {needed} watches: {limits}");
    found.add(level, INOTIFY, &[], &message, &remedy);
}

/// Judges the hard limit of descriptors, to which a daemon raises its limit.
fn judge_descriptors(limit: usize, sockets: usize, found: &mut Findings) {
    let needed = DESCRIPTOR_RESERVE + sockets.max(LEAST_SOCKETS) * PER_SOCKET;
    let (level, remedy) = if limit < needed {
        let problem = Problem::NotWatched(Cause::DescriptorsUsedUp);
        (Level::Warning, problem.remedy())
    } else {
        (Level::Ok, "")
    };
    let message = format!("a daemon may need {needed}: hard_limit={limit}");
    found.add(level, "descriptors", &[], &message, &remedy);
}

/// The descriptors of a plugin: one while it registers, of which at most half may be in use, or its
/// process and the streams to it.
const PER_SOCKET: usize = 4;

/// The least number of sockets for which there should be descriptors: a node with some plugins.
const LEAST_SOCKETS: usize = 16;

const KERNEL: &str = "kernel";

const INOTIFY: &str = "inotify";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_is_missing_is_named_with_what_is_lost() {
        let judge = |has_proc, has| {
            let mut found = Findings::default();
            judge_kernel(has_proc, has, &mut found);
            found.take_lines()
        };
        assert_eq!(judge(true, [true; 3]), ["ok : has every feature in use; "]);
        assert_eq!(
            judge(false, [false, true, false]),
            [
                "warning : /proc is not mounted: mounts and kubelets are not known, and sockets \
                 with long paths cannot be dialed; mount /proc",
                "warning : pidfd_open (Linux 5.3) is missing: plugind run does not start with \
                 --exec; use a later kernel, or allow the system call",
                "note : openat2 (Linux 5.6) is missing: beside a mount that may not answer, \
                 symbolic links are not followed; "
            ]
        );
    }

    #[test]
    fn inotify_is_judged_by_a_trial_and_by_what_a_daemon_needs() {
        let judge = |trial, watches| {
            let mut found = Findings::default();
            judge_inotify(Path::new("/r"), trial, 5, [watches, 128], &mut found);
            found.take_lines()
        };
        let facts = "a daemon needs an instance and 5 watches: max_user_instances=128";
        let enough = format!("ok : {facts} max_user_watches=5; ");
        assert_eq!(judge(None, 5), [enough]);
        let raise = "raise the sysctl fs.inotify.max_user_watches";
        let few = format!("warning : {facts} max_user_watches=4; {raise}");
        assert_eq!(judge(None, 4), [few]);
        let used_up = Problem::NotWatched(Cause::InstancesUsedUp);
        assert_eq!(
            judge(Some(&used_up), 9),
            [
                "warning /r: it cannot be watched and is scanned every 1s: no inotify instances \
                 are left; raise the sysctl fs.inotify.max_user_instances"
            ]
        );
    }

    #[test]
    fn descriptors_are_enough_for_the_sockets_or_the_limit_is_to_be_raised() {
        let mut found = Findings::default();
        let raise = "raise the limit of open files (ulimit -n, LimitNOFILE=)";
        for (limit, sockets, needed) in [
            (112, 0, 112),
            (111, 0, 112),
            (1024, 244, 1024),
            (1024, 245, 1028),
        ] {
            judge_descriptors(limit, sockets, &mut found);
            let message = format!("a daemon may need {needed}: hard_limit={limit}");
            let expected = if limit < needed {
                format!("warning : {message}; {raise}")
            } else {
                format!("ok : {message}; ")
            };
            assert_eq!(found.take_lines(), [expected]);
        }
    }
}
