//! `plugind simulate` with `plugind run`, and with other clients: the built binary, from a user's
//! point of view.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use plugind::grpc::{CallError, Code};
use plugind::proto::csi_v1::{ProbeRequest, identity, node};
use plugind::proto::pluginregistration::PluginInfo;
use plugind::proto::v1beta1::{DevicePluginOptions, Empty, RegisterRequest, device_plugin};
use tempfile::TempDir;

use crate::support::caller::Caller;
use crate::support::daemon::Daemon;
use crate::support::kubelet::Kubelet;
use crate::support::plugin::Plugin;
use crate::support::process::Process;
use crate::support::simulated::Simulated;

/// Returns a directory, and the daemon that watches it.
fn node() -> (TempDir, Daemon) {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    (dir, daemon)
}

#[test]
fn a_csi_driver_is_registered_and_tells_of_its_node() {
    let (dir, mut daemon) = node();
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &[]);
    daemon.until_logged(
        "disk.example: received node information node_id=\"simulated-node\" max_volumes=16 \
         topology=zone=a",
    );
    let line = daemon.until_logged(": registered CSIPlugin disk.example");
    let socket = plugin.socket().to_owned();
    assert!(line.ends_with(socket.to_str().unwrap()), "{line}");
    plugin.until_said("disk.example: received NotifyRegistrationStatus: registered");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let status = plugin.end_saying("received SIGTERM, stopped; socket removed");
    assert!(status.success(), "{status}");
    assert!(!socket.exists());
    daemon.until_logged(": deregistered CSIPlugin disk.example");
}

#[test]
fn a_driver_that_is_killed_beside_its_registrar_is_down() {
    let (dir, mut daemon) = node();
    let elsewhere = tempfile::tempdir().unwrap();
    let serve = || Simulated::start(elsewhere.path(), "CSIPlugin", "disk.example", &[]);
    let driver = serve();
    let endpoint = driver.socket().to_owned();
    let registrar =
        Plugin::serve_elsewhere(&dir.path().join("reg.sock"), "disk.example", &endpoint);
    assert!(registrar.until_notified().plugin_registered);
    driver.kill();
    let endpoint = endpoint.display();
    let line = daemon.until_logged("disk.example is down: ");
    let ended = format!("the driver's process at {endpoint} has ended");
    assert!(line.contains(&ended), "{line}");
    let _driver = serve();
    daemon.until_logged("disk.example is up again");
}

#[test]
fn a_csi_driver_is_asked_for_its_node_in_the_period() {
    let dir = tempfile::tempdir().unwrap();
    let _daemon = Daemon::start_with(dir.path(), &["--csi-node-info=*=10s"]);
    let driver = Plugin::serve(&dir.path().join("reg.sock"), "disk.example");
    assert!(driver.until_notified().plugin_registered);
    driver.until_asked(node::NODE_GET_INFO);
    driver.until_asked(node::NODE_GET_INFO);
}

#[test]
fn a_plugin_of_another_type_is_what_its_options_say() {
    let (dir, mut daemon) = node();
    let plugin = Simulated::start(dir.path(), "Toaster", "toast", &["--versions", "a,b"]);
    plugin.until_said("received NotifyRegistrationStatus: not registered: RegisterPlugin error -- no handler registered");
    daemon.until_logged("no handler for plugin type \"Toaster\"");
    let info = PluginInfo {
        r#type: "Toaster".to_owned(),
        name: "toast".to_owned(),
        endpoint: String::new(),
        supported_versions: vec!["a".to_owned(), "b".to_owned()],
    };
    assert_eq!(Caller::connect(plugin.socket()).get_info(), Ok(info));
}

#[test]
fn a_service_may_have_a_socket_of_its_own_and_both_go_together() {
    let (dir, mut daemon) = node();
    let services = tempfile::tempdir().unwrap();
    let endpoint = services.path().join("csi.sock");
    let options = ["--endpoint", endpoint.to_str().unwrap()];
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &options);
    let line = daemon.until_logged(": registered CSIPlugin disk.example");
    assert!(line.ends_with(endpoint.to_str().unwrap()), "{line}");
    let mut service = Caller::connect(&endpoint);
    assert!(service.unary(identity::PROBE, &ProbeRequest {}).is_ok());
    assert_eq!(code(service.get_info()), Err(Code::Unimplemented));

    plugin.end_saying("; sockets removed");
    assert!(!endpoint.exists());
    daemon.until_logged(": deregistered CSIPlugin disk.example");
}

