//! `plugind probe`: what the daemon would do with one socket, or with those in a directory.
//!
//! Parses the arguments, has the sockets probed, and shows the findings: as text for people, or as
//! JSON. It never notifies a plugin, so it can be used on a plugin that is in service.

mod json;
mod outcome;
mod text;

use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::Command;
use super::arguments::{Argument, Arguments, UsageError, absolute};
use super::options::{Format, TEXT_FORMATS};
use super::settings::{Chosen, find};
use crate::config::{DaemonConfig, MAX_NAMES};
use crate::daemon::probe::{Outcome, Prober, Sockets, sockets_in};
use crate::escape;

/// The socket to probe, and the format of the findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The socket, or the directory.
    pub path: PathBuf,
    /// The daemon's configuration, as far as it decides about a plugin.
    pub config: DaemonConfig,
    /// The time limit for the probe of one socket, besides the daemon's own limits.
    pub timeout: Option<Duration>,
    /// The format of the findings.
    pub format: Format,
}

/// Parses the arguments after `probe`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let mut chosen = Chosen::default();
    let (mut path, mut timeout, mut format) = (None, None, Format::Text);
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("--output") => format = arguments.choice(TEXT_FORMATS)?,
            Argument::Option("--timeout") => timeout = Some(arguments.duration()?),
            Argument::Value(value) if path.is_none() => path = Some(absolute(&value)),
            other => match find(&other) {
                // One that decides about plugins: the help text lists no other.
                Some(setting) => (setting.read)(&mut chosen, arguments)?,
                None => return arguments.standard(&other),
            },
        }
    }
    let path = path.unwrap_or_else(|| chosen.dirs.last().cloned());
    let missing = "missing PATH, expected a socket or a directory";
    let path = path.ok_or_else(|| arguments.error(missing))?;
    Ok(Command::Probe(Options {
        path,
        config: chosen.complete(None),
        timeout,
        format,
    }))
}

/// Runs the probe, shows the findings, and returns the exit status.
#[inline(never)]
pub fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let mut prober = Prober::new(&options.config, options.timeout)?;
    let code = match sockets_in(&options.path) {
        Some(sockets) => probe_all(&sockets, &options.path, &mut prober, options.format),
        None => status(probe(&options.path, &mut prober, options.format)),
    };
    Ok(ExitCode::from(code))
}

/// Probes one socket. Text is shown step by step, because a step may take long.
fn probe(socket: &Path, prober: &mut Prober, format: Format) -> Outcome {
    if format == Format::Json {
        let report = prober.probe(socket, &mut |_| {});
        print(&json::show(&report));
        return report.outcome;
    }
    print(&text::head(socket));
    let report = prober.probe(socket, &mut |step| print(&text::step(step, socket)));
    print(&text::end(&report));
    report.outcome
}

/// Probes the sockets in a directory one after the other, and returns the exit status.
fn probe_all(sockets: &Sockets, dir: &Path, prober: &mut Prober, format: Format) -> u8 {
    let (before, between, after) = match format {
        Format::Json => ("[\n", ",\n", "]\n"),
        _ => ("", "\n", ""),
    };
    print(before);
    let mut outcomes = Vec::with_capacity(sockets.paths.len());
    for socket in &sockets.paths {
        if !outcomes.is_empty() {
            print(between);
        }
        outcomes.push(probe(socket, prober, format));
    }
    print(after);
    if format != Format::Json {
        print(&text::summary(dir, &outcomes));
    }
    complain(sockets);
    let statuses = outcomes.into_iter().map(status);
    let unread = u8::from(!sockets.unread.is_empty());
    statuses.chain([unread]).max().unwrap_or_default()
}

/// Returns the exit status of the process for an outcome.
fn status(outcome: Outcome) -> u8 {
    outcome::describe(outcome).status
}

/// Reports the directories that were not read.
fn complain(sockets: &Sockets) {
    for (dir, problem) in &sockets.unread {
        let dir = escape::path(dir);
        let _ = match problem {
            Some(problem) => {
                let remedy = problem.remedy();
                writeln!(
                    io::stderr(),
                    "plugind: cannot probe {dir}: {problem}; {remedy}"
                )
            }
            None => writeln!(
                io::stderr(),
                "plugind: cannot probe all of {dir}: it contains more than {MAX_NAMES} names"
            ),
        };
    }
}

/// Prints to standard output at once. A closed output is not a failure of the probe.
fn print(text: &str) {
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

pub(super) const HELP: &str = "\
Show what run would do with the plugin on a socket, or with the plugins in a
directory. Plugins are never notified: probing one that is in service is safe.

Usage: plugind probe [OPTIONS] PATH
       plugind probe [OPTIONS] --root-dir DIR

PATH is a socket or a directory. In a directory, every socket in it and in its
subdirectories is probed, as run finds them: names with a leading dot are
skipped.

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
  --timeout DURATION    give up on a socket after that time, such as 500ms or
                        30s (default: the limits of run)
  -o, --output FORMAT   text: each step as it ends (default); json: one object
                        per socket, in an array if PATH is a directory
  -h, --help            print this help
  -V, --version         print the version

Exit status; in a directory, the highest one:
  0  the plugin would be registered
  1  cannot probe: a program of --exec or a directory cannot be used
  2  wrong usage
  5  the plugin would be refused
  6  not a plugin registration service
  7  no answer, or not in time
  8  the connection was closed before any data was received
  9  the plugin would be registered, but its endpoint does not answer
";

#[cfg(test)]
mod tests {
    use lexopt::Parser;

    use super::*;
    use crate::config::{self, UnknownTypes};

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let line = [&["probe"], arguments].concat();
        match Command::parse(Parser::from_args(line)) {
            Ok(Command::Probe(options)) => Ok(options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn one_socket_is_enough() {
        let options = parse(&["/a-reg.sock"]).unwrap();
        assert_eq!(options.path, PathBuf::from("/a-reg.sock"));
        assert_eq!(options.config, DaemonConfig::default());
        assert_eq!((options.format, options.timeout), (Format::Text, None));
        assert_eq!(options.config.handlers.types, config::DEFAULT_TYPES);
    }

    #[test]
    fn types_replace_the_default() {
        let options = parse(&["a", "--type", "X", "--type=Y", "-ojson"]).unwrap();
        assert!(options.path.is_absolute());
        assert_eq!(options.config.handlers.types, ["X", "Y"]);
        assert_eq!(options.format, Format::Json);
    }

    #[test]
    fn the_options_of_run_that_decide_what_becomes_of_a_plugin_are_read_the_same() {
        let options = parse(&[
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
        let mapped = config.manager.path_map.find("/var/lib/kubelet/a".as_ref());
        assert_eq!(mapped, Path::new("/data/kubelet/a"));
    }

    #[test]
    fn a_path_comes_before_a_root_directory() {
        let options = parse(&["--root-dir=/data", "/a-reg.sock"]).unwrap();
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
                "invalid value \"\" for --type, expected the name of a plugin type",
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
