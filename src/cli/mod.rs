//! The command line: one file for each command, or for several similar ones.
//!
//! A command line is parsed into a [`Command`]. Wrong usage has its own exit status,
//! [`WRONG_USAGE`], which distinguishes it from a command that fails. Nothing in this folder opens
//! files or sockets: `daemon` does that for the commands.

mod age;
mod arguments;
mod change;
pub mod check_config;
mod client;
mod command_line;
mod config_file;
mod describe;
mod devices;
pub mod doctor;
mod events;
mod failure;
mod json;
mod list;
pub mod logging;
mod options;
mod print;
pub mod probe;
pub mod run;
mod run_values;
mod settings;
pub mod simulate;
mod status;
mod table;
#[cfg(test)]
mod testing;
mod values;
mod version;
mod wait;
mod watch;
pub mod with;

use std::ffi::OsStr;

use lexopt::Parser;

pub use self::arguments::UsageError;
use self::arguments::{Argument, Arguments, did_you_mean};
pub use self::command_line::{CommandLine, Options as RunOptions};
pub use self::failure::Failure;
pub use self::options::{Format, Options as AskOptions, run as ask};
use self::options::{Formats, LIST, ROWS, Run, TEXT};
pub use self::settings::settings_needing_restart;
use crate::daemon::probe::Options as Probe;
use crate::escape;
use crate::simulate::Profile;

/// The help text of a command: its own part, and the part that it shares with other commands.
pub type Help = [&'static str; 2];

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run the daemon.
    Run(CommandLine),
    /// Print the configuration.
    CheckConfig(CommandLine),
    /// Probe one socket, or those in a directory.
    Probe(Box<Probe>, Format),
    /// Examine the node.
    Doctor(crate::daemon::doctor::Options, Format),
    /// Simulate a plugin.
    Simulate(Profile),
    /// Run a command with devices.
    With(with::Options),
    /// Ask a running daemon, or print the version.
    Ask(AskOptions),
    /// Print a text: help, the version, a configuration file or completions.
    Print(Help),
}

impl Command {
    /// Parses the command line.
    pub fn parse(parser: Parser) -> Result<Self, UsageError> {
        Ok(match Self::parse_arguments(parser)? {
            Self::Print(help) => Self::Print(run::add_options(help)),
            other => other,
        })
    }

    fn parse_arguments(parser: Parser) -> Result<Self, UsageError> {
        let mut arguments = Arguments::new(parser, [HELP, ""]);
        let mut socket = None;
        let mut first = arguments.next()?;
        while let Some(Argument::Option("--socket")) = first {
            socket = Some(arguments.parse_value(|it| Ok(it.to_owned()))?);
            first = arguments.next()?;
        }
        match first {
            Some(Argument::Value(name)) if name == "help" => parse_help(&mut arguments),
            Some(Argument::Value(name)) => {
                let verb = find_verb(&name, &arguments)?;
                arguments.enter_command(verb.name, verb.help, socket);
                match verb.parse {
                    Parse::Local(parse) => parse(&mut arguments),
                    Parse::Ask(formats, target, _) => {
                        options::parse(verb.name, formats, target, &mut arguments)
                    }
                }
            }
            Some(option) => arguments.parse_standard(&option),
            None => Err(arguments.error("missing command")),
        }
    }
}

/// A command.
struct Verb {
    name: &'static str,
    help: Help,
    parse: Parse,
}

