//! The commands of plugind-takeover(7), as far as they can be run without systemd and kubelet.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::binary::binary;
use crate::support::daemon::Daemon;
use crate::support::process::Process;
use crate::support::simulated::Simulated;

/// Returns the commands that the page shows.
fn commands() -> Vec<String> {
    let page = include_str!("../../../src/dist/man/plugind-takeover.7");
    let shown = page.split(".Bd ").skip(1);
    let shown = shown.flat_map(|it| it.split(".Ed").next().unwrap().lines().skip(1));
    shown.map(|line| line.replace(r"\-", "-")).collect()
}

/// Returns a command of `plugind`, for these directories instead of kubelet's.
fn plugind(command: &str, dir: &Path) -> Command {
    let mut line = Command::new(binary());
    line.args(command.split(' ').skip(1));
    for (variable, path) in [
        ("PLUGIND_PLUGINS_DIR", "registry"),
        ("PLUGIND_RUN_DIR", "run"),
        ("PLUGIND_API_SOCKET", "run/plugind.sock"),
        ("PLUGIND_CONFIG", "plugind.conf"),
    ] {
        line.env(variable, dir.join(path));
    }
    line
}

/// Runs a command, and returns what it prints.
#[track_caller]
fn run(command: &str, dir: &Path) -> String {
    let ran = Process::run(&mut plugind(command, dir));
    assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
    ran.out
}

#[test]
fn the_commands_of_a_takeover_do_what_its_page_says() {
    let commands = commands();
    let words: Vec<&str> = commands.iter().map(String::as_str).collect();
    let [
        observe,
        stop_kubelet,
        doctor,
        check,
        start,
        wait,
        list,
        stop,
        start_kubelet,
    ] = words[..]
    else {
        panic!("{words:?}");
    };
    let of_systemd = [stop_kubelet, start, stop, start_kubelet];
    assert_eq!(
        of_systemd.map(|it| it.rsplit(' ').next().unwrap()),
        ["kubelet", "plugind", "plugind", "kubelet"]
    );
    let above = tempfile::tempdir().unwrap();
    let dir = above.path();
    for name in ["registry", "devices", "run"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    let devices = dir.join("devices").to_str().unwrap().to_owned();
    fs::write(
        dir.join("plugind.conf"),
        format!("device-plugins-dir {devices}\n"),
    )
    .unwrap();
    let plugin = Simulated::start(&dir.join("registry"), "CSIPlugin", "csi.example", &[]);

    let mut observing = Daemon::start_command(&mut plugind(observe, dir));
    observing.until_logged("would register");
    observing.end_with(Signal::SIGTERM);
    while let Some(line) = plugin.try_said() {
        assert!(!line.contains("NotifyRegistrationStatus"), "{line}");
    }

    let mut examine = plugind(doctor, dir);
    let registry = dir.join("registry");
    let found = Process::run(examine.arg("--plugins-dir").arg(registry)).out;
    assert!(found.contains("would be registered"), "{found}");
    assert!(run(check, dir).contains(&devices));

    // As the service does.
    let mut daemon = Daemon::start_command(&mut plugind("plugind run", dir));
    run(wait, dir);
    daemon.until_logged("registered CSIPlugin csi.example");
    plugin.until_said("registered");
    assert!(run(list, dir).contains("csi.example"));
    assert!(dir.join("devices/kubelet.sock").exists());
    let (status, _) = daemon.end_with(Signal::SIGTERM);
    assert!(status.success());
    assert!(plugin.socket().exists());
    for gone in ["devices/kubelet.sock", "run/plugind.sock"] {
        assert!(!dir.join(gone).exists(), "{gone}");
    }
}
