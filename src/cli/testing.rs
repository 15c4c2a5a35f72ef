//! Fixtures for the tests of the commands: parsed command lines, and responses of a daemon.

use std::path::PathBuf;

use lexopt::Parser;
use serde_json::{Value, json};

use super::Command;
use super::client::{Client, RESPONSE_TIMEOUT};
use super::options::{Context, Options};

/// The current time for the tests: 2026-01-31T12:00:00Z.
pub(super) const NOW: u64 = 1_769_860_800_000;

/// Parses the command line of a command that asks a running daemon.
pub(super) fn parse_options(line: &[&str]) -> Options {
    match Command::parse(Parser::from_args(line)) {
        Ok(Command::Ask(options)) => options,
        other => panic!("{other:?}"),
    }
}

/// Returns the context of a command, without a daemon.
pub(super) fn context(options: &Options, is_coloured: bool) -> Context<'_> {
    Context {
        options,
        client: Client {
            socket: PathBuf::new(),
            timeout: RESPONSE_TIMEOUT,
        },
        is_coloured,
    }
}

/// Returns a record of a plugin that has been in its state for five seconds.
pub(super) fn record(kind: &str, name: &str, state: &str, socket: &str) -> Value {
    json!({
        "type": kind, "name": name, "state": state, "socket": socket, "endpoint": socket,
        "since": "2026-01-31T11:59:55.000Z", "attempts": 1,
    })
}

/// Returns the records of two plugins, one of which has two sockets, and of a socket whose plugin
/// is not known yet.
pub(super) fn records() -> Vec<Value> {
    let csi = |state: &str, since: &str, socket: &str, endpoint: &str| {
        json!({
            "type": "CSIPlugin", "name": "ebs.csi.aws.com", "state": state, "since": since,
            "socket": socket, "endpoint": endpoint, "versions": ["1.0.0"], "attempts": 1,
        })
    };
    let gpu = json!({
        "type": "DevicePlugin", "name": "example.com/gpu", "state": "Backoff",
        "socket": "/r/gpu.sock", "endpoint": "/r/gpu.sock", "since": "2026-01-31T11:59:55.000Z",
        "versions": ["v1beta1", "v1alpha"], "attempts": 3, "pid": 812, "uid": 0,
        "reason": "GetInfoFailed", "lastError": "GetInfo: deadline \u{1b}[31mexceeded",
        "nextRetry": "2026-01-31T12:00:12.500Z",
        "details": {"devices": {"total": 4, "healthy": 3, "connected": true}},
    });
    let all = [
        json!({"state": "Connecting", "socket": "/r/new.sock", "since": "2026-01-31T12:00:00.000Z"}),
        gpu,
        csi(
            "Registered",
            "2026-01-31T11:56:48.000Z",
            "/r/b.sock",
            "/p/ebs.sock",
        ),
        csi(
            "Standby",
            "2026-01-29T12:00:00.000Z",
            "/r/a.sock",
            "/r/b.sock",
        ),
    ];
    all.into()
}

/// Returns events about the two plugins of [`records`].
pub(super) fn events() -> Vec<Value> {
    let all = [
        json!({
            "generation": 3, "type": "Normal", "reason": "SocketFound", "socket": "/r/gpu.sock",
            "message": "found a socket", "count": 1,
            "firstTime": "2026-01-31T11:50:00.000Z", "lastTime": "2026-01-31T11:50:00.000Z",
        }),
        json!({
            "generation": 9, "type": "Warning", "reason": "GetInfoFailed", "socket": "/r/gpu.sock",
            "plugin": {"type": "DevicePlugin", "name": "example.com/gpu"},
            "message": "GetInfo failed: \u{1b}[31mred", "detail": "attempt 3", "count": 3,
            "firstTime": "2026-01-31T11:50:00.000Z", "lastTime": "2026-01-31T11:59:55.000Z",
        }),
        json!({
            "generation": 12, "type": "Normal", "reason": "Registered", "socket": "/r/b.sock",
            "plugin": {"type": "CSIPlugin", "name": "ebs.csi.aws.com"},
            "message": "registered", "count": 1,
            "firstTime": "2026-01-31T11:56:48.000Z", "lastTime": "2026-01-31T11:56:48.000Z",
        }),
    ];
    all.into()
}

/// Returns the status of a daemon.
pub(super) fn status() -> Value {
    json!({
        "version": "0.1.0", "pid": 812, "startTime": "2026-01-31T08:48:00.000Z",
        "uptimeSeconds": 11520, "mode": "register",
        "sandbox": "on, Landlock ABI 7", "instance": "9f2c", "generation": 17,
        "directories": [
            {"path": "/var/lib/kubelet/plugins_registry", "state": "Watched"},
            {"path": "/data", "state": "Lost", "problem": "it was removed"},
        ],
        "plugins": {"Registered": 3, "Backoff": 1}, "sockets": 4,
        "limits": [
            {"name": "sockets", "used": 4, "limit": 16384},
            {"name": "connections", "used": 3, "limit": 500},
        ],
        "longestTurnMicroseconds": 312,
    })
}
