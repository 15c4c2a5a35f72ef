//! `plugind check-config`: the configuration that `run` would have.

use std::path::{Path, PathBuf};

use super::arguments::{Argument, Arguments, UsageError};
use super::config_file;
use super::plugins::{Origin, same};
use super::run::{Options, options_of_file};
use super::{Command, CommandLine, standard};
use crate::config::{ApiSocket, Mode};
use crate::escape;

/// Parses the arguments after `check-config`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let mut line = CommandLine::default();
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Value(file) if line.file.is_none() && !file.is_empty() => {
                line.file = Some(file);
            }
            other => {
                return standard(&other, [HELP, ""]).ok_or_else(|| arguments.unexpected(&other));
            }
        }
    }
    Ok(Command::CheckConfig(line))
}

/// Returns each option in force as a line of a configuration file, with the source of its value. An
/// option that is off is a comment.
pub fn run(line: &CommandLine) -> Result<String, Vec<String>> {
    line.load().map(|options| show(&options))
}

fn show(options: &Options) -> String {
    let mut text = String::new();
    for option in options_of_file().filter(|option| same(option) == *option) {
        let given = options.given.iter().filter(|it| same(it.0) == option);
        let mut origins = given.map(|it| it.1);
        let key = &option[2..];
        let values = values(option, options);
        if values.is_empty() {
            text += &config_file::show(&["#", key].concat(), "", "default");
        }
        for value in values {
            let origin = match origins.next() {
                None => "default".to_owned(),
                Some(Origin::Line(number)) => {
                    let file = options
                        .config
                        .file
                        .as_deref()
                        .unwrap_or_else(|| Path::new(""));
                    format!("{}:{number}", escape::path(file))
                }
                Some(_) => "environment".to_owned(),
            };
            text += &config_file::show(key, &value, &origin);
        }
    }
    text
}

/// Returns the values of an option in force: none if it is off, an empty one of a flag.
fn values(option: &str, options: &Options) -> Vec<String> {
    let (config, handlers) = (&options.config.manager, &options.config.handlers);
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let pair = |from: &str, to: &Path| [from, "=", &path(to)].concat();
    let one = |value: &Option<PathBuf>| value.iter().map(|it| path(it)).collect();
    match option {
        "--plugins-dir" => config.plugins_dirs.iter().map(|dir| path(dir)).collect(),
        "--device-plugins-dir" => one(&config.device_plugins_dir),
        "--state-file" => one(&config.state_file),
        "--run-dir" => one(&config.run_dir),
        "--observe" if config.mode == Mode::Observe => vec![String::new()],
        "--verbose" => vec![String::new(); options.verbosity.into()],
        "--map-path" => {
            let moved = config.path_map.iter();
            moved.map(|(from, to)| pair(&path(from), to)).collect()
        }
        "--type" => handlers.types.clone(),
        "--unknown-types" => vec![handlers.unknown_types.to_string()],
        "--exec" => {
            let programs = handlers.exec.iter();
            programs.map(|it| pair(&it.kind, &it.program)).collect()
        }
        "--on-down" => vec![config.on_down.to_string()],
        "--memory-budget" => vec![config.memory_budget.to_string()],
        "--socket-group" => config.socket_group.iter().cloned().collect(),
        "--socket" => match &config.api_socket {
            ApiSocket::Default => Vec::new(),
            ApiSocket::None => vec!["none".to_owned()],
            ApiSocket::At(socket) => vec![path(socket)],
        },
        _ => Vec::new(),
    }
}

pub(super) const HELP: &str = "\
Check the configuration of plugind run, and print what is in force: each option
as a line of a configuration file, with the source of its value.

Usage: plugind check-config [FILE]

FILE is the configuration file (default: PLUGIND_CONFIG in the environment, else
/etc/plugind/plugind.conf if it exists).

Options:
  -h, --help     print this help
  -V, --version  print the version

Exit status: 0 the configuration is valid, 2 wrong usage, 78 it is not valid.
";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is printed for a file with this content.
    fn checked(content: &str, environment: &[(&str, &str)]) -> String {
        let file = (Path::new("/etc/a.conf"), content.as_bytes());
        let options = CommandLine::default().combine(Some(file), &|name| {
            let value = environment.iter().find(|it| it.0 == name);
            value.map(|it| it.1.into())
        });
        show(&options.unwrap())
    }

    #[test]
    fn each_option_is_shown_with_its_source() {
        let content = "root-dir /a\nplugins-dir /b # more\ndevice-plugins\non-down deregister\n\
                       type X\nexec Y=/lib/hook\n\nverbose\nobserve";
        let environment = [("PLUGIND_TYPE", "Z"), ("PLUGIND_STATE_FILE", "/s")];
        let expected = "\
plugins-dir /a/plugins_registry  # /etc/a.conf:1
plugins-dir /b  # /etc/a.conf:2
device-plugins-dir /a/device-plugins  # /etc/a.conf:3
observe  # /etc/a.conf:9
#map-path  # default
type X  # /etc/a.conf:5
unknown-types reject  # default
exec Y=/lib/hook  # /etc/a.conf:6
on-down deregister=30s  # /etc/a.conf:4
memory-budget 16777216  # default
state-file /s  # environment
#run-dir  # default
#socket  # default
#socket-group  # default
verbose  # /etc/a.conf:8
";
        assert_eq!(checked(content, &environment), expected);
    }

    #[test]
    fn what_is_printed_is_a_configuration_that_means_the_same() {
        let content = "root-dir /a b\ndevice-plugins\non-down=deregister=1500ms\ntype X\ntype Y\n\
                       exec X=/lib/hook=a\nverbose\nverbose\nmap-path /c=/d e\nsocket none\n\
                       socket-group 7\nobserve\nunknown-types ignore\nmemory-budget 1Mi\n\
                       run-dir /r#\nstate-file /\u{e4}";
        let (file, line) = (Path::new("/etc/a.conf"), CommandLine::default());
        for content in ["", content] {
            let options = |content: &str| {
                let file = Some((file, content.as_bytes()));
                line.combine(file, &|_| None).unwrap()
            };
            let (first, again) = (options(content), options(&checked(content, &[])));
            assert_eq!(first.config, again.config);
            assert_eq!(first.verbosity, again.verbosity);
        }
    }
}
