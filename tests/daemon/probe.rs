//! `plugind probe` with a real socket of each kind: its output, and its exit code.

use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::mem;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use plugind::proto::pluginregistration::{PluginInfo, registration};
use prost::Message as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::binary::binary;
use crate::support::bind::bind;
use crate::support::grpc::{Server, Status, UNIMPLEMENTED};
use crate::support::plugin::info;
use crate::support::process::{Process, Ran};
use crate::support::program::install;
use crate::support::text::assert_has;
use crate::support::timed::assert_faster;

#[test]
fn a_plugin_that_would_be_registered_is_shown_step_by_step() {
    let place = Place::new();
    let calls = place.plugin(info("CSIPlugin", "hostpath.csi.example"));
    let probed = place.probe(&[]);
    assert_eq!(probed.code, Some(0));
    assert!(calls.try_iter().eq([registration::GET_INFO]));
    for step in [
        "ms  SocketFound          found a socket\n",
        "ms  WouldRegister        would register CSIPlugin hostpath.csi.example at ",
        "; NodeGetInfo was not called\n",
        "    outcome              the plugin would be registered\n",
    ] {
        assert_has(&probed.out, step);
    }
}

#[test]
fn json_has_what_the_text_has() {
    let place = Place::new();
    place.plugin(info("CSIPlugin", "hostpath.csi.example"));
    let json = place.probe(&["-o", "json"]).json();
    assert_eq!(json["outcome"], "WouldRegister");
    assert_eq!(json["exitStatus"], 0);
    assert_eq!(json["plugin"]["name"], "hostpath.csi.example");
    assert_eq!(json["versions"][0], "1.0.0");
    assert_eq!(json["steps"][0]["reason"], "SocketFound");
    assert!(json["steps"][1]["afterMicroseconds"].is_u64());
}

#[test]
fn a_plugin_of_an_unknown_type_would_be_refused() {
    let place = Place::new();
    place.plugin(info("Toaster", "toast.example"));
    let json = place.probe(&["-o", "json"]).json();
    assert_eq!(json["exitStatus"], 5);
    let told = format!(
        "RegisterPlugin error -- no handler registered for plugin type: Toaster at socket {}",
        place.socket().display()
    );
    assert_eq!(json["notification"], told);
    assert_eq!(place.probe(&["--type", "Toaster"]).code, Some(0));
}

#[test]
fn what_a_plugin_says_cannot_move_a_cursor() {
    let place = Place::new();
    place.plugin(info("CSIPlugin\x1b[2J\u{9b}31m", "a"));
    place.assert_shows(&[], 5, "\"CSIPlugin\\u{1b}[2J\\u{9b}31m\"");
    let json = place.probe(&["-o", "json"]);
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n');
    assert!(json.out.bytes().all(is_plain));
    let notification = json.json()["notification"].to_string();
    assert_has(&notification, "CSIPlugin\\u001b[2J");
}

#[test]
fn what_is_no_plugin_and_what_may_become_one_differ_in_status() {
    for (answer, status, words) in [
        (Err(Status(UNIMPLEMENTED.0, "unknown")), 6, "unknown"),
        (Ok(b"\x0a\x02\xff\xfe".to_vec()), 6, "is not a PluginInfo"),
        (Err(Status(14, "not%20yet")), 7, "not yet"),
    ] {
        let place = Place::new();
        let answer = Mutex::new(Some(answer));
        place.service(move |_| answer.lock().unwrap().take().expect("it is called once"));
        place.assert_shows(&[], status, words);
    }
    for (octets, words) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "400"),
        (b"\x1b[2J-MariaDB-5.5\x00\x00\x00", "GetInfo failed: "),
    ] {
        let place = Place::new();
        place.peer(|mut stream| {
            stream.write_all(octets).unwrap();
            let _ = stream.read(&mut [0; 1024]);
        });
        let shown = place.assert_shows(&[], 6, words);
        assert!(!shown.contains('\x1b'));
    }
    let place = Place::new();
    place.assert_shows(&[], 7, "cannot examine the file: ");
    fs::write(place.socket(), "hello").unwrap();
    place.assert_shows(&[], 6, "not a socket");
}

#[test]
fn a_peer_that_closes_at_once_may_require_tls() {
    let place = Place::new();
    place.peer(drop);
    place.assert_shows(&[], 8, "without TLS");
    let json = place.probe(&["-o", "json"]).json();
    assert_eq!(json["outcome"], "ClosedAtOnce");
    assert_eq!(json["exitStatus"], 8);
}

