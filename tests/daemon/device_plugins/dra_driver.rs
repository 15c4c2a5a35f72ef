//! A DRA driver on kubelet's own helper library, in the directories that kubelet has for it.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use plugind::config::PLUGINS_DIR;

use super::peer::go_program;
use crate::support::daemon::Daemon;
use crate::support::process::Process;
use crate::support::skip::skip;
use crate::support::trusted::trusted_dir;

#[test]
fn a_driver_on_kubelet_s_helper_registers_with_its_health() {
    let Some(program) = go_program("dra-driver") else {
        return skip("kubelet's helper for DRA drivers is not installed");
    };
    let root = trusted_dir();
    let registry = root.path().join(PLUGINS_DIR);
    let data = root.path().join("plugins/gpu.example.com");
    fs::create_dir_all(&data).unwrap();
    let options = [("--root-dir", root.path().to_owned())];
    let mut daemon = Daemon::start_strict(root.path(), &options);
    let mut command = Command::new(program);
    command.arg(&registry).arg(&data).arg("gpu.example.com");
    let driver = Process::printing(command.stderr(Stdio::null()));
    daemon.until_logged(
        "DRAPlugin gpu.example.com: selected the DRA service to call service=v1.DRAPlugin",
    );
    // Its stream of health is open before or after the driver is notified.
    let registered = "registered DRAPlugin gpu.example.com at ";
    let seen = daemon.lines_until("received device health devices=1 healthy=1");
    if !seen.iter().any(|line| line.contains(registered)) {
        daemon.until_logged(registered);
    }
    driver.signal(Signal::SIGTERM);
    daemon.until_logged("deregistered DRAPlugin gpu.example.com");
    assert!(driver.end().0.success());
}
