//! Real programs as handlers: programs that succeed, fail, hang, flood their output, leave
//! processes behind and cannot be run. In each test the loop keeps running meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use plugind::config::Config;
use plugind::daemon::PluginManager;
use plugind::handler::{AcceptHandler, ExecHandler, HandlerTable};
use plugind::proto::pluginregistration::RegistrationStatus;
use tempfile::TempDir;

use crate::support::plugin::Plugin;

/// A plugin manager with a program for the type `Hooked`, and a directory for the program's files.
struct Node {
    registry: TempDir,
    scratch: TempDir,
    plugins: PluginManager,
}

impl Node {
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
        let mut handlers = HandlerTable::new();
        handlers.add(["Hooked"], handler);
        handlers.add(["CSIPlugin"], AcceptHandler);
        let registry = tempfile::tempdir().unwrap();
        let plugins = manage(&registry, &scratch, handlers);
        Self {
            registry,
            scratch,
            plugins,
        }
    }

    /// Ends the plugin manager in order, and starts another one with the same program.
    fn restart(self) -> Self {
        self.restart_after(PluginManager::save)
    }

    /// Ends the plugin manager after this, and starts another one with the same program.
    fn restart_after(self, last: impl FnOnce(&mut PluginManager)) -> Self {
        let Self {
            registry,
            scratch,
            mut plugins,
        } = self;
        last(&mut plugins);
        drop(plugins);
        let mut handlers = HandlerTable::new();
        handlers.add(["Hooked"], ExecHandler::new(scratch.path().join("hook")));
        let plugins = manage(&registry, &scratch, handlers);
        Self {
            registry,
            scratch,
            plugins,
        }
    }

    /// Serves a plugin of the type that the program handles.
    fn serve(&self) -> Plugin {
        Plugin::serve_type(
            &self.registry.path().join("hook-reg.sock"),
            "Hooked",
            "disk",
        )
    }

    /// Takes turns until `answer` returns a value.
    #[track_caller]
    fn until<T>(&mut self, what: &str, mut answer: impl FnMut(&mut Self) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = answer(self) {
                return answer;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "timed out: {what}");
            self.plugins.turn(Some(left.min(LOOK_AGAIN))).unwrap();
        }
    }

    #[track_caller]
    fn until_notified(&mut self, plugin: &Plugin) -> RegistrationStatus {
        self.until("the plugin is notified", |_| plugin.try_notified())
    }

    /// Takes turns until the program has written a line to the file with this name, and returns it.
    #[track_caller]
    fn until_written(&mut self, name: &str) -> String {
        let path = self.scratch.path().join(name);
        self.until(name, |_| {
            fs::read_to_string(&path)
                .ok()
                .filter(|text| text.ends_with('\n'))
        })
    }

    /// Asserts that a plugin of another type registers, which nothing may delay.
    #[track_caller]
    fn register_another(&mut self) {
        let socket = self.registry.path().join("other-reg.sock");
        let other = Plugin::serve(&socket, "other");
        let notified = self.until("another plugin is notified", |_| other.try_notified());
        assert!(notified.plugin_registered);
    }

    /// Takes turns until the process with this ID has ended.
    #[track_caller]
    fn until_gone(&mut self, id: &str) {
        let pid = Pid::from_raw(id.trim().parse().unwrap());
        let is_gone = |_: &mut Self| is_gone(pid).then_some(());
        self.until("the process has gone", is_gone);
    }
}

/// Returns a plugin manager whose state file is in the scratch directory.
fn manage(registry: &TempDir, scratch: &TempDir, handlers: HandlerTable) -> PluginManager {
    let config = Config {
        plugins_dirs: vec![registry.path().to_owned()],
        state_file: Some(scratch.path().join("state")),
        ..Config::default()
    };
    PluginManager::new(&config, handlers).unwrap()
}

/// Returns whether the process does not exist, or is a zombie.
fn is_gone(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None) == Err(Errno::ESRCH) || status.contains(") Z ")
}

/// Writes a script through another process: while this process has it open, it cannot be run.
fn install(path: &Path, script: &str) {
    let written = Command::new("sh")
        .args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"])
        .args([script.as_ref(), path.as_os_str()])
        .status();
    assert!(written.unwrap().success());
}

#[test]
fn a_program_registers_a_plugin_and_hears_when_it_goes() {
    let mut node = Node::start(
        r#"cat > $OUT/$1.json
           echo "$@ $PLUGIND_ACTION $PLUGIND_NAME $PLUGIND_VERSIONS $HOME $(pwd)" > $OUT/$1"#,
    );
    let plugin = node.serve();
    let socket = node.registry.path().join("hook-reg.sock");
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
    let mut node = Node::start(r#"echo "$PLUGIND_NAME" > $OUT/$1"#);
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
        let mut node = Node::start(script);
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
    let mut node = Node::start_with(
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
    let mut node = Node::start("exec <&- >&- 2>&-; exit 0");
    let plugin = node.serve();
    assert!(node.until_notified(&plugin).plugin_registered);
}

#[test]
fn what_a_program_leaves_behind_keeps_nobody_waiting() {
    let mut node = Node::start("sleep 1000 & echo $! > $OUT/background; exit 0");
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
        let mut node = Node::start_program(scratch, ExecHandler::new(program));
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
    let mut node = Node::start("kill -TERM $$; exit 0");
    let plugin = node.serve();
    let notified = node.until_notified(&plugin);
    assert!(
        notified.error.ends_with("hook: killed by signal 15"),
        "{notified:?}"
    );
}

#[test]
fn a_plugin_that_goes_takes_its_program_along() {
    let mut node = Node::start(
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
    let mut node = Node::start("echo $$ > $OUT/program; sleep 1000");
    let _plugin = node.serve();
    let program = node.until_written("program");
    let Node {
        plugins, scratch, ..
    } = node;
    drop(plugins);
    let pid = Pid::from_raw(program.trim().parse().unwrap());
    let end = Instant::now() + PATIENCE;
    while !is_gone(pid) {
        assert!(Instant::now() < end, "the program still runs");
        std::thread::yield_now();
    }
    drop(scratch);
}

/// The time limit for every wait here, a hundred times what it takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest wait for this loop before `answer` is called again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
