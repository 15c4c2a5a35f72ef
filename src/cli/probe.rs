//! `plugind probe`: what the daemon would make of one socket.
//!
//! Reads the arguments, has the socket probed, and shows what was found: as a ladder for people, or
//! as JSON. It never notifies the plugin, so it can be used on one that is in service.

mod json;
mod text;

use std::io::{self, Write as _};
use std::path::{self, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::{Long, Short, Value, ValueExt as _};
use lexopt::{Error, Parser};

use super::run::plugin_type;
use super::{Command, standard};
use crate::config::{self, UnknownTypes};
use crate::daemon::probe::{Outcome, probe};
use crate::handler::built_in;

/// What to probe, and how to show what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The socket.
    pub socket: PathBuf,
    /// The plugin types that are accepted.
    pub types: Vec<String>,
    /// How to show it.
    pub format: Format,
}

/// For whom it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Reads what comes after `probe`.
pub(super) fn parse(parser: &mut Parser) -> Result<Command, Error> {
    let (mut socket, mut types, mut format) = (None, Vec::new(), Format::Text);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('o') | Long("output") => format = parser.value()?.parse_with(named)?,
            Long("type") => types.push(plugin_type(parser.value()?)?),
            Value(path) if socket.is_none() => socket = Some(PathBuf::from(path)),
            other => return standard(&other, HELP).ok_or_else(|| other.unexpected()),
        }
    }
    if types.is_empty() {
        types = config::DEFAULT_TYPES.map(str::to_owned).to_vec();
    }
    let socket = socket
        .filter(|socket| !socket.as_os_str().is_empty())
        .ok_or("probe needs the path of a socket")?;
    Ok(Command::Probe(Options {
        socket: path::absolute(&socket).unwrap_or(socket),
        types,
        format,
    }))
}

/// Probes, shows what was found, and says what to end with. That nobody reads it is no failure.
pub fn run(options: &Options) -> ExitCode {
    let (mut handlers, _) = built_in(&options.types, UnknownTypes::Reject);
    let report = probe(&options.socket, &mut handlers);
    let shown = match options.format {
        Format::Text => text::show(&report),
        Format::Json => json::show(&report),
    };
    let _ = io::stdout().write_all(shown.as_bytes());
    ExitCode::from(exit_code(report.outcome))
}

/// The format of that name.
fn named(name: &str) -> Result<Format, &'static str> {
    match name {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        _ => Err("it is either text or json"),
    }
}

/// What the process ends with.
fn exit_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::WouldRegister => 0,
        Outcome::WouldRefuse => 5,
        Outcome::NotARegistrationService => 6,
        Outcome::Unreachable => 7,
    }
}

const HELP: &str = "\
Ask the plugin on one socket who it is, and show what the daemon would make of
it. The plugin is told nothing: it may be one in service.

Usage: plugind probe [OPTIONS] SOCKET

Options:
  -o, --output FORMAT  text (the default) or json
  --type NAME          a plugin type that the daemon accepts; may be given several
                       times (default: CSIPlugin, DevicePlugin, DRAPlugin)
  -h, --help           this text
  -V, --version        the version

Exit codes: 0 it would be registered, 2 wrong usage, 5 it would be refused, 6 what
answers is no registration service, 7 nothing answers, or not in time.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        match super::parse(&mut Parser::from_args(arguments)) {
            Ok(Command::Probe(options)) => Ok(options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn one_socket_is_enough() {
        let options = parse(&["/a-reg.sock"]).unwrap();
        assert_eq!(options.socket, PathBuf::from("/a-reg.sock"));
        assert_eq!(options.types, config::DEFAULT_TYPES);
        assert_eq!(options.format, Format::Text);
    }

    #[test]
    fn types_replace_the_default() {
        let options = parse(&["a", "--type", "X", "--type=Y", "-ojson"]).unwrap();
        assert!(options.socket.is_absolute());
        assert_eq!(options.types, ["X", "Y"]);
        assert_eq!(options.format, Format::Json);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert!(parse(&[]).unwrap_err().contains("socket"));
        assert!(parse(&[""]).unwrap_err().contains("socket"));
        assert!(parse(&["a", "b"]).unwrap_err().contains("\"b\""));
        assert!(parse(&["a", "-o", "yaml"]).unwrap_err().contains("yaml"));
        assert!(parse(&["a", "--type", ""]).unwrap_err().contains("--type"));
        assert!(parse(&["a", "--fast"]).unwrap_err().contains("--fast"));
    }
}
