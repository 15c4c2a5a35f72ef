//! `plugind simulate` with `plugind run`, and with other clients: the built binary, from a user's
//! point of view.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use bytes::Bytes;
use h2::client::SendRequest;
use plugind::config::MAX_CLIENTS;
use plugind::grpc::{CallError, Code, Status};
use plugind::http2::Endpoint as _;
use plugind::proto::csi_v1::{ProbeRequest, identity};
use plugind::proto::pluginregistration::{InfoRequest, PluginInfo, registration};
use plugind::proto::v1beta1::{
    DevicePluginOptions, Empty, ListAndWatchResponse, RegisterRequest, device_plugin,
};
use prost::Message as _;
use tempfile::TempDir;

use crate::support::binary::binary;
use crate::support::bind::bind;
use crate::support::caller::{Caller, PATIENCE};
use crate::support::daemon::Daemon;
use crate::support::kubelet::Kubelet;
use crate::support::plugin::Plugin;
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
fn a_device_plugin_s_devices_break_and_are_repaired_at_a_signal() {
    let (dir, mut daemon) = node();
    let plugin = Simulated::start(dir.path(), "DevicePlugin", "example.com/gpu", &[]);
    daemon.until_logged("example.com/gpu: received a device list devices=2 healthy=2");
    plugin.hit();
    plugin.until_said("device-1 is now unhealthy");
    daemon.until_logged("devices=2 healthy=1 now_unhealthy=device-1");
    plugin.hit();
    plugin.until_said("device-1 is now healthy");
    daemon.until_logged("devices=2 healthy=2 now_healthy=device-1");
}

#[test]
fn a_device_plugin_s_devices_may_break_by_themselves() {
    let (dir, mut daemon) = node();
    let options = ["--toggle-health", "100ms"];
    let _plugin = Simulated::start(dir.path(), "DevicePlugin", "example.com/gpu", &options);
    for _ in 0..2 {
        daemon.until_logged("now_unhealthy=device-1");
        daemon.until_logged("now_healthy=device-1");
    }
}

#[test]
fn a_dra_driver_is_connected_to_and_tells_how_its_devices_are() {
    let (dir, mut daemon) = node();
    let plugin = Simulated::start(dir.path(), "DRAPlugin", "nic.example", &[]);
    daemon.until_logged("nic.example: selected the DRA service to call service=v1.DRAPlugin");
    daemon.until_logged("nic.example: received device health devices=2 healthy=2");
    plugin.hit();
    daemon.until_logged("nic.example: received device health devices=2 healthy=1");
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
fn a_plugin_that_fails_to_say_who_it_is_is_asked_again() {
    let (dir, mut daemon) = node();
    let options = ["--fail-getinfo", "1"];
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &options);
    plugin.until_said("received GetInfo: returning error 1 of 1");
    daemon.until_logged("GetInfo failed: the peer returned UNAVAILABLE: a simulated failure");
    daemon.until_logged(": registered CSIPlugin disk.example");
    plugin.until_said("received NotifyRegistrationStatus: registered");
}

#[test]
fn a_plugin_that_is_slow_is_registered() {
    let (dir, mut daemon) = node();
    let slow = Simulated::start(dir.path(), "CSIPlugin", "slow", &["--delay", "50ms"]);
    daemon.until_logged(": registered CSIPlugin slow");
    slow.until_said("received NotifyRegistrationStatus: registered");
    let late = Simulated::start(dir.path(), "CSIPlugin", "late", &["--delay", "1h"]);
    // Both ends know the deadline, and either may be the first to notice it.
    let failed = daemon.until_logged("late-reg.sock: attempt 1: GetInfo failed: the peer ");
    if failed.contains("did not respond in time") {
        late.until_said("call cancelled by its caller: pluginregistration.Registration/GetInfo");
    } else {
        assert!(failed.contains("returned DEADLINE_EXCEEDED"), "{failed}");
    }
}