#[test]
fn a_plugin_whose_endpoint_is_missing_has_its_own_outcome() {
    let place = Place::new();
    for (kind, version) in [
        ("CSIPlugin", "1.0.0"),
        ("DevicePlugin", "v1beta1"),
        ("DRAPlugin", "v1.DRAPlugin"),
    ] {
        let endpoint = place.home.path().join("none.sock");
        let _calls = place.plugin(info_with_endpoint(kind, version, &endpoint));
        let failed = format!("cannot connect to its endpoint {}: ", endpoint.display());
        place.assert_shows(&[], 9, &failed);
        let json = place.probe(&["-o", "json"]).json();
        assert_eq!(json["outcome"], "EndpointUnavailable");
        assert_eq!(json["endpoint"], endpoint.to_str().unwrap());
        fs::remove_file(place.socket()).unwrap();
    }
}

#[test]
fn an_endpoint_is_connected_to_where_it_is_mapped_to() {
    let place = Place::new();
    let service = Place::at(place.home.path().join("plugins/service"));
    let calls = service.service(|_| Err(Status(UNIMPLEMENTED.0, "not to be called")));
    let endpoint = Path::new("/nowhere/a-reg.sock");
    place.plugin(info_with_endpoint("CSIPlugin", "1.0.0", endpoint));
    assert_eq!(place.probe(&[]).code, Some(9));

    let map = format!("--map-path=/nowhere={}", service.dir.display());
    let answers = format!("connected to its endpoint {}\n", service.socket().display());
    place.assert_shows(&[&map], 0, &answers);
    assert_eq!(calls.try_iter().count(), 0);
}

#[test]
fn a_program_is_checked_as_the_daemon_checks_it_and_is_not_run() {
    let place = Place::new();
    place.plugin(info("Toaster", "toast.example"));
    let trace = place.home.path().join("trace");
    let program = place.home.path().join("hook");
    install(&program, &format!("#!/bin/sh\ntouch {}\n", trace.display()));
    let exec = format!("--exec=Toaster={}", program.display());
    place.assert_shows(&[&exec], 0, "; the program was not run\n");
    assert!(!trace.exists());

    fs::set_permissions(&program, Permissions::from_mode(0o777)).unwrap();
    let ran = Process::run(plugind().arg(&exec).arg(place.socket()));
    ran.assert_fails(1, "use a path on which only root");
}

#[test]
fn a_probe_takes_no_longer_than_the_user_allows() {
    let place = Place::new();
    place.peer(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let json = place.probe(&["--timeout=200ms", "-o", "json"]).json();
    assert_eq!(json["exitStatus"], 7);
    let took = last_step(&json);
    assert!(took >= Duration::from_millis(150), "{took:?}");
    assert_faster(took, Duration::from_secs(4));
}

#[test]
fn each_step_is_printed_as_it_is_taken() {
    let place = Place::new();
    let (close, may_close) = mpsc::channel::<()>();
    let may_close = Mutex::new(may_close);
    place.peer(move |stream| {
        let _ = may_close.lock().unwrap().recv();
        drop(stream);
    });
    let probe = Process::printing(plugind().arg(place.socket()));
    assert_has(&probe.until_line(""), "plugind ");
    assert_has(&probe.until_line(""), "SocketFound");
    // Only now can the next step end.
    close.send(()).unwrap();
    assert_has(&probe.until_line(""), "GetInfoFailed");
    assert_eq!(probe.end().0.code(), Some(8));
}

#[test]
fn every_socket_in_a_directory_is_probed_like_the_daemons() {
    let good = Place::new();
    good.plugin(info("CSIPlugin", "good.example"));
    let below = Place::at(good.dir.join("below/deeper"));
    below.plugin(info("Toaster", "toast.example"));
    let hidden = Place::at(good.dir.join(".hidden"));
    drop(hidden.listen());
    fs::write(good.dir.join("file"), "").unwrap();
    symlink(good.socket(), good.dir.join("link.sock")).unwrap();
    symlink(&below.dir, good.dir.join("elsewhere")).unwrap();

    let probed = probe(&good.dir, &[]);
    assert_eq!(probed.code, Some(5), "{probed:?}");
    let summary = format!(
        "\n2 sockets in {}\n          1  the plugin would be registered\n          \
         1  the plugin would be refused\n",
        good.dir.display()
    );
    assert!(probed.out.ends_with(&summary), "{}", probed.out);

    let json = probe(&good.dir, &["-o", "json"]).json();
    let probed = json.as_array().unwrap().iter();
    let sockets: Vec<_> = probed.map(|it| it["socket"].clone()).collect();
    assert_eq!(json!(sockets), json!([good.socket(), below.socket()]));
}

#[test]
fn kubelet_s_root_directory_stands_for_its_plugins_directory() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().to_str().unwrap();
    let place = Place::at(home.path().join("plugins_registry"));
    let empty = plugind().args(["--root-dir", root, "-ojson"]).output();
    assert_eq!(empty.unwrap().stdout, b"[]\n");
    place.plugin(info("CSIPlugin", "good.example"));
    let ran = Process::run(plugind().args(["--root-dir", root]));
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("1 socket in "), "{ran:?}");
    let missing = Process::run(plugind().arg("--root-dir=/missing"));
    missing.assert_fails(1, "sockets in /missing/plugins_registry: No such file");
}

