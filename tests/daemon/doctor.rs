//! `plugind doctor` on directories, sockets and limits that are prepared for it: what it finds, and
//! that it changes nothing.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::Uid;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::binary::binary;
use crate::support::bind::bind;
use crate::support::inside::within;
use crate::support::process::{Process, Running};
use crate::support::program::copy_binary;
use crate::support::simulated::Simulated;
use crate::support::skip::{can_be_others_or_skip, fuse_can_be_opened_or_skip};
use crate::support::text::assert_has;
use crate::support::until::until;

older_kernels! {
    without_openat2: Openat2 [];
    where_a_filter_denies_what_it_does_not_know: Denied [];
    without_inotify: Inotify [
        "a_node_without_a_problem_has_exit_status_0": "there is a warning",
        "a_directory_of_others_or_a_file_or_none_is_reported": "there is a warning",
        "an_endpoint_elsewhere_is_a_note": "there is a warning",
        "limits_that_are_too_low_are_named": "another problem is found first",
    ];
    without_proc: Proc [
        "a_kubelet_with_the_same_root_is_a_warning": "processes are found in /proc",
        "a_file_system_that_does_not_answer_is_not_entered": "namespaces are made through /proc",
        "limits_that_are_too_low_are_named": "namespaces are made through /proc",
        "sockets_in_the_root_of_another_distribution_are_found":
            "namespaces are made through /proc",
    ];
}

#[test]
fn a_node_without_a_problem_has_exit_status_0() {
    if !crate::support::watches::are_enough_or_skip() {
        return;
    }
    let place = Place::new();
    let plugin = Simulated::start(&place.dir, "CSIPlugin", "a", &[]);
    let socket = plugin.socket().to_str().unwrap();
    let json = place.examine(&[]);
    assert_eq!(json.status, 0, "{json:?}");
    let found = json.about("sockets");
    assert_eq!(found["level"], "ok");
    assert_eq!(found["paths"][0], socket);
    assert_eq!(json.about("directory")["level"], "ok", "{json:?}");
    assert_eq!(json.about("daemon")["level"], "note");
    assert!(!place.home.path().join("run").exists());

    plugin.until_said("received GetInfo");
    assert_eq!(plugin.try_said(), None, "it is not notified");

    let text = Process::run(&mut place.doctor(&[]));
    assert_eq!(text.code, Some(0));
    let line = format!("ok       sockets      {socket}: the plugin would be registered\n");
    assert_has(&text.out, &line);
}

#[test]
fn a_plugin_of_an_unknown_type_is_a_warning() {
    let place = Place::new();
    let _plugin = Simulated::start(&place.dir, "Toaster", "a", &[]);
    let json = place.examine(&[]);
    assert_eq!(json.status, 1, "{json:?}");
    let message = "would refuse the plugin: no handler for plugin type \"Toaster\"";
    json.assert_finds("sockets", "warning", message);
    json.assert_finds("sockets", "warning", "--type");
}

#[test]
fn sockets_that_only_root_can_connect_to_are_a_note() {
    let place = Place::new();
    let open = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(open.path(), Permissions::from_mode(0o755)).unwrap();
    let plugins = ["a", "b"].map(|name| Simulated::start(open.path(), "CSIPlugin", name, &[]));
    for (plugin, mode) in plugins.iter().zip([0o777, 0o755]) {
        fs::set_permissions(plugin.socket(), Permissions::from_mode(mode)).unwrap();
    }
    let named = format!("--plugins-dir={}", open.path().display());
    let found = place.examine(&[&named]);
    let notes = found
        .all_about("sockets")
        .filter(|it| it["level"] == "note");
    let [note] = notes.collect::<Vec<_>>()[..] else {
        panic!("{found:?}");
    };
    assert_has(
        note["message"].as_str().unwrap(),
        "an ordinary user could not connect",
    );
    assert_eq!(note["paths"], serde_json::json!([plugins[1].socket()]));
}

#[test]
fn a_dead_socket_is_named_escaped_and_the_exit_status_is_1() {
    let place = Place::new();
    let name = "a\x1b[2J\n.sock";
    drop(bind(&place.dir.join(name)));
    let json = place.examine(&[]);
    assert_eq!(json.status, 1);
    let message = "nothing listens on the socket";
    let found = json.assert_finds("sockets", "warning", message);
    assert_eq!(found["paths"][0], place.dir.join(name).to_str().unwrap());
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n');
    assert!(json.out.bytes().all(is_plain));
    let text = Process::run(&mut place.doctor(&[]));
    assert_eq!(text.code, Some(1));
    assert_has(
        &text.out,
        "/a\\u{1b}[2J\\n.sock: nothing listens on the socket",
    );
    assert_has(
        &text.out,
        "  remedy     check that it is running and listens on this socket\n",
    );
}

