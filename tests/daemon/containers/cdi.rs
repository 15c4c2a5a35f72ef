//! The files of the Container Device Interface, as the daemon keeps them in their directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use plugind::handler::device::TYPE;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::node::{Node, line};
use crate::support::inside::{run_on, within};
use crate::support::process::Process;
use crate::support::simulated::Simulated;
use crate::support::until::until;

const RESOURCE: &str = "example.com/gpu";

/// A daemon with a directory for files.
struct Cdi {
    node: Node,
    dir: TempDir,
}

impl Cdi {
    fn start() -> Self {
        Self::start_on(tempfile::tempdir().unwrap())
    }

    fn start_on(dir: TempDir) -> Self {
        let node = Node::start_with(&[&option(dir.path())]);
        Self { node, dir }
    }

    fn simulate(&self, name: &str, options: &[&str]) -> Simulated {
        Simulated::start(&self.node.registry(""), TYPE, name, options)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("plugind-example.com-gpu.json")
    }

    /// Waits until the file has these devices, and returns it.
    #[track_caller]
    fn until_devices(&self, names: &[&str]) -> Value {
        until("the devices in the file", || {
            let file = fs::read(self.file()).ok()?;
            let file: Value = serde_json::from_slice(&file).unwrap();
            let devices = file["devices"].as_array().unwrap().iter();
            let found = devices.map(|device| device["name"].as_str().unwrap());
            found.eq(names.iter().copied()).then_some(file)
        })
    }

    #[track_caller]
    fn until_removed(&self) {
        until("the file is removed", || {
            (!self.file().exists()).then_some(())
        });
    }
}

fn option(dir: &Path) -> String {
    format!("--cdi-dir={}", dir.display())
}

/// Runs a daemon that cannot start with that directory, and returns what it prints.
fn refused(dir: &Path) -> String {
    let own = tempfile::tempdir().unwrap();
    let line = line(own.path(), &["--socket=none", &option(dir)]);
    let ran = Process::run(Process::command().arg("run").args(line));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    ran.err
}

#[test]
fn a_file_has_each_healthy_device_with_the_answer_of_its_plugin() {
    let cdi = Cdi::start();
    let plugin = cdi.simulate(RESOURCE, &[]);
    let file = cdi.until_devices(&["device-0", "device-1"]);
    let mount = json!({
        "hostPath": cdi.node.registry("").to_str().unwrap().trim_end_matches('/'),
        "containerPath": "/run/simulated", "options": ["rbind", "rprivate", "ro"],
    });
    let node = json!({"path": "/dev/device-1", "hostPath": "/dev/null", "permissions": "rw"});
    assert_eq!(
        (&file["cdiVersion"], &file["kind"], &file["devices"][1]),
        (
            &json!("0.5.0"),
            &json!(RESOURCE),
            &json!({"name": "device-1", "containerEdits": {
                "env": ["SIMULATED_DEVICES=device-1"], "deviceNodes": [node], "mounts": [mount],
            }})
        )
    );
    let mode = fs::metadata(cdi.file()).unwrap().permissions().mode();
    assert_eq!(
        mode & 0o133,
        0,
        "it is readable, and only its owner changes it"
    );

    plugin.hit();
    cdi.until_devices(&["device-0"]);
    plugin.hit();
    cdi.until_devices(&["device-0", "device-1"]);
    plugin.kill();
    cdi.until_removed();
}

#[test]
fn a_device_that_is_refused_or_passed_by_name_is_in_no_file() {
    let mut cdi = Cdi::start();
    let refusing = cdi.simulate("example.com/a", &["--refuse-allocate"]);
    let line = cdi.node.daemon.until_logged("asking again");
    assert!(
        line.contains("Allocate of device-0: ") && line.contains("a simulated refusal"),
        "{line}"
    );
    for _ in 0..3 {
        refusing.until_said("received v1beta1.DevicePlugin/Allocate"); // Again after a pause.
    }
    let names = ["--cdi-devices=vendor.com/gpu=all"];
    let passing = cdi.simulate("example.com/b", &names);
    passing.until_said("received v1beta1.DevicePlugin/Allocate");
    let unusual = cdi.simulate("example.com/0", &[]);
    cdi.node.daemon.until_logged("does not begin with a letter");
    let _hanging = cdi.simulate("example.com/c", &["--delay-allocate=1h"]);
    let _serving = cdi.simulate(RESOURCE, &[]);
    cdi.until_devices(&["device-0", "device-1"]);
    let mut names: Vec<_> = fs::read_dir(cdi.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".plugind.lock", "plugind-example.com-gpu.json"]);
    assert!(unusual.try_said().is_some());
}

