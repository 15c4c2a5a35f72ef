//! Plugins that report as many versions as they can, while the registered plugins are saved.

use std::fs;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::Signal;
use plugind::config::{MAX_VERSION, MAX_VERSIONS};
use plugind::proto::pluginregistration::PluginInfo;

use crate::daemon::Daemon;
use crate::honest::register;
use crate::row::alone;
use crate::support::plugin::Plugin;
use crate::until::Steps;

/// Returns the info of a plugin with this many versions, each of the greatest length.
fn info(name: &str, versions: usize) -> PluginInfo {
    PluginInfo {
        r#type: "Wide".into(),
        name: name.into(),
        endpoint: String::new(),
        supported_versions: vec!["v".repeat(MAX_VERSION); versions],
    }
}

#[test]
fn plugins_with_as_many_versions_as_possible_are_saved() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("state");
    let options = [
        format!("--state-file={}", file.display()),
        "--type=CSIPlugin".to_owned(),
        "--type=Wide".to_owned(),
    ];
    let mut daemon = Daemon::start(&options.map(Into::into));
    let never = AtomicBool::new(false);
    let steps = Steps::new(&never);
    let serve =
        |name: &str, versions| Plugin::serve_info(&daemon.root().join(name), info(name, versions));
    let refused = serve("refused", MAX_VERSIONS + 1);
    let notified = steps.until_notified(&refused).unwrap();
    let reason = format!("plugin reports more than {MAX_VERSIONS} versions");
    assert!(notified.error.ends_with(&reason), "{notified:?}");
    let plugins: Vec<_> = (0..PLUGINS)
        .map(|n| serve(&format!("wide-{n}"), MAX_VERSIONS))
        .collect();
    for plugin in &plugins {
        steps.until_registered(plugin).unwrap();
    }
    register(daemon.root(), "honest");
    daemon.end_with(Signal::SIGTERM);
    let saved = fs::read_to_string(file).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    let saved = saved["plugins"].as_array().unwrap();
    let is_wide = |plugin: &&serde_json::Value| plugin["type"] == "Wide";
    assert_eq!(saved.iter().filter(is_wide).count(), PLUGINS);
}

/// The number of registered plugins: each takes six descriptors of the test.
const PLUGINS: usize = 100;
