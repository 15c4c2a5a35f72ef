//! The unit files, the alert rules and the dashboard, examined by the tools of those that read
//! them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use plugind::config::MEMORY_BUDGET;
use serde_json::Value;

use crate::api::node::Node;
use crate::support::binary::binary;
use crate::support::client::ask;
use crate::support::daemon::Daemon;
use crate::support::exposition::Exposition;
use crate::support::simulated::Simulated;
use crate::support::skip::skip;

/// Returns the path of a file that packages carry.
fn dist(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/dist")
        .join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(dist(name)).unwrap()
}

/// Returns the values of a key of the service.
fn values(key: &str) -> Vec<String> {
    let unit = read("plugind.service");
    let values = unit
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

/// Runs a program of the machine. Reports the test as skipped if it is not installed.
fn run(program: &str, arguments: &[&str], dir: &Path) -> Option<Output> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .output();
    if output.is_err() {
        skip(&format!("{program} is not installed"));
    }
    output.ok()
}

fn said(output: &Output) -> String {
    let said = [&*output.stdout, &output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// Returns a directory with the units, in which the service runs the built binary. Before systemd
/// 253 its type is what its first lines say. Without systemd, the test is skipped.
fn units() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    let version = said(&run("systemd-analyze", &["--version"], dir.path())?);
    let version = version
        .split_whitespace()
        .nth(1)
        .and_then(|it| it.parse().ok());
    let service = read("plugind.service");
    assert!(service.contains("\nExecStart=plugind run\n"), "{service}");
    let binary = binary().into_string().unwrap();
    let mut service = service.replace("ExecStart=plugind", &format!("ExecStart={binary}"));
    if version < Some(253) {
        service = service.replace("Type=notify-reload", "Type=notify");
    }
    fs::write(dir.path().join("plugind.service"), service).unwrap();
    for name in ["plugind.socket", "plugind-metrics.socket", "example.path"] {
        fs::copy(dist(name), dir.path().join(name)).unwrap();
    }
    let started = "[Service]\nExecStart=/bin/true\n";
    fs::write(dir.path().join("my-volumes.service"), started).unwrap();
    Some(dir)
}

/// Asserts that the exposure of the service is at most this many tenths.
#[track_caller]
fn check_exposure(dir: &Path, tenths: &str) {
    let threshold = format!("--threshold={tenths}");
    let unit = "./plugind.service";
    let line = ["security", "--offline=true", "--no-pager", &threshold, unit];
    let Some(output) = run("systemd-analyze", &line, dir) else {
        return;
    };
    let said = said(&output);
    if said.contains("unrecognized option") {
        return skip("systemd-analyze that knows --offline is not installed");
    }
    assert!(said.contains("Overall exposure level for"), "{said}");
    assert!(output.status.success(), "{said}");
}

#[test]
fn systemd_finds_nothing_to_improve_in_the_units() {
    let Some(dir) = units() else { return };
    let line = [
        "verify",
        "--man=no",
        "./plugind.service",
        "./plugind.socket",
        "./plugind-metrics.socket",
        "./example.path",
    ];
    let output = run("systemd-analyze", &line, dir.path()).unwrap();
    let said = said(&output);
    // What is wrong with units of the machine is told, too.
    let about_ours = said.lines().filter(|line| {
        let mut names = ["plugind", "example.path", "my-volumes"].iter();
        names.any(|name| line.contains(name))
    });
    assert_eq!(about_ours.collect::<Vec<_>>(), [""; 0], "{said}");
    assert!(output.status.success(), "{said}");
}

#[test]
fn the_exposure_of_the_service_is_low() {
    let Some(dir) = units() else { return };
    check_exposure(dir.path(), "12");
    let drop_ins = dir.path().join("plugind.service.d");
    fs::create_dir(&drop_ins).unwrap();
    fs::copy(
        dist("plugind.service.d/strict.conf"),
        drop_ins.join("strict.conf"),
    )
    .unwrap();
    check_exposure(dir.path(), "7");
}

/// Returns the system calls of a group, such as `@system-service`, and those of the groups in it.
fn group(name: &str, dir: &Path) -> Option<BTreeSet<String>> {
    if !name.starts_with('@') {
        return Some([name.to_owned()].into());
    }
    let listed = said(&run("systemd-analyze", &["syscall-filter", name], dir)?);
    let lines = listed.lines().skip(1).map(str::trim);
    let calls = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    let groups: Option<Vec<_>> = calls.map(|call| group(call, dir)).collect();
    Some(groups?.into_iter().flatten().collect())
}

#[test]
fn the_service_may_make_the_system_calls_of_a_whole_life() {
    let node = tempfile::tempdir().unwrap();
    let [dir, calls] = ["", "calls"].map(|name| node.path().join(name));
    if run("strace", &["--version"], &dir).is_none() {
        return;
    }
    let mut allowed = BTreeSet::new();
    for list in values("SystemCallFilter") {
        let is_denied = list.starts_with('~');
        for name in list.trim_start_matches('~').split(' ') {
            let Some(group) = group(name, &dir) else {
                return;
            };
            allowed.retain(|call| !is_denied || !group.contains(call));
            allowed.extend(group.into_iter().filter(|_| !is_denied));
        }
    }
    for name in ["@privileged", "@resources", "@mount", "@debug", "@module"] {
        let group = group(name, &dir).unwrap();
        let shared: Vec<_> = allowed.intersection(&group).collect();
        assert!(shared.is_empty(), "{name}: {shared:?}");
    }

    let mut command = Command::new("strace");
    command.args(["--quiet=all", "--interruptible=waiting", "--output"]);
    command.arg(&calls).arg(binary());
    command.args([
        "run",
        "--config=none",
        "--type=CSIPlugin",
        "--type=DevicePlugin",
    ]);
    for (option, name) in [
        ("--plugins-dir", "registry"),
        ("--device-plugins-dir", "devices"),
        ("--run-dir", "run"),
        ("--socket", "run/api.sock"),
        ("--state-file", "run/state"),
        ("--cdi-dir", "cdi"),
    ] {
        command.arg(option).arg(dir.join(name));
    }
    fs::create_dir(dir.join("run")).unwrap();
    let socket = dir.join("run/api.sock");
    let mut daemon = Daemon::start_command(&mut command);
    let plugins = [
        ("registry", "CSIPlugin", "csi.example", &[][..]),
        ("devices", "DevicePlugin", "a/b", &["--legacy"]),
    ]
    .map(|(registry, kind, name, options)| {
        let plugin = Simulated::start(&dir.join(registry), kind, name, options);
        daemon.until_logged(&format!("registered {kind} {name}"));
        plugin
    });
    fs::remove_dir_all(dir.join("registry")).unwrap();
    daemon.until_logged("deregistered CSIPlugin csi.example");
    for (method, target) in [
        ("GET", "/v1/plugins/DevicePlugin/a%2Fb"),
        ("GET", "/metrics"),
        ("POST", "/v1/rescan"),
        ("POST", "/v1/reload"),
    ] {
        assert_eq!(ask(&socket, method, target).status, 200, "{target}");
    }
    drop(plugins);
    daemon.end_with(Signal::SIGTERM);
    let lines = fs::read_to_string(&calls).unwrap();
    let used = lines.lines().filter_map(|line| line.split_once('('));
    let used: BTreeSet<String> = used.map(|(call, _)| call.to_owned()).collect();
    assert!(used.len() > 50, "{used:?}");
    let missing: Vec<_> = used.difference(&allowed).collect();
    // The service has no capabilities to drop.
    assert!(missing.iter().all(|call| *call == "capset"), "{missing:?}");
}

#[test]
fn the_service_has_no_capability_and_enough_memory() {
    assert_eq!(values("CapabilityBoundingSet"), [""]);
    let [most] = &values("MemoryMax")[..] else {
        panic!("it is not given once");
    };
    let most: usize = most.strip_suffix('M').unwrap().parse().unwrap();
    assert!(most << 20 >= 2 * MEMORY_BUDGET + (16 << 20), "{most}");
}

#[test]
fn prometheus_accepts_the_rules_and_they_fire_when_they_should() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    for line in [
        &["check", "rules", "src/dist/plugind.rules.yml"][..],
        &["test", "rules", "tests/daemon/service/rules.yml"],
    ] {
        let Some(output) = run("promtool", line, dir) else {
            return;
        };
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn the_rules_name_commands_that_readme_explains() {
    let rules = read("plugind.rules.yml");
    let readme = include_str!("../../../README.md");
    for command in ["list", "devices", "events", "status", "doctor"] {
        assert!(rules.contains(&format!("plugind {command}")), "{command}");
        assert!(readme.contains(&format!("`plugind {command}")), "{command}");
    }
}

/// Returns the queries of the dashboard, and those of the rules.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("plugind.dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|it| it["targets"].as_array().unwrap());
    let shown = targets.map(|it| {
        let query = it["expr"].as_str().unwrap().replace("$instance", ".*");
        query.replace("$__rate_interval", "5m")
    });
    let rules = read("plugind.rules.yml");
    let alerts = rules.split("expr: ").skip(1).map(|rest| {
        let expr = rest.split("\n        for:").next().unwrap();
        let expr = expr.split("\n        labels:").next().unwrap();
        expr.trim_start_matches(">-\n").trim().replace('\n', " ")
    });
    shown.chain(alerts).collect()
}

/// Returns the names in a list that ends with `end`.
fn names(list: &str, end: char) -> impl Iterator<Item = &str> {
    let list = list.split(end).next().unwrap();
    let names = list
        .split(',')
        .map(|it| it.split(['=', '!']).next().unwrap());
    names.map(str::trim).filter(|it| !it.is_empty())
}

#[test]
fn every_metric_and_label_of_rules_and_dashboard_is_exposed() {
    let node = Node::start_with(&["--exec=X=/bin/true"]);
    let plugins = [
        ("CSIPlugin", "csi.example"),
        ("DevicePlugin", "example.com/gpu"),
        ("X", "x.example"),
        ("Toaster", "t.example"),
    ]
    .map(|(kind, name)| Simulated::start(&node.registry(""), kind, name, &[]));
    node.until_listed(|all| {
        let known = all.iter().filter(|it| it["state"] == "Registered");
        known.count() == 3 && all.iter().any(|it| it["state"] == "Rejected")
    });
    let exposed = Exposition::parse(node.ask("GET", "/metrics").body.as_bytes());
    drop(plugins);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let queries = queries();
    assert!(queries.len() > 30, "{queries:?}");
    for query in &queries {
        let mut known = BTreeSet::from(["instance", "job", "le"]);
        let begins = ["plugind_", "process_", "plugin_manager_"];
        let words = query.split(|c| !is_name(c));
        let used = words.filter(|word| begins.iter().any(|it| word.starts_with(it)));
        let used: BTreeSet<&str> = used.collect();
        assert!(!used.is_empty(), "{query}");
        for series in used {
            let suffixes = ["_bucket", "_sum", "_count"];
            let family = suffixes.iter().find_map(|it| series.strip_suffix(it));
            let family = family.unwrap_or(series);
            assert!(
                exposed.metrics().any(|it| it == family),
                "{series}: {query}"
            );
            let labels = exposed.labels(series);
            known.extend(labels.flat_map(|it| it.keys().map(String::as_str)));
        }
        for (begin, end) in [("by (", ')'), ("on (", ')'), ("{", '}')] {
            for list in query.split(begin).skip(1) {
                for label in names(list, end) {
                    assert!(known.contains(label), "{label}: {query}");
                }
            }
        }
    }

    let dir = tempfile::tempdir().unwrap();
    let mut rules = "groups:\n  - name: queries\n    rules:\n".to_owned();
    for (at, query) in queries.iter().enumerate() {
        writeln!(
            rules,
            "      - record: query_{at}\n        expr: |\n          {query}"
        )
        .unwrap();
    }
    fs::write(dir.path().join("queries.yml"), rules).unwrap();
    if let Some(output) = run("promtool", &["check", "rules", "queries.yml"], dir.path()) {
        assert!(output.status.success(), "{}", said(&output));
    }
}
