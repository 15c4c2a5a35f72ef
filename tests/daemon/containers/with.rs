//! Commands that hold devices, and other clients that do.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use nix::fcntl::OFlag;
use nix::pty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plugind::handler::device::TYPE;
use serde_json::{Value, json};

use crate::api::node::Node;
use crate::support::process::{Process, Ran};
use crate::support::program::copy_binary;
use crate::support::simulated::Simulated;
use crate::support::until::until;

const RESOURCE: &str = "example.com/gpu";

/// A daemon with a plugin that has two devices.
struct Held {
    node: Node,
    plugin: Simulated,
}

impl Held {
    fn start(options: &[&str]) -> Self {
        Self::start_on(Node::start(), options)
    }

    fn start_on(node: Node, options: &[&str]) -> Self {
        let plugin = Simulated::start(&node.registry(""), TYPE, RESOURCE, options);
        let held = Self { node, plugin };
        held.until_holders([None, None]);
        held
    }

    /// Returns the command `plugind with` with these arguments.
    fn command(&self, arguments: &[&str]) -> Command {
        Process::asking(&self.node.socket, &[&["with"], arguments].concat())
    }

    /// Runs that command. Returns its exit status and what it prints.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Ran { code, out, err } = Process::run(&mut self.command(arguments));
        (code, out, err)
    }

    /// Starts that command with `cat`, which ends with its standard input, and waits until it holds
    /// devices.
    #[track_caller]
    fn hold(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(&[arguments, &["--", "cat"]].concat());
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until("the holder", || {
            self.holders().contains(&Some(pid(&child))).then_some(())
        });
        child
    }

    /// Returns the holders of the devices.
    fn holders(&self) -> Vec<Option<i64>> {
        let list = self.node.get("/v1/devices");
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["holder"]["pid"].as_i64()).collect()
    }

    /// Waits until the second device is healthy.
    #[track_caller]
    fn until_healthy(&self) {
        until("it is healthy", || {
            let list = self.node.get("/v1/devices");
            (list["items"][1]["health"] == "Healthy").then_some(())
        });
    }

    #[track_caller]
    fn until_holders(&self, holders: [Option<i64>; 2]) {
        until("the holders", || (self.holders() == holders).then_some(()));
    }
}

fn pid(child: &Child) -> i64 {
    i64::from(child.id())
}

