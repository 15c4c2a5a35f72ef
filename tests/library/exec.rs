//! Real programs as handlers: programs that succeed, fail, hang, flood their output, leave
//! processes behind and cannot be run. In each test the loop keeps running meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nix::unistd::Pid;
use plugind::config::Config;
use plugind::handler::{AcceptHandler, ExecHandler, HandlerTable};
use plugind::proto::pluginregistration::RegistrationStatus;
use tempfile::TempDir;

use crate::support::node::{Node, watching};
use crate::support::plugin::Plugin;
use crate::support::program::{install, is_gone};
use crate::support::until::until;

/// A plugin manager with a program for the type `Hooked`, and a directory for the program's files.
struct Hooked {
    node: Node,
    scratch: TempDir,
}

impl Hooked {
    /// Starts a node whose program is this script, in which `$OUT` is a directory of its own.
    fn start(script: &str) -> Self {
        Self::start_with(script, Duration::from_secs(60))
    }

    /// Starts a node whose program may run for `timeout`.
    fn start_with(script: &str, timeout: Duration) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let program = scratch.path().join("hook");
        let out = scratch.path().display();
        install(&program, &format!("#!/bin/sh\nOUT={out}\n{script}\n"));
        Self::start_program(scratch, ExecHandler::new(program).with_timeout(timeout))
    }

    fn start_program(scratch: TempDir, handler: ExecHandler) -> Self {
        Self::start_on(tempfile::tempdir().unwrap(), scratch, handler)
    }

    fn start_on(registry: TempDir, scratch: TempDir, handler: ExecHandler) -> Self {
        let mut handlers = HandlerTable::new();
        handlers.add(["Hooked"], handler);
        handlers.add(["CSIPlugin"], AcceptHandler);
        let config = Config {
            state_file: Some(scratch.path().join("state")),
            ..watching(registry.path())
        };
        let node = Node::start_handling(registry, &config, handlers);
        Self { node, scratch }
    }

    /// Ends the plugin manager in order, and starts another one with the same program.
    fn restart(mut self) -> Self {
        self.node.plugins.save();
        let Node { dir, plugins, .. } = self.node;
        drop(plugins);
        let handler = ExecHandler::new(self.scratch.path().join("hook"));
        Self::start_on(dir, self.scratch, handler)
    }

    /// Serves a plugin of the type that the program handles.
    fn serve(&self) -> Plugin {
        Plugin::serve_type(&self.node.path("hook-reg.sock"), "Hooked", "disk")
    }

    #[track_caller]
    fn until_notified(&mut self, plugin: &Plugin) -> RegistrationStatus {
        self.node.until_notified(plugin)
    }

    /// Takes turns until the program has written a line to the file with this name, and returns it.
    #[track_caller]
    fn until_written(&mut self, name: &str) -> String {
        let path = self.scratch.path().join(name);
        self.node.until(name, |_| {
            fs::read_to_string(&path)
                .ok()
                .filter(|text| text.ends_with('\n'))
        })
    }

    /// Asserts that a plugin of another type registers, which nothing may delay.
    #[track_caller]
    fn register_another(&mut self) {
        let other = Plugin::serve(&self.node.path("other-reg.sock"), "other");
        self.node.until_registered(&other);
    }

    /// Takes turns until the process with this ID has ended.
    #[track_caller]
    fn until_gone(&mut self, id: &str) {
        let pid = Pid::from_raw(id.trim().parse().unwrap());
        self.node
            .until("the process has gone", |_| is_gone(pid).then_some(()));
    }
}

#[test]
fn a_program_registers_a_plugin_and_hears_when_it_goes() {
    let mut node = Hooked::start(
        r#"cat > $OUT/$1.json
           echo "$@ $PLUGIND_ACTION $PLUGIND_NAME $PLUGIND_VERSIONS $HOME $(pwd)" > $OUT/$1"#,
    );
    let plugin = node.serve();
    let socket = node.node.path("hook-reg.sock");
    let socket = socket.display();
    assert!(node.until_notified(&plugin).plugin_registered);
    assert_eq!(
        node.until_written("add"),
        format!("add Hooked disk {socket} add disk 1.0.0  /\n")
    );
    let json = node.until_written("add.json");
    let said: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(said["type"], "Hooked");
    assert_eq!(said["endpoint"], socket.to_string());
    assert_eq!(said["versions"][0], "1.0.0");

    plugin.stop();
    assert_eq!(
        node.until_written("del"),
        format!("del Hooked disk {socket} del disk 1.0.0  /\n")
    );
}

