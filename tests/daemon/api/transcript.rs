//! The transcripts of the README and the guide are what the commands print.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::Command;

use crate::api::node::{Node, line};
use crate::support::binary::binary;
use crate::support::process::{Process, Ran};
use crate::support::simulated::Simulated;
use crate::support::skip::skip;
use crate::support::until::until;

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
    let text = Process::run(&mut shell).out;
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
    let line = line(dir.path(), &[]);
    let node = Node::start_line(dir, &line);
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
    try_walkthroughs(&node);
}

/// Runs the commands that ask the daemon, and examines the link, of the guide's walk-throughs.
fn try_walkthroughs(node: &Node) {
    let guide = include_str!("../../../src/guide/asking.md");
    let verbs = ["wait", "probe", "watch"].map(|verb| format!("plugind {verb} "));
    let commands = guide
        .lines()
        .filter(|line| verbs.iter().any(|it| line.starts_with(it)));
    let mut count = 0;
    for command in commands {
        let command = command.split("    #").next().unwrap();
        let command = command.replace("/tmp/driver/plugind.sock", SOCKET);
        let command = command.replace("/tmp/registry/", node.registry("").to_str().unwrap());
        let shown = run(&format!("{command} | head -n 1"), node);
        let expected = match command.split(' ').nth(1) {
            Some("wait") => "CSIPlugin/csi.example.com registered",
            Some("probe") => "plugind 0.2.0-dev probes ",
            _ => "{\"event\":\"ADDED\"",
        };
        assert!(shown[0].starts_with(expected), "{command}: {shown:?}");
        count += 1;
    }
    assert_eq!(count, 4, "the walk-throughs are another text");
    let link = guide.split("unix:///run/plugind/").nth(1).unwrap();
    let link = node
        .dir
        .path()
        .join("run")
        .join(link.lines().next().unwrap());
    let target = fs::metadata(&link).unwrap_or_else(|error| panic!("{link:?}: {error}"));
    assert!(target.file_type().is_socket(), "{link:?}");
}

/// Asserts that what was printed has the lines of the sample of README that begins as this one.
#[track_caller]
fn assert_has_sample(text: &str, begin: &str) {
    let readme = include_str!("../../../README.md");
    let lines = readme.lines().skip_while(|line| !line.starts_with(begin));
    let sample: Vec<_> = lines
        .take_while(|line| *line != "```")
        .map(masked)
        .collect();
    assert!(sample.len() >= 2, "{begin}: {sample:?}");
    let printed: Vec<String> = text.lines().map(masked).collect();
    for line in sample {
        assert!(printed.contains(&line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn the_demo_prints_the_lines_that_readme_shows() {
    let mut demo = Command::new("tests/demo.sh");
    demo.current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("TEST_BINARY", binary());
    let Ran {
        code, out: text, ..
    } = Process::run(&mut demo);
    assert_eq!(code, Some(0), "{text}");
    let listening = text.split(": listening on ").nth(1).unwrap();
    let socket = Path::new(listening.lines().next().unwrap());
    let dir = socket.parent().and_then(Path::to_str).unwrap();
    let text = text.replace(dir, "/tmp/demo");
    assert_has_sample(&text, "  20");
}

#[test]
fn probe_prints_the_sample_of_readme() {
    let dir = tempfile::tempdir().unwrap();
    let _toaster = Simulated::start(dir.path(), "Toaster", "toast.example", &[]);
    let socket = dir.path().join("toast.example-reg.sock");
    let text = Process::run(Process::command().arg("probe").arg(socket)).out;
    let text = text.replace(dir.path().to_str().unwrap(), "/tmp/plugins");
    let command = "$ plugind probe /tmp/plugins/toast.example-reg.sock | grep Would";
    assert_has_sample(&format!("{command}\n{text}"), command);
}