fn signal(child: &Child, signal: Signal) {
    let pid = child.id().try_into().unwrap();
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Ends a command that runs `cat`.
#[track_caller]
fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_command_has_its_devices_until_it_ends() {
    let held = Held::start(&[]);
    let script = "printf '%s' \"$PLUGIND_ALLOCATION\"; exit 7";
    let (status, out, _) = held.run(&[RESOURCE, "--", "sh", "-c", script]);
    assert_eq!(status, Some(7));
    let out: Value = serde_json::from_str(&out).unwrap();
    let resource = &out["resources"][0];
    assert_eq!(resource["resource"], RESOURCE);
    assert_eq!(resource["deviceIds"], json!(["device-0"]));
    assert_eq!(resource["envs"], json!({"SIMULATED_DEVICES": "device-0"}));
    assert_eq!(resource["devices"][0]["hostPath"], "/dev/null");
    assert_eq!(resource["mounts"][0]["containerPath"], "/run/simulated");
    let holder = held.hold(&["--device=device-1", RESOURCE]);
    held.until_holders([None, Some(pid(&holder))]);
    let row = format!("device-1  Healthy  {}", holder.id());
    let shown = Process::ask(&held.node.socket, &["devices"]).out;
    assert!(shown.contains(&row), "{shown}");
    end(holder);
    held.until_holders([None, None]);
}

#[test]
fn a_device_has_one_holder_who_is_named_to_others() {
    let held = Held::start(&[]);
    let holder = held.hold(&[&format!("{RESOURCE}=2")]);
    for wait in [&[][..], &["--timeout=20ms"]] {
        let line = [wait, &[RESOURCE, "--", "true"]].concat();
        let (status, _, error) = held.run(&line);
        let named = format!("device-1 is held by process {}", holder.id());
        assert!(
            error.contains("free=0 healthy=2") && error.contains(&named),
            "{error}"
        );
        assert_eq!(status, Some(75));
    }
    let waiting = held.command(&["--wait", RESOURCE, "--", "true"]).spawn();
    let mut waiting = waiting.unwrap();
    end(holder);
    assert!(waiting.wait().unwrap().success());
    for (line, status) in [
        (&["example.com/gpu=3", "--", "true"][..], 75),
        (&["example.com/nic", "--", "true"], 4),
        (&["example.com/gpu", "--", "/missing"], 127),
        (&["example.com/gpu", "--", "/etc/passwd"], 126),
        (&["example.com/gpu", "--", "/etc"], 126),
        (&["example.com/gpu", "--", "sh", "-c", "kill -TERM $$"], 143),
        (&["example.com/gpu=0", "--", "true"], 2),
        (&["example.com/gpu", "true"], 2),
        (&["--", "true"], 2),
    ] {
        assert_eq!(held.run(line).0, Some(status), "{line:?}");
    }
    let (status, _, error) = held.run(&["--device=device-7", RESOURCE, "--", "true"]);
    assert_eq!(status, Some(75));
    assert!(error.contains("device-7 is not free"), "{error}");
    let (status, _, error) = held.run(&["--socket=/missing", RESOURCE, "--", "true"]);
    assert_eq!(status, Some(3), "{error}");
}

#[test]
fn a_hundred_commands_all_get_a_device_and_never_share_one() {
    let held = Held::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    // A lock file for each device: the command fails if another one has it.
    let script = "id=$(printf '%s' \"$PLUGIND_ALLOCATION\" | grep -o 'device-[01]' | head -n 1); \
                  exec flock -n \"$1/$id\" sh -c 'echo >>\"$0\"' \"$1/used\"";
    let dir = dir.path().to_str().unwrap();
    let line = ["--wait", RESOURCE, "--", "sh", "-c", script, "sh", dir];
    let commands: Vec<Child> = (0..100)
        .map(|_| held.command(&line).spawn().unwrap())
        .collect();
    for mut command in commands {
        assert_eq!(command.wait().unwrap().code(), Some(0));
    }
    let used = fs::read_to_string(format!("{dir}/used")).unwrap();
    assert_eq!(used.lines().count(), 100);
    held.until_holders([None, None]);
}

#[test]
fn signals_are_passed_on_and_a_killed_command_holds_nothing() {
    let held = Held::start(&[]);
    let script = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done";
    let mut command = held.command(&[RESOURCE, "--", "sh", "-c", script]);
    let process = Process::printing(&mut command);
    process.until_line("ready");
    process.signal(Signal::SIGUSR1);
    assert_eq!(process.end().0.code(), Some(9));

    let mut stopped = held.hold(&[&format!("{RESOURCE}=2")]);
    let children = format!("/proc/{0}/task/{0}/children", stopped.id());
    let command: i32 = until("its command", || {
        fs::read_to_string(&children).unwrap().trim().parse().ok()
    });
    signal(&stopped, Signal::SIGSTOP);
    assert_eq!(held.run(&[RESOURCE, "--", "true"]).0, Some(75));
    signal(&stopped, Signal::SIGKILL);
    assert_eq!(stopped.wait().unwrap().signal(), Some(9));
    held.until_holders([None, None]);
    until("the end of its command", || {
        kill(Pid::from_raw(command), None).is_err().then_some(())
    });
}

#[test]
fn a_command_whose_terminal_goes_ends_with_it() {
    let held = Held::start(&[]);
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let terminal = pty::posix_openpt(flags).unwrap();
    pty::grantpt(&terminal).unwrap();
    pty::unlockpt(&terminal).unwrap();
    let name = pty::ptsname_r(&terminal).unwrap();
    let flags = OFlag::O_NOCTTY.bits();
    let mut options = File::options();
    let options = options.read(true).write(true).custom_flags(flags);
    let with = held.command(&[RESOURCE, "--", "sleep", "1000"]);
    // The tests may have been started with the signal ignored, as by nohup(1).
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP", "setsid", "--ctty"])
        .arg(with.get_program())
        .args(with.get_args());
    command.env("PLUGIND_API_SOCKET", &held.node.socket);
    command.stdin(options.open(name).unwrap());
    let mut child = command.spawn().unwrap();
    held.until_holders([Some(pid(&child)), None]);
    drop(command);
    drop(terminal);
    let status = until("the end of the command", || child.try_wait().unwrap());
    assert!(!status.success(), "{status:?}");
    held.until_holders([None, None]);
}

#[test]
fn a_program_holds_devices_as_long_as_its_connection() {
    let held = Held::start(&[]);
    let mut stream = UnixStream::connect(&held.node.socket).unwrap();
    let request = "POST /v1/allocate?resource=example.com/gpu%3D2 HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"}\n") {
        let mut octet = [0];
        stream.read_exact(&mut octet).unwrap();
        response.extend(octet);
    }
    assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
    let own = i64::from(std::process::id());
    held.until_holders([Some(own), Some(own)]);
    drop(stream);
    held.until_holders([None, None]);
    for (query, status) in [
        ("", 400),
        ("resource=a/b&resource=a/b", 400),
        ("resource=a/b=257", 400),
        ("resource=a/b&resource=a/c&device=d", 400),
        ("resource=a/b&wait=soon", 400),
        ("resource=a/b", 404),
    ] {
        let response = held.node.ask("POST", &format!("/v1/allocate?{query}"));
        assert_eq!(response.status, status, "{query}");
    }
}

