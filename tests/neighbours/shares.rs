//! Places, names, memory and log lines of which one client takes all that it gets.
//!
//! The daemon counts by processes and users, so attackers are processes of their own: this program
//! runs itself, as [`attack`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
use plugind::config::{API_CLIENTS, DIAL_TIMEOUT, MAX_CLIENT_REGISTRATIONS, MAX_PROGRAMS};
use plugind::proto::v1beta1::registration;
use tempfile::TempDir;

use crate::churn::until as until_over;
use crate::honest::{register, register_type};
use crate::memory::list;
use crate::programs::Hook;
use crate::readers::api_at;
use crate::row::Row;
use crate::support::caller::Caller;
use crate::support::canned::{Canned, HEAD, Play, flood};
use crate::support::client::{self, ask};
use crate::support::kubelet::{self, octets_of_call, request};
use crate::support::plugin::Plugin;
use crate::support::process::Process;
use crate::support::skip::{programs_can_be_trusted_or_skip, skip};
use crate::support::until::until;
use crate::until::Steps;

/// Processes of the attacker, which end with this.
struct Attackers(Vec<Child>);

impl Attackers {
    /// Starts this many processes that do the same at a socket or directory.
    fn start(count: usize, what: &str, path: &Path) -> Self {
        let start = |_| {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", "shares::attack", "--ignored", "--nocapture"]);
            command.env(WHAT, what).env(PATH, path).stdin(Stdio::null());
            command.stdout(Stdio::null()).spawn().unwrap()
        };
        Self((0..count).map(start).collect())
    }