/// The parser of a command's arguments.
enum Parse {
    Local(fn(&mut Arguments) -> Result<Command, UsageError>),
    /// The common parser of the commands that ask a running daemon. The fields are the accepted
    /// formats, the accepted targets, and the function that runs the command.
    Ask(Formats, &'static str, Run),
}

/// Creates a command with its own parser of arguments.
const fn local_verb(
    name: &'static str,
    help: &'static str,
    parse: fn(&mut Arguments) -> Result<Command, UsageError>,
) -> Verb {
    Verb {
        name,
        help: [help, ""],
        parse: Parse::Local(parse),
    }
}

/// Creates a command with the common parser of the commands that ask a running daemon.
const fn remote_verb(
    name: &'static str,
    help: &'static str,
    formats: Formats,
    target: &'static str,
    run: Run,
) -> Verb {
    Verb {
        name,
        help: [help, options::HELP],
        parse: Parse::Ask(formats, target, run),
    }
}

/// The commands: first those with their own parser of arguments.
static VERBS: [Verb; 22] = [
    Verb {
        help: run::HELP,
        ..local_verb("run", "", command_line::parse)
    },
    local_verb("check-config", check_config::HELP, check_config::parse),
    local_verb("config", print::CONFIG_HELP, print::parse_config),
    local_verb(
        "completion",
        print::COMPLETION_HELP,
        print::parse_completion,
    ),
    local_verb("probe", probe::HELP, probe::parse),
    local_verb("doctor", doctor::HELP, doctor::parse),
    local_verb("simulate", simulate::HELP, simulate::parse),
    local_verb("with", with::HELP, with::parse),
    Verb {
        help: [version::HELP, ""],
        ..remote_verb("version", "", TEXT, "", version::run)
    },
    remote_verb("list", list::HELP, LIST, TYPE, watch::run),
    remote_verb("devices", devices::HELP, ROWS, RESOURCE, devices::run),
    remote_verb("describe", describe::HELP, TEXT, SOCKET, describe::run),
    remote_verb("watch", watch::HELP, LIST, TYPE, watch::run),
    remote_verb("events", events::HELP, ROWS, SOCKET, events::run),
    remote_verb("wait", wait::HELP, &[], SOCKET, wait::run),
    remote_verb("status", status::STATUS_HELP, TEXT, "", status::run),
    remote_verb(
        "metrics",
        status::METRICS_HELP,
        &[],
        "",
        status::print_metrics,
    ),
    remote_verb("retry", change::RETRY_HELP, &[], SOCKET, change::run),
    remote_verb("forget", change::FORGET_HELP, &[], NAME, change::run),
    remote_verb("rescan", change::RESCAN_HELP, &[], "", change::run),
    remote_verb("reload", change::RELOAD_HELP, &[], "", change::run),
    remote_verb(LOG_LEVEL, change::LOG_HELP, &[], "FILTER", change::run),
];

/// The command that changes the log filter. `log`, its name in 0.1, is accepted, too.
const LOG_LEVEL: &str = "log-level";

/// The argument that names a resource or a DRA driver.
const RESOURCE: &str = "RESOURCE";

/// The argument that names a plugin.
const NAME: &str = "TYPE/NAME";

/// The argument that names the plugins of a type, or one plugin.
const TYPE: &str = "TYPE or TYPE/NAME";

/// The argument that names a plugin or a socket.
const SOCKET: &str = "TYPE/NAME or SOCKET";

/// Returns the function that runs the command of that name, which asks a daemon.
fn find_run(name: &str) -> Run {
    let asked = VERBS.iter().find_map(|verb| match &verb.parse {
        Parse::Ask(.., run) if verb.name == name => Some(*run),
        _ => None,
    });
    asked.expect("options have the name of their command")
}

/// Returns the command of that name, or an error that suggests a similar name if there is one.
fn find_verb(name: &OsStr, arguments: &Arguments) -> Result<&'static Verb, UsageError> {
    let name = name.to_string_lossy();
    let full = if name == "log" { LOG_LEVEL } else { &name };
    VERBS.iter().find(|verb| verb.name == full).ok_or_else(|| {
        let names = VERBS.iter().map(|verb| verb.name).chain(["help"]);
        let hint = did_you_mean(&name, names);
        let name = escape::text(&name);
        arguments.error(format!("unknown command {name:?}{hint}"))
    })
}

/// Parses the arguments after `help`: at most the name of a command.
fn parse_help(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let text = match arguments.next()? {
        None => [HELP, ""],
        Some(Argument::Value(name)) if name == "help" => [HELP, ""],
        Some(Argument::Value(name)) => find_verb(&name, arguments)?.help,
        Some(option) => return arguments.parse_standard(&option),
    };
    match arguments.next()? {
        None => Ok(Command::Print(text)),
        Some(extra) => Err(arguments.unexpected_argument(&extra)),
    }
}

/// The exit status for wrong usage, as in shells.
pub const WRONG_USAGE: u8 = 2;

/// The exit status for a configuration that is not valid: `EX_CONFIG` of sysexits(3).
pub const BAD_CONFIG: u8 = 78;

/// The text for a value that is absent, as in kubectl.
const NONE: &str = "<none>";

/// The text for a value that is not known, as in kubectl.
const UNKNOWN: &str = "<unknown>";

const VERSION: &str = concat!("plugind ", env!("CARGO_PKG_VERSION"), "\n");

const HELP: &str = "\
Manage the plugins of a Kubernetes node without kubelet: find CSI, device and
DRA plugins by their sockets, register them, and deregister them when their
sockets are removed.

Usage: plugind COMMAND [OPTIONS]

Commands:
  run           watch directories and register the plugins that appear there
  check-config  check the configuration of run, and print what is in force
  config        print a configuration file with every option, as comments
  completion    print the completions of bash, zsh or fish
  probe         show what run would do with the plugins on existing sockets
  doctor        examine the node: permissions, limits, dead sockets, other roots
  simulate      simulate a plugin, to test a node and its handlers
  version       print the version, the commit and the target

Commands that ask a running daemon:
  list          list the plugins and their states
  devices       list the devices of device plugins, and their health
  with          run a command that uses devices exclusively
  describe      show one plugin or socket in detail, with its events
  watch         show the plugins and then each change
  events        show the events of plugins and sockets
  wait          wait until a plugin is registered, or the daemon is ready
  status        show the daemon, its directories and its limits
  metrics       print the metrics for Prometheus
  retry         reset backoff and retry at once
  forget        deregister a plugin that is down
  rescan        read all directories again
  reload        read the configuration again
  log-level     change the log filter

  help COMMAND  print the help of a command

