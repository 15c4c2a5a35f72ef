//! A program as the handler of device plugins that announce themselves.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::kubelet_sock::node::{Node, rejection};
use crate::kubelet_sock::plugin::DevicePlugin;
use crate::support::skip::programs_can_be_trusted_or_skip;
use crate::support::until::until;

/// A program that appends its arguments to a file.
struct Program(TempDir);

impl Program {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (program, list) = (dir.path().join("hook"), dir.path().join("list"));
        let script = format!("#!/bin/sh\necho \"$@\" >> {}\n{script}\n", list.display());
        install(&program, &script);
        Self(dir)
    }

    fn options(&self) -> [String; 2] {
        let path = |name| self.0.path().join(name).display().to_string();
        let exec = format!("--exec=DevicePlugin={}", path("hook"));
        [exec, format!("--state-file={}", path("state"))]
    }

    /// Waits until the program was run that often, and returns the arguments of each run.
    #[track_caller]
    fn until_run(&self, times: usize) -> Vec<String> {
        until(&format!("{times} runs"), || {
            let list = fs::read_to_string(self.0.path().join("list")).unwrap_or_default();
            let lines: Vec<_> = list.lines().map(str::to_owned).collect();
            (lines.len() >= times).then_some(lines)
        })
    }
}

/// Writes a program. A shell does, so that no descriptor of the program is open for writing here:
/// another test's child would inherit it, and the program could not be run.
fn install(path: &Path, script: &str) {
    let written = Command::new("sh")
        .args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"])
        .args([script.as_ref(), path.as_os_str()])
        .status();
    assert!(written.unwrap().success());
}

#[test]
fn a_program_adds_a_plugin_again_after_a_restart() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    let program = Program::new("exit 0");
    let options = program.options();
    let options = options.each_ref().map(String::as_str);
    let node = Node::start_with(&options);
    let arguments = |verb: &str, file: &str| {
        let endpoint = node.path(file).display().to_string();
        format!("{verb} DevicePlugin example.com/gpu {endpoint}")
    };
    let expected = [
        arguments("add", "gpu.sock"),
        arguments("re-add", "gpu.sock"),
        arguments("add", "newer.sock"),
    ];
    let plugin = DevicePlugin::serve(&node.path("gpu.sock"));
    assert_eq!(node.register("gpu.sock", "example.com/gpu"), Ok(()));
    assert_eq!(program.until_run(1), expected[..1]);
    let Node { dir, daemon } = node;
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
    drop(plugin);

    let node = Node::start_in(dir, &options);
    let _plugin = DevicePlugin::serve(&node.path("gpu.sock"));
    assert_eq!(node.register("gpu.sock", "example.com/gpu"), Ok(()));
    assert_eq!(program.until_run(2), expected[..2]);
    let _newer = DevicePlugin::serve(&node.path("newer.sock"));
    assert_eq!(node.register("newer.sock", "example.com/gpu"), Ok(()));
    assert_eq!(program.until_run(3), expected, "the older one stays");
}

#[test]
fn a_plugin_that_the_program_refuses_gets_its_words() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    let program = Program::new("echo no such card >&2; exit 3");
    let options = program.options();
    let node = Node::start_with(&options.each_ref().map(String::as_str));
    let _plugin = DevicePlugin::serve(&node.path("gpu.sock"));
    let reason = rejection(node.register("gpu.sock", "example.com/gpu"));
    assert!(
        reason.starts_with("Unknown: ") && reason.contains("no such card"),
        "{reason}"
    );
    assert!(node.registered().is_empty());
}
