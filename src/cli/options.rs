//! The commands that ask a running daemon: their common options, and the choice of the daemon.
//!
//! All of them find the daemon by `--socket`, else by the environment variable
//! `PLUGIND_API_SOCKET`, else by the default path for the user's own daemon or, if no socket
//! exists there, for that of root. `PLUGIND_SOCKET` is not used for that: in the environment of
//! programs of `--exec`, it names the socket of a plugin.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use super::Command;
use super::arguments::{Argument, Arguments, UsageError};
use super::client::{Client, RESPONSE_TIMEOUT};
use super::failure::{self, FailureKind};
use super::json::Keys;
use super::values::{
    join_with_or, make_absolute, parse_duration, parse_one_of, parse_path, parse_with,
};
use crate::daemon::client::default_socket;
pub(super) use crate::daemon::client::time_of_day_millis as now;
use crate::daemon::has_colours;
use crate::escape;
use crate::manager::State;

/// A command that asks a running daemon, and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub(super) verb: &'static str,
    pub(super) socket: Option<PathBuf>,
    pub(super) target: Target,
    pub(super) format: Format,
    /// The state of the records to show; `None`: all states.
    pub(super) state: Option<State>,
    pub(super) has_headers: bool,
    pub(super) follows: bool,
    /// The condition to wait for; empty for commands other than `wait`.
    pub(super) condition: &'static str,
    pub(super) timeout: Duration,
    /// The timeout, as typed.
    pub(super) timeout_text: String,
}

/// The function that runs a command.
pub(super) type Run = fn(&Context<'_>) -> failure::Result<()>;

/// The daemon to ask, and how to print its response.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) options: &'a Options,
    pub(super) client: Client,
    pub(super) is_coloured: bool,
}

/// The object that a command is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    All,
    Type(String),
    Plugin {
        kind: String,
        name: String,
    },
    Socket(PathBuf),
    /// The name of a resource, or a log filter.
    Text(String),
}

/// The last lines of the help texts of these commands.
pub(super) const HELP: &str = "\
\x20 --socket PATH        the API socket of plugind (default: $PLUGIND_API_SOCKET,
                       else that of your own daemon, else
                       /run/plugind/plugind.sock)

Exit status: 0 done, 1 failed, 2 wrong usage, 3 no daemon, or it has stopped.
";

/// The argument of `log-level` that restores the log filter of the configuration. In the API, an
/// empty filter does so.
pub(super) const DEFAULT: &str = "default";

/// The condition that the daemon itself is ready.
pub(super) const READY: &str = "ready";

/// The format of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for the terminal: lines, or a table.
    Text,
    /// A table with more columns.
    Wide,
    /// JSON for programs.
    Json,
    /// A JSON object in each line.
    JsonLines,
    /// Names that other commands accept.
    Name,
}

/// The names of formats, the default first.
pub(super) type Formats = &'static [(&'static str, Format)];

/// The formats of commands that show one thing.
pub(super) const TEXT: Formats = &[("text", Format::Text), ("json", Format::Json)];

/// The formats of commands that list devices or events.
pub(super) const ROWS: Formats = &[
    ("table", Format::Text),
    ("json", Format::Json),
    ("jsonl", Format::JsonLines),
];

/// The formats of commands that list plugins.
pub(super) const LIST: Formats = &[
    ("table", Format::Text),
    ("wide", Format::Wide),
    ("json", Format::Json),
    ("jsonl", Format::JsonLines),
    ("name", Format::Name),
];

const CONDITIONS: [&str; 3] = ["registered", "deregistered", READY];

impl Target {
    /// Parses an argument, or returns `None` if it is none of the accepted kinds of target, which
    /// `expected` names.
    fn parse(value: &OsStr, expected: &str) -> Option<Self> {
        let starts = |with: &str| value.as_bytes().starts_with(with.as_bytes());
        if ["/", "./", "../"].into_iter().any(starts) {
            let path = expected
                .contains("SOCKET")
                .then(|| make_absolute(value))??;
            return Some(Self::Socket(path));
        }
        let text = value.to_str().filter(|text| !text.is_empty())?;
        if ["FILTER", super::RESOURCE].contains(&expected) {
            return Some(Self::Text(text.to_owned()));
        }
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Some(Self::Plugin {
                kind: kind.to_owned(),
                name: name.to_owned(),
            }),
            None if expected.contains("TYPE or") => Some(Self::Type(text.to_owned())),
            _ => None,
        }
    }

    /// Returns the plugin or socket, escaped, if the target names one.
    pub(super) fn display_name(&self) -> Option<String> {
        match self {
            Self::Plugin { kind, name } => {
                Some(format!("{}/{}", escape::text(kind), escape::text(name)))
            }
            Self::Socket(path) => Some(escape::path(path).to_string()),
            Self::All | Self::Type(_) | Self::Text(_) => None,
        }
    }

    /// Returns whether the plugin or socket with these keys belongs to the target.
    pub(super) fn includes(&self, [plugin_type, plugin, socket]: Keys<'_>) -> bool {
        match self {
            Self::All | Self::Text(_) => true,
            Self::Type(kind) => plugin_type == kind,
            Self::Plugin { kind, name } => plugin_type == kind && plugin == name,
            Self::Socket(path) => path.to_string_lossy() == socket,
        }
    }
}

