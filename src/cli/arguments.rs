//! The arguments of a command, and the errors about them.
//!
//! The help text of a command is the list of its options. An option that is not listed is unknown,
//! unless every command accepts it or [`Arguments::others`] lists it; the error suggests a similar
//! option if there is one. An error names the option, the value and the accepted values, if there
//! are any, and the help to read.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use lexopt::{Arg, Parser};

use super::values::{Parsed, invalid_value};
use super::{Command, HELP, Help, VERSION};
use crate::escape;

/// An error in a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    problem: String,
    /// The command whose help to suggest; empty for the program itself.
    command: &'static str,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problem, command } = self;
        let space = if command.is_empty() { "" } else { " " };
        write!(f, "{problem}; see plugind{space}{command} --help")
    }
}

impl std::error::Error for UsageError {}

/// The remaining arguments.
#[derive(Debug)]
pub(super) struct Arguments {
    parser: Parser,
    command: &'static str,
    help: Help,
    /// Other options that are accepted, too, as in a help text.
    pub(super) others: Vec<&'static str>,
    /// The last option, as typed.
    option: String,
    /// The value of a `--socket` before the command, which is treated as the first option of the
    /// command; `None` once the command has read the value.
    socket: Option<OsString>,
}

/// An argument of a command line.
#[derive(Debug)]
pub(super) enum Argument {
    /// An option by its long name, such as `--verbose`, in whichever form it was typed.
    Option(&'static str),
    /// Any other argument.
    Value(OsString),
}

impl Arguments {
    /// Creates the arguments of the program itself.
    pub(super) fn new(parser: Parser, help: Help) -> Self {
        Self {
            parser,
            command: "",
            help,
            others: Vec::new(),
            option: String::new(),
            socket: None,
        }
    }

    /// Treats the remaining arguments as those of a command, whose help text lists its options, and
    /// `socket` as if it followed that command.
    pub(super) fn enter_command(
        &mut self,
        command: &'static str,
        help: Help,
        socket: Option<OsString>,
    ) {
        (self.command, self.help, self.socket) = (command, help, socket);
    }

    /// Returns the next argument, or `None` after the last one. Returns an error if the argument is
    /// an unknown option, or a value of the previous option, which takes none.
    pub(super) fn next(&mut self) -> Result<Option<Argument>, UsageError> {
        let next = match self.socket {
            Some(_) => Ok(Some(Arg::Long("socket"))),
            None => self.parser.next(),
        };
        let option = match next {
            Ok(None) => return Ok(None),
            Ok(Some(Arg::Value(value))) => return Ok(Some(Argument::Value(value))),
            Ok(Some(Arg::Long(name))) => format!("--{name}"),
            Ok(Some(Arg::Short(letter))) => format!("-{letter}"),
            Err(lexopt::Error::UnexpectedValue { value, .. }) => {
                let (value, option) = (escape::bytes(value.as_bytes()), &self.option);
                return Err(self.error(format!("unexpected value {value:?} for {option}")));
            }
            Err(error) => return Err(self.error(escape::text(&error.to_string()).to_string())),
        };
        let is_it = |(short, long): &(&str, &str)| *short == option || *long == option;
        let found = self.known_options().find(is_it);
        match found {
            Some((_, long)) => {
                self.option = option;
                Ok(Some(Argument::Option(long)))
            }
            None => Err(self.unknown_option(&option)),
        }
    }

    /// Removes and returns all arguments after `--`, or `None` if `--` is not the next one.
    pub(super) fn take_after_dashes(&mut self) -> Option<Vec<OsString>> {
        let mut rest = self.parser.try_raw_args()?;
        rest.next_if(|argument| argument == "--")?;
        Some(rest.collect())
    }

    /// Parses the value of the last option with `read`.
    pub(super) fn parse_value<T>(
        &mut self,
        read: impl FnOnce(&OsStr) -> Parsed<T>,
    ) -> Result<T, UsageError> {
        let option = &self.option;
        let early = self.socket.take();
        let Ok(value) = early.map_or_else(|| self.parser.value(), Ok) else {
            return Err(self.error(format!("missing value for {option}")));
        };
        read(&value).map_err(|expected| self.error(invalid_value(&value, option, &expected)))
    }

    /// Returns the error about an argument that is none of the expected ones.
    pub(super) fn invalid_argument(&self, value: &OsStr, expected: &str) -> UsageError {
        let value = escape::bytes(value.as_bytes());
        self.error(format!("invalid argument {value:?}, expected {expected}"))
    }