#[test]
fn a_program_is_told_after_a_restart_of_a_known_plugin() {
    let mut node = Hooked::start(r#"echo "$PLUGIND_NAME" > $OUT/$1"#);
    let plugin = node.serve();
    assert!(node.until_notified(&plugin).plugin_registered);
    node.until_written("add");
    let mut node = node.restart();
    assert_eq!(node.until_written("re-add"), "disk\n");
    assert!(node.until_notified(&plugin).plugin_registered);
    assert!(!node.scratch.path().join("del").exists());
}

#[test]
fn a_program_that_fails_refuses_the_plugin_with_its_reason() {
    let flood =
        "echo the reason >&2; head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero; exit 1";
    for (script, reason) in [
        (
            "echo ignored; echo no such disk >&2; echo more >&2; exit 3",
            "no such disk",
        ),
        (flood, "the reason"),
        ("exit 3", "HOOK: exited with status 3"),
        ("kill -SEGV $$", "HOOK: killed by signal 11"),
    ] {
        let mut node = Hooked::start(script);
        let plugin = node.serve();
        node.register_another();
        let program = node.scratch.path().join("hook");
        let reason = reason.replace("HOOK", program.to_str().unwrap());
        let refused = RegistrationStatus {
            plugin_registered: false,
            error: format!("RegisterPlugin error -- plugin registration failed with err: {reason}"),
        };
        assert_eq!(node.until_notified(&plugin), refused);
    }
}

#[test]
fn a_program_that_hangs_is_killed_with_all_it_started() {
    let mut node = Hooked::start_with(
        r#"[ "$1" = add ] || exit 0
           sleep 1000 & echo $! > $OUT/background
           echo $$ > $OUT/program
           trap '' TERM
           wait; wait"#,
        Duration::from_millis(500),
    );
    let plugin = node.serve();
    let (program, background) = (
        node.until_written("program"),
        node.until_written("background"),
    );
    node.register_another();
    let notified = node.until_notified(&plugin);
    assert!(
        notified.error.ends_with("hook: timed out and was killed"),
        "{notified:?}"
    );
    node.until_gone(&program);
    node.until_gone(&background);
}

#[test]
fn a_program_that_closes_everything_is_no_trouble() {
    let mut node = Hooked::start("exec <&- >&- 2>&-; exit 0");
    let plugin = node.serve();
    assert!(node.until_notified(&plugin).plugin_registered);
}

#[test]
fn what_a_program_leaves_behind_keeps_nobody_waiting() {
    let mut node = Hooked::start("sleep 1000 & echo $! > $OUT/background; exit 0");
    let plugin = node.serve();
    assert!(node.until_notified(&plugin).plugin_registered);
    let background = node.until_written("background");
    node.until_gone(&background);
}

#[test]
fn a_program_that_cannot_be_run_refuses_the_plugin() {
    for (content, why) in [
        (None, "No such file"),
        (Some("#!/bin/sh\n"), "Permission denied"),
        (Some("no program at all"), "format"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let program = scratch.path().join("hook");
        if let Some(content) = content {
            install(&program, content);
        }
        if why == "Permission denied" {
            fs::set_permissions(&program, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let mut node = Hooked::start_program(scratch, ExecHandler::new(program));
        let plugin = node.serve();
        let notified = node.until_notified(&plugin);
        assert!(!notified.plugin_registered);
        assert!(
            notified.error.contains("could not be started"),
            "{notified:?}"
        );
        assert!(notified.error.contains(why), "{notified:?}");
    }
}

#[test]
fn a_program_hears_the_signals_that_the_daemon_keeps_for_itself() {
    let mut mask = nix::sys::signal::SigSet::empty();
    mask.add(nix::sys::signal::Signal::SIGTERM);
    mask.thread_block().unwrap();
    let mut node = Hooked::start("kill -TERM $$; exit 0");
    let plugin = node.serve();
    let notified = node.until_notified(&plugin);
    assert!(
        notified.error.ends_with("hook: killed by signal 15"),
        "{notified:?}"
    );
}

#[test]
fn a_plugin_that_goes_takes_its_program_along() {
    let mut node = Hooked::start(
        r#"if [ "$1" = add ]; then echo $$ > $OUT/add; sleep 1000; fi; echo done > $OUT/$1"#,
    );
    let plugin = node.serve();
    let program = node.until_written("add");
    plugin.stop();
    node.until_written("del");
    node.until_gone(&program);
}

#[test]
fn a_manager_that_ends_leaves_no_program_behind() {
    let mut node = Hooked::start("echo $$ > $OUT/program; sleep 1000");
    let _plugin = node.serve();
    let program = node.until_written("program");
    drop(node.node.plugins);
    let pid = Pid::from_raw(program.trim().parse().unwrap());
    until("the program has gone", || is_gone(pid).then_some(()));
}
