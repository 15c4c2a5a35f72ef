//! The tests of a suite again, on a system that lacks something that the daemon can do without.
//!
//! The test binary runs itself, behind a filter of system calls (seccomp(2)) or in a mount
//! namespace of its own. Tests that do not apply there are listed with the reason, and must fail: a
//! list that is out of date is found. Those that need a namespace may be skipped instead.

use std::mem::offset_of;
use std::process::{Command, Output};
use std::{env, fs, thread};

use nix::libc::{self, c_long, seccomp_data, sock_filter};
use tempfile::NamedTempFile;

use super::inside;
use super::seccomp::{self, ALLOW, ARCHITECTURE, argument, fail, jump_unless, load, number, start};
use super::skip::{NO_NAMESPACES, skip};

/// Something that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// The socket option `SO_PEERPIDFD` (Linux 6.5).
    PeerPidfd,
    /// Birth times, which tmpfs has since Linux 5.18 and ramfs never.
    BirthTimes,
    /// The system call openat2 (Linux 5.6).
    Openat2,
    /// The system call `pidfd_open` (Linux 5.3).
    PidfdOpen,
    /// The system call statx (Linux 4.11).
    Statx,
    /// All system calls above: a filter that is older than they denies them, with another error.
    Denied,
    /// inotify: the kernel was built without it.
    Inotify,
    /// Landlock (Linux 5.13).
    Landlock,
    /// A mounted `/proc`.
    Proc,
}

/// Defines a test for each row, which runs the suite without what the row names. Then come the
/// tests that do not apply, each with the reason.
macro_rules! older_kernels {
    ($($name:ident: $without:ident [$($test:literal: $reason:literal),* $(,)?];)+) => {
        mod older_kernels {
            use crate::support::without::{Without, again};
            $(
                #[test]
                #[ignore = "make full ONLY=older-kernels"]
                fn $name() {
                    again(module_path!(), Without::$without, &[$(($test, $reason)),*]);
                }
            )+
        }
    };
}

/// Returns whether this is a run of the suite without it.
pub(crate) fn lacks(without: Without) -> bool {
    env::var(WITHOUT).is_ok_and(|lacking| lacking == format!("{without:?}"))
}

/// Runs the other tests of this suite, which must pass, and those that do not apply, which must
/// fail unless they need a namespace and this machine does not allow that.
#[track_caller]
pub(crate) fn again(module: &str, without: Without, inapplicable: &[(&str, &str)]) {
    let path: Vec<&str> = module.split("::").collect();
    let suite = format!("{}::", path[1]);
    let named = |(test, reason): &(&str, &str)| (format!("{suite}{test}"), (*reason).to_owned());
    let inapplicable: Vec<(String, String)> = inapplicable.iter().map(named).collect();
    let mut rest = vec!["--test-threads", "16"];
    let mut inapplicable_only = [&rest[..], &["--exact"]].concat();
    rest.push(&suite);
    for (test, _) in &inapplicable {
        rest.extend(["--skip", test]);
        inapplicable_only.push(test);
    }
    let (output, _) = match run(without, &rest) {
        Ok(ran) => ran,
        Err(reason) => return skip(&reason),
    };
    let printed = printed(&output);
    assert!(
        output.status.success(),
        "without {without:?}, {}: {printed}",
        output.status
    );
    if inapplicable.is_empty() {
        return;
    }
    let ran = run(without, &inapplicable_only);
    let (output, skipped) = ran.expect("it ran a moment ago");
    let printed = self::printed(&output);
    for (test, reason) in inapplicable {
        let failed = format!("test {test} ... FAILED\n");
        let is_skipped = skipped.contains(&format!("{test}\t{NO_NAMESPACES}\n"));
        assert!(
            is_skipped || printed.contains(&failed),
            "without {without:?}, {test} does not fail although {reason}: {printed}"
        );
    }
}

/// Runs this test binary with these arguments, or returns why this machine cannot. Returns also the
/// tests that it skipped, a line each.
fn run(without: Without, arguments: &[&str]) -> Result<(Output, String), String> {
    let this = env::current_exe().unwrap();
    // Without birth times, directories are distinguished by inode, which ramfs does not reuse: with
    // another file system, tests would disturb each other.
    let mut ramfs = None;
    let mut command = match without {
        Without::Proc => namespace("mount -t tmpfs none /proc && exec \"$0\" \"$@\"")?,
        Without::BirthTimes | Without::Statx | Without::Denied => {
            let dir = ramfs.insert(tempfile::tempdir().unwrap()).path();
            let mut command = namespace("mount -t ramfs none \"$TMPDIR\" && exec \"$0\" \"$@\"")?;
            command.env("TMPDIR", dir);
            command
        }
        _ => Command::new(&this),
    };
    if command.get_program() != this {
        command.arg(&this);
    }
    // A list of its own: what this machine cannot run was counted before.
    let skipped = NamedTempFile::new().unwrap();
    command
        .args(arguments)
        .env(WITHOUT, format!("{without:?}"))
        .env("RUST_BACKTRACE", "0")
        .env("TEST_SKIPPED", skipped.path());
    let filter = filter(without);
    if ARCHITECTURE == 0 {
        return Err("system calls of this architecture are not known".to_owned());
    }
    // The filter is that of the thread, and of all that the thread starts.
    let spawned = thread::spawn(move || {
        seccomp::install(&filter)
            .map_err(|error| format!("system calls cannot be filtered: {error}"))?;
        Ok(command.output().unwrap())
    });
    let output: Result<_, String> = spawned.join().unwrap();
    Ok((output?, fs::read_to_string(skipped.path()).unwrap()))
}

/// Returns a command that runs a shell script in a user and a mount namespace.
fn namespace(script: &str) -> Result<Command, String> {
    let is_allowed = inside::run("true").then(|| inside::namespaces(script));
    is_allowed.ok_or_else(|| NO_NAMESPACES.to_owned())
}

fn printed(output: &Output) -> String {
    let printed = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&printed).into_owned()
}

/// Returns a program for the kernel that fails system calls as a kernel does that lacks them.
fn filter(without: Without) -> Vec<sock_filter> {
    let calls: &[c_long] = match without {
        Without::Openat2 => &[libc::SYS_openat2],
        Without::PidfdOpen => &[libc::SYS_pidfd_open],
        Without::Statx => &[libc::SYS_statx],
        Without::Denied => &[libc::SYS_openat2, libc::SYS_pidfd_open, libc::SYS_statx],
        Without::Inotify => &[libc::SYS_inotify_init1],
        Without::Landlock => &[libc::SYS_landlock_create_ruleset],
        Without::PeerPidfd | Without::BirthTimes | Without::Proc => &[],
    };
    let errno = match without {
        Without::Denied => libc::EPERM,
        _ => libc::ENOSYS,
    };
    let mut program = start();
    for &call in calls {
        program.push(load(offset_of!(seccomp_data, nr)));
        program.push(jump_unless(number(call), 1));
        program.push(fail(errno));
    }
    if matches!(without, Without::PeerPidfd | Without::Denied) {
        program.push(load(offset_of!(seccomp_data, nr)));
        program.push(jump_unless(number(libc::SYS_getsockopt), 3));
        program.push(load(argument(2)));
        program.push(jump_unless(number(libc::SO_PEERPIDFD.into()), 1));
        program.push(fail(libc::ENOPROTOOPT));
    }
    program.push(ALLOW);
    program
}

/// The environment variable that names what is missing in this run.
const WITHOUT: &str = "TEST_WITHOUT";
