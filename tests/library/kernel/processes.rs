//! Plugins in processes of their own, which are killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::support::node::Node;
use crate::support::plugin::Plugin;
use crate::support::process::Running;
use crate::support::watches;

/// Starts a process that serves a plugin on each of these sockets: this test binary, run as one.
fn serve(sockets: [&Path; 2]) -> Running {
    const TEST: &str = "kernel::processes::a_process_that_is_a_plugin";
    let mut command = Command::new(env::current_exe().unwrap());
    if cfg!(panic = "abort") {
        // Otherwise the test runner would run the test in another process.
        command.env("__RUST_TEST_INVOKE", TEST);
    }
    let sockets = env::join_paths(sockets).unwrap();
    command.args([TEST, "--exact"]).env(SOCKETS, sockets);
    Running(command.stdout(Stdio::null()).spawn().unwrap())
}

/// Not a test by itself: the body of such a process.
#[test]
fn a_process_that_is_a_plugin() {
    let Some(sockets) = env::var_os(SOCKETS) else {
        return;
    };
    // A panic that aborts a test leaves this process behind (`make static`), and the test runner
    // reads the output that it inherits until it is closed.
    prctl::set_pdeathsig(Signal::SIGKILL).unwrap();
    let name = |socket: &Path| socket.file_stem().unwrap().to_str().unwrap().to_owned();
    let plugins = env::split_paths(&sockets).map(|socket| Plugin::serve(&socket, &name(&socket)));
    let _plugins: Vec<_> = plugins.collect();
    loop {
        thread::park();
    }
}

fn down(node: &Node) -> usize {
    let registered = node.plugins.manager().registered();
    let down = registered.filter(|it| it.health.down_since().is_some());
    down.count()
}

#[test]
fn each_plugin_of_a_process_is_watched_until_that_is_killed() {
    if !watches::are_enough_or_skip() {
        return;
    }
    let mut node = Node::start();
    let [one, two] = ["one.sock", "two.sock"].map(|name| node.path(name));
    let all_up = |node: &mut Node| (node.registered() == 2 && down(node) == 0).then_some(());
    let process = serve([&one, &two]);
    node.until("both are registered", all_up);
    node.until_quiet();
    drop(process);
    node.until("both are down", |node| (down(node) == 2).then_some(()));

    for socket in [&one, &two] {
        fs::remove_file(socket).unwrap();
    }
    let again = serve([&one, &two]);
    node.until("both are back", all_up);
    node.until_quiet();
    fs::remove_file(&two).unwrap();
    node.until_handler_is_told("deregister two");
    drop(again);
    node.until("the other one is down", |node| {
        (down(node) > 0).then_some(())
    });
}

/// The environment variable that makes this binary serve plugins on these sockets, which are named
/// after them.
const SOCKETS: &str = "TEST_PLUGINS";
