//! `plugind with`: runs a command that uses devices exclusively.
//!
//! The daemon allocates the devices to the connection, which stays open while the command runs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::arguments::{Argument, Arguments, UsageError};
use super::client::{Client, RESPONSE_TIMEOUT, Request, Response, percent_encode};
use super::failure::{Failure, FailureKind, Result};
use super::options::{choose_socket, print_remark};
use super::values::{LONGEST_DURATION, parse_duration, parse_path, parse_text};
use super::{Command, json};
use crate::daemon::client::Deadline;
use crate::escape;
use crate::handler::device::Wish;

/// A command, and the devices that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    socket: Option<PathBuf>,
    wish: Wish,
    command: Vec<OsString>,
}

/// Parses the arguments after `with`.
pub(super) fn parse(arguments: &mut Arguments) -> std::result::Result<Command, UsageError> {
    let (mut socket, mut wait, mut command) = (None, None, Vec::new());
    let (mut resources, mut devices) = (Vec::new(), Vec::new());
    loop {
        if let Some(rest) = arguments.take_after_dashes() {
            command = rest;
            break;
        }
        match arguments.next()? {
            Some(Argument::Option("--socket")) => socket = Some(arguments.parse_value(parse_path)?),
            Some(Argument::Option("--device")) => devices.push(arguments.parse_value(parse_text)?),
            Some(Argument::Option("--wait")) => _ = wait.get_or_insert(LONGEST_DURATION),
            Some(Argument::Option("--timeout")) => {
                wait = Some(arguments.parse_value(parse_duration)?);
            }
            Some(Argument::Value(value)) => match value.to_str() {
                Some(resource) => resources.push(resource.to_owned()),
                None => return Err(arguments.invalid_argument(&value, "RESOURCE or RESOURCE=N")),
            },
            Some(other) => return arguments.parse_standard(&other),
            None => break,
        }
    }
    if resources.is_empty() {
        return Err(arguments.error("missing RESOURCE"));
    }
    if command.is_empty() {
        return Err(arguments.error("missing -- and a command"));
    }
    let wish = Wish::parse(&resources, devices, wait).map_err(|why| arguments.error(why))?;
    Ok(Command::With(Options {
        socket,
        wish,
        command,
    }))
}

/// Runs the command with its devices, and returns the exit status of the command.
pub fn run(options: &Options) -> Result<u8> {
    let mut response = request_devices(options)?;
    let line = response.next_line()?.ok_or_else(Failure::daemon_stopped)?;
    let devices = json::parse_object(&line)?;
    let names = devices["cdiDevices"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    let names = names.join(",");
    let variables = [
        ("PLUGIND_CDI_DEVICES", OsStr::new(&names)),
        ("PLUGIND_ALLOCATION", OsStr::from_bytes(&line)),
    ];
    let lost = || print_remark(LOST);
    let ended = response
        .connection
        .run_command(&options.command, &variables, &lost);
    ended.map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => FailureKind::CommandNotFound,
            _ => FailureKind::NotExecutable,
        };
        let why = match error.kind() {
            io::ErrorKind::ArgumentListTooLong => {
                let bytes = line.len();
                format!("its arguments or PLUGIND_ALLOCATION, with {bytes} bytes, are too long")
            }
            _ => error.to_string(),
        };
        let command = escape::bytes(options.command[0].as_bytes());
        Failure::new(kind, format!("cannot run {command}: {why}"))
    })
}

/// Requests the devices, and returns the response once they are allocated. Until the wait is over,
/// retries if the daemon is too busy or not ready, if its response fails, or if a daemon that was
/// reached has stopped: it may be restarting.
fn request_devices(options: &Options) -> Result<Response> {
    let until = Deadline::after(options.wish.wait.unwrap_or_default());
    let mut options = options.clone();
    options.socket = Some(choose_socket(options.socket.as_ref()));
    let mut is_reached = false;
    loop {
        let target = request_target(&options);
        let mut request = Request::get(&target);
        request.changes = true;
        match client(&options).send_request(&request) {
            Err(Failure { kind, .. }) if may_retry(kind, is_reached) && !until.is_over() => {
                is_reached = true;
                until.wait_to_retry();
                options.wish.wait = until.time_left();
            }
            Err(Failure {
                kind: FailureKind::Interrupted | FailureKind::Conflict,
                why,
            }) => return Err(Failure::new(FailureKind::Busy, why)),
            opened => return opened,
        }
    }
}

/// Returns whether a request that failed like this may succeed later. `is_reached`: a daemon was
/// reached before.
fn may_retry(kind: FailureKind, is_reached: bool) -> bool {
    kind == FailureKind::Interrupted || kind == FailureKind::NoDaemon && is_reached
}

/// Returns the client, whose time limit includes the wait and the calls to the plugins.
fn client(options: &Options) -> Client {
    let calls: Duration = options.wish.resources.iter().map(|_| CALLS_TIMEOUT).sum();
    Client {
        socket: choose_socket(options.socket.as_ref()),
        timeout: options.wish.wait.unwrap_or_default() + calls + RESPONSE_TIMEOUT,
    }
}

/// Returns the path and the query of the request.
fn request_target(options: &Options) -> String {
    let mut target = "/v1/allocate?".to_owned();
    let resources = options.wish.resources.iter();
    let resources = resources.map(|(name, count)| ("resource", format!("{name}={count}")));
    let devices = options.wish.devices.iter();
    let devices = devices.map(|id| ("device", id.clone()));
    for (name, value) in resources.chain(devices) {
        target = target + name + "=" + &percent_encode(value.as_bytes()) + "&";
    }
    match options.wish.wait {
        Some(wait) => target + &format!("wait={}", wait.as_millis()),
        None => target,
    }
}