/// Parses the arguments after the command, which accepts these formats, and these kinds of target.
pub(super) fn parse(
    verb: &'static str,
    formats: Formats,
    expected: &'static str,
    arguments: &mut Arguments,
) -> Result<Command, UsageError> {
    let mut is_required = matches!(verb, "describe" | "forget" | super::LOG_LEVEL);
    let mut options = Options {
        verb,
        socket: None,
        target: Target::All,
        format: Format::Text,
        state: None,
        has_headers: true,
        follows: verb == "watch",
        condition: "",
        timeout: Duration::from_secs(30),
        timeout_text: "30s".to_owned(),
    };
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("--socket") => {
                options.socket = Some(arguments.parse_value(parse_path)?);
            }
            Argument::Option("--output") => {
                options.format = arguments.parse_value(|it| parse_one_of(it, formats))?;
            }
            Argument::Option("--state") => {
                let names = State::ALL.map(State::name);
                options.state = Some(
                    arguments
                        .parse_value(|it| parse_with(it, &join_with_or(&names), State::parse))?,
                );
            }
            Argument::Option("--no-headers") => options.has_headers = false,
            Argument::Option("--watch") => options.follows = true,
            Argument::Option("--timeout") => {
                options.timeout = arguments.parse_value(|it| {
                    options.timeout_text = it.to_string_lossy().into_owned();
                    parse_duration(it)
                })?;
            }
            Argument::Option("--for") => {
                let conditions = CONDITIONS.map(|name| (name, name));
                options.condition = arguments.parse_value(|it| parse_one_of(it, &conditions))?;
            }
            Argument::Value(value) if options.target == Target::All && !expected.is_empty() => {
                options.target = Target::parse(&value, expected)
                    .ok_or_else(|| arguments.invalid_argument(&value, expected))?;
            }
            other => return arguments.parse_standard(&other),
        }
    }
    if options.follows && options.format == Format::Json {
        return Err(arguments.error("-o json is one value, and changes do not end: use -o jsonl"));
    }
    if verb == "wait" {
        if options.condition.is_empty() {
            let conditions = join_with_or(&CONDITIONS);
            return Err(arguments.error(format!("missing option --for, expected {conditions}")));
        }
        is_required = options.condition != READY;
        if !is_required && options.target != Target::All {
            let why = "--for=ready waits for the daemon and takes no argument";
            return Err(arguments.error(why));
        }
    }
    if is_required && options.target == Target::All {
        return Err(arguments.error(format!("missing {expected}")));
    }
    Ok(Command::Ask(options))
}

