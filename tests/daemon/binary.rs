//! The built binary, from a user's point of view.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use plugind::config;
use plugind::proto::pluginregistration::registration;

use crate::support::binary::binary;
use crate::support::bind::bind;
use crate::support::daemon::Daemon;
use crate::support::pipe::pipe;
use crate::support::plugin::{Flaw, Plugin};
use crate::support::process::{Process, Ran};
use crate::support::simulated::Simulated;
use crate::support::skip::programs_can_be_trusted_or_skip;
use crate::support::timed::assert_faster;
use crate::support::until::until;
use crate::support::without::{Without, lacks};

older_kernels! {
    without_so_peerpidfd: PeerPidfd [];
    without_birth_times: BirthTimes [];
    without_openat2: Openat2 [];
    without_pidfd_open: PidfdOpen [
        "a_root_directory_is_kubelets_and_a_type_may_have_a_program": "programs need pidfd_open",
        "a_program_that_others_can_change_is_one_line_and_status_78": "programs need pidfd_open",
    ];
    without_statx: Statx [];
    where_a_filter_denies_what_it_does_not_know: Denied [
        "a_root_directory_is_kubelets_and_a_type_may_have_a_program": "programs need pidfd_open",
        "a_program_that_others_can_change_is_one_line_and_status_78": "programs need pidfd_open",
    ];
    without_inotify: Inotify [];
    without_proc: Proc [
        "a_state_file_that_cannot_be_used_is_one_line":
            "the state file is not used without a boot ID",
        "what_was_not_undone_is_a_warning": "the state file is not used without a boot ID",
    ];
}

/// Runs the binary to its end.
fn run(arguments: &[&str]) -> Ran {
    Process::run(Process::command().args(arguments))
}

/// Runs a daemon that cannot start with these options: it has this exit code, and prints one line,
/// which is returned, behind the one that names the program and its version.
#[track_caller]
fn refused(options: &[&str], code: i32) -> String {
    let ran = run(&[&["run"], options].concat());
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let (first, error) = ran.err.split_once('\n').unwrap();
    let version = concat!(
        " INFO  plugind ",
        env!("CARGO_PKG_VERSION"),
        " starting pid="
    );
    assert!(first.contains(version), "{first}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("plugind: "), "{error}");
    error.to_owned()
}

#[test]
fn a_plugin_is_registered_and_deregistered() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let dir = tempfile::tempdir().unwrap();
        let registry = dir.path().join("created/by/the/daemon");
        let mut daemon = Daemon::start(&registry);

        let socket = registry.join("reg.sock");
        let plugin = Plugin::serve(&socket, "sample");
        let line = daemon.until_logged(": registered CSIPlugin sample");
        assert!(line.contains(socket.to_str().unwrap()), "{line}");
        assert!(plugin.until_notified().plugin_registered);
        plugin.stop();
        daemon.until_logged(": deregistered CSIPlugin sample");

        let (status, took) = daemon.end_with(signal);
        assert!(status.success(), "{status}");
        assert_faster(took, Duration::from_secs(1));
        assert_eq!(fs::read_dir(&registry).unwrap().count(), 0);
    }
}

#[test]
fn a_state_file_that_cannot_be_used_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let registry = format!("--plugins-dir={}", dir.join("registry").display());
    let [own, shared] = ["own", "shared"].map(|name| dir.join(name));
    for place in [&own, &shared] {
        fs::create_dir(place).unwrap();
    }
    let refused = |file: &Path| {
        let option = format!("--state-file={}", file.display());
        refused(&[&registry, &option], 1)
    };
    let error = refused(&own);
    let start = format!("plugind: cannot write the state file {}: ", own.display());
    assert!(error.starts_with(&start), "{error}");
    for mode in [0o777, 0o1777] {
        fs::set_permissions(&shared, Permissions::from_mode(mode)).unwrap();
        let file = shared.join("state");
        let expected = format!(
            "plugind: cannot use the state file {}: {} is writable by its group or others; name a \
             file in a directory that only root and the daemon's user can change\n",
            file.display(),
            shared.display()
        );
        assert_eq!(refused(&file), expected);
    }
    let left: Vec<_> = fs::read_dir(dir).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing is left beside them: {left:?}");
}

