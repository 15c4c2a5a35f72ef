//! `plugind check-config`: the configuration that `run` would have.

use super::arguments::{Argument, Arguments, UsageError};
use super::command_line::{Given, Options, Origin};
use super::config_file;
use super::settings::keys;
use super::{Command, CommandLine};
use crate::escape;

/// Parses the arguments after `check-config`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let mut line = CommandLine::default();
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Value(file) if line.file.is_none() && !file.is_empty() => {
                line.file = Some(file.into());
            }
            other => return arguments.standard(&other),
        }
    }
    Ok(Command::CheckConfig(line))
}

/// Returns each option in force as a line of a configuration file, with the source of its value. An
/// option that is off is a comment.
pub fn run(line: &CommandLine) -> Result<String, Vec<String>> {
    line.load().map(|options| show(&options))
}

/// Returns the lines of a configuration file with these options.
pub fn show(options: &Options) -> String {
    let mut text = String::new();
    for given in &options.given {
        let Given { setting, value, .. } = given;
        let (mut key, mut value) = (setting.long, &**value);
        let device_plugins_dir = &options.config.manager.device_plugins_dir;
        if let ("device-plugins", Some(dir)) = (key, device_plugins_dir) {
            // It depends on `root-dir`, which another source may override: the path is shown.
            (key, value) = ("device-plugins-dir", dir.as_os_str());
        }
        let origin = match (given.origin, &options.config.file) {
            (Origin::Line(number), Some(file)) => format!("{}:{number}", escape::path(file)),
            _ => "environment".to_owned(),
        };
        text += &config_file::show(key, value, &origin);
    }
    for setting in keys() {
        let mut given = options.given.iter();
        if given.any(|it| it.setting.purpose() == setting.purpose()) {
            continue;
        }
        for value in setting.default {
            text += &config_file::show(setting.long, value.as_ref(), "default");
        }
        if setting.default.is_empty() {
            text += &["#", setting.long, "  # default\n"].concat();
        }
    }
    text
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
    use std::path::Path;

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
root-dir /a  # /etc/a.conf:1
plugins-dir /b  # /etc/a.conf:2
device-plugins-dir /a/device-plugins  # /etc/a.conf:3
on-down deregister  # /etc/a.conf:4
exec Y=/lib/hook  # /etc/a.conf:6
verbose  # /etc/a.conf:8
observe  # /etc/a.conf:9
type Z  # environment
state-file /s  # environment
#map-path  # default
unknown-types reject  # default
#csi-node-info  # default
trust warn  # default
#endpoint-dir  # default
#allow-uid  # default
#allow-name  # default
memory-budget 16Mi  # default
#run-dir  # default
#cdi-dir  # default
#socket  # default
#socket-group  # default
#allocate-group  # default
#log-format  # default
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
        // The defaults are those of the program, and a root directory is not lost.
        let environment = [("PLUGIND_PLUGINS_DIR", "/p")];
        for (content, environment) in [("", &[][..]), (content, &[]), (content, &environment)] {
            let options = |content: &str, environment: &[(&str, &str)]| {
                let file = Some((file, content.as_bytes()));
                let options = line.combine(file, &|name| {
                    let value = environment.iter().find(|it| it.0 == name);
                    value.map(|it| it.1.into())
                });
                options.unwrap()
            };
            let first = options(content, environment);
            let again = options(&checked(content, environment), &[]);
            assert_eq!(first.config, again.config);
            assert_eq!(first.verbosity, again.verbosity);
        }
    }
}
