//! The built binary, as a user meets it.

#[path = "support/binary.rs"]
mod binary;
#[path = "support/plugin.rs"]
mod plugin;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::binary::binary;
use self::plugin::Plugin;

/// A running daemon and its log.
struct Daemon {
    child: Child,
    log: Receiver<String>,
}

impl Daemon {
    /// A daemon on `dir`, which it watches when this returns.
    fn start(dir: &Path) -> Self {
        Self::start_with(&["--plugins-dir".as_ref(), dir.as_os_str()])
    }

    /// A daemon with these options, which watches when this returns.
    fn start_with(options: &[&OsStr]) -> Self {
        let mut child = Command::new(binary())
            .arg("run")
            .args(options)
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (lines, log) = mpsc::channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        let mut daemon = Self { child, log };
        daemon.until_logged("watching ");
        daemon
    }

    /// Waits for a line of the log that holds `words`, and returns it.
    #[track_caller]
    fn until_logged(&mut self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.recv_timeout(left) else {
                let _ = self.child.kill();
                panic!("no line with {words:?}, but {seen:#?}");
            };
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
    }

    /// Sends a signal and waits for the end: its status, and how long it took.
    fn end_with(mut self, signal: Signal) -> (ExitStatus, Duration) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        let start = Instant::now();
        kill(pid, signal).unwrap();
        let (ended, end) = mpsc::channel();
        let waiter =
            thread::spawn(move || ended.send((self.child.wait().unwrap(), start.elapsed())));
        let end = end.recv_timeout(PATIENCE).expect("the daemon ends");
        waiter.join().unwrap().unwrap();
        end
    }
}

/// Runs the binary to its end.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("RUST_LOG");
    command.output().unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn a_plugin_is_registered_and_deregistered_and_a_signal_ends_the_daemon_without_a_trace() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let dir = tempfile::tempdir().unwrap();
        let registry = dir.path().join("created/by/the/daemon");
        let mut daemon = Daemon::start(&registry);

        let socket = registry.join("reg.sock");
        let plugin = Plugin::serve(&socket, "sample");
        let line = daemon.until_logged(": registered CSIPlugin sample");
        assert!(line.contains(socket.to_str().unwrap()), "{line}");
        assert!(plugin.until_told().plugin_registered);
        plugin.stop();
        daemon.until_logged(": deregistered CSIPlugin sample");

        let (status, took) = daemon.end_with(signal);
        assert!(status.success(), "{status}");
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert_eq!(fs::read_dir(&registry).unwrap().count(), 0);
    }
}

#[test]
fn a_daemon_with_a_registered_plugin_ends_as_quickly_and_leaves_its_socket_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(dir.path());
    let socket = dir.path().join("reg.sock");
    let plugin = Plugin::serve(&socket, "sample");
    daemon.until_logged(": registered CSIPlugin sample");
    assert!(plugin.until_told().plugin_registered);

    let (status, took) = daemon.end_with(Signal::SIGTERM);
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(socket.exists());
}

#[test]
fn a_plugin_of_another_type_is_told_so_in_kubelets_words() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("reg.sock");
    let plugin = Plugin::serve_type(&socket, "CSIPlugin2", "sample");
    let daemon = Daemon::start(dir.path());
    let told = plugin.until_told();
    assert!(!told.plugin_registered);
    assert_eq!(
        told.error,
        format!(
            "RegisterPlugin error -- no handler registered for plugin type: CSIPlugin2 at socket {}",
            socket.display()
        )
    );
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn what_a_plugin_says_of_itself_reaches_the_log_escaped() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(dir.path());
    let plugin = Plugin::serve_type(&dir.path().join("reg.sock"), "\u{1b}[2J", "sample");
    let line = daemon.until_logged("reg.sock");
    assert!(!line.contains('\u{1b}'), "{line:?}");
    assert!(!plugin.until_told().plugin_registered);
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn a_directory_that_goes_later_is_reported_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let registry = dir.path().join("registry");
    let mut daemon = Daemon::start(&registry);
    fs::remove_dir(&registry).unwrap();
    let line = daemon.until_logged("it is not there");
    assert!(line.contains(registry.to_str().unwrap()), "{line}");
    daemon.until_logged("all is well again");
    assert!(registry.is_dir());
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn a_directory_that_cannot_be_used_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    File::create(&file).unwrap();
    for bad in [file.clone(), file.join("below")] {
        let bad = bad.to_str().unwrap();
        let output = run(&["run", "--plugins-dir", bad]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.starts_with("plugind: ") && said.contains(bad),
            "{said}"
        );
    }
}

#[test]
fn a_root_directory_is_kubelets_and_a_type_may_have_a_program() {
    let root = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start_with(&[
        "--root-dir".as_ref(),
        root.path().as_os_str(),
        "--exec=Toaster=/bin/false".as_ref(),
    ]);
    let socket = root.path().join("plugins_registry/reg.sock");
    let plugin = Plugin::serve_type(&socket, "Toaster", "sample");
    let told = plugin.until_told();
    assert!(!told.plugin_registered);
    assert!(told.error.ends_with("it ended with status 1"), "{told:?}");
    daemon.until_logged("registration failed");
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn a_program_that_others_can_change_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("hook");
    fs::copy("/bin/false", &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o777)).unwrap();
    let exec = format!("--exec=Toaster={}", program.display());
    let output = run(&["run", "--plugins-dir", dir.path().to_str().unwrap(), &exec]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    let shown = program.canonicalize().unwrap();
    let remedy = format!(
        "can be changed by others; run chmod go-w {}\n",
        shown.display()
    );
    assert!(
        said.starts_with("plugind: cannot use the program ") && said.ends_with(&remedy),
        "{said}"
    );
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    let lines: [&[&str]; 6] = [
        &[],
        &["jump"],
        &["--fast"],
        &["run", "--fast"],
        &["run", "left-over"],
        &["run", "--type"],
    ];
    for line in lines {
        let output = run(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(output.stdout.is_empty(), "{line:?}");
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.starts_with("plugind: ") && said.contains("--help"),
            "{said}"
        );
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
fn help_and_version_are_printed_and_succeed() {
    for line in [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["run", "--version"],
    ] {
        let output = run(line);
        assert!(output.status.success(), "{line:?}");
        assert!(output.stderr.is_empty(), "{line:?}");
        assert!(output.stdout.starts_with(match line.last() {
            Some(&"--version") => concat!("plugind ", env!("CARGO_PKG_VERSION")).as_bytes(),
            _ => b"",
        }));
        assert!(!output.stdout.is_empty(), "{line:?}");
    }
}

/// How long anything may take here: a hundred times what it does, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);