#[test]
fn the_log_of_every_step_names_calls_and_sockets() {
    let dir = tempfile::tempdir().unwrap();
    File::create(dir.path().join("file")).unwrap();
    let _hidden = bind(&dir.path().join(".hidden.sock"));
    let mut daemon = Daemon::start_with(dir.path(), &["-v"]);
    let ignored = daemon.seen_with("ignored: ");
    for (name, why) in [
        ("file", "not a socket"),
        (".hidden.sock", "begins with a dot"),
    ] {
        let is_it = |line: &&String| line.contains(name) && line.contains(why);
        assert!(ignored.iter().any(|line| is_it(&line)), "{ignored:?}");
    }
    let socket = dir.path().join("reg.sock");
    let first = Plugin::serve(&socket, "first");
    for step in [
        "reg.sock: found a socket",
        "reg.sock: attempt 1: connecting",
        "reg.sock: attempt 1: calling GetInfo",
        "reg.sock: attempt 1: identified the plugin as CSIPlugin first endpoint=",
        "reg.sock: attempt 1: asking the handler to validate CSIPlugin first",
        "reg.sock: attempt 1: asking the handler to register CSIPlugin first",
        "reg.sock: attempt 1: calling NotifyRegistrationStatus plugin_registered=true",
        "reg.sock: attempt 1: registered CSIPlugin first",
    ] {
        daemon.until_logged(step);
    }
    let other = dir.path().join(".other.sock");
    let second = Plugin::serve(&other, "second");
    fs::rename(&other, &socket).unwrap();
    daemon.until_logged("reg.sock: the socket was replaced");
    daemon.until_logged("reg.sock: asking the handler to deregister CSIPlugin first");
    daemon.until_logged("reg.sock: attempt 1: registered CSIPlugin second");
    assert!(first.until_notified().plugin_registered && second.until_notified().plugin_registered);
}

#[test]
fn the_first_line_names_version_process_and_options() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    File::create(&file).unwrap();
    let ran = run(&["run", "--plugins-dir", file.to_str().unwrap(), "--type=Y"]);
    let first = ran.err.lines().next().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let words = format!("INFO  plugind {version} starting pid=");
    let options = " types=Y unknown-types=reject on-down=keep memory-budget=16Mi";
    assert!(
        first.contains(&words) && first.ends_with(options),
        "{first}"
    );
}

#[test]
fn a_plugin_that_stops_is_not_said_to_have_lost_its_socket() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(dir.path());
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "sample", &[]);
    daemon.until_logged(": registered CSIPlugin sample");
    plugin.end_saying("received SIGTERM, stopped");
    let lines = daemon.lines_until(": deregistered CSIPlugin sample");
    // Without inotify, the end of the process is noticed before the removal of its socket.
    let is_down = |line: &&String| lacks(Without::Inotify) && line.contains(" is down: ");
    let others = lines.iter().filter(|line| !is_down(line)).count();
    assert_eq!(others, 1, "nothing else is logged: {lines:?}");
    assert!(daemon.is_silent_for(BUSY));
}

#[test]
fn what_was_not_undone_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir().unwrap();
    let file = format!("--state-file={}", memory.path().join("state").display());
    let start = |kind: &str| Daemon::start_with(dir.path(), &[&file, &format!("--type={kind}")]);
    let mut daemon = start("Toaster");
    let plugin = Plugin::serve_type(&dir.path().join("reg.sock"), "Toaster", "sample");
    daemon.until_logged(": registered Toaster sample");
    assert!(plugin.until_notified().plugin_registered);
    let mut warned = daemon.seen_with(" WARN ");
    warned.retain(|line| !(lacks(Without::Inotify) && line.contains(" it cannot be watched ")));
    assert!(warned.is_empty(), "at the first start: {warned:?}");
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
    plugin.stop();
    let daemon = start("CSIPlugin");
    let [line] = &daemon.seen_with("deregistered Toaster sample, but")[..] else {
        panic!("{:?}", daemon.seen_with(""));
    };
    let why = "no handler is registered for its type";
    for words in [" WARN ", "did not clean up", why] {
        assert!(line.contains(words), "{line}");
    }
}

/// Asserts that the daemon ends successfully, within the grace period for running operations.
#[track_caller]
fn assert_ends_in_time(daemon: Daemon) {
    let (status, took) = daemon.end_with(Signal::SIGTERM);
    assert!(status.success(), "{status}");
    assert_faster(took, config::STOP_GRACE + BUSY);
}

#[test]
fn a_signal_ends_the_daemon_while_a_plugin_is_asked() {
    for method in [
        registration::GET_INFO,
        registration::NOTIFY_REGISTRATION_STATUS,
    ] {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(dir.path());
        let flaw = Flaw::Ignores(method);
        let plugin = Plugin::serve_flawed(&dir.path().join("reg.sock"), "silent", flaw);
        plugin.until_asked(method);
        assert_ends_in_time(daemon);
    }
}

