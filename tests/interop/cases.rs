//! The cases: what each asks of a stack, and what has to happen.

use std::fs;

use tempfile::TempDir;

use super::stack::{Plugin, Runner};
use crate::support::daemon::Daemon;
use crate::support::simulated::Simulated;
use crate::support::trusted::trusted_dir;

/// A case, which is played with each stack.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What happens with a plugin that has started; `None` is the case of a client.
    play: Option<fn(&mut Node<'_>, Plugin)>,
}

/// What became of a case that did not fail.
pub(crate) enum Outcome {
    Passed,
    NotSupported,
}

/// All cases, in the order of the table.
pub(crate) const CASES: &[Case] = &[
    case("device", is_followed),
    case("csi", is_registered),
    case("dra", is_registered),
    case("announce", announces),
    case("many", is_followed),
    case("restart", starts_again),
    case("kill", is_killed),
    case("age", is_followed_again),
    case("age-grace", is_followed_again),
    case("pings", keeps_its_stream),
    case("policy", keeps_its_stream),
    case("windows-small", is_followed),
    case("windows-large", is_followed),
    case("no-table", is_followed),
    case("one-stream", is_followed),
    case("metadata", is_followed),
    case("compressed", is_registered_or_told),
    case("details", fails_first),
    Case {
        name: "client",
        play: None,
    },
];

const fn case(name: &'static str, play: fn(&mut Node<'_>, Plugin)) -> Case {
    Case {
        name,
        play: Some(play),
    }
}

impl Case {
    /// Plays the case with a stack.
    pub(crate) fn play(&self, stack: &Runner) -> Outcome {
        let Some(play) = self.play else {
            return calls(stack);
        };
        let mut node = Node::start(stack, self.name);
        let Some(plugin) = node.serve() else {
            return Outcome::NotSupported;
        };
        play(&mut node, plugin);
        Outcome::Passed
    }
}

/// Registers, follows a device that breaks, and deregisters after a shutdown in order, which ends
/// the open stream behind a GOAWAY.
fn is_followed(node: &mut Node<'_>, mut plugin: Plugin) {
    node.until_registered(&plugin);
    let is_long = COUNTED.contains(&node.case);
    let count = if is_long { 10_000 } else { 2 };
    node.until_logged(&format!("devices={count} healthy={count}"));
    plugin.tell("change");
    node.until_logged("now_unhealthy=");
    node.until_stopped(plugin);
}

/// Registers a plugin of another type, with what its handler asks for, and deregisters it.
fn is_registered(node: &mut Node<'_>, plugin: Plugin) {
    node.until_registered(&plugin);
    let learnt = match node.case {
        "csi" => "received node information",
        _ => "received device health",
    };
    node.until_logged(learnt);
    node.until_stopped(plugin);
}

/// Serves a plugin that calls Register on `kubelet.sock`, and has to call it again once its stream
/// has ended.
fn announces(node: &mut Node<'_>, mut plugin: Plugin) {
    node.until_logged("devices=2 healthy=2");
    node.until_logged(": registered ");
    plugin.tell("change");
    node.until_logged("now_unhealthy=");
    plugin.tell("stop");
    node.until_logged(" is down: ListAndWatch has ended");
    assert!(plugin.end().success(), "the plugin ends in order");
}

/// Registers a server again that starts again.
fn starts_again(node: &mut Node<'_>, plugin: Plugin) {
    node.until_registered(&plugin);
    node.until_stopped(plugin);
    let again = node.serve().expect("it could before");
    node.until_registered(&again);
    node.until_stopped(again);
}

/// Notices the end of a plugin that is killed, and registers it when it starts again.
fn is_killed(node: &mut Node<'_>, plugin: Plugin) {
    node.until_registered(&plugin);
    plugin.kill();
    node.until_logged(" is down: ");
    plugin.end();
    node.remove_socket();
    node.until_logged(": deregistered ");
    let again = node.serve().expect("it could before");
    node.until_registered(&again);
    node.until_stopped(again);
}

/// Opens the stream again after the server has closed the connection because of its age.
fn is_followed_again(node: &mut Node<'_>, mut plugin: Plugin) {
    node.until_logged(": registered ");
    plugin.until_said("watched");
    plugin.until_said("watched");
    plugin.tell("change");
    node.until_logged("devices=2 healthy=1");
    node.until_stopped(plugin);
}

