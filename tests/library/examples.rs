//! The HTTP/2 and gRPC examples, run as programs with real sockets.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use h2::Reason;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::frames::{DATA, Frame, GOAWAY};
use crate::support::server::{Call, Server, Then};

#[test]
fn a_call_is_answered_in_memory_and_over_a_socket() {
    let called = Ran::of(&mut program("call"));
    assert_eq!(called.status, 0);
    assert_eq!(
        called.out,
        "in memory: hello, memory\nover a socket: hello, socket\n"
    );
}

#[test]
fn an_answer_is_shown_with_fields_length_and_trailers() {
    let server = Server::h2(|call: Call| {
        assert_eq!((&*call.path, &*call.message), ("/a", &b"world"[..]));
        call.reply(b"hello, world");
    });
    let asked = Ran::asking(server.socket(), &["--path", "/a", "--body", "helloworld"]);
    assert_eq!(asked.status, 0, "{}", asked.out);
    for line in [
        "head       200",
        "           content-type: application/grpc",
        "trailers   1",
        "           grpc-status: 0",
        "content    17 octets",
        "closed     the connection was shut down",
    ] {
        assert!(asked.out.contains(line), "no {line:?} in\n{}", asked.out);
    }
}

#[test]
fn a_request_over_the_network_is_served_and_both_ends_are_ours() {
    let mut serve = Serve::start();
    let url = format!("http://{}/a/path", serve.address());
    let asked = Ran::of(program("request").arg(url));
    assert_eq!(asked.status, 0, "{}", asked.out);
    assert!(asked.out.contains("content    10 octets"), "{}", asked.out);
}

#[test]
fn a_stream_that_fails_is_told_from_a_connection_that_does() {
    let resets = Server::h2(|call: Call| call.reset(Reason::REFUSED_STREAM));
    let asked = Ran::asking(resets.socket(), &["--body", "hello"]);
    assert_eq!(
        (asked.status, asked.has("reset      REFUSED_STREAM")),
        (1, true)
    );

    let greeting = Frame::settings(&[]).octets();
    let goaway = |code| Frame::new(GOAWAY, 0, 0, [0, 0, 0, 0, 0, 0, 0, code]).octets();
    let stray = Frame::new(DATA, 0, 0, *b"data").octets();
    let cases = [
        (
            1,
            goaway(0),
            "closed     the peer sent GOAWAY code=NO_ERROR",
        ),
        (
            3,
            goaway(2),
            "closed     the peer sent GOAWAY code=INTERNAL_ERROR",
        ),
        (
            3,
            stray,
            "HTTP/2 connection error: DATA on stream 0 code=PROTOCOL_ERROR",
        ),
    ];
    for (status, frame, words) in cases {
        let server = Server::saying([&greeting[..], &frame].concat(), Then::Wait);
        let asked = Ran::asking(server.socket(), &[]);
        assert_eq!((asked.status, asked.has(words)), (status, true), "{words}");
    }
}

#[test]
fn what_is_no_http2_is_a_connection_that_fails() {
    for (answer, words) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            "does not speak HTTP/2",
        ),
        (
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff garbage",
            "does not speak HTTP/2",
        ),
        (b"", "does not speak HTTP/2"),
    ] {
        let server = Server::saying(answer, Then::Close);
        let asked = Ran::asking(server.socket(), &[]);
        assert_eq!((asked.status, asked.has(words)), (3, true), "{answer:?}");
    }
}

#[test]
fn nobody_and_silence_are_not_reached() {
    let dir = TempDir::new().unwrap();
    assert_eq!(Ran::asking(&dir.path().join("nobody"), &[]).status, 4);

    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let asked = Ran::of(program("request").arg(free.unwrap().to_string()));
    assert_eq!(asked.status, 4, "nothing listens there");

    let server = Server::saying(Frame::settings(&[]).octets(), Then::Wait);
    let asked = Ran::asking(server.socket(), &["--timeout", "0"]);
    assert_eq!((asked.status, asked.has("timeout    no answer")), (4, true));
}

#[test]
fn arguments_that_make_no_request_are_wrong_usage() {
    assert_eq!(Ran::of(&mut program("request")).status, 2);
    assert_eq!(Ran::of(program("request").args(["a", "b"])).status, 2);
    let server = Server::saying("", Then::Wait);
    let too_long = "/".repeat(9000);
    assert_eq!(
        Ran::asking(server.socket(), &["--path", &too_long]).status,
        2
    );
}

/// The result of a program that has ended.
struct Ran {
    status: i32,
    out: String,
}

impl Ran {
    fn of(program: &mut Command) -> Self {
        let output = program.output().unwrap();
        Self {
            status: output.status.code().expect("the program exits by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
        }
    }

    fn asking(socket: &Path, options: &[&str]) -> Self {
        Self::of(program("request").arg(socket).args(options))
    }

    fn has(&self, words: &str) -> bool {
        self.out.contains(words)
    }
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
