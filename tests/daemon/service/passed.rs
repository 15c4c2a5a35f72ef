//! The sockets that the service manager, which the test is, passes to the daemon.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::support::daemon::Daemon;
use crate::support::process::{PATIENCE, Process};

/// Returns the command of a daemon to which these descriptors are passed, at most two, with these
/// names. A shell moves its input and its output to where they are expected.
fn command(dir: &Path, names: &str, descriptors: Vec<OwnedFd>, options: &[&str]) -> Command {
    let script = "exec 3<&0 </dev/null 4>&1 >/dev/null; [ $LISTEN_FDS = 2 ] || exec 4>&-; \
                  LISTEN_PID=$$";
    let mut command = Process::command_behind(script);
    command
        .env_remove("PLUGIND_API_SOCKET")
        .env("LISTEN_FDS", descriptors.len().to_string())
        .env("LISTEN_FDNAMES", names)
        .args(["run", "--plugins-dir"])
        .arg(dir.join("registry"))
        .arg("--run-dir")
        .arg(dir.join("run"))
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    for (n, descriptor) in descriptors.into_iter().enumerate() {
        if n == 0 {
            command.stdin(descriptor);
        } else {
            command.stdout(descriptor);
        }
    }
    command
}

/// Starts a daemon to which descriptors are passed, which watches its directories when this
/// returns.
fn start(dir: &Path, names: &str, descriptors: Vec<OwnedFd>, options: &[&str]) -> Daemon {
    Daemon::start_plainly(&mut command(dir, names, descriptors, options))
}

#[track_caller]
fn end(daemon: Daemon) {
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

/// Sends a request and returns the status of the response, and all of it.
#[track_caller]
fn ask(mut stream: impl std::io::Read + std::io::Write, request: &str) -> (u16, String) {
    // In one write: a daemon with too many clients may have responded and closed the connection
    // already, and then a second one fails.
    let request = format!("{request} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let status = response
        .split(' ')
        .nth(1)
        .unwrap_or_else(|| panic!("{response:?}"));
    (status.parse().unwrap(), response)
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_socket_for_the_api_replaces_ours_and_stays_as_it_is() {
    for (names, options) in [
        ("api", &[][..]),
        ("", &[]),
        ("plugind.socket", &["--observe"]),
        ("unknown", &["--socket=/no/such/socket"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api");
        let listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let descriptor = listener.try_clone().unwrap().into();
        let daemon = start(dir.path(), names, vec![descriptor], options);
        let words = format!("serving the API socket={}", path.display());
        let seen = daemon.seen_with("");
        assert!(seen.iter().any(|line| line.ends_with(&words)), "{seen:?}");
        assert_eq!(ask(connect(&path), "GET /v1/status").0, 200);
        assert_eq!(ask(connect(&path), "POST /v1/rescan").0, 200);
        assert!(!dir.path().join("run/plugind.sock").exists());
        end(daemon);
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o7777, 0o640);
        // A client that connects now is answered by the next daemon.
        let mut client = connect(&path);
        client.write_all(b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
        let daemon = start(dir.path(), names, vec![listener.into()], options);
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
        end(daemon);
    }
}

#[test]
fn a_socket_for_metrics_serves_them_whatever_its_family() {
    let dir = tempfile::tempdir().unwrap();
    let unix = UnixListener::bind(dir.path().join("metrics")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let by_tcp = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let cases = [
        ("GET /metrics", 200),
        ("GET /livez", 200),
        ("GET /v1/status", 404),
    ];
    let daemon = start(dir.path(), "metrics", vec![tcp.into()], &["--socket=none"]);
    for (request, status) in cases {
        assert_eq!(ask(by_tcp(), request).0, status, "{request}");
    }
    let (_, metrics) = ask(by_tcp(), "GET /metrics");
    assert!(metrics.contains("plugind_build_info"), "{metrics}");
    assert_eq!(ask(by_tcp(), "POST /v1/rescan").0, 404);

    // Idle ones are limited, and leave room to others.
    let idle: Vec<TcpStream> = (0..8).map(|_| by_tcp()).collect();
    // It sends no request: with TCP, one that is not read can take the response with it.
    let mut response = String::new();
    by_tcp().read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    drop(idle);
    end(daemon);
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    let daemon = start(dir.path(), "metrics", vec![unix.into()], &[]);
    for (request, status) in cases {
        let stream = connect(&dir.path().join("metrics"));
        assert_eq!(ask(stream, request).0, status, "{request}");
    }
    let api = connect(&dir.path().join("run/plugind.sock"));
    assert_eq!(ask(api, "GET /v1/status").0, 200);
    end(daemon);
}

#[test]
fn both_sockets_can_be_passed_and_both_are_closed_on_exec() {
    let dir = tempfile::tempdir().unwrap();
    let (api, metrics) = (dir.path().join("api"), dir.path().join("metrics"));
    let sockets = [&metrics, &api].map(|path| UnixListener::bind(path).unwrap().into());
    let daemon = start(dir.path(), "metrics:api", sockets.into(), &[]);
    assert_eq!(ask(connect(&api), "GET /v1/status").0, 200);
    assert_eq!(ask(connect(&metrics), "GET /v1/status").0, 404);
    let pid = daemon.id();
    for fd in [3, 4] {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap();
        let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
        assert_ne!(flags & 0o2_000_000, 0, "O_CLOEXEC: {flags:o}");
    }
    end(daemon);
}

#[test]
fn a_descriptor_that_cannot_be_used_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let tcp = || -> OwnedFd { TcpListener::bind("127.0.0.1:0").unwrap().into() };
    let listener = UnixListener::bind(at("socket")).unwrap();
    let unix = || -> OwnedFd { listener.try_clone().unwrap().into() };
    let file = || -> OwnedFd { fs::File::create(at("file")).unwrap().into() };
    let stream = || -> OwnedFd { UnixStream::pair().unwrap().0.into() };
    let not_listening = "it is not a listening stream socket";
    let second = "another socket was passed for the same purpose";
    let no_api = "none or --socket-group";
    let none = &["--socket=none"];
    for (names, descriptors, options, expected) in [
        ("api", vec![file()], &[][..], not_listening),
        ("metrics", vec![stream()], &[], not_listening),
        ("api", vec![tcp()], &[], "on unix sockets only"),
        ("other", vec![unix()], &[], "is neither api nor metrics"),
        ("api:api", vec![unix(), unix()], &[], second),
        ("api", vec![unix()], none, no_api),
    ] {
        let ran = Process::run(&mut command(dir.path(), names, descriptors, options));
        assert_eq!(ran.code, Some(1), "{names}: {ran:?}");
        let error = ran.err.lines().nth(1).unwrap_or_default();
        let is_about = error.starts_with("plugind: cannot use the socket \"");
        assert!(is_about && error.ends_with(expected), "{names}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 2, "{ran:?}");
    }
    let mut missing = command(dir.path(), "api:metrics", vec![unix()], &[]);
    let said = Process::run(missing.env("LISTEN_FDS", "3")).err;
    let is_named = said.contains("\"metrics\"") && said.contains("its descriptor is not open");
    assert!(is_named, "{said}");
}

#[test]
fn descriptors_of_another_process_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Process::command();
    command.args(["run", "--plugins-dir"]);
    command.arg(dir.path().join("registry"));
    command.env("LISTEN_PID", "1").env("LISTEN_FDS", "3");
    end(Daemon::start_command(&mut command));
}