#[test]
fn a_directory_that_goes_later_is_reported_and_tried_again() {
    if !crate::support::watches::are_enough_or_skip() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let registry = dir.path().join("registry");
    let mut daemon = Daemon::start(&registry);
    fs::remove_dir(&registry).unwrap();
    if lacks(Without::Inotify) {
        // It was not watched before.
        return until("the directory", || registry.is_dir().then_some(()));
    }
    let line = daemon.until_logged("it does not exist");
    assert!(line.contains(registry.to_str().unwrap()), "{line}");
    daemon.until_logged("directory is being watched again");
    assert!(registry.is_dir());
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn a_directory_that_cannot_be_used_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    File::create(&file).unwrap();
    let run_dir = dir.path().join("run");
    let run_dir = run_dir.to_str().unwrap();
    for bad in [file.clone(), file.join("below")] {
        let bad = bad.to_str().unwrap();
        // Daemons of other tests use the default run directory, which another line would report.
        let error = refused(&["--plugins-dir", bad, "--run-dir", run_dir], 1);
        assert!(error.contains(bad), "{error}");
    }
}

#[test]
fn a_root_directory_is_kubelets_and_a_type_may_have_a_program() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut command = Process::command();
    command.args(["run", "--exec=Toaster=/bin/false", "--root-dir"]);
    let mut daemon = Daemon::start_command(command.arg(root.path()));
    let socket = root.path().join("plugins_registry/reg.sock");
    let plugin = Plugin::serve_type(&socket, "Toaster", "sample");
    let notified = plugin.until_notified();
    assert!(!notified.plugin_registered);
    assert!(
        notified.error.ends_with(": exited with status 1"),
        "{notified:?}"
    );
    daemon.until_logged("registration failed");
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn a_second_daemon_on_one_directory_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let registry = dir.path().to_str().unwrap();
    let first = Daemon::start(dir.path());
    let error = refused(&["--plugins-dir", registry], 1);
    let is_told = error.contains(registry) && error.contains("another plugind uses it");
    assert!(is_told, "{error}");
    assert!(first.end_with(Signal::SIGKILL).0.code().is_none());
    let third = Daemon::start(dir.path());
    assert!(third.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn a_program_that_others_can_change_is_one_line_and_status_78() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("hook");
    fs::copy("/bin/false", &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o777)).unwrap();
    let exec = format!("--exec=Toaster={}", program.display());
    let ran = run(&["run", "--plugins-dir", dir.path().to_str().unwrap(), &exec]);
    assert_eq!(ran.code, Some(78));
    let said = ran.err;
    assert_eq!(said.lines().count(), 1, "{said}");
    let remedy = "is writable by its group or others; use a path on which only root and the \
                  daemon's user can change anything\n";
    assert!(
        said.starts_with("plugind: cannot use the program ") && said.ends_with(remedy),
        "{said}"
    );
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    for (line, expected) in [
        ("jump", "unknown command \"jump\"; see plugind --help"),
        ("run --observ", "--observ (did you mean --observe?)"),
        ("probe /a -o yaml", "expected text or json"),
        ("doctor --fix", "unknown option --fix; see plugind doctor"),
    ] {
        let ran = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{line}");
        let said = ran.err;
        assert_eq!(said.lines().count(), 1, "{said}");
        let is_usage = said.starts_with("plugind: ") && said.ends_with("--help\n");
        assert!(is_usage && said.contains(expected), "{said}");
    }
}

#[test]
fn wrong_usage_is_status_2_although_nobody_can_read_why() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(binary());
    let status = command.arg("jump").stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn doctor_and_probe_fail_if_the_output_is_full_not_if_closed() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_str().unwrap();
    for line in [
        &["doctor", "--plugins-dir", dir][..],
        &["probe", dir],
        &["probe", dir, "--output=json"],
    ] {
        let run = |output: File| Process::run(Process::command().args(line).stdout(output));
        let ran = run(File::options().write(true).open("/dev/full").unwrap());
        ran.assert_fails(1, "plugind: cannot write to standard output: No space left");
        let (reader, writer) = pipe();
        drop(reader);
        let said = run(writer).err; // Without inotify, `probe` says that it scans instead.
        assert!(!said.contains("cannot write"), "{line:?}: {said}");
    }
}

#[test]
fn help_and_version_are_printed_and_succeed() {
    let version = concat!("plugind ", env!("CARGO_PKG_VERSION"), "\n");
    for (line, begin) in [
        (&["--help"][..], "Manage the plugins of a Kubernetes node"),
        (&["help", "probe"], ""),
        (&["run", "--version"], version),
        (&["version", "-o", "json"], "{\"commit\":\""),
    ] {
        let ran = run(line);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{line:?}");
        assert!(ran.out.starts_with(begin) && !ran.out.is_empty(), "{ran:?}");
    }
}

/// The time that anything may take beyond its limit, on a busy machine.
const BUSY: Duration = Duration::from_secs(1);
