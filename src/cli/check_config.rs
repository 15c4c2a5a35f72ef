//! `plugind check-config`: the configuration that `run` would use.

use super::arguments::{Arguments, UsageError};
use super::command_line::{Given, Options, Origin, parse_as};
use super::config_file;
use super::settings::{Setting, file_settings};
use super::{Command, CommandLine};
use crate::config::{ApiSocket, DEFAULT_TYPES, DaemonConfig, HandlerConfig, Mode, UnknownTypes};
use crate::daemon::client;
use crate::escape;

/// Parses the arguments after `check-config`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    parse_as(Command::CheckConfig, true, arguments)
}

/// Returns each option in force as a line of a configuration file, with the source of its value. An
/// option that was not given and has no fixed default is a comment. The error lists the problems.
pub fn run(line: &CommandLine) -> Result<String, Vec<String>> {
    line.load().map(|options| format_options(&options))
}

/// Returns the lines of a configuration file with these options, and the defaults of all others.
pub fn format_options(options: &Options) -> String {
    let mut text = String::new();
    for given in &options.given {
        let Given { setting, value, .. } = given;
        let (mut key, mut value) = (setting.long_name(), &**value);
        let device_plugins_dir = &options.config.manager.device_plugins_dir;
        if let ("device-plugins", Some(dir)) = (key, device_plugins_dir) {
            // The path is shown instead of the flag, which depends on `root-dir`: another source
            // may override that option.
            (key, value) = ("device-plugins-dir", dir.as_os_str());
        }
        let origin = match (given.origin, &options.config.file) {
            (Origin::Line(number), Some(file)) => format!("{}:{number}", escape::path(file)),
            (Origin::CommandLine, _) => "command line".to_owned(),
            _ => "environment".to_owned(),
        };
        let note = match key {
            "type" => missing_types_note(&options.config.handlers),
            _ => String::new(),
        };
        text += &config_file::format_line(key, value, &(origin + &note));
    }
    for setting in file_settings() {
        let mut given = options.given.iter();
        if given.any(|it| it.setting.purpose() == setting.purpose()) {
            continue;
        }
        for value in setting.default {
            text += &config_file::format_line(setting.long_name(), value.as_ref(), "default");
        }
        if setting.default.is_empty() {
            let value = default_value(setting, &options.config);
            text += &["#", setting.long_name(), " ", &value, "  # default\n"].concat();
        }
    }
    text
}

/// Returns the value in force, or a description of it, for an option that was not given and has no
/// fixed default.
fn default_value(setting: &Setting, config: &DaemonConfig) -> String {
    let socket = client::default_socket();
    let run_dir = config
        .manager
        .run_dir
        .as_deref()
        .or_else(|| socket.parent());
    let run_dir = run_dir.unwrap_or(&socket);
    match (setting.long_name(), &config.manager.api_socket) {
        _ if setting.is_flag() => "no".to_owned(),
        ("run-dir", _) => escape::path(run_dir).to_string(),
        ("socket", ApiSocket::Default) if config.manager.mode == Mode::Register => {
            escape::path(&run_dir.join("plugind.sock")).to_string()
        }
        ("log-format", _) => "text or journald, as standard error is".to_owned(),
        ("socket-group", _) => "that of the process".to_owned(),
        _ => "none".to_owned(),
    }
}

/// Returns a note that names the built-in types that are not accepted, or an empty text if all are.
fn missing_types_note(config: &HandlerConfig) -> String {
    let is_missing = |kind: &&str| {
        config.unknown_types != UnknownTypes::Accept
            && config.types.iter().all(|it| it != kind)
            && config.exec.iter().all(|it| *it.kind != **kind)
    };
    let missing = DEFAULT_TYPES.into_iter().filter(is_missing);
    match missing.collect::<Vec<_>>()[..] {
        [] => String::new(),
        ref missing => format!("; not accepted: {}", missing.join(", ")),
    }
}

pub(super) const HELP: &str = "\
Check the configuration of plugind run, and print what is in force: each option
as a line of a configuration file, with the source of its value.

Usage: plugind check-config [OPTIONS of run] [FILE]

FILE is the configuration file (default: that of run). The programs, the groups
and the directory of the state file that it names have to exist.

Exit status: 0 the configuration is valid, 2 wrong usage, 78 it is not valid.
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::command_line::tests::variables;
    use super::*;

    /// Returns what is printed for a file with this content, and these variables.
    fn show_file(content: &str, environment: &[(&str, &str)]) -> String {
        let file = (Path::new("/etc/a.conf"), content.as_bytes());
        let options = CommandLine::default().combine(Some(file), &variables(environment));
        format_options(&options.unwrap())
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
type Z  # environment; not accepted: CSIPlugin, DevicePlugin, DRAPlugin
state-file /s  # environment
#map-path none  # default
unknown-types reject  # default
#csi-node-info none  # default
trust warn  # default
#endpoint-dir none  # default
#allow-uid none  # default
#allow-name none  # default
sandbox on  # default
memory-budget 16Mi  # default
#run-dir /r  # default
#cdi-dir none  # default
#socket none  # default
#socket-group that of the process  # default
#allocate-group none  # default
#log-format text or journald, as standard error is  # default
";
        let run_dir = client::default_socket()
            .parent()
            .unwrap()
            .display()
            .to_string();
        let expected = expected.replace("/r  #", &(run_dir + "  #"));
        assert_eq!(show_file(content, &environment), expected);
        let shown = show_file("run-dir /r\ntype CSIPlugin", &[]);
        assert!(
            shown.contains("\n#socket /r/plugind.sock  # default\n"),
            "{shown}"
        );
        assert!(
            shown.contains("a.conf:2; not accepted: DevicePlugin, DRAPlugin\n"),
            "{shown}"
        );
        assert!(shown.contains("\n#observe no  # default\n"), "{shown}");
        let shown = show_file("type DRAPlugin\nexec CSIPlugin=/lib/hook", &[]);
        assert!(shown.contains("a.conf:1; not accepted: DevicePlugin\n"));
        let shown = show_file("type X\nunknown-types accept", &[]);
        assert!(!shown.contains("not accepted"), "{shown}");
    }

    #[test]
    fn what_is_printed_is_a_configuration_that_means_the_same() {
        let content = "root-dir /a b\ndevice-plugins\non-down=deregister=1500ms\ntype X\ntype Y\n\
                       exec X=/lib/hook=a\nverbose\nverbose\nmap-path /c=/d e\nsocket none\n\
                       socket-group 7\nobserve\nunknown-types ignore\nmemory-budget 1Mi\n\
                       run-dir /r#\nstate-file /\u{e4}";
        let (file, line) = (Path::new("/etc/a.conf"), CommandLine::default());
        // An empty file, a full one, and one whose plugins directories the environment replaces.
        let environment = [("PLUGIND_PLUGINS_DIR", "/p")];
        for (content, environment) in [("", &[][..]), (content, &[]), (content, &environment)] {
            let options = |content: &str, environment: &[(&str, &str)]| {
                let file = Some((file, content.as_bytes()));
                line.combine(file, &variables(environment)).unwrap()
            };
            let first = options(content, environment);
            let again = options(&show_file(content, environment), &[]);
            assert_eq!(first.config, again.config);
            assert_eq!(first.verbosity, again.verbosity);
        }
    }
}
