//! The configuration file in the manual: its keys, and the examples that `check-config` has read.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::help::Verb;
use crate::binary::binary;

/// A key of the configuration file.
#[derive(Debug)]
pub(crate) struct Key<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
    pub(crate) text: &'a str,
    /// The variable of the environment that has the same meaning.
    pub(crate) variable: Option<String>,
}

/// Returns the keys, in the order of the options of `run`.
pub(crate) fn keys(verbs: &[Verb]) -> Vec<Key<'_>> {
    let run = verbs.iter().find(|it| it.name == "run").expect("a command");
    let options = run
        .own
        .options()
        .filter(|it| !it.is_standard() && it.long != "config");
    let keys = options.map(|option| Key {
        name: option.long,
        value: option.value,
        text: option.text,
        variable: variable(option.long).filter(|_| !option.value.is_empty()),
    });
    keys.collect()
}

/// Returns the variable of the environment for a key.
fn variable(key: &str) -> Option<String> {
    let name = match key {
        "type" => return None,
        "socket" => "API_SOCKET".to_owned(),
        other => other.replace('-', "_").to_uppercase(),
    };
    Some("PLUGIND_".to_owned() + &name)
}

/// Returns what `check-config` prints about the file with mistakes, as if it were the default one.
pub(crate) fn problems() -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&file, MISTAKES).expect("a file that can be written");
    let output = check(file.path(), &[]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let path = file.path().to_str().expect("a path in UTF-8");
    String::from_utf8(output.stderr)
        .expect("text")
        .replace(path, CONFIG)
}

fn check(file: &Path, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.env_clear().envs(environment.iter().copied());
    command
        .arg("check-config")
        .arg(file)
        .output()
        .expect("a run")
}

/// A configuration.
pub(crate) const EXAMPLE: &str = "\
# Plugins of a node whose kubelet has --root-dir=/data/kubelet
root-dir /data/kubelet
device-plugins

# Plugins report endpoints as seen in their containers
map-path /var/lib/kubelet=/data/kubelet

type CSIPlugin
type DevicePlugin
# A program that accepts every plugin
exec Toaster=/bin/true
on-down = deregister=5m  # an equals sign instead of a blank is accepted
state-file /run/plugind/state.json
";

/// A configuration with five mistakes.
pub(crate) const MISTAKES: &str = "\
plugin-dir /var/lib/kubelet/plugins_registry
on-down remove
memory-budget 512Ki
observe maybe
state-file
";

/// The default configuration file.
const CONFIG: &str = "/etc/plugind/plugind.conf";

#[test]
fn every_mistake_of_the_manual_has_its_line() {
    let problems = problems();
    assert_eq!(problems.lines().count(), MISTAKES.lines().count());
    for (number, line) in (1..).zip(problems.lines()) {
        let start = format!("plugind: {CONFIG}:{number}: ");
        assert!(line.starts_with(&start), "{line}");
    }
}

#[test]
fn every_variable_of_the_manual_is_read() {
    let verbs = super::help::verbs();
    let keys = keys(&verbs);
    assert!(keys.len() > 10);
    for variable in keys.iter().filter_map(|key| key.variable.as_deref()) {
        let output = check("none".as_ref(), &[(variable, "/x")]);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).expect("text");
        let is_read = text.contains("  # environment") || text.contains(&format!(" {variable}: "));
        assert!(is_read, "{variable}: {text}");
    }
}