Options:
  --socket PATH  the API socket of plugind, as after a command that has it
  -h, --help     print this help; after a command, the help of that command
  -V, --version  print the version
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Command, String> {
        Command::parse(Parser::from_args(arguments)).map_err(|error| error.to_string())
    }

    #[test]
    fn help_and_version_are_accepted_with_and_without_a_command() {
        assert_eq!(parse(&["--help"]), Ok(Command::Print([HELP, ""])));
        assert_eq!(parse(&["-h"]), Ok(Command::Print([HELP, ""])));
        for line in [vec!["--version"], vec!["-V"], vec!["run", "--version"]] {
            assert_eq!(parse(&line), Ok(Command::Print([VERSION, ""])));
        }
        assert!(matches!(parse(&["run", "--help"]), Ok(Command::Print(help)) if help[0] != HELP));
    }

    #[test]
    fn wrong_usage_names_the_problem_and_the_help_to_read() {
        let missing = "missing command; see plugind --help";
        assert_eq!(parse(&[]), Err(missing.to_owned()));
        for (line, expected) in [
            (vec!["jump"], "unknown command \"jump\""),
            (
                vec!["prob"],
                "unknown command \"prob\" (did you mean probe?)",
            ),
            (vec!["help", "rnu"], "unknown command \"rnu\""),
            (
                vec!["help", "runn"],
                "unknown command \"runn\" (did you mean run?)",
            ),
            (vec!["help", "run", "x"], "unexpected argument \"x\""),
            (vec!["--up"], "unknown option --up"),
            (
                vec!["--versio"],
                "unknown option --versio (did you mean --version?)",
            ),
        ] {
            let expected = format!("{expected}; see plugind --help");
            assert_eq!(parse(&line), Err(expected), "{line:?}");
        }
    }

    #[test]
    fn the_api_socket_may_be_named_before_the_command() {
        for verb in [&["list"][..], &["wait", "--for=ready"], &["log", "info"]] {
            let before = [&["--socket=/a", "--socket", "/s"], verb].concat();
            let behind = [verb, &["--socket=/s"]].concat();
            assert_eq!(parse(&before), parse(&behind));
        }
        let unknown = "unknown option --socket; see plugind probe --help";
        assert_eq!(
            parse(&["--socket=/s", "probe", "/p"]),
            Err(unknown.to_owned())
        );
        let missing = "missing value for --socket; see plugind --help";
        assert_eq!(parse(&["--socket"]), Err(missing.to_owned()));
    }

    #[test]
    fn the_old_name_of_log_level_is_accepted() {
        assert_eq!(parse(&["log", "info"]), parse(&["log-level", "info"]));
        assert!(parse(&["log", "info"]).is_ok());
    }

    #[test]
    fn completions_are_printed_for_each_shell() {
        for (shell, begin) in [("bash", "# Comp"), ("zsh", "#compdef"), ("fish", "# Comp")] {
            let script = parse(&["completion", shell]);
            assert!(matches!(script, Ok(Command::Print([it, ""])) if it.starts_with(begin)));
        }
        for (line, expected) in [
            (
                &["completion"][..],
                "missing shell, expected bash, zsh or fish",
            ),
            (
                &["completion", "sh"],
                "invalid argument \"sh\", expected bash, zsh or fish",
            ),
            (&["completion", "zsh", "x"], "unexpected argument \"x\""),
        ] {
            let expected = format!("{expected}; see plugind completion --help");
            assert_eq!(parse(line), Err(expected));
        }
    }

    #[test]
    fn help_is_a_command_that_prints_the_help_of_the_others() {
        for line in [&["help"][..], &["help", "help"], &["help", "--help"]] {
            assert_eq!(parse(line), Ok(Command::Print([HELP, ""])));
        }
        for verb in &VERBS {
            let printed = Ok(Command::Print(run::add_options(verb.help)));
            assert_eq!(parse(&["help", verb.name]), printed);
            assert_eq!(parse(&[verb.name, "--help"]), printed);
        }
    }

    #[test]
    fn every_line_of_help_fits_a_terminal_of_80_columns() {
        for help in VERBS
            .iter()
            .map(|verb| run::add_options(verb.help))
            .chain([[HELP, ""]])
        {
            for line in help.concat().lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn every_option_that_a_help_text_lists_is_known() {
        for verb in &VERBS {
            for (_, option) in arguments::options_in_help(run::add_options(verb.help)) {
                let found = parse(&[verb.name, option, "1"]);
                let unknown = format!("unknown option {option}");
                let is_unknown = |error: &String| error.starts_with(&unknown);
                assert!(!found.as_ref().is_err_and(is_unknown), "{found:?}");
            }
        }
    }
}