#[test]
fn a_socket_to_which_this_user_may_not_connect_is_a_warning() {
    let place = Place::new();
    let socket = place.dir.join("a.sock");
    let _plugin = UnixListener::bind(&socket).unwrap();
    let mut command = place.doctor(&["-ojson"]);
    if Uid::effective().is_root() {
        // Root may connect to every socket, so another user has to try.
        if !can_be_others_or_skip() {
            return;
        }
        let copy = place.home.path().join("plugind");
        copy_binary(&copy);
        fs::set_permissions(place.home.path(), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&socket, Permissions::from_mode(0o700)).unwrap();
        let missing = place.home.path().join("missing");
        let missing = format!("--plugins-dir={}", missing.display());
        command = place.doctor_of(copy.as_os_str(), &["-ojson", &missing]);
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    } else {
        fs::set_permissions(&socket, Permissions::from_mode(0o000)).unwrap();
    }
    let json = Examined::by(&mut command);
    assert_eq!(json.status, 1);
    json.assert_finds("sockets", "warning", "permission");
    if Uid::effective().is_root() {
        let denied = "it cannot be created: permission denied";
        let mut directories = json.all_about("directory");
        assert!(directories.any(|it| it["message"] == denied), "{json:?}");
    }
}

#[test]
fn a_directory_of_others_or_a_file_or_none_is_reported() {
    let place = Place::new();
    fs::set_permissions(&place.dir, Permissions::from_mode(0o777)).unwrap();
    let file = place.home.path().join("file");
    fs::write(&file, "").unwrap();
    let missing = place.home.path().join("a/b");
    let [file, missing] = [&file, &missing].map(|dir| format!("--plugins-dir={}", dir.display()));
    let json = place.examine(&[&file, &missing]);
    let found: Vec<_> = json.all_about("directory").collect();
    let levels = found.iter().map(|it| it["level"].as_str().unwrap());
    assert!(levels.eq(["warning", "problem", "note"]), "{json:?}");
    let remedy = "use a path on which only root and the daemon's user can change anything";
    assert_eq!(found[0]["remedy"], remedy);
    assert_eq!(found[1]["message"], "it is not a directory");
    assert!(!place.home.path().join("a").exists());
}

#[test]
fn an_endpoint_elsewhere_is_a_note() {
    let place = Place::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let option = format!("--endpoint={}/csi.sock", elsewhere.path().display());
    let plugin = Simulated::start(&place.dir, "CSIPlugin", "a", &[&option]);
    let json = place.examine(&[]);
    assert_eq!(json.status, 0);
    let found = json.assert_finds("trust", "note", "; allowed by --endpoint-dir");
    assert_eq!(found["paths"][0], plugin.socket().to_str().unwrap());
}

#[test]
fn sockets_in_the_root_of_another_distribution_are_found() {
    let prepare = "mount -t tmpfs -o mode=755 none /var/lib";
    within(prepare, || {
        let k0s = Path::new("/var/lib/k0s/kubelet/plugins_registry");
        fs::create_dir_all(k0s).unwrap();
        let _plugin = UnixListener::bind(k0s.join("a.sock")).unwrap();
        let place = Place::new();
        let json = place.examine(&[]);
        assert_eq!(json.status, 1);
        let remedy = "use --root-dir /var/lib/k0s/kubelet";
        json.assert_finds("root-dir", "warning", remedy);

        let json = place.examine(&["--root-dir=/var/lib/k0s/kubelet"]);
        assert_eq!(json.all_about("root-dir").count(), 0, "{json:?}");
    });
}

#[test]
fn limits_that_are_too_low_are_named() {
    let prepare = "echo 0 > /proc/sys/user/max_inotify_instances";
    within(prepare, || {
        let place = Place::new();
        let json = place.examine(&[]);
        let raise = "raise the sysctl fs.inotify.max_user_instances";
        json.assert_finds("directory", "warning", raise);
        assert_eq!(json.status, 1);
    });
}

#[test]
fn a_kubelet_with_the_same_root_is_a_warning() {
    let place = Place::new();
    let root = place.home.path().join("root");
    fs::create_dir_all(root.join("plugins_registry")).unwrap();
    // The name of a process is that of the file that was executed.
    let program = place.home.path().join("kubelet");
    symlink("/bin/sh", &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["-c", "read line", "kubelet"]);
    command.arg(format!("--root-dir={}", root.display()));
    let kubelet = Running(command.stdin(Stdio::piped()).spawn().unwrap());
    let process = format!("/proc/{}", kubelet.0.id());
    // The kernel wakes the parent before it sets the name and the arguments.
    let reads = |file: &str| fs::read_to_string(format!("{process}/{file}")).unwrap();
    until("the name and the arguments of the process", || {
        let is_named = reads("comm") == "kubelet\n";
        (is_named && reads("cmdline").contains("--root-dir")).then_some(())
    });
    let named = format!("process={process}");
    let is_it = |it: &&Value| it["message"].as_str().unwrap().ends_with(&named);
    let elsewhere = place.examine(&[]);
    let found = elsewhere.all_about("kubelet").find(is_it);
    let found = found.unwrap_or_else(|| panic!("{elsewhere:?}"));
    assert_eq!(found["level"], "note");
    assert_eq!(found["paths"][0], root.to_str().unwrap());
    // Another path to the same directory.
    let link = place.home.path().join("link");
    symlink(&root, &link).unwrap();
    let here = place.examine(&[&format!("--root-dir={}", link.display())]);
    let found = here.all_about("kubelet").find(is_it).unwrap();
    assert_eq!(found["level"], "warning");
    assert_eq!(here.status, 1);
}

