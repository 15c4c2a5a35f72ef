//! Command-line clients, where the machine has them: one call with `curl` or `grpcurl`, and many at
//! once with `h2load`, to a simulated plugin and to `kubelet.sock`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::daemon::Daemon;
use crate::support::simulated::Simulated;
use crate::support::skip::skip;

#[test]
fn curl_calls_a_simulated_plugin_and_kubelet_sock() {
    if !is_installed("curl") {
        return skip("curl is not installed");
    }
    let [dir, plugins] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example.com", &[]);
    let method = "pluginregistration.Registration/GetInfo";
    let info = curl(plugin.socket(), method, b"");
    assert!(info.contains("grpc-status: 0"), "{info}");
    assert!(info.contains("disk.example.com"), "{info}");
    let sockets = plugins.path().join("device-plugins");
    let option = format!("--device-plugins-dir={}", sockets.display());
    let _daemon = Daemon::start_with(&plugins.path().join("registry"), &[&option]);
    // The message names a version that does not exist.
    let (method, message) = ("v1beta1.Registration/Register", b"\x0a\x02v0");
    let refused = curl(&sockets.join("kubelet.sock"), method, message);
    assert!(refused.contains("grpc-status: 2"), "{refused}");
}

#[test]
fn grpcurl_reads_the_description_of_a_simulated_plugin() {
    if !is_installed("grpcurl") {
        return skip("grpcurl is not installed");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example.com", &[]);
    let mut grpcurl = Command::new("grpcurl");
    grpcurl.args(["-plaintext", "-unix", "-import-path", "proto"]);
    grpcurl.args(["-proto", "pluginregistration.proto"]);
    grpcurl.arg(plugin.socket());
    grpcurl.arg("pluginregistration.Registration/GetInfo");
    let output = grpcurl.output().expect("grpcurl runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("\"name\": \"disk.example.com\""),
        "{output:?}"
    );
}

#[test]
fn h2load_makes_all_its_calls() {
    if !is_installed("h2load") {
        return skip("h2load is not installed");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "disk.example.com", &[]);
    let body = dir.path().join("message");
    fs::write(&body, [0; 5]).expect("the request can be written");
    let base = format!("unix:{}", plugin.socket().display());
    let mut h2load = Command::new("h2load");
    h2load.args(["-n", "2000", "-c", "4", "-m", "16", "-B", &base, "-d"]);
    h2load
        .arg(&body)
        .args(["-H", "content-type: application/grpc"]);
    h2load.args(["-H", "te: trailers"]);
    h2load.arg("http://localhost/pluginregistration.Registration/GetInfo");
    let output = h2load.output().expect("h2load runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("2000 succeeded, 0 failed"), "{said}");
}

/// Calls a method with a message; returns the headers and the body of the response.
fn curl(socket: &Path, method: &str, message: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let length = u8::try_from(message.len()).expect("a short message");
    let body = [&[0, 0, 0, 0, length], message].concat();
    fs::write(&file, body).expect("the request can be written");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--http2-prior-knowledge", "--include"]);
    curl.arg("--unix-socket").arg(socket);
    curl.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
    curl.arg("--data-binary")
        .arg(format!("@{}", file.path().display()));
    let output = curl.arg(format!("http://localhost/{method}")).output();
    let output = output.expect("curl runs").stdout;
    String::from_utf8_lossy(&output).into_owned()
}

fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}