/// Keeps the stream open beside pings, or without any. The plugin breaks a device after three
/// seconds.
fn keeps_its_stream(node: &mut Node<'_>, plugin: Plugin) {
    node.until_logged(": registered ");
    node.until_logged("now_unhealthy=device-1");
    assert_eq!(plugin.count_said("watched"), 1, "the first stream is open");
    node.until_stopped(plugin);
}

/// Registers a plugin whose responses are compressed only if that was negotiated; names the reason
/// for any other, which kubelet cannot read either.
fn is_registered_or_told(node: &mut Node<'_>, plugin: Plugin) {
    let told = "compression was not negotiated";
    if node.until_either(": registered ", told) {
        node.until_stopped(plugin);
    }
}

/// Shows the status of a GetInfo that fails, and succeeds at the next try.
fn fails_first(node: &mut Node<'_>, plugin: Plugin) {
    node.until_logged("GetInfo failed: the peer returned UNAVAILABLE");
    node.until_registered(&plugin);
    node.until_stopped(plugin);
}

/// Serves a client on the stack: unary calls and a stream.
fn calls(stack: &Runner) -> Outcome {
    let dir = tempfile::tempdir().expect("a directory");
    let simulated = Simulated::start(dir.path(), "DevicePlugin", "example.com/peer", &[]);
    let Some(client) = stack.call(simulated.socket()) else {
        return Outcome::NotSupported;
    };
    client.until_said("called true");
    Outcome::Passed
}

/// A daemon in strict mode, and the directory that it watches.
struct Node<'a> {
    stack: &'a Runner,
    case: &'static str,
    dir: TempDir,
    daemon: Daemon,
    /// The lines of the log that were read and not looked for.
    seen: Vec<String>,
    /// Its run directory, and what it watches if plugins call Register in the other one.
    _other: TempDir,
}

impl<'a> Node<'a> {
    fn start(stack: &'a Runner, case: &'static str) -> Self {
        let [dir, other] = [(); 2].map(|()| trusted_dir());
        let mut options = vec![("--plugins-dir", dir.path().to_owned())];
        if case == "announce" {
            options[0].0 = "--device-plugins-dir";
            options.push(("--plugins-dir", other.path().join("registry")));
        }
        let daemon = Daemon::start_strict(other.path(), &options);
        Self {
            stack,
            case,
            dir,
            daemon,
            seen: Vec::new(),
            _other: other,
        }
    }

    /// Starts a plugin; `None` if the stack cannot do what the case asks for.
    fn serve(&self) -> Option<Plugin> {
        let socket = self.dir.path().join("peer-reg.sock");
        self.stack.serve(&socket, self.case)
    }

    /// Waits until the plugin is registered and was notified.
    fn until_registered(&mut self, plugin: &Plugin) {
        self.until_logged(": registered ");
        plugin.until_notified();
    }

    /// Ends the plugin in order, and waits until it is deregistered.
    fn until_stopped(&mut self, mut plugin: Plugin) {
        plugin.tell("stop");
        assert!(plugin.end().success(), "the plugin ends in order");
        self.remove_socket();
        self.until_logged(": deregistered ");
    }

    /// Removes the socket, which some stacks leave behind.
    fn remove_socket(&self) {
        for entry in fs::read_dir(self.dir.path()).expect("its directory") {
            let path = entry.expect("an entry").path();
            if path.to_string_lossy().contains("peer") {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Waits until a line with these words is logged, in whatever order with others.
    #[track_caller]
    fn until_logged(&mut self, words: &str) {
        self.until_either(words, words);
    }

    /// Waits until a line with one of these words is logged; returns whether it has the first ones.
    #[track_caller]
    fn until_either(&mut self, words: &str, others: &str) -> bool {
        loop {
            let is_it = |line: &String| line.contains(words) || line.contains(others);
            if let Some(at) = self.seen.iter().position(is_it) {
                return self.seen.remove(at).contains(words);
            }
            let lines = self.daemon.lines_until("");
            self.seen.extend(lines);
        }
    }
}

/// The cases with 10,000 devices.
const COUNTED: [&str; 3] = ["many", "windows-small", "windows-large"];