    /// Lets them attack until the attack is over.
    fn run(count: usize, what: &str, path: &Path, over: &AtomicBool) {
        let _attackers = Self::start(count, what, path);
        Steps::last(over);
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        for process in &mut self.0 {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

#[test]
#[ignore = "a process of the attacker"]
fn attack() {
    let (Some(what), Some(path)) = (env::var_os(WHAT), env::var_os(PATH)) else {
        return;
    };
    let path = PathBuf::from(path);
    match what.to_str().unwrap() {
        "wait" => wait_for_plugins(&path),
        "announce" => announce_names(&path),
        "connect" => loop {
            drop(UnixStream::connect(&path));
        },
        "watch" => watch(&path),
        "take over" => {
            become_another();
            let plugin = Plugin::serve_type(&path.join("thief.sock"), "X", "victim");
            loop {
                plugin.until_notified();
            }
        }
        what => panic!("unknown: {what}"),
    }
}

/// Makes calls on 16 connections, which wait for a plugin that does not answer.
fn wait_for_plugins(kubelet: &Path) {
    let endpoint = format!("hung-{}.sock", process::id());
    let _plugin = UnixListener::bind(kubelet.with_file_name(&endpoint)).unwrap();
    let names = RefCell::new(0..);
    let begin = || {
        let n: u32 = names.borrow_mut().next().unwrap();
        let name = format!("example.com/hung-{}-{n}", process::id());
        let call = octets_of_call(&request(&endpoint, &name));
        let mut stream = UnixStream::connect(kubelet).unwrap();
        stream.set_read_timeout(Some(GLANCE)).unwrap();
        let _ = stream.write_all(&call);
        (stream, Instant::now())
    };
    let mut calls: Vec<_> = (0..16).map(|_| begin()).collect();
    loop {
        for (stream, since) in &mut calls {
            let is_closed = match stream.read(&mut [0; 4096]) {
                Ok(count) => count == 0,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
            if is_closed || since.elapsed() > DIAL_TIMEOUT {
                (*stream, *since) = begin();
            }
        }
    }
}

/// Announces as many plugins as there may be, again and again.
fn announce_names(kubelet: &Path) {
    let _plugin = Plugin::serve_devices(&kubelet.with_file_name("greedy.sock"), "", &list(1), 0);
    let mut caller = Caller::connect(kubelet);
    let mut numbers = (0..1023).cycle();
    loop {
        let mut begin = || {
            let name = format!("example.com/greedy-{}", numbers.next().unwrap());
            let request = request("greedy.sock", &name);
            caller.begin(registration::REGISTER, &request, 1024, DIAL_TIMEOUT)
        };
        let calls: Vec<_> = (0..MAX_CLIENT_REGISTRATIONS).map(|_| begin()).collect();
        for call in calls {
            let _ = caller.end(call);
        }
    }
}

/// Watches all that the API has to tell, on twice as many connections as it has places.
fn watch(socket: &Path) {
    become_another();
    let connect = |_| {
        let mut client = client::Client::connect(socket);
        client.request("GET", "/v1/watch");
        client
    };
    let _clients: Vec<_> = (0..2 * API_CLIENTS).map(connect).collect();
    loop {
        thread::park();
    }
}

/// Makes this process one of another user.
fn become_another() {
    setgroups(&[Gid::from_raw(OTHER)]).unwrap();
    setgid(Gid::from_raw(OTHER)).unwrap();
    setuid(Uid::from_raw(OTHER)).unwrap();
}

fn may_become_another_or_skip() -> bool {
    let may = Uid::effective().is_root();
    if !may {
        skip("this process may have one user only");
    }
    may
}

/// Has honest device plugins announce themselves while this many processes attack `kubelet.sock`.
fn withstand_callers(row: Row, attackers: usize, what: &str) {
    let dir = tempfile::tempdir().unwrap();
    let kubelet = dir.path().join("kubelet.sock");
    let socket = kubelet.clone();
    row.options(["--device-plugins-dir".as_ref(), dir.path()])
        .honest(move |_, name| announce(&socket, name))
        .ends_early()
        .withstand(|_, over| Attackers::run(attackers, what, &kubelet, over));
}

/// Starts a device plugin, registers it by a call, and stops it. Each five times it is one for a
/// new resource: a process may have some. Returns the time until the call was answered.
fn announce(kubelet: &Path, name: &str) -> Duration {
    let (phase, n) = name.split_once('-').unwrap();
    let resource = format!("example.com/{phase}-{}", n.parse::<u32>().unwrap() / 5);
    let endpoint = format!("{name}.sock");
    let start = Instant::now();
    let plugin = Plugin::serve_devices(&kubelet.with_file_name(&endpoint), "", &list(8), 0);
    let registered = kubelet::register(kubelet, &request(&endpoint, &resource));
    let time = start.elapsed();
    assert_eq!(registered, Ok(()), "{name}");
    plugin.stop();
    time
}

#[test]
fn calls_that_wait_for_plugins() {
    let row = Row::new("208 calls that wait for plugins", "30 s without an answer");
    withstand_callers(row, 13, "wait");
}

#[test]
fn a_process_with_a_thousand_names() {
    let row = Row::new("a process with 1,023 names", "new names are refused");
    withstand_callers(row, 1, "announce");
}

#[test]
fn connections_that_are_opened_and_closed() {
    let row = Row::new("connections without end", "p50 183 to 392 ms");
    withstand_callers(row.restless(), 4, "connect");
}

#[test]
fn lists_of_less_than_16_kib() {
    let (_run, socket) = api_dir();
    let api = socket.clone();
    let budget: [OsString; 2] = ["--memory-budget".into(), "1Mi".into()];
    Row::new("80 small lists beside 1 MiB", "an honest list is cut")
        .options(api_at(&socket))
        .options(budget)
        .honest(move |dir, name| {
            let path = dir.join(format!("{name}.sock"));
            let name = format!("example.com/{name}");
            let start = Instant::now();
            let plugin = Plugin::serve_devices(&path, &name, &list(400), 0);
            assert!(plugin.until_notified().plugin_registered);
            let time = start.elapsed();
            until("its devices are listed", || {
                let listed = ask(&api, "GET", &format!("/v1/devices?name={name}")).body;
                (listed.matches("\"Healthy\"").count() == 400).then_some(())
            });
            plugin.stop();
            time
        })
        .ends_early()
        .withstand(|dir, over| {
            let serve = |n| {
                let name = format!("example.com/greedy-{n}");
                Plugin::serve_devices(&dir.join(format!("{n}.sock")), &name, &list(150), 0)
            };
            let plugins: Vec<_> = (0..80).map(serve).collect();
            Steps::last(over);
            plugins.into_iter().for_each(Plugin::stop);
        });
}

/// Returns a run directory, and the path of the API socket in it.
fn api_dir() -> (TempDir, PathBuf) {
    let run = tempfile::tempdir().unwrap();
    let socket = run.path().join("plugind.sock");
    (run, socket)
}

/// Has root ask for a reload. Returns how long it took.
fn reload(socket: &Path) -> Duration {
    let start = Instant::now();
    let response = ask(socket, "POST", "/v1/reload");
    assert_eq!(response.status, 200, "{response:?}");
    start.elapsed()
}

#[test]
fn watches_of_another_user() {
    if !may_become_another_or_skip() {
        return;
    }
    let (run, socket) = api_dir();
    fs::set_permissions(run.path(), Permissions::from_mode(0o755)).unwrap();
    let api = socket.clone();
    Row::new("32 watches, and reloads of root", "503 for 38 s")
        .options(api_at(&socket))
        .options([format!("--socket-group={OTHER}")])
        .honest(move |_, _| reload(&api))
        .ends_early()
        .withstand(|_, over| Attackers::run(1, "watch", &socket, over));
}

#[test]
fn a_loop_of_reloads() {
    let (_run, socket) = api_dir();
    Row::new("a loop of reloads", "2.7 MiB of log in 4 s")
        .options(api_at(&socket))
        .ends_early()
        .withstand(|_, over| {
            while !over.load(Ordering::Relaxed) {
                reload(&socket);
            }
        });
}

#[test]
fn a_takeover_beside_sockets_that_are_renewed() {
    if !may_become_another_or_skip() {
        return;
    }
    let (_run, socket) = api_dir();
    Row::new(
        "sockets renewed in 30 directories",
        "a takeover is not seen",
    )
    .options(api_at(&socket))
    .options(["--type=X", "--type=CSIPlugin"])
    .restless()
    .checked(move |daemon| {
        daemon.forget_lines();
        let victim = Plugin::serve_type(&daemon.root().join("victim.sock"), "X", "victim");
        assert!(victim.until_notified().plugin_registered);
        let dir = daemon.root().join("other");
        fs::create_dir(&dir).unwrap();
        chown(&dir, Some(OTHER), Some(OTHER)).unwrap();
        fs::set_permissions(daemon.root(), Permissions::from_mode(0o755)).unwrap();
        let _thief = Attackers::start(1, "take over", &dir);
        let line = daemon.until_logged(TAKEOVER);
        assert!(line.contains("WARN"), "{line}");
        for n in 0..150 {
            register(daemon.root(), &format!("later-{n}"));
        }
        let events = ask(&socket, "GET", "/v1/events").body;
        assert!(events.contains(TAKEOVER), "{events}");
        victim.stop();
    })
    .ends_early()
    .withstand(|dir, over| {
        let dirs: Vec<_> = (0..30).map(|n| dir.join(n.to_string())).collect();
        for dir in &dirs {
            fs::create_dir(dir).unwrap();
        }
        let mut dirs = dirs.iter().cycle().zip(0..);
        let mut sockets = VecDeque::new();
        until_over(over, || {
            let (dir, n) = dirs.next().unwrap();
            let socket = dir.join(format!("evil-{n}.sock"));
            UnixListener::bind(&socket)?;
            sockets.push_back(socket);
            if sockets.len() > 100 {
                fs::remove_file(sockets.pop_front().unwrap())?;
            }
            Ok(())
        });
    });
}

#[test]
fn programs_of_one_type_that_hang() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    let (hangs, ends) = (Hook::new("exec sleep 1000"), Hook::new("exit 0"));
    Row::new(
        "16 programs of one type that hang",
        "other types wait for 30 s",
    )
    .options(hangs.options())
    .options(ends.options_for("Quick"))
    .honest(|dir, name| register_type(dir, "Quick", name))
    .ends_early()
    .withstand(|dir, over| {
        let serve = |n| {
            let socket = dir.join(format!("{n}.sock"));
            Plugin::serve_type(&socket, "Hooked", &format!("hung-{n}"))
        };
        let plugins: Vec<_> = (0..2 * MAX_PROGRAMS).map(serve).collect();
        Steps::last(over);
        plugins.into_iter().for_each(Plugin::stop);
    });
}

#[test]
fn a_response_without_end_is_given_up() {
    let drip: Play = Box::new(|mut stream| {
        let mut sent = stream.write_all(HEAD.as_bytes());
        for _ in 0..40 {
            if sent.is_err() {
                return;
            }
            thread::park_timeout(Duration::from_secs(1));
            sent = stream.write_all(b" ");
        }
    });
    let record = "HTTP/1.1 200 OK\r\n\r\n{\"kind\":\"PluginList\",\"items\":[0";
    let (zeros, blank) = (",0,0,0,0,0,0,0,0,0,0,0,0", "                ");
    for (play, words, limit) in [
        (flood(record, zeros), "too long", 10),
        (flood(HEAD, blank), "too long", 10),
        (drip, "is not complete after 30s", 35),
    ] {
        let daemon = Canned::start([play]);
        let mut command = Process::command();
        command.args(["list", "--socket"]).arg(daemon.socket());
        let start = Instant::now();
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(words), "{said}");
        assert_eq!(output.status.code(), Some(1), "{said}");
        let took = start.elapsed();
        assert!(took < Duration::from_secs(limit), "{said}: {took:?}");
        println!("| a response without end | 10 s or no end | given up after {took:?}: {said} |");
    }
}

/// The words of the warning.
const TAKEOVER: &str = "takes the place of a plugin of another user";

/// The time for which a client without an answer is listened to.
const GLANCE: Duration = Duration::from_millis(1);

/// Another user, and the group that may read the API.
const OTHER: u32 = 4242;

/// The variables of a process of the attacker: what it does, and where.
const WHAT: &str = "TEST_ATTACK";
const PATH: &str = "TEST_ATTACK_AT";