#[test]
fn a_plugin_that_crashes_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let options: [&OsStr; 4] = [
        "--plugins-dir".as_ref(),
        dir.path().as_os_str(),
        "--on-down".as_ref(),
        "deregister=0s".as_ref(),
    ];
    let mut daemon = Daemon::start_with(&options);
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
fn a_plugin_that_does_not_want_to_be_registered_is_deregistered() {
    let (dir, mut daemon) = node();
    let options = ["--reject-notify"];
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &options);
    plugin.until_said("received NotifyRegistrationStatus: registered; returning an error");
    daemon.until_logged("NotifyRegistrationStatus failed: the peer returned UNKNOWN");
    plugin.until_said("received NotifyRegistrationStatus: registered; returning an error");
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

#[tokio::test]
async fn a_legacy_plugin_registers_itself_and_again() {
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
        registration.answer(Ok(()));
        plugin.until_said("example.com/gpu: registered");

        let mut client = h2_client(&socket).await;
        let response = h2_send(&mut client, device_plugin::LIST_AND_WATCH).await;
        let message = response.into_body().data().await.unwrap().unwrap();
        let list = ListAndWatchResponse::decode(&message[5..]).unwrap();
        assert_eq!(list.devices.len(), 2);
    }
    let status = plugin.end_saying("received SIGTERM, stopped; socket removed");
    assert!(status.success(), "{status}");
    assert!(!socket.exists());
}

#[test]
fn a_legacy_plugin_that_is_refused_calls_again() {
    let dir = tempfile::tempdir().unwrap();
    let kubelet = Kubelet::start(dir.path());
    let options = ["--legacy", "--versions", "v0", "--stale"];
    let plugin = Simulated::start(dir.path(), "DevicePlugin", "gpu", &options);
    for pause in ["100ms", "200ms"] {
        let registration = kubelet.called();
        assert_eq!(registration.request.version, "v0");
        let status = Status::new(Code::InvalidArgument, "requested API version \"v0\"");
        registration.answer(Err(status));
        plugin.until_said(&format!(
            "not registered: the peer returned INVALID_ARGUMENT: requested API version \"v0\"; \
             retrying in {pause}"
        ));
    }
    // It ends at once also while it waits for kubelet.
    let pending = kubelet.called();
    let socket = plugin.socket().to_owned();
    plugin.end_saying("received SIGTERM, stopped; socket left behind");
    drop(pending);
    assert!(socket.exists());
}

#[test]
fn a_legacy_plugin_waits_for_kubelet() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    drop(bind(&socket));
    let plugin = Simulated::start(dir.path(), "DevicePlugin", "gpu", &["--legacy"]);
    plugin.until_said(
        "cannot connect to kubelet.sock: nothing listens on the socket; retrying in 100ms",
    );
    fs::remove_file(&socket).unwrap();
    plugin.until_said("kubelet.sock does not exist, waiting for it");
    let kubelet = Kubelet::start(dir.path());
    plugin.until_said("kubelet.sock was created, registering");
    kubelet.called().answer(Ok(()));
    plugin.until_said("gpu: registered");
}

#[test]
fn a_probe_shows_it_as_a_plugin_that_would_be_registered() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Simulated::start(dir.path(), "DevicePlugin", "example.com/gpu", &[]);
    let probed = run(&["probe".as_ref(), plugin.socket().as_os_str()]);
    assert!(probed.status.success(), "{probed:?}");
}

#[test]
fn a_dry_run_shows_it_as_a_plugin_that_would_be_registered() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &[]);
    let watched = dir.path().as_os_str();
    let options = ["--observe".as_ref(), "--plugins-dir".as_ref(), watched];
    let mut observer = Daemon::start_with(&options);
    let line = observer.until_logged(": would register CSIPlugin disk.example at ");
    assert!(line.contains("NodeGetInfo was not called"), "{line}");
    plugin.end_saying("; socket");
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
    let output = run(&[
        "simulate".as_ref(),
        "--name=disk.example".as_ref(),
        "--dir".as_ref(),
        dir.as_os_str(),
        "--endpoint".as_ref(),
        endpoint.as_os_str(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    let socket = dir.join("disk.example-reg.sock");
    let expected = format!("plugind: cannot listen on {}: {why}", socket.display());
    assert!(said.starts_with(&expected), "{said}");
    assert!(!endpoint.exists());
}

#[test]
fn both_signals_end_it_well_even_while_somebody_waits() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--delay", "1h"];
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &options);
    let mut caller = Caller::connect(plugin.socket());
    let call = caller.begin(registration::GET_INFO, &InfoRequest {}, 1 << 16, PATIENCE);
    caller.run_until(|caller| caller.client.transmit().is_empty());
    plugin.until_said("received GetInfo");
    assert!(plugin.end_saying("removed").success());
    assert_eq!(code(caller.end(call)), Err(Code::Unavailable));
}

