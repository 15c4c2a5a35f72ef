//! The HTTP/2 and gRPC examples, run as programs with real sockets.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

#[test]
fn a_request_over_the_network_is_served_and_both_ends_are_ours() {
    let mut serve = Serve::start();
    let url = format!("http://{}/a/path", serve.address());
    let output = program("request")
        .args(["10", "0", &*url])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The running example server, which is killed when this is dropped.
struct Serve(Child);

impl Serve {
    fn start() -> Self {
        let mut program = program("serve");
        Self(program.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Returns the address that the server prints.
    fn address(&mut self) -> String {
        let out = self.0.stdout.take().expect("the output is taken once");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait().map(drop));
    }
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
