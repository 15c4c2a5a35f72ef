//! `plugind probe`: what the daemon would do with one socket, or with those in a directory.
//!
//! Parses the arguments and shows the steps of the probe: as escaped text that can be pasted into a
//! bug report, or as JSON in plain ASCII.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::Command;
use super::arguments::{Argument, Arguments, UsageError};
use super::client::print_unless_closed;
use super::json::to_json_document;
use super::options::{Format, TEXT};
use super::settings::{Chosen, find_setting};
use super::table::add_colour;
use super::values::{make_absolute, parse_duration, parse_one_of};
use crate::daemon::has_colours;
use crate::daemon::probe::{Options, Outcome, Probed, Report, Step, probe};
use crate::escape;
use crate::time;

/// Parses the arguments after `probe`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let mut chosen = Chosen::default();
    let (mut path, mut timeout, mut format) = (None, None, Format::Text);
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("--output") => {
                format = arguments.parse_value(|it| parse_one_of(it, TEXT))?;
            }
            Argument::Option("--timeout") => timeout = Some(arguments.parse_value(parse_duration)?),
            Argument::Value(value) if path.is_none() => path = Some(make_absolute(&value)),
            other => match find_setting(&other) {
                // An option that `run` has, too. `arguments` returns only options that the help
                // text of `probe` lists.
                Some(setting) => arguments.parse_value(|it| (setting.read)(&mut chosen, it))?,
                None => return arguments.parse_standard(&other),
            },
        }
    }
    let path = path.unwrap_or_else(|| chosen.dirs.last().cloned());
    let missing = "missing PATH, expected a socket or a directory";
    let options = Options {
        path: path.ok_or_else(|| arguments.error(missing))?,
        config: chosen.into_config(None),
        timeout,
    };
    Ok(Command::Probe(Box::new(options), format))
}

/// Runs the probe, shows the findings, and returns the exit status.
#[inline(never)]
pub fn run(options: &Options, format: Format) -> Result<ExitCode, Box<dyn Error>> {
    let path = &*options.path;
    let is_directory = path.is_dir();
    if !is_directory && options.config.manager.plugins_dirs.contains(&options.path) {
        let error = path.read_dir().err();
        let why = error.map_or_else(String::new, |it| it.to_string());
        return Err(format!("cannot probe the sockets in {}: {why}", escape::path(path)).into());
    }
    let report = if format == Format::Json {
        let report = probe(options, &mut |_, _| {})?;
        let mut sockets = report.sockets.iter().map(|(path, it)| to_json(path, it));
        let json = if is_directory {
            sockets.collect()
        } else {
            sockets.next().unwrap_or_default()
        };
        print_unless_closed(to_json_document(&json))?;
        report
    } else {
        let version = env!("CARGO_PKG_VERSION");
        print_unless_closed(format!("plugind {version} probes {}\n", escape::path(path)))?;
        let is_coloured = has_colours(&io::stdout());
        let report = probe(options, &mut |socket, step| {
            // A failure is returned for the text below.
            let _ = print_unless_closed(step_line(step, socket, path, is_coloured));
        })?;
        print_unless_closed(if is_directory {
            summary(path, &report)
        } else {
            report.sockets.values().map(outcome_lines).collect()
        })?;
        report
    };
    for problem in &report.problems {
        let _ = writeln!(io::stderr(), "plugind: {problem}");
    }
    let statuses = report.sockets.values().map(|it| it.outcome.describe().0);
    let unread = u8::from(!report.problems.is_empty());
    let status = statuses.chain([unread]).max().unwrap_or_default();
    Ok(ExitCode::from(status))
}

