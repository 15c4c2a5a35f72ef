//! A DRA driver on kubelet's own helper library, in the directory of plugins.

use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use super::peer::go_program;
use crate::support::daemon::Daemon;
use crate::support::process::Process;
use crate::support::skip::skip;

#[test]
fn a_driver_on_kubelet_s_helper_registers_with_its_health() {
    let Some(program) = go_program("dra-driver") else {
        return skip("kubelet's helper for DRA drivers is not installed");
    };
    let [registry, data] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut daemon = Daemon::start(registry.path());
    let mut command = Command::new(program);
    command
        .arg(registry.path())
        .arg(data.path())
        .arg("gpu.example.com");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let driver = Process::start(&mut command, |child| child.stdout.take());
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