#[test]
fn a_device_that_is_lost_in_use_stays_held_and_is_an_event() {
    let mut held = Held::start(&[]);
    let holder = held.hold(&["--device=device-1", RESOURCE]);
    held.plugin.hit();
    let lost = format!(
        "a device in use cannot be used now: device-1 pid={}",
        holder.id()
    );
    held.node.daemon.until_logged(&lost);
    held.until_holders([None, Some(pid(&holder))]);
    held.plugin.hit();
    held.until_healthy();
    held.plugin.kill();
    until("nothing listens there", || {
        UnixStream::connect(held.plugin.socket()).err()
    });
    held.node.daemon.until_logged(&lost);
    held.plugin = Simulated::start(&held.node.registry(""), TYPE, RESOURCE, &[]);
    held.until_holders([None, Some(pid(&holder))]);
    held.until_healthy();
    assert_eq!(held.run(&["example.com/gpu=2", "--", "true"]).0, Some(75));
    end(holder);
    held.until_holders([None, None]);
    assert_eq!(held.run(&["example.com/gpu=2", "--", "true"]).0, Some(0));
}

#[test]
fn a_plugin_that_refuses_or_is_gone_grants_nothing() {
    let held = Held::start(&["--refuse-allocate"]);
    let (status, _, error) = held.run(&[RESOURCE, "--", "true"]);
    assert!(
        error.contains("example.com/gpu: Allocate: ") && error.contains("a simulated refusal"),
        "{error}"
    );
    assert_eq!(status, Some(1));
    held.until_holders([None, None]);
    let names = ["--cdi-devices=vendor.com/gpu=all,vendor.com/gpu=0"];
    let plugin = Simulated::start(&held.node.registry(""), TYPE, "example.com/b", &names);
    let line = [
        "--wait",
        "example.com/b",
        "--",
        "printenv",
        "PLUGIND_CDI_DEVICES",
    ];
    let (status, out, _) = held.run(&line);
    assert_eq!(
        (status, &*out),
        (Some(0), "vendor.com/gpu=all,vendor.com/gpu=0\n")
    );
    drop(plugin);
}

#[test]
fn without_a_handler_of_device_plugins_nothing_is_granted() {
    let node = Node::start_with(&["--type=CSIPlugin"]);
    let refused = node.ask("POST", "/v1/allocate?resource=example.com%2Fgpu");
    assert_eq!(refused.status, 404, "{refused:?}");
}

#[test]
fn a_plugin_that_hangs_is_given_up_after_ten_seconds() {
    let held = Held::start(&["--delay-allocate=1h"]);
    let (status, _, error) = held.run(&[RESOURCE, "--", "true"]);
    assert_eq!(status, Some(75), "{error}");
    held.until_holders([None, None]);
}