    /// Returns the command for `--help` or `--version`, which every command accepts, or the error
    /// about an argument that is not expected here.
    pub(super) fn parse_standard(&self, argument: &Argument) -> Result<Command, UsageError> {
        match argument {
            Argument::Option("--help") => Ok(Command::Print(self.help)),
            Argument::Option("--version") => Ok(Command::Print([VERSION, ""])),
            _ => Err(self.unexpected_argument(argument)),
        }
    }

    /// Returns the error about an argument that is not expected here.
    pub(super) fn unexpected_argument(&self, argument: &Argument) -> UsageError {
        match argument {
            Argument::Option(option) => self.unknown_option(option),
            Argument::Value(value) => {
                let value = escape::bytes(value.as_bytes());
                self.error(format!("unexpected argument {value:?}"))
            }
        }
    }

    fn unknown_option(&self, option: &str) -> UsageError {
        let known = self.known_options().map(|(_, long)| long);
        let hint = did_you_mean(option, known);
        self.error(format!("unknown option {}{hint}", escape::text(option)))
    }

    /// Returns the short and long names of the options of the command, and of those that every
    /// command accepts.
    fn known_options(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<'_> {
        let standard = options_in_help([HELP, ""]).filter(|(short, _)| !short.is_empty());
        let others = self.others.iter().copied().filter_map(names);
        options_in_help(self.help).chain(others).chain(standard)
    }

    /// Returns an error with this problem.
    pub(super) fn error(&self, problem: impl Into<String>) -> UsageError {
        UsageError {
            problem: problem.into(),
            command: self.command,
        }
    }
}

/// Returns the options that a help text lists, each with its short name, which may be empty, and
/// its long name.
pub(super) fn options_in_help(help: Help) -> impl Iterator<Item = (&'static str, &'static str)> {
    let [own, common] = help.map(str::lines);
    let entries = own.chain(common).filter_map(|line| line.strip_prefix("  "));
    entries.filter(|it| it.starts_with('-')).filter_map(names)
}

/// Returns the short name of the option that an entry of a help text begins with, which may be
/// empty, and its long name.
fn names(entry: &str) -> Option<(&str, &str)> {
    let mut names = entry.split(' ');
    let first = names.next()?;
    match first.strip_suffix(',') {
        Some(short) => Some((short, names.next()?)),
        None => Some(("", first)),
    }
}

/// Returns ` (did you mean NAME?)` with the known name that is closest to the typed one, or an
/// empty text if none is close.
pub(super) fn did_you_mean<T: AsRef<str>>(typed: &str, known: impl Iterator<Item = T>) -> String {
    let lower = typed.to_lowercase();
    let by_distance = known.map(|name| {
        let is_prefix = typed.len() >= MIN_PREFIX && name.as_ref().starts_with(typed);
        let distance = if is_prefix {
            0
        } else {
            edit_distance(&lower, &name.as_ref().to_lowercase())
        };
        (distance, name)
    });
    let closest = by_distance.min_by_key(|(distance, _)| *distance);
    match closest {
        Some((distance, name)) if distance <= (typed.len() / 3).max(1) && typed.len() > 2 => {
            format!(" (did you mean {}?)", name.as_ref())
        }
        _ => String::new(),
    }
}

/// Returns the Levenshtein distance: the number of characters that must be inserted, removed or
/// replaced to turn one text into the other.
fn edit_distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The minimum length of a prefix for which the whole name is suggested.
const MIN_PREFIX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_text_is_the_list_of_options() {
        let help =
            "Usage\n\nOptions:\n  -o, --output FORMAT  text, or json\n  --fast\n      --no\n";
        let found: Vec<_> = options_in_help([help, "  -V, --version\n"]).collect();
        let expected = [("-o", "--output"), ("", "--fast"), ("-V", "--version")];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_closest_name_is_suggested_if_it_is_close() {
        let suggested = |typed| did_you_mean(typed, ["--observe", "--type"].into_iter());
        for near in ["--observ", "--obsreve", "--obs", "--OBSERVE"] {
            assert_eq!(suggested(near), " (did you mean --observe?)", "{near}");
        }
        for far in ["--fast", "-o", "--", ""] {
            assert_eq!(suggested(far), "", "{far}");
        }
        let short = did_you_mean("-a", ["-o"].into_iter());
        assert_eq!(short, "", "every short option is close to all others");
    }

    #[test]
    fn the_distance_is_symmetric_and_counts_single_changes() {
        for (a, b, expected) in [
            ("", "", 0),
            ("run", "run", 0),
            ("run", "", 3),
            ("prob", "probe", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(a, b), expected);
            assert_eq!(edit_distance(b, a), expected);
        }
    }
}