#[test]
fn a_plugin_that_crashes_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start_with(dir.path(), &["--on-down=deregister=0s"]);
    let crash = ["--crash-after", "2s"];
    let plugin = Simulated::start(dir.path(), "DevicePlugin", "example.com/gpu", &crash);
    let socket = plugin.socket().to_owned();
    daemon.until_logged(": registered DevicePlugin example.com/gpu");
    plugin.until_said("crashing");
    assert_eq!(plugin.until_ended().code(), Some(137));
    assert!(socket.exists());
    daemon.until_logged("is down");
    daemon.until_logged(": deregistered DevicePlugin example.com/gpu");

    let plugin = Simulated::start(dir.path(), "DevicePlugin", "example.com/gpu", &[]);
    daemon.until_logged(": registered DevicePlugin example.com/gpu");
    plugin.until_said("received NotifyRegistrationStatus: registered");
}

#[test]
fn a_plugin_that_leaves_its_socket_behind_is_down() {
    let (dir, mut daemon) = node();
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &["--stale"]);
    let socket = plugin.socket().to_owned();
    daemon.until_logged(": registered CSIPlugin disk.example");
    let status = plugin.end_saying("received SIGTERM, stopped; socket left behind");
    assert!(status.success(), "{status}");
    daemon.until_logged("is down");
    assert!(socket.exists());

    let successor = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &[]);
    daemon.until_logged(": deregistered CSIPlugin disk.example");
    daemon.until_logged(": registered CSIPlugin disk.example");
    successor.until_said("received NotifyRegistrationStatus: registered");
    successor.end_saying("; socket removed");
    assert!(!socket.exists());
}

#[test]
fn a_legacy_plugin_registers_itself_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let expected = RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint: "example.com_gpu-plugin.sock".to_owned(),
        resource_name: "example.com/gpu".to_owned(),
        options: Some(DevicePluginOptions::default()),
    };
    let mut kubelet = Kubelet::start(dir.path());
    let plugin = Simulated::start(dir.path(), "DevicePlugin", "example.com/gpu", &["--legacy"]);
    let socket = plugin.socket().to_owned();
    for is_first in [true, false] {
        if !is_first {
            drop(kubelet);
            kubelet = Kubelet::start(dir.path());
            plugin.until_said("kubelet.sock was created, registering again");
            plugin.until_said("its socket was removed, listening again");
            plugin.until_said(&format!("listening on {}", socket.display()));
        }
        let registration = kubelet.called();
        assert_eq!(registration.request, expected);
        // kubelet calls the plugin before it replies.
        let mut caller = Caller::connect(&socket);
        let method = device_plugin::GET_DEVICE_PLUGIN_OPTIONS;
        assert!(caller.unary(method, &Empty {}).is_ok());
        assert_eq!(code(caller.get_info()), Err(Code::Unimplemented));
        registration.accept();
        plugin.until_said("example.com/gpu: registered");
    }
    let status = plugin.end_saying("received SIGTERM, stopped; socket removed");
    assert!(status.success(), "{status}");
    assert!(!socket.exists());
}

#[test]
fn a_second_plugin_on_one_socket_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let first = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &[]);
    assert_refused(dir.path(), "process ");
    first.end_saying("removed");
    fs::write(dir.path().join("disk.example-reg.sock"), "precious").unwrap();
    assert_refused(dir.path(), "it is not a socket");
    assert_refused(&dir.path().join("missing"), "No such file");
}

/// Asserts that a plugin cannot listen in `dir`, reports why, and leaves no other socket behind.
#[track_caller]
fn assert_refused(dir: &Path, why: &str) {
    let services = tempfile::tempdir().unwrap();
    let endpoint = services.path().join("csi.sock");
    let mut command = Process::command();
    command
        .args(["simulate", "--name=disk.example", "--dir"])
        .arg(dir);
    let ran = Process::run(command.arg("--endpoint").arg(&endpoint));
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    let socket = dir.join("disk.example-reg.sock");
    let expected = format!("plugind: cannot listen on {}: {why}", socket.display());
    assert!(ran.err.starts_with(&expected), "{ran:?}");
    assert!(!endpoint.exists());
}

/// Replaces the error of a failed call by its code.
fn code<T>(result: Result<T, CallError>) -> Result<T, Code> {
    result.map_err(|error| error.code())
}