/// The warning when the daemon closes the connection while the command runs.
const LOST: &str =
    "plugind: the daemon has stopped, so the devices in use may be allocated to others\n";

/// The time that the calls to the plugin of a resource may take: three calls of 10 s.
const CALLS_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) const HELP: &str = "\
Run a command that uses devices of device plugins exclusively, as flock(1) runs
one with a file. The devices are taken from those that are healthy and free: the
ones that the plugin prefers, or else of as few NUMA nodes as possible. They are
free again when the command ends, however it ends.

Usage: plugind with [OPTIONS] RESOURCE[=N]... -- COMMAND [ARGUMENT...]

The command has PLUGIND_CDI_DEVICES in its environment, the names of its devices
for a container runtime, separated by commas, and PLUGIND_ALLOCATION, the answer
of the plugin as JSON. Signals are passed on to it. Only root, the daemon's user
and members of its --allocate-group may do this.

Options:
  --device ID          take this device of the only RESOURCE; can be given
                       several times
  --wait               wait until there are devices, in the order of arrival
  --timeout DURATION   wait that long at most
  --socket PATH        the API socket of plugind (default: $PLUGIND_API_SOCKET,
                       else that of your own daemon, else
                       /run/plugind/plugind.sock)

Ends with the status of the command. If too few devices are free, names their
holders. Exit status: 0 done, 1 failed, 2 wrong usage, 3 no daemon, 4 no such
resource, 75 too few devices are free, or the plugin does not answer, 126 the
command cannot be run, 127 the command does not exist.
";

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;
    use std::{fs, thread};

    use lexopt::Parser;

    use super::*;

    fn parse(line: &[&str]) -> std::result::Result<Options, String> {
        let line = [&["with"], line, &["--", "true"]].concat();
        match Command::parse(Parser::from_args(line)) {
            Ok(Command::With(options)) => Ok(options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs a command with a daemon that closes each connection after one of these bodies, or
    /// without a response. Returns the outcome, and the requests.
    fn run_with_daemon(line: &[&str], bodies: &[&str]) -> (Result<u8>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("api.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut options = parse(line).unwrap();
        options.socket = Some(socket);
        let ran = thread::spawn(move || run(&options));
        let requests = bodies.iter().map(|body| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let len = stream.read(&mut request).unwrap();
            if !body.is_empty() {
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n{body}").unwrap();
            }
            String::from_utf8_lossy(&request[..len]).into_owned()
        });
        let requests = requests.collect();
        (ran.join().unwrap(), requests)
    }

    #[test]
    fn the_time_limit_includes_the_wait_and_the_calls() {
        for (line, seconds) in [
            (&["a/b"][..], 40),
            (&["a/b", "a/c"], 70),
            (&["--timeout=1h", "a/b"], 3640),
        ] {
            let timeout = client(&parse(line).unwrap()).timeout;
            assert_eq!(timeout, Duration::from_secs(seconds), "{line:?}");
        }
    }

    #[test]
    fn resources_that_no_daemon_would_grant_are_wrong_usage() {
        let count = "resource must be a name, or a name, = and a number from 1 to 256, and no name \
                     twice";
        let sole = "device needs exactly one resource, with at least as many devices";
        for (line, expected) in [
            (&[""][..], count),
            (&["a/b=0"], count),
            (&["a/b=257"], count),
            (&["a/b=99999999999999999999"], count),
            (&["a/b", "a/b=2"], count),
            (
                &["a", "b", "c", "d", "e", "f", "g", "h", "i"],
                "resource must be given 1 to 8 times",
            ),
            (&["--device=c", "a/b", "a/c"], sole),
            (&["--device=c", "--device=d", "a/b"], sole),
        ] {
            let expected = format!("{expected}; see plugind with --help");
            assert_eq!(parse(line), Err(expected), "{line:?}");
        }
    }

    #[test]
    fn an_answer_that_is_too_long_for_a_variable_is_named() {
        let answer = format!("{{\"a\":\"{}\"}}\n", "x".repeat(128 * 1024));
        let (ran, _) = run_with_daemon(&["a/b"], &[&answer]);
        let why = "cannot run true: its arguments or PLUGIND_ALLOCATION, with 131080 bytes, are \
                   too long";
        let expected = Failure::new(FailureKind::NotExecutable, why);
        assert_eq!(ran, Err(expected));
    }

    #[test]
    fn a_wait_survives_a_restart_of_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("api.sock");
        let mut options = parse(&["--timeout=1h", "a/b"]).unwrap();
        options.socket = Some(socket.clone());
        let listener = UnixListener::bind(&socket).unwrap();
        let (send, ended) = mpsc::channel();
        thread::spawn(move || send.send(run(&options)));
        let stopping = listener.accept().unwrap();
        fs::remove_file(&socket).unwrap();
        drop((listener, stopping));
        let early = ended.recv_timeout(Duration::from_millis(200));
        assert!(early.is_err(), "it ends without a daemon: {early:?}");
        let listener = UnixListener::bind(&socket).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        write!(stream, "HTTP/1.1 200 OK\r\n\r\n{{}}\n").unwrap();
        assert_eq!(ended.recv(), Ok(Ok(0)));
    }

    #[test]
    fn the_wait_does_not_begin_again_with_another_daemon() {
        let (_, requests) = run_with_daemon(&["--timeout=1h", "a/b"], &["", "[]\n"]);
        let waits = requests.iter().map(|it| {
            let (_, wait) = it.split_once("wait=").unwrap();
            let (wait, _) = wait.split_once(' ').unwrap();
            wait.parse().unwrap()
        });
        let waits: Vec<u64> = waits.collect();
        assert!(waits[1] < waits[0], "{waits:?}");
    }
}
