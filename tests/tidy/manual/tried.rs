//! The completions in their shells.

use std::process::{Command, Output};

use super::{COMPLETIONS, in_crate, is_installed};
use crate::skip::skip;

#[test]
fn bash_completes_commands_options_and_values() {
    if !is_installed("bash") {
        return skip("bash is not installed");
    }
    for (line, expected) in [
        ("che", "check-config"),
        ("help wat", "watch"),
        ("version -", "-o --output -h --help -V --version"),
        ("-", "--socket -h --help -V --version"),
        ("list --no", "--no-headers"),
        ("run --device", "--device-plugins-dir --device-plugins"),
        ("list -o ", "table wide json jsonl name"),
        ("list --output = j", "json jsonl"),
        ("list --output =", "table wide json jsonl name"),
        ("list -w --state De", "Deregistering"),
        ("run --on-down d", "deregister deregister="),
        ("wait --timeout 1", ""),
        ("probe --type D", "DevicePlugin DRAPlugin"),
        ("log-level d", "default debug"),
        ("completion f", "fish"),
        ("wait src/mai", "src/main.rs"),
        ("run --plugins-dir src/gui", "src/guide"),
        ("run --config src/mai", "src/main.rs"),
        ("run --config no", "none"),
        ("run --exec X = src/mai", "src/main.rs"),
        ("probe src/mai", "src/main.rs"),
        ("wait CSI", "CSIPlugin/disk.example"),
        ("describe src/mai", "src/main.rs"),
        ("devices ", "example.com/gpu"),
        ("devices example.org", ""),
    ] {
        let expected = expected.split(' ').filter(|it| !it.is_empty());
        assert_eq!(bash(line), expected.collect::<Vec<_>>(), "{line:?}");
    }
}

/// The lines that are completed in zsh and fish, with all completions.
const LINES: [(&str, &str); 10] = [
    ("plugind che", "check-config"),
    ("plugind help wat", "watch"),
    ("plugind list --no", "--no-headers"),
    ("plugind list --output=w", "--output=wide"),
    ("plugind list -o j", "json jsonl"),
    ("plugind run --unknown-types ", "accept ignore reject"),
    ("plugind run --plugins-dir ../../gui", "../../guide/"),
    ("plugind describe ../../mai", "../../main.rs"),
    ("plugind log-level war", "warn"),
    ("plugind completion fi", "fish"),
];

#[test]
fn zsh_completes_commands_options_and_values() {
    if !is_installed("zsh") {
        return skip("zsh is not installed");
    }
    check_syntax("zsh", "_plugind");
    for (line, expected) in LINES {
        // It lists several, and shows the slash behind a directory later.
        let first = expected.split(' ').next().unwrap().trim_end_matches('/');
        let output = run(
            "timeout",
            &["20", "zsh", "-f", "-c", ZSH, "zsh", line, first],
        );
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

#[test]
fn fish_completes_commands_options_and_values() {
    if !is_installed("fish") {
        return skip("fish is not installed");
    }
    check_syntax("fish", "plugind.fish");
    for (line, expected) in LINES {
        let output = run("fish", &["--no-config", "-c", FISH, line]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let found = text.lines().filter_map(|it| it.split('\t').next());
        let mut found: Vec<&str> = found.collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), expected, "{line}");
    }
}

/// Asserts that a shell finds nothing wrong with the syntax of its completions.
#[track_caller]
fn check_syntax(shell: &str, file: &str) {
    let output = run(shell, &["-n", file]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

/// Runs a program in the folder of the completions. Fish creates directories in its home.
fn run(program: &str, arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(in_crate(COMPLETIONS));
    command.env("HOME", home.path()).output().expect("a shell")
}

/// Returns the completions of the last word behind `plugind`, in the root of the crate. `plugind
/// list` prints names as plugins choose them.
fn bash(line: &str) -> Vec<String> {
    let words = ["--norc", "-c", BASH, "bash", "plugind"];
    let words = words.into_iter().chain(line.split(' '));
    let mut command = Command::new("bash");
    command
        .args(words)
        .current_dir(in_crate(""))
        .env("HOME", "/nonexistent");
    let output = command.output().expect("bash runs");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

const BASH: &str = r#"
plugind() {
	if [[ ${4-} == DevicePlugin ]]; then
		printf '%s\n' DevicePlugin/example.com/gpu 'DevicePlugin/$(id)'
	else
		printf '%s\n' CSIPlugin/disk.example 'CSIPlugin/$(id)' 'CSIPlugin/a b'
	fi
}
source src/dist/completions/plugind.bash
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_plugind
for word in "${COMPREPLY[@]}"; do printf '%s\n' "$word"; done
"#;

/// Types a line and a tab into an interactive shell, and waits until it shows the expected text.
const ZSH: &str = r#"
zmodload zsh/zpty || exit 3
zpty shell zsh -f -i
zpty -w shell 'PS1=; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; print READY""NOW'
zpty -r shell shown '*READYNOW*' || exit 4
zpty -n -w shell "$1"$'\t'
zpty -r shell shown "*$2*"
"#;

const FISH: &str = "source plugind.fish; complete -C $argv[1]";
