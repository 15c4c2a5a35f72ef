//! Plugins in processes of their own, which are killed.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::socket::{Backlog, listen};

use crate::support::bind::bind;
use crate::support::node::Node;
use crate::support::plugin::Plugin;
use crate::support::timed::assert_faster;
use crate::support::watches;

/// A plugin in a process of its own: this test binary, run as one.
struct Process(Child);

impl Process {
    /// Starts a process that serves the plugin with this name on a socket that is bound already.
    fn serve(socket: OwnedFd, name: &str) -> Self {
        Self::spawn(
            Command::new(env::current_exe().unwrap()).env(NAME, name),
            socket,
        )
    }

    /// Starts a process that serves two plugins, the second one on a new socket as well.
    fn serve_two([first, second]: [&Path; 2], [name, another]: [&str; 2]) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(NAME, name);
        command.env(SECOND_NAME, another).env(SECOND_SOCKET, second);
        Self::spawn(&mut command, bind(first))
    }

    fn spawn(command: &mut Command, socket: OwnedFd) -> Self {
        const TEST: &str = "kernel::processes::a_process_that_is_a_plugin";
        if cfg!(panic = "abort") {
            // Otherwise the test runner would run the test in another process, without standard
            // input.
            command.env("__RUST_TEST_INVOKE", TEST);
        }
        let child = command
            .args([TEST, "--exact"])
            .stdin(socket)
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Starts a process that serves the plugin with this name on a new socket.
    fn serve_at(socket: &Path, name: &str) -> Self {
        Self::serve(bind(socket), name)
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test by itself: the body of a [`Process`]. Standard input is the socket.
#[test]
fn a_process_that_is_a_plugin() {
    let Ok(name) = env::var(NAME) else { return };
    // A panic that aborts a test leaves this process behind (`make static`), and the test runner
    // reads the output that it inherits until it is closed.
    prctl::set_pdeathsig(Signal::SIGKILL).unwrap();
    let listener = io::stdin().as_fd().try_clone_to_owned().unwrap();
    listen(&listener, Backlog::MAXALLOWABLE).unwrap();
    let listener = UnixListener::from(listener);
    let _plugin = Plugin::serve_on(listener, Path::new(""), ("CSIPlugin", &name), None);
    let second = env::var_os(SECOND_SOCKET).zip(env::var(SECOND_NAME).ok());
    let _second = second.map(|(socket, name)| Plugin::serve(Path::new(&socket), &name));
    loop {
        thread::park();
    }
}

fn down(node: &Node) -> usize {
    let registered = node.plugins.manager().registered();
    let down = registered.filter(|it| it.health.down_since().is_some());
    down.count()
}

fn is_down(node: &Node) -> bool {
    down(node) > 0
}

#[test]
fn a_plugin_that_is_killed_is_down_within_milliseconds() {
    if !watches::are_enough_or_skip() {
        return;
    }
    let mut node = Node::start();
    let socket = node.path("reg.sock");
    let mut process = Process::serve_at(&socket, "mortal");
    node.until_handler_is_told("register mortal");
    node.until_quiet();

    let killed = Instant::now();
    process.kill();
    node.until("it is down", |node| is_down(node).then_some(()));
    assert_faster(killed.elapsed(), SOON);
    assert_eq!(node.registered(), 1, "the plugin stays registered");

    // As when its container is restarted: a new socket replaces the old one.
    fs::remove_file(&socket).unwrap();
    let _process = Process::serve_at(&socket, "mortal");
    assert_eq!(
        node.until_handler_is_told("register mortal"),
        ["deregister mortal", "validate mortal", "register mortal"]
    );
    assert!(!is_down(&node));
}

#[test]
fn each_plugin_of_a_process_is_watched_until_that_is_killed() {
    if !watches::are_enough_or_skip() {
        return;
    }
    let mut node = Node::start();
    let [one, two] = ["one.sock", "two.sock"].map(|name| node.path(name));
    let all_up = |node: &mut Node| (node.registered() == 2 && down(node) == 0).then_some(());
    let mut process = Process::serve_two([&one, &two], ["one", "two"]);
    node.until("both are registered", all_up);
    node.until_quiet();
    process.kill();
    node.until("both are down", |node| (down(node) == 2).then_some(()));

    for socket in [&one, &two] {
        fs::remove_file(socket).unwrap();
    }
    let mut again = Process::serve_two([&one, &two], ["one", "two"]);
    node.until("both are back", all_up);
    node.until_quiet();
    fs::remove_file(&two).unwrap();
    node.until_handler_is_told("deregister two");
    again.kill();
    node.until("the other one is down", |node| is_down(node).then_some(()));
}

/// The time within which the end of a process is noticed: milliseconds, with a margin for a busy
/// machine.
const SOON: Duration = Duration::from_millis(500);

/// The environment variable that makes this binary serve the plugin with this name.
const NAME: &str = "TEST_PLUGIN";

/// The environment variables that make it serve a second plugin: its name and its new socket.
const SECOND_NAME: &str = "TEST_SECOND_PLUGIN";
const SECOND_SOCKET: &str = "TEST_SECOND_SOCKET";