/// Returns the path in the environment variable `PLUGIND_API_SOCKET`, or `None` if the variable is
/// not set or is empty.
pub(super) fn socket_from_env() -> Option<PathBuf> {
    let named = env::var_os("PLUGIND_API_SOCKET");
    named.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns the socket of the daemon to ask; `given` is the value of `--socket`.
pub(super) fn choose_socket(given: Option<&PathBuf>) -> PathBuf {
    let socket = given.cloned().or_else(socket_from_env);
    socket.unwrap_or_else(default_socket)
}

/// Runs the command. A closed output is not a failure.
pub fn run(options: &Options) -> failure::Result<()> {
    let context = Context {
        options,
        client: Client {
            socket: choose_socket(options.socket.as_ref()),
            timeout: RESPONSE_TIMEOUT,
        },
        is_coloured: has_colours(&io::stdout()),
    };
    match super::find_run(options.verb)(&context) {
        Err(failure) if failure.kind == FailureKind::OutputClosed => Ok(()),
        done => done,
    }
}

/// Prints a text on standard error and adds no prefix to it, as kubectl does if there is nothing to
/// show.
pub(super) fn print_remark(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lexopt::Parser;

    use super::*;

    fn parse(line: &[&str]) -> Result<Options, String> {
        match Command::parse(Parser::from_args(line)) {
            Ok(Command::Ask(options)) => Ok(options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_plugin_is_split_at_the_first_slash_and_a_path_is_a_socket() {
        let target = |text: &str| parse(&["describe", text]).unwrap().target;
        let plugin = |kind: &str, name: &str| Target::Plugin {
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        assert_eq!(target("CSIPlugin/a"), plugin("CSIPlugin", "a"));
        let gpu = plugin("DevicePlugin", "example.com/gpu");
        assert_eq!(target("DevicePlugin/example.com/gpu"), gpu);
        assert_eq!(target("/r/a.sock"), Target::Socket("/r/a.sock".into()));
        let Target::Socket(path) = target("./a.sock") else {
            panic!("not a socket");
        };
        assert!(path.is_absolute() && path.ends_with("a.sock"));
        let kind = parse(&["list", "CSIPlugin"]).unwrap().target;
        assert_eq!(kind, Target::Type("CSIPlugin".to_owned()));
    }

    #[test]
    fn options_have_the_forms_of_kubectl() {
        let options = parse(&["list", "-owide", "--no-headers", "-w", "--state=backoff"]).unwrap();
        assert_eq!(
            (options.format, options.state),
            (Format::Wide, Some(State::Backoff))
        );
        assert!(options.follows && !options.has_headers);
        let line = ["wait", "--for=registered", "A/b", "--timeout", "5s"];
        let options = parse(&line).unwrap();
        assert_eq!(options.condition, "registered");
        assert_eq!(options.timeout, Duration::from_secs(5));
        let line = ["status", "--socket", "/s", "-o", "json"];
        let options = parse(&line).unwrap();
        assert_eq!(options.socket.as_deref(), Some(Path::new("/s")));
        assert_eq!(options.format, Format::Json);
        assert!(parse(&["watch"]).unwrap().follows);
    }

    #[test]
    fn wrong_usage_names_the_option_the_value_and_what_is_accepted() {
        for (line, expected) in [
            (
                &["list", "-o", "yaml"][..],
                "invalid value \"yaml\" for -o, expected table, wide, json, jsonl or name",
            ),
            (
                &["status", "-o", "wide"],
                "invalid value \"wide\" for -o, expected text or json",
            ),
            (
                &["status", "-o", "or"],
                "invalid value \"or\" for -o, expected text or json",
            ),
            (&["status", "-w"], "unknown option -w"),
            (&["metrics", "-o", "json"], "unknown option -o"),
            (
                &["list", "--state", "running"],
                "invalid value \"running\" for --state, expected Discovered, Connecting, \
                 Registering, Registered, Standby, Down, Backoff, Rejected or Deregistering",
            ),
            (
                &["list", "/r/a.sock"],
                "invalid argument \"/r/a.sock\", expected TYPE or TYPE/NAME",
            ),
            (&["list", "a", "b"], "unexpected argument \"b\""),
            (
                &["describe", "CSIPlugin"],
                "invalid argument \"CSIPlugin\", expected TYPE/NAME or SOCKET",
            ),
            (
                &["describe", "CSIPlugin/"],
                "invalid argument \"CSIPlugin/\", expected TYPE/NAME or SOCKET",
            ),
            (&["describe"], "missing TYPE/NAME or SOCKET"),
            (&["forget"], "missing TYPE/NAME"),
            (
                &["forget", "/r/a.sock"],
                "invalid argument \"/r/a.sock\", expected TYPE/NAME",
            ),
            (
                &["devices", "-o", "wide"],
                "invalid value \"wide\" for -o, expected table, json or jsonl",
            ),
            (
                &["devices", "/r/a.sock"],
                "invalid argument \"/r/a.sock\", expected RESOURCE",
            ),
            (&["devices", "-w"], "unknown option -w"),
            (&["log-level"], "missing FILTER"),
            (&["rescan", "now"], "unexpected argument \"now\""),
            (
                &["wait", "A/b"],
                "missing option --for, expected registered, deregistered or ready",
            ),
            (&["wait", "--for=registered"], "missing TYPE/NAME or SOCKET"),
            (
                &["events", "-wojson"],
                "-o json is one value, and changes do not end: use -o jsonl",
            ),
            (
                &["wait", "--for=up", "A/b"],
                "invalid value \"up\" for --for, expected registered, deregistered or ready",
            ),
            (
                &["wait", "--for=ready", "A/b"],
                "--for=ready waits for the daemon and takes no argument",
            ),
            (&["events", "--folow"], "unknown option --folow"),
            (
                &["list", "--no-header"],
                "unknown option --no-header (did you mean --no-headers?)",
            ),
        ] {
            let expected = format!("{expected}; see plugind {} --help", line[0]);
            assert_eq!(parse(line).unwrap_err(), expected, "{line:?}");
        }
    }

    #[test]
    fn a_plugin_is_shown_escaped() {
        let target = Target::Plugin {
            kind: "A\n".to_owned(),
            name: "b\u{1b}c".to_owned(),
        };
        assert_eq!(target.display_name().as_deref(), Some("A\\n/b\\u{1b}c"));
        assert_eq!(Target::All.display_name(), None);
    }
}
