//! What a daemon that registers device plugins adds to one with an API.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plugind::grpc::CallError;
use plugind::handler::device::TYPE;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use crate::api::node::Node;

use crate::api::node;
use crate::support::exposition::Exposition;
use crate::support::kubelet::{register, request};
use crate::support::simulated::Simulated;

impl Node {
    /// Starts a daemon at which device plugins register.
    pub(crate) fn serving() -> Self {
        Self::serving_with(&[])
    }

    /// Does the same with further options.
    pub(crate) fn serving_with(options: &[&str]) -> Self {
        Self::serving_in(tempfile::tempdir().unwrap(), options)
    }

    /// Does the same with directories below `dir`.
    pub(crate) fn serving_in(dir: TempDir, options: &[&str]) -> Self {
        let line = line(dir.path(), options);
        Self::start_line(dir, &line)
    }

    /// Returns the directory of the device plugins.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.dir.path().join(PLUGINS)
    }

    /// Returns the path of a file in that directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.plugins().join(name)
    }

    /// Returns the path of `kubelet.sock`.
    pub(crate) fn kubelet(&self) -> PathBuf {
        self.path("kubelet.sock")
    }

    /// Registers a plugin with that endpoint, as the plugin would. Returns the status if it is
    /// rejected.
    pub(crate) fn register(&self, endpoint: &str, name: &str) -> Result<(), CallError> {
        register(&self.kubelet(), &request(endpoint, name))
    }

    /// Starts a plugin that registers itself, and waits until it is registered.
    #[track_caller]
    pub(crate) fn simulate_legacy(&mut self, name: &str) -> Simulated {
        let plugin = Simulated::start(&self.plugins(), TYPE, name, &["--legacy"]);
        self.until_registered(name);
        plugin
    }

    /// Waits until a plugin with that name is registered.
    #[track_caller]
    pub(crate) fn until_registered(&mut self, name: &str) -> String {
        self.daemon
            .until_logged(&format!(": registered DevicePlugin {name}"))
    }

    /// Returns the registered plugins: their names and their endpoints.
    pub(crate) fn registered(&self) -> Vec<(String, String)> {
        let list = self.get("/v1/plugins");
        let items = list["items"].as_array().unwrap().iter();
        let registered = items.filter(|item| item["state"] == "Registered");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut found: Vec<_> = registered
            .map(|item| (text(&item["name"]), text(&item["endpoint"])))
            .collect();
        found.sort();
        found
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> Exposition {
        let response = self.ask("GET", "/metrics");
        assert_eq!(response.status, 200);
        Exposition::parse(response.body.as_bytes())
    }

    /// Returns how many turns the loop has taken, this request's included.
    pub(crate) fn turns(&self) -> u64 {
        let turns = self.metrics().get("plugind_loop_turns_total", &[]);
        turns.expect("the loop is counted")
    }
}

/// Returns the arguments of `run` for such a daemon.
pub(crate) fn line(dir: &Path, options: &[&str]) -> Vec<OsString> {
    let mut line = node::line(dir, options);
    let names_dir = options.iter().any(|it| it.starts_with("--device-plugins"));
    if !names_dir {
        line.extend(["--device-plugins-dir".into(), dir.join(PLUGINS).into()]);
    }
    line
}

/// Returns the code and the message of a rejected call.
#[track_caller]
pub(crate) fn rejection(result: Result<(), CallError>) -> String {
    match result {
        Err(CallError::Status(status)) => format!("{:?}: {}", status.code, status.message),
        other => panic!("{other:?}"),
    }
}

/// The name of the directory of the device plugins.
const PLUGINS: &str = "device-plugins";
