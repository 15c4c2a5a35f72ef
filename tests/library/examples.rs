//! The HTTP/2 and gRPC examples, run as programs with real sockets.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::process::Process;

#[test]
fn a_request_over_the_network_is_served_and_both_ends_are_ours() {
    let serve = Process::printing(&mut program("serve"));
    let url = format!("http://{}/a/path", serve.until_line("").trim());
    let ran = Process::run(program("request").args(["10", "0", &*url]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// Builds an example, which `cargo test --test library` alone does not, and returns its command.
fn program(name: &str) -> Command {
    let cargo = ["build", "--locked", "--offline", "--message-format", "json"];
    let built = Command::new(env!("CARGO"))
        .args(cargo)
        .args(["--example", name])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let messages = String::from_utf8(built.stdout).unwrap();
    let is_it = |message: &Value| {
        let target = &message["target"];
        target["name"] == name && target["kind"][0] == "example"
    };
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let executable = messages
        .filter(is_it)
        .find_map(|message: Value| message["executable"].as_str().map(PathBuf::from));
    Command::new(executable.unwrap_or_else(|| panic!("{name} does not build")))
}
