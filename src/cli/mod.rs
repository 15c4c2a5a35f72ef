//! What a person types: one file per verb.
//!
//! A command line comes in and a [`Command`] goes out. Wrong usage is told apart from a command
//! that fails by its exit code, [`WRONG_USAGE`].

pub mod logging;
pub mod probe;
pub mod run;
pub mod simulate;

use lexopt::prelude::{Long, Short, Value};
use lexopt::{Arg, Error, Parser};

use crate::simulate::Profile;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run the daemon.
    Run(run::Options),
    /// Look at one socket.
    Probe(probe::Options),
    /// Be such a plugin.
    Simulate(Profile),
    /// Print this text.
    Print(&'static str),
}

impl Command {
    /// Reads the command line.
    pub fn parse(mut parser: Parser) -> Result<Self, Error> {
        match parser.next()? {
            Some(Value(verb)) => match verb.to_str() {
                Some("run") => run::parse(&mut parser),
                Some("probe") => probe::parse(&mut parser),
                Some("simulate") => simulate::parse(&mut parser),
                _ => Err(format!("there is no command {verb:?}").into()),
            },
            Some(option) => standard(&option, HELP).ok_or_else(|| option.unexpected()),
            None => Err("a command is missing".into()),
        }
    }
}

/// The options that every verb and the program itself have.
fn standard(option: &Arg<'_>, help: &'static str) -> Option<Command> {
    match option {
        Short('h') | Long("help") => Some(Command::Print(help)),
        Short('V') | Long("version") => Some(Command::Print(VERSION)),
        _ => None,
    }
}

/// The exit code for a command line that makes no sense, as shells have it.
pub const WRONG_USAGE: u8 = 2;

const VERSION: &str = concat!("plugind ", env!("CARGO_PKG_VERSION"), "\n");

const HELP: &str = "\
The plugin manager of a Kubernetes node, on its own: finds CSI, device and DRA
plugins by their sockets, registers them, and deregisters them when they go.

Usage: plugind COMMAND [OPTIONS]

Commands:
  run       watch directories and register the plugins that appear there
  probe     show what the daemon would make of the plugin on one socket
  simulate  be a plugin, to try a node and its handlers with

Options:
  -h, --help     this text; after a command, that command's
  -V, --version  the version
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Command, String> {
        Command::parse(Parser::from_args(arguments)).map_err(|error| error.to_string())
    }

    #[test]
    fn help_and_version_are_everywhere() {
        assert_eq!(parse(&["--help"]), Ok(Command::Print(HELP)));
        assert_eq!(parse(&["-h"]), Ok(Command::Print(HELP)));
        for line in [vec!["--version"], vec!["-V"], vec!["run", "--version"]] {
            assert_eq!(parse(&line), Ok(Command::Print(VERSION)));
        }
        assert!(matches!(parse(&["run", "--help"]), Ok(Command::Print(help)) if help != HELP));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert_eq!(parse(&[]), Err("a command is missing".to_owned()));
        assert_eq!(
            parse(&["jump"]),
            Err("there is no command \"jump\"".to_owned())
        );
        assert_eq!(parse(&["--up"]), Err("invalid option '--up'".to_owned()));
    }
}