/// Returns the line for a step. The line names the socket if a directory is probed.
fn step_line(step: &Step, socket: &Path, probed: &Path, is_coloured: bool) -> String {
    let hundredths = time::micros(step.after).div_ceil(10);
    let after = format!("{}.{:02} ms", hundredths / 100, hundredths % 100);
    let socket = match socket.strip_prefix(probed) {
        Ok(below) if socket != probed => format!("{}: ", escape::path(below)),
        _ => String::new(),
    };
    let mut reason = step.reason.into();
    let pad = 19 - step.reason.len().min(19);
    if is_coloured {
        reason = add_colour(reason);
    }
    format!(
        "{after:>11}  {reason}{:pad$}  {socket}{}\n",
        "", step.message
    )
}

/// Returns the lines that follow the last step if a single socket is probed.
fn outcome_lines(probed: &Probed) -> String {
    let conclusion = |label, what: &str| format!("{:>11}  {label:<19}  {what}\n", "");
    let notification = probed.notification.iter();
    let mut lines: String = notification
        .map(|words| conclusion("notification", &format!("{:?}", escape::text(words))))
        .collect();
    let (_, _, text, advice) = probed.outcome.describe();
    let text = match advice {
        "" => text.to_owned(),
        advice => format!("{text}; {advice}"),
    };
    lines.push_str(&conclusion("outcome", &text));
    lines
}

/// Returns the lines that follow the last step if a directory is probed: the number of sockets for
/// each outcome.
fn summary(dir: &Path, report: &Report) -> String {
    let mut outcomes: Vec<Outcome> = report.sockets.values().map(|it| it.outcome).collect();
    outcomes.sort_unstable();
    let (count, dir) = (outcomes.len(), escape::path(dir));
    let sockets = if count == 1 { "socket" } else { "sockets" };
    let groups = outcomes.chunk_by(|one, other| one == other);
    let groups = groups.map(|same| format!("{:>11}  {}\n", same.len(), same[0].describe().2));
    format!("\n{count} {sockets} in {dir}\n") + &groups.collect::<String>()
}

/// Returns the findings about a socket as JSON. The fields of the plugin and the notification are
/// escaped only as JSON, so that a program reads exactly those texts. The messages of the steps
/// contain texts of the plugin that are already escaped.
fn to_json(socket: &Path, probed: &Probed) -> Value {
    let (status, outcome, ..) = probed.outcome.describe();
    let steps = probed.steps.iter().map(|step| {
        json!({
            "afterMicroseconds": time::micros(step.after),
            "reason": step.reason,
            "message": step.message,
        })
    });
    let mut json = json!({
        "socket": socket.to_string_lossy(),
        "outcome": outcome,
        "exitStatus": status,
        "steps": steps.collect::<Value>(),
    });
    if let Some(plugin) = &probed.plugin {
        json["plugin"] = json!({"type": plugin.kind, "name": plugin.name});
        json["endpoint"] = plugin.endpoint.to_string_lossy().into();
        json["versions"] = json!(plugin.versions);
    }
    if let Some(words) = &probed.notification {
        json["notification"] = json!(words);
    }
    json
}

pub(super) const HELP: &str = "\
Show what run would do with the plugin on a socket, or with the plugins in a
directory. Plugins are never notified: probing one that is in service is safe.

Usage: plugind probe [OPTIONS] PATH
       plugind probe [OPTIONS] --root-dir DIR

PATH is a socket or a directory. In a directory, every socket is probed that run
would find there. Each line is an event of run, with the time since the start.

Options:
  --root-dir DIR        probe DIR/plugins_registry if PATH is not given
  --map-path FROM=TO    connect to endpoints below FROM at paths below TO; can
                        be given several times (default: no mapping)
  --type NAME           accept plugins of this type; can be given several times
                        (default: CSIPlugin, DevicePlugin, DRAPlugin)
  --unknown-types ACTION
                        what run does with plugins of other types: reject,
                        accept or ignore (default: reject)
  --exec TYPE=PROGRAM   accept plugins of TYPE, for which run would use
                        PROGRAM; PROGRAM is checked, but not run; can be given
                        several times (default: none)
  --timeout DURATION    give up after that time, such as 500ms or 30s (default:
                        the limits of run)
  -o, --output FORMAT   text: each step as it is taken (default); json: one
                        object per socket, in an array if PATH is a directory

