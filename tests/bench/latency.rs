//! How long a plugin waits to be registered: from before it listens until it has been told so.
//!
//! One daemon, and a plugin a time on a socket of its own, each gone before the next one comes.
//! Prints what was measured and judges nothing: a time means something on an idle machine only.
//! kubelet needs about 500 ms, because it looks once a second.

#[path = "../support/plugin.rs"]
mod plugin;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use self::plugin::Plugin;

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let _daemon = Daemon::start(dir.path());
    let socket = dir.path().join("reg.sock");
    register_one(&socket); // Waits until the daemon has started.

    let mut times: Vec<_> = (0..RUNS).map(|_| register_one(&socket)).collect();
    times.sort();
    println!("from listen to NotifyRegistrationStatus, {RUNS} plugins one after the other:");
    for (name, place) in [("least", 0), ("median", RUNS / 2), ("most", RUNS - 1)] {
        println!("  {name:<6}  {:.2} ms", times[place].as_secs_f64() * 1000.0);
    }
}

/// Has a plugin come, register and go: how long it waited.
fn register_one(socket: &Path) -> Duration {
    let came = Instant::now();
    let plugin = Plugin::serve_type(socket, TYPE, "sample");
    let told = plugin.until_told();
    let waited = came.elapsed();
    assert!(told.plugin_registered, "{}", told.error);
    plugin.stop();
    waited
}

/// The built binary, for as long as this value lives.
struct Daemon(Child);

impl Daemon {
    fn start(dir: &Path) -> Self {
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_plugind"));
        daemon
            .args(["run", "--type", TYPE, "--plugins-dir"])
            .arg(dir);
        daemon.env_remove("RUST_LOG").stderr(Stdio::null());
        Self(daemon.spawn().expect("the binary has been built"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The type of the plugins: one for which a registration is two calls, and nothing else is asked.
const TYPE: &str = "SamplePlugin";

/// How many plugins are measured: enough for a median that comes out the same the next time.
const RUNS: usize = 100;
