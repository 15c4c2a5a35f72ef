//! The formats of the log.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::bind::bind;
use crate::support::daemon::Daemon;
use crate::support::plugin::Plugin;
use crate::support::process::Process;

/// Returns the command of a daemon whose standard error is what JOURNAL_STREAM names, if that is
/// `$own`.
fn command(dir: &tempfile::TempDir, stream: &str, options: &[&str]) -> Command {
    let own = "own=$(stat -L -c %d:%i /dev/fd/2);";
    let script = format!("{own} JOURNAL_STREAM={stream}; export JOURNAL_STREAM;");
    let mut command = Process::command_behind(&script);
    command.args(["run", "--plugins-dir"]);
    command.arg(dir.path().join("registry")).args(options);
    command
}

#[test]
fn a_line_of_json_is_one_object_whatever_a_plugin_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["-vv", "--log-format=json", "--unknown-types=accept"];
    let mut daemon = Daemon::start_command(&mut command(&dir, "$own", &options));
    let mut lines = daemon.seen_with("");
    let plugin = Plugin::serve_type(&dir.path().join("registry/a.sock"), "\"{", "\\\"}\u{e9}");
    drop(bind(&dir.path().join("registry/b \" \\.sock")));
    lines.extend(daemon.lines_until("attempt 1: registered "));
    plugin.stop();
    lines.extend(daemon.lines_until(": deregistered "));
    let (mut messages, mut registered) = (Vec::new(), 0);
    for line in lines {
        let read: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |key: &str| read[key].as_str().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(
            text("time").len(),
            "2026-01-31T12:00:00.250Z".len(),
            "{line}"
        );
        assert!(
            ["INFO", "DEBUG", "TRACE", "WARN"].contains(&text("level")),
            "{line}"
        );
        assert!(text("target").starts_with("plugind::"), "{line}");
        messages.push(text("message").to_owned());
        let keys: Vec<&String> = read.as_object().unwrap().keys().collect();
        if text("message").contains("attempt 1: registered ") {
            assert_eq!(keys.len(), 9, "{line}");
            let socket = dir.path().join("registry/a.sock");
            assert_eq!(text("socket"), socket.to_str().unwrap());
            assert_eq!((text("type"), text("name")), ("\"{", "\\\"}\u{e9}"));
            assert_eq!(
                (text("reason"), &read["attempt"]),
                ("Registered", &1.into())
            );
            registered += 1;
        } else if !text("message").starts_with('/') {
            assert_eq!(keys.len(), 4, "{line}");
        }
    }
    assert_eq!(registered, 1);
    assert!(messages[0].starts_with("plugind "), "{messages:?}");
    let name = "registered \"{ \\\\\"}\u{e9} at ";
    assert!(messages.iter().any(|it| it.contains(name)), "{messages:?}");
}

#[test]
fn the_journal_gets_priorities_and_no_time() {
    for (stream, options, is_text) in [
        ("$own", &[][..], false),
        ("1:1", &["--log-format=journald"], false),
        ("$own", &["--log-format=text"], true),
        ("1:1", &[], true),
        ("", &[], true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut daemon = Daemon::start_command(&mut command(&dir, stream, options));
        let lines = daemon.seen_with("");
        if is_text {
            assert!(lines.iter().all(|line| line.starts_with("20")), "{lines:?}");
        } else {
            assert!(lines[0].starts_with("<6>plugind "), "{lines:?}");
            assert!(
                lines.iter().all(|line| line.starts_with("<6>")),
                "{lines:?}"
            );
        }
        daemon.signal(Signal::SIGTERM);
        daemon.until_logged("stopped");
    }
}

#[test]
fn the_error_of_a_start_that_fails_has_the_format_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("registry"), "").unwrap();
    let said = |format: &str| {
        let ran = Process::run(&mut command(&dir, "1:1", &[format]));
        assert_eq!(ran.code, Some(1));
        ran.err.lines().last().unwrap().to_owned()
    };
    assert!(said("--log-format=text").starts_with("plugind: cannot use"));
    assert!(said("--log-format=journald").starts_with("<3>plugind: cannot use"));
    let error = said("--log-format=json");
    let error: Value = serde_json::from_str(&error).unwrap_or_else(|_| panic!("{error}"));
    assert_eq!(error["level"], "ERROR");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("plugind: cannot use"), "{message}");
}