#[test]
fn files_of_an_earlier_run_are_removed_and_those_of_others_stay() {
    let cdi = Cdi::start();
    let plugin = cdi.simulate(RESOURCE, &[]);
    cdi.until_devices(&["device-0", "device-1"]);
    fs::write(cdi.dir.path().join("nvidia.json"), "{}").unwrap();
    let Cdi { node, dir } = cdi;
    let file = dir.path().join("plugind-example.com-gpu.json");
    node.daemon.end_with(Signal::SIGKILL);
    assert!(file.exists());
    // A directory of a killed daemon can be used again.
    drop(Node::start_with(&["--observe", &option(dir.path())]));
    plugin.kill();
    let node = Node::start_with(&[&option(dir.path())]);
    assert!(!file.exists() && dir.path().join("nvidia.json").exists());
    drop(node);
}

#[test]
fn a_directory_that_is_not_safe_or_is_used_prevents_a_start() {
    let cdi = Cdi::start();
    let dir = tempfile::tempdir().unwrap();
    let [link, shared, file] = ["link", "shared", "file"].map(|name| dir.path().join(name));
    symlink(cdi.dir.path(), &link).unwrap();
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(&file, "").unwrap();
    for (dir, why) in [
        (cdi.dir.path(), "another plugind uses it"),
        (&link, "it is a symbolic link"),
        (&shared, "is writable by its group or others"),
        (&file, "cannot use the CDI directory"),
    ] {
        let error = refused(dir);
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn a_change_that_fails_is_made_later() {
    let mut cdi = Cdi::start();
    fs::create_dir(cdi.file()).unwrap(); // Nothing can be renamed to it.
    let _plugin = cdi.simulate(RESOURCE, &[]);
    cdi.node
        .daemon
        .until_logged("cannot update the CDI files, retrying");
    fs::remove_dir(cdi.file()).unwrap();
    cdi.node
        .daemon
        .until_logged("the CDI files can be updated again");
    cdi.until_devices(&["device-0", "device-1"]);
}

#[test]
fn a_disk_that_is_full_or_read_only_is_tried_again() {
    within("mount -t tmpfs -o size=16k none /mnt", || {
        let mut cdi = Cdi::start_on(tempfile::tempdir_in("/mnt").unwrap());
        let fails = "cannot update the CDI files, retrying";
        let filler = cdi.dir.path().join("filler");
        assert!(fs::write(&filler, vec![0; 32 * 1024]).is_err());
        let plugin = cdi.simulate(RESOURCE, &[]);
        let line = cdi.node.daemon.until_logged(fails);
        assert!(line.contains("No space left on device"), "{line}");
        fs::remove_file(filler).unwrap();
        cdi.until_devices(&["device-0", "device-1"]);
        drop(plugin);
        cdi.until_removed();
        run_on(cdi.dir.path(), "mount -t tmpfs -o ro none");
        let _plugin = cdi.simulate(RESOURCE, &[]);
        let line = cdi.node.daemon.until_logged(fails);
        assert!(line.contains("Read-only file system"), "{line}");
        run_on(cdi.dir.path(), "umount");
        cdi.until_devices(&["device-0", "device-1"]);
    });
}

#[test]
fn a_reload_leaves_the_files_to_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plugind.conf");
    let cdi = dir.path().join("cdi");
    fs::write(&file, format!("cdi-dir {}\n", cdi.display())).unwrap();
    let node = Node::start_with(&[&format!("--config={}", file.display())]);
    let node = Cdi { node, dir };
    let _plugin = node.simulate(RESOURCE, &[]);
    let published = cdi.join("plugind-example.com-gpu.json");
    until("the file", || published.exists().then_some(()));
    fs::write(&file, "").unwrap();
    let reloaded = node.node.ask("POST", "/v1/reload").json();
    assert_eq!(reloaded["needsRestart"], json!(["cdi-dir"]));
    assert!(published.exists());
}
