//! The configuration of the built binary: its file, its environment, and what it prints of them.

mod reload;

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::support::daemon::Daemon;
use crate::support::process::{Process, Ran};

/// A directory with a configuration file.
struct Place(TempDir);

impl Place {
    /// Creates a directory with a configuration of this content, in which `DIR` is the directory.
    fn with(content: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write(content);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("a.conf")
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, content: &str) {
        let content = content.replace("DIR", &self.text(""));
        fs::write(self.file(), content.replace("//", "/")).unwrap();
    }

    /// Runs the binary to its end.
    fn run(&self, arguments: &[&str]) -> Ran {
        let arguments = arguments.iter().map(|it| it.replace("DIR", &self.text("")));
        let mut command = Process::command();
        command.args(arguments).env("PLUGIND_CONFIG", self.file());
        Process::run(&mut command)
    }

    /// Starts a daemon with this configuration.
    fn start(&self, options: &[&str]) -> Daemon {
        let mut command = Process::command();
        command.args(["run", "--config"]).arg(self.file());
        command.env_remove("PLUGIND_API_SOCKET");
        Daemon::start_command(command.args(options))
    }
}

#[test]
fn a_daemon_has_the_options_of_its_file() {
    let place = Place::with(
        "plugins-dir DIR/a\nplugins-dir=DIR/b\nrun-dir DIR/run\nsocket none\n\
         on-down=deregister\n",
    );
    let daemon = place.start(&["--type=X", "--plugins-dir", &place.text("c")]);
    let first = daemon.seen_with("starting");
    assert!(first[0].contains(" types=X "), "{first:?}");
    assert!(first[0].contains(" on-down=deregister=30s "), "{first:?}");
    let file = format!(" config={} ", place.file().display());
    assert!(first[0].contains(&file), "{first:?}");
    let watched = daemon.seen_with("watching the plugins directory");
    assert_eq!(watched.len(), 1, "{watched:?}");
    assert!(watched[0].ends_with(&place.text("c")), "{watched:?}");
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn a_file_that_is_not_valid_ends_with_a_line_for_each_problem() {
    let place = Place::with("observ\non-down\r\n\nplugins-dir DIR/a\n");
    let file = place.file();
    let file = file.display();
    let expected = format!(
        "plugind: {file}:1: unknown key observ (did you mean observe?)\n\
         plugind: {file}:2: missing value for on-down\n"
    );
    for command in [
        &["run"][..],
        &["check-config"],
        &["check-config", "DIR/a.conf"],
    ] {
        let ran = place.run(command);
        assert_eq!(ran.err, expected, "{command:?}");
        assert_eq!((ran.code, &*ran.out), (Some(78), ""));
    }
    assert!(!place.path("a").exists());
    assert_eq!(place.run(&["run", "--observ"]).code, Some(2));
    assert_eq!(place.run(&["check-config", "a", "b"]).code, Some(2));
}

#[test]
fn what_does_not_exist_ends_a_check_and_a_run_with_78() {
    let place = Place::with(
        "plugins-dir DIR/a\nrun-dir DIR/run\nexec X=/missing/hook\n\
         state-file DIR/missing/state.json\n",
    );
    for command in [&["run"][..], &["check-config"]] {
        let ran = place.run(command);
        assert_eq!(ran.code, Some(78), "{ran:?}");
        let said: Vec<&str> = ran.err.lines().collect();
        let [program, dir] = said[..] else {
            panic!("{said:?}");
        };
        assert!(program.contains("/missing/hook: No such file"), "{said:?}");
        assert!(
            dir.contains("missing/state.json: its directory does not exist; "),
            "{said:?}"
        );
    }
    assert!(!place.path("a").exists());
    place.write("socket-group \"root\"\n");
    let ran = place.run(&["run"]);
    assert_eq!(ran.code, Some(78));
    assert!(
        ran.err.contains("expected a group of /etc/group"),
        "{ran:?}"
    );
    // The run directory is made at the start.
    place.write("run-dir DIR/run\nstate-file DIR/run/state.json\n");
    assert!(place.run(&["check-config"]).code == Some(0));
}

#[test]
fn the_example_of_the_manual_starts() {
    let page = include_str!("../../../src/dist/man/plugind.conf.5");
    let example = page.split(".Sh EXAMPLES").nth(1).unwrap();
    let example = example.split("-offset indent\n").nth(1).unwrap();
    let example = example.split(".Ed").next().unwrap();
    let example = example.replace("\\-", "-").replace("\\(aq", "'");
    let example = example.replace("/data", "DIR");
    let example = example.replace("/run/plugind", "DIR");
    assert!(example.contains("root-dir DIR/kubelet\n"), "{example}");
    let place = Place::with(&example);
    fs::create_dir(place.path("kubelet")).unwrap();
    let daemon = place.start(&["--run-dir", &place.text("run"), "--socket=none"]);
    assert_eq!(daemon.seen_with("watching the plugins directory").len(), 1);
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}