#[test]
fn a_command_goes_on_without_the_daemon_and_is_warned() {
    let held = Held::start(&[]);
    let mut command = held.command(&[RESOURCE, "--", "sh", "-c", "echo runs >&2; exec cat"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut input = None;
    let process = Process::start(&mut command, |child| {
        input = child.stdin.take();
        child.stderr.take()
    });
    process.until_line("runs");
    held.node.daemon.end_with(Signal::SIGTERM);
    process.until_line("plugind");
    drop(input); // It has gone on until now.
    assert!(process.end().0.success());
}

#[test]
fn a_command_has_a_file_for_all_its_devices_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let option = format!("--cdi-dir={}", dir.path().display());
    let held = Held::start_on(Node::start_with(&[&option]), &[]);
    let script = "name=${PLUGIND_CDI_DEVICES#*=x.lease-}; echo \"$PLUGIND_CDI_DEVICES\"; \
                  cat \"$0/plugind-example.com-gpu-lease-$name.json\"";
    let dir = dir.path().to_str().unwrap();
    let (status, out, error) = held.run(&["example.com/gpu=2", "--", "sh", "-c", script, dir]);
    assert_eq!(status, Some(0), "{error}");
    let (name, file) = out.split_once('\n').unwrap();
    let file: Value = serde_json::from_str(file).unwrap();
    let device = file["devices"][0]["name"].as_str().unwrap();
    assert_eq!(format!("{RESOURCE}={device}"), name);
    let edits = &file["devices"][0]["containerEdits"];
    assert_eq!(edits["env"], json!(["SIMULATED_DEVICES=device-0,device-1"]));
    assert_eq!(edits["deviceNodes"].as_array().unwrap().len(), 2);
    let has_file = || {
        let names = fs::read_dir(dir).unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.any(|name| name.contains("lease"))
    };
    until("the file is removed", || (!has_file()).then_some(()));
    let holder = held.hold(&[RESOURCE]);
    until("the file", || has_file().then_some(()));
    // Both signals are handled in one turn, after which the daemon ends.
    for signal in [Signal::SIGSTOP, Signal::SIGINT, Signal::SIGTERM] {
        held.node.daemon.signal(signal);
    }
    held.node.daemon.end_with(Signal::SIGCONT);
    assert!(!has_file(), "the end of the daemon removes it, too");
    end(holder);
}

#[test]
fn a_command_whose_file_cannot_be_written_is_refused_devices() {
    let dir = tempfile::tempdir().unwrap();
    let option = format!("--cdi-dir={}", dir.path().display());
    let held = Held::start_on(Node::start_with(&[&option]), &[]);
    let new = dir.path().join(".plugind.new");
    until("the directory", || fs::create_dir(&new).ok()); // No new file can be written.
    let (status, _, error) = held.run(&[RESOURCE, "--", "true"]);
    assert!(error.contains("cannot write the CDI file"), "{error}");
    assert_eq!(status, Some(1));
    held.until_holders([None, None]);
    fs::remove_dir(&new).unwrap();
    let (status, _, error) = held.run(&["example.com/gpu=2", "--", "true"]);
    assert_eq!(status, Some(0), "{error}");
}

#[test]
fn the_devices_of_a_command_have_another_name_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let option = format!("--cdi-dir={}", dir.path().display());
    let name_in_a_new_run = || {
        let mut node = Node::start_with(&[&option]);
        let plugin = Simulated::start(&node.registry(""), TYPE, RESOURCE, &[]);
        node.daemon.until_logged("received a device list");
        let held = Held { node, plugin };
        held.run(&[RESOURCE, "--", "printenv", "PLUGIND_CDI_DEVICES"])
    };
    let names = [name_in_a_new_run(), name_in_a_new_run()];
    assert!(
        names[0].1.contains("x.lease-") && names[0] != names[1],
        "{names:?}"
    );
}

#[test]
fn only_members_of_the_group_are_granted_devices() {
    if !nix::unistd::geteuid().is_root() {
        return; // Only root can become another user.
    }
    let options = ["--allocate-group=4242", "--socket-group=4242"];
    let held = Held::start_on(Node::start_with(&options), &[]);
    let socket = &held.node.socket;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(held.node.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(
        held.node.dir.path().join("run"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let program = held.node.dir.path().join("plugind");
    let with = held.command(&[RESOURCE, "--", "true"]);
    copy_binary(&program);
    for (groups, status) in [("4243", 1), ("4243,4242", 0), ("4242", 0)] {
        let mut command = Command::new("setpriv");
        let (first, _) = groups.split_once(',').unwrap_or((groups, ""));
        command.args(["--reuid=4242", "--regid", first, "--groups", groups]);
        command.arg(&program).args(with.get_args());
        command.env("PLUGIND_API_SOCKET", socket);
        let ran = Process::run(&mut command);
        assert_eq!(ran.code, Some(status), "{groups}: {ran:?}");
        let is_told = ran.err.contains("members of --allocate-group");
        assert_eq!(is_told, status == 1, "{ran:?}");
    }
}