#[test]
fn the_socket_of_a_daemon_listens_is_dead_or_is_missing() {
    let place = Place::new();
    let socket = place.home.path().join("plugind.sock");
    let option = format!("--socket={}", socket.display());
    let level = |options: &[&str]| place.examine(options).about("daemon").clone();
    assert_eq!(level(&[])["level"], "note");
    assert_eq!(level(&[&option])["level"], "warning");
    let listener = UnixListener::bind(&socket).unwrap();
    assert_eq!(level(&[&option])["level"], "ok");
    let mut command = place.doctor(&["-ojson"]);
    command.env("PLUGIND_API_SOCKET", &socket);
    assert_eq!(Examined::by(&mut command).about("daemon")["level"], "ok");
    drop(listener);
    fs::remove_file(&socket).unwrap();
    drop(bind(&socket));
    let found = level(&[&option]);
    assert_eq!(found["message"], "nothing listens on the socket");
    assert_eq!(found["level"], "warning");
}

#[test]
fn a_file_system_that_does_not_answer_is_not_entered() {
    if !fuse_can_be_opened_or_skip() {
        return;
    }
    // The mount returns errors once its last descriptor is closed, so the test keeps it open.
    let options = "fd=3,rootmode=40000,user_id=0,group_id=0";
    let prepare = format!(
        "exec 3<>/dev/fuse && mount -t tmpfs -o mode=755 none /mnt && mkdir /mnt/stalled && \
         mount -i -t fuse -o {options} stalled /mnt/stalled"
    );
    within(&prepare, || {
        let place = Place::new();
        for (option, level) in [
            ("--plugins-dir=/mnt/stalled", "problem"),
            ("--plugins-dir=/mnt/stalled/a/b", "problem"),
            ("--plugins-dir=/mnt", "warning"),
            ("--run-dir=/mnt/stalled/run", "warning"),
            ("--socket=/mnt/stalled/plugind.sock", "warning"),
        ] {
            let json = place.examine(&[option]);
            let mut findings = json.findings.iter();
            let is_it = |it: &&Value| it["message"].as_str().unwrap().contains("may not answer");
            let found = findings.find(is_it);
            let found = found.unwrap_or_else(|| panic!("{option}: {json:?}"));
            assert_eq!(found["level"], level, "{option}");
        }
    });
}

/// A plugins directory.
struct Place {
    home: TempDir,
    dir: PathBuf,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("plugins");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        Self { home, dir }
    }

    /// Returns a command that examines the directory, with further options, which come last.
    fn doctor(&self, options: &[&str]) -> Command {
        self.doctor_of(&binary(), options)
    }

    fn doctor_of(&self, binary: &OsStr, options: &[&str]) -> Command {
        let mut command = Command::new(binary);
        command.env_remove("PLUGIND_API_SOCKET");
        command.args(["doctor", "--plugins-dir"]).arg(&self.dir);
        command.arg("--run-dir").arg(self.home.path().join("run"));
        command.args(options);
        command
    }

    /// Examines the directory with further options.
    fn examine(&self, options: &[&str]) -> Examined {
        Examined::by(&mut self.doctor(&[&["-ojson"], options].concat()))
    }
}

/// The findings of an examination.
#[derive(Debug)]
struct Examined {
    status: i32,
    out: String,
    findings: Vec<Value>,
}

impl Examined {
    #[track_caller]
    fn by(command: &mut Command) -> Self {
        let ran = Process::run(command);
        assert_eq!(ran.err, "");
        Self {
            status: ran.code.unwrap(),
            findings: ran.json()["findings"].as_array().unwrap().clone(),
            out: ran.out,
        }
    }

    /// Returns the findings of a check.
    fn all_about(&self, check: &str) -> impl Iterator<Item = &Value> {
        self.findings.iter().filter(move |it| it["check"] == check)
    }

    /// Asserts that the first finding of a check has this level, and these words in its message or
    /// in its remedy. Returns it.
    #[track_caller]
    fn assert_finds(&self, check: &str, level: &str, words: &str) -> &Value {
        let found = self.about(check);
        assert_eq!(found["level"], level, "{self:?}");
        let mut texts = ["message", "remedy"]
            .iter()
            .filter_map(|key| found[key].as_str());
        assert!(texts.any(|text| text.contains(words)), "{words}: {found}");
        found
    }

    /// Returns the first finding of a check.
    #[track_caller]
    fn about(&self, check: &str) -> &Value {
        let found = self.all_about(check).next();
        found.unwrap_or_else(|| panic!("no {check}: {self:?}"))
    }
}

/// The ID of a user without any rights.
const UNPRIVILEGED: u32 = 65_534;