#[test]
fn who_is_one_too_many_waits_until_another_goes() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &[]);
    let connect = |_| {
        let mut caller = Caller::connect(plugin.socket());
        caller.get_info().expect("an answer");
        caller
    };
    let mut callers: Vec<Caller> = (0..MAX_CLIENTS).map(connect).collect();
    let mut waiting = Caller::connect(plugin.socket());
    let call = waiting.begin(registration::GET_INFO, &InfoRequest {}, 1 << 16, PATIENCE);
    waiting.run_until(|caller| caller.client.transmit().is_empty());
    // The other clients are still served, so it is not for lack of time that this one is not.
    callers[1].get_info().expect("an answer");
    for _ in 0..=MAX_CLIENTS {
        plugin.until_said("received GetInfo");
    }
    assert_eq!(plugin.try_said(), None);
    drop(callers.remove(0));
    assert!(waiting.end(call).is_ok());
}

#[test]
fn who_speaks_something_else_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example", &[]);
    let mut stranger = UnixStream::connect(plugin.socket()).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    stranger.read_to_end(&mut Vec::new()).unwrap();
    Caller::connect(plugin.socket())
        .get_info()
        .expect("an answer");
}

#[tokio::test]
async fn an_h2_client_hears_that_a_method_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Simulated::start(dir.path(), "DevicePlugin", "example.com/gpu", &[]);
    let mut client = h2_client(plugin.socket()).await;
    for unknown in [identity::PROBE, "/v1beta1.DevicePlugin/Other", "/"] {
        let (messages, status) = h2_call(&mut client, unknown).await;
        assert_eq!((messages, &*status), (vec![], "12"), "{unknown}");
    }
    let (messages, status) = h2_call(&mut client, registration::GET_INFO).await;
    let info = PluginInfo::decode(&messages[5..]).unwrap();
    assert_eq!((&*info.name, &*status), ("example.com/gpu", "0"));
}

#[tokio::test]
async fn an_h2_client_hears_of_every_change_on_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Simulated::start(dir.path(), "DevicePlugin", "example.com/gpu", &[]);
    let mut client = h2_client(plugin.socket()).await;
    let response = h2_send(&mut client, device_plugin::LIST_AND_WATCH).await;
    let mut body = response.into_body();
    for health in ["Healthy", "Unhealthy", "Healthy"] {
        let message = body.data().await.unwrap().unwrap();
        body.flow_control().release_capacity(message.len()).unwrap();
        let list = ListAndWatchResponse::decode(&message[5..]).unwrap();
        assert_eq!(list.devices[1].health, health);
        plugin.hit();
    }
}

/// Connects an `h2` client.
async fn h2_client(socket: &Path) -> SendRequest<Bytes> {
    let stream = tokio::net::UnixStream::connect(socket).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// Calls a method with an empty message. Returns once the headers of the response have arrived.
async fn h2_send(client: &mut SendRequest<Bytes>, path: &str) -> http::Response<h2::RecvStream> {
    let request = http::Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = request.body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
    response.await.unwrap()
}

/// Calls a method. Returns the messages of the answer, and its status.
async fn h2_call(client: &mut SendRequest<Bytes>, path: &str) -> (Vec<u8>, String) {
    let response = h2_send(client, path).await;
    let mut status = response.headers().get("grpc-status").cloned();
    let mut body = response.into_body();
    let mut messages = Vec::new();
    while let Some(part) = body.data().await {
        messages.extend_from_slice(&part.unwrap());
    }
    if let Some(trailers) = body.trailers().await.unwrap() {
        status = trailers.get("grpc-status").cloned();
    }
    let status = status.expect("a status");
    (messages, status.to_str().unwrap().to_owned())
}

/// Replaces the error of a failed call by its code.
fn code<T>(result: Result<T, CallError>) -> Result<T, Code> {
    result.map_err(|error| error.code())
}

/// Runs the binary to its end.
fn run(arguments: &[&OsStr]) -> Output {
    Command::new(binary()).args(arguments).output().unwrap()
}
