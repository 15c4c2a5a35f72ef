//! The transcripts of the README and the guide are what the commands print.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::api::node::{Node, start_in, until};
use crate::support::binary::binary;
use crate::support::simulated::Simulated;
use crate::support::skip::skip;

/// The plugins directory and the API socket of the transcripts.
const DIRECTORY: &str = "/var/lib/kubelet/plugins_registry";
const SOCKET: &str = "/run/plugind/plugind.sock";

/// The length that leaves a transcript on one screen.
const MAX_LINES: usize = 40;

/// Returns the commands of a text's transcript, each with its output.
fn transcript(text: &str) -> Vec<(String, Vec<String>)> {
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("$ plugind "));
    let lines: Vec<_> = lines.take_while(|line| *line != "```").collect();
    assert!(
        (2..=MAX_LINES).contains(&lines.len()),
        "{} lines",
        lines.len()
    );
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, output))) => output.push(line.to_owned()),
            (None, None) => unreachable!("the first line is a command"),
        }
    }
    commands
}

/// Returns a line with a mark for each number, and for numbers with a unit of time, and with one
/// space for several.
fn masked(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let mut masked = String::new();
        let mut rest = word;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, number) = rest.split_at(start);
            masked.push_str(before);
            masked.push('#');
            let is_time = |c: char| c.is_ascii_digit() || "smhd".contains(c);
            rest = number.trim_start_matches(is_time);
        }
        masked + rest
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Runs a command of a transcript in a shell, and returns its output.
fn run(command: &str, node: &Node) -> Vec<String> {
    let directory = Path::new(&binary()).parent().unwrap().to_owned();
    let mut path = OsString::from(directory);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let command = command.replace(SOCKET, &node.socket.display().to_string());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env("PATH", path);
    shell.env("PLUGIND_API_SOCKET", &node.socket);
    let output = shell.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.replace(
        &node.registry("").display().to_string(),
        &format!("{DIRECTORY}/"),
    );
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_transcripts_are_what_the_commands_print() {
    let dir = tempfile::tempdir().unwrap();
    let registry = dir.path().join("registry");
    fs::create_dir(&registry).unwrap();
    let _plugins = [
        ("CSIPlugin", "csi.example.com"),
        ("DevicePlugin", "example.com/gpu"),
        ("Toaster", "toast.example"),
    ]
    .map(|(kind, name)| Simulated::start(&registry, kind, name, &[]));
    let daemon = start_in(dir.path(), &[]);
    let socket = dir.path().join("run/plugind.sock");
    let node = Node {
        dir,
        daemon,
        socket,
    };
    until("the third attempt", || {
        let list = node.get("/v1/plugins?type=Toaster");
        let attempts = list["items"][0]["attempts"].as_u64();
        attempts.filter(|attempts| *attempts >= 3)
    });
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let readme = transcript(include_str!("../../../README.md"));
    let guide = transcript(include_str!("../../../src/guide/asking.md"));
    for (command, expected) in readme.into_iter().chain(guide) {
        if command.starts_with("curl") && !has_curl {
            skip("curl is not installed");
            continue;
        }
        let shown = run(&command, &node);
        let [shown, expected] = [shown, expected].map(|lines| {
            let lines = lines.iter().map(|line| masked(line));
            lines.collect::<Vec<_>>()
        });
        assert_eq!(shown, expected, "$ {command}");
    }
}
