//! A program that a handler wants run, and how it ended.
//!
//! Pure: values only; the daemon starts it, watches it and kills it.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::escape;

/// A program to be run, directly and never through a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its absolute path.
    pub path: PathBuf,
    /// What it is given after its name.
    pub arguments: Vec<OsString>,
    /// Its environment, beside the daemon's PATH.
    pub environment: Vec<(&'static str, OsString)>,
    /// What it can read from its standard input.
    pub input: Vec<u8>,
    /// How long it may run before it is killed, with all that it has started.
    pub timeout: Duration,
}

/// What came of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutcome {
    /// How it ended.
    pub end: ProgramEnd,
    /// The beginning of what it wrote to standard error.
    pub errors: Vec<u8>,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// By itself, with this status.
    Exited(i32),
    /// By the signal of this number.
    Killed(i32),
    /// It was killed because its time was over.
    TimedOut,
    /// It could not even be started, for the reason that the system gives.
    NotStarted(String),
}

impl ProgramOutcome {
    /// The outcome of a program that wrote nothing.
    pub fn silent(end: ProgramEnd) -> Self {
        Self {
            end,
            errors: Vec::new(),
        }
    }

    /// The first line with something in it that was written to standard error.
    pub fn first_error(&self) -> Option<String> {
        let lines = self.errors.split(|&octet| octet == b'\n');
        let mut words = lines.map(|line| String::from_utf8_lossy(line).trim().to_owned());
        words.find(|line| !line.is_empty())
    }
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "it ended with status {status}"),
            Self::Killed(signal) => write!(f, "it was ended by signal {signal}"),
            Self::TimedOut => f.write_str("it did not end in time"),
            Self::NotStarted(why) => write!(f, "it could not be started: {}", escape::text(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_says_something_is_the_one_to_repeat() {
        let first = |errors: &[u8]| {
            let errors = errors.to_vec();
            let end = ProgramEnd::Exited(1);
            ProgramOutcome { end, errors }.first_error()
        };
        assert_eq!(first(b""), None);
        assert_eq!(first(b"\n \r\n"), None);
        assert_eq!(first(b"no disk\nmore").as_deref(), Some("no disk"));
        assert_eq!(first(b"\n\t no disk\r\n").as_deref(), Some("no disk"));
        assert_eq!(first(b"\xff!").as_deref(), Some("\u{fffd}!"));
    }
}