#[test]
fn a_socket_that_nobody_listens_on_is_unreachable_at_once() {
    let place = Place::new();
    drop(bind(&place.socket()));
    let json = place.probe(&["-o", "json"]).json();
    assert_eq!(json["exitStatus"], 7);
    let message = json["steps"][1]["message"].as_str().unwrap();
    assert_has(message, "nothing listens on the socket");
    assert_faster(last_step(&json), Duration::from_millis(900));
}

/// The place of a socket that exists, or does not.
struct Place {
    home: TempDir,
    dir: PathBuf,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("plugins");
        fs::create_dir(&dir).unwrap();
        Self { home, dir }
    }

    /// Creates the directory, and returns a place in it.
    fn at(dir: PathBuf) -> Self {
        fs::create_dir_all(&dir).unwrap();
        let home = tempfile::tempdir().unwrap();
        Self { home, dir }
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("a-reg.sock")
    }

    /// Listens on the socket through a descriptor: its path may be too long for an address.
    fn listen(&self) -> UnixListener {
        let dir = File::open(&self.dir).unwrap();
        let address = format!("/proc/self/fd/{}/a-reg.sock", dir.as_raw_fd());
        UnixListener::bind(address).unwrap()
    }

    /// Accepts connections and passes each to `behave`, for as long as the test runs.
    fn peer(&self, behave: impl Fn(UnixStream) + Send + 'static) {
        let listener = self.listen();
        thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(behave));
    }

    /// Answers every call with `answer`, which is given its path. Returns the paths of the calls.
    fn service(
        &self,
        answer: impl Fn(&str) -> Result<Vec<u8>, Status> + Send + Sync + 'static,
    ) -> Receiver<String> {
        let (caller, called) = mpsc::channel();
        let service = move |path: &str, _: &[u8]| {
            let _ = caller.send(path.to_owned());
            answer(path)
        };
        // It serves to the end of the test.
        mem::forget(Server::start(self.listen(), service));
        called
    }

    /// Serves a plugin that reports this info. Returns the paths of the calls.
    fn plugin(&self, info: PluginInfo) -> Receiver<String> {
        self.service(move |path| {
            assert_eq!(path, registration::GET_INFO);
            Ok(info.encode_to_vec())
        })
    }

    #[track_caller]
    fn probe(&self, options: &[&str]) -> Ran {
        probe(&self.socket(), options)
    }

    /// Runs the probe, which has this exit code and prints these words. Returns its output.
    #[track_caller]
    fn assert_shows(&self, options: &[&str], code: i32, words: &str) -> String {
        let ran = self.probe(options);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_has(&ran.out, words);
        ran.out
    }
}

/// Returns the info of a plugin whose service has a socket of its own.
fn info_with_endpoint(kind: &str, version: &str, endpoint: &Path) -> PluginInfo {
    PluginInfo {
        endpoint: endpoint.to_str().unwrap().to_owned(),
        supported_versions: vec![version.to_owned()],
        ..info(kind, "disk.example/disk")
    }
}

/// Returns the time from the beginning of a probe to its last step.
fn last_step(json: &Value) -> Duration {
    let steps = json["steps"].as_array().unwrap();
    let after = &steps.last().unwrap()["afterMicroseconds"];
    Duration::from_micros(after.as_u64().unwrap())
}

/// Runs the probe.
#[track_caller]
fn probe(socket: &Path, options: &[&str]) -> Ran {
    let ran = Process::run(plugind().args(options).arg(socket));
    assert_eq!(ran.err, "");
    ran
}

/// Returns a command that runs the probe of the built binary.
fn plugind() -> Command {
    let mut command = Command::new(binary());
    command.arg("probe");
    command
}