Exit status; in a directory, the highest one:
  0  the plugin would be registered
  1  cannot probe: a program of --exec or a directory cannot be used
  2  wrong usage
  5  the plugin would be refused
  6  not a plugin registration service
  7  no answer, or not in time
  8  the connection was closed before any data was received
  9  nothing listens at the plugin's endpoint
";

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use lexopt::Parser;

    use super::*;
    use crate::config::{self, DaemonConfig, UnknownTypes};

    fn parse(arguments: &[&str]) -> Result<(Options, Format), String> {
        let line = [&["probe"], arguments].concat();
        match Command::parse(Parser::from_args(line)) {
            Ok(Command::Probe(options, format)) => Ok((*options, format)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_socket_is_the_only_required_argument() {
        let (options, format) = parse(&["/a-reg.sock"]).unwrap();
        assert_eq!(options.path, PathBuf::from("/a-reg.sock"));
        let expected = DaemonConfig {
            sandbox: true,
            ..DaemonConfig::default()
        };
        assert_eq!(options.config, expected);
        assert_eq!((format, options.timeout), (Format::Text, None));
        assert_eq!(options.config.handlers.types, config::DEFAULT_TYPES);
    }

    #[test]
    fn types_replace_the_default() {
        let (options, format) = parse(&["a", "--type", "X", "--type=Y", "-ojson"]).unwrap();
        assert!(options.path.is_absolute());
        assert_eq!(options.config.handlers.types, ["X", "Y"]);
        assert_eq!(format, Format::Json);
    }

    #[test]
    fn the_options_of_run_about_plugins_are_read_the_same() {
        let (options, _) = parse(&[
            "--root-dir=/data/kubelet",
            "--map-path=/var/lib/kubelet=/data/kubelet",
            "--unknown-types=accept",
            "--exec=X=/lib/hook",
            "--timeout=500ms",
        ])
        .unwrap();
        assert_eq!(options.path, Path::new("/data/kubelet/plugins_registry"));
        assert_eq!(options.timeout, Some(Duration::from_millis(500)));
        let config = options.config;
        assert_eq!(config.handlers.unknown_types, UnknownTypes::Accept);
        assert_eq!(config.handlers.exec[0].program, Path::new("/lib/hook"));
        let mapped = config
            .manager
            .path_map
            .translate("/var/lib/kubelet/a".as_ref());
        assert_eq!(mapped, Path::new("/data/kubelet/a"));
    }

    #[test]
    fn a_path_comes_before_a_root_directory() {
        let (options, _) = parse(&["--root-dir=/data", "/a-reg.sock"]).unwrap();
        assert_eq!(options.path, Path::new("/a-reg.sock"));
    }

    #[test]
    fn wrong_usage_names_the_option_the_value_and_what_is_accepted() {
        let missing = "missing PATH, expected a socket or a directory";
        for (line, expected) in [
            (&[][..], missing),
            (&[""], missing),
            (&["a", "b"], "unexpected argument \"b\""),
            (
                &["a", "-o", "yaml"],
                "invalid value \"yaml\" for -o, expected text or json",
            ),
            (
                &["a", "--timeout=1"],
                "invalid value \"1\" for --timeout, \
                 expected a duration such as 500ms, 30s, 5m or 1h",
            ),
            (
                &["a", "--type", ""],
                "invalid value \"\" for --type, \
                 expected the name of one plugin type, without blanks, commas and quotes",
            ),
            (&["a", "--observe"], "unknown option --observe"),
            (
                &["a", "--out=json"],
                "unknown option --out (did you mean --output?)",
            ),
        ] {
            let expected = format!("{expected}; see plugind probe --help");
            assert_eq!(parse(line).unwrap_err(), expected, "{line:?}");
        }
    }
}
