//! A program that a handler requests, and its outcome.
//!
//! The daemon starts, supervises and kills the program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::escape;

/// A program to be run, directly and never through a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The absolute path.
    pub path: PathBuf,
    /// The arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// The environment, in addition to the daemon's PATH.
    pub environment: Vec<(&'static str, OsString)>,
    /// The contents of its standard input.
    pub input: Vec<u8>,
    /// The time after which the program is killed, with the other processes of its process group.
    pub timeout: Duration,
}

/// The end of a program, and its error output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutcome {
    /// The way in which the program ended.
    pub end: ProgramEnd,
    /// The beginning of the program's output to standard error.
    pub errors: Vec<u8>,
}

/// The way in which a program ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramEnd {
    /// The program exited with this status.
    #[error("exited with status {0}")]
    Exited(i32),
    /// The program was killed by the signal of this number.
    #[error("killed by signal {0}")]
    Killed(i32),
    /// The program was killed because its time limit was exceeded.
    #[error("timed out and was killed")]
    TimedOut,
    /// The time limit was exceeded before it was certain that the program had been started; it was
    /// killed.
    #[error("could not be started in time")]
    NotInTime,
    /// The program could not be started; the reason is the system's message.
    #[error("could not be started: {}", escape::text(.0))]
    NotStarted(String),
}

impl ProgramOutcome {
    /// Returns the outcome of a program that wrote nothing.
    pub fn silent(end: ProgramEnd) -> Self {
        Self {
            end,
            errors: Vec::new(),
        }
    }

    /// Returns the first line of standard error that is not blank, without surrounding white space.
    pub fn first_error(&self) -> Option<String> {
        let lines = self.errors.split(|&octet| octet == b'\n');
        let mut words = lines.map(|line| String::from_utf8_lossy(line).trim().to_owned());
        words.find(|line| !line.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_is_not_blank_is_the_error() {
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
