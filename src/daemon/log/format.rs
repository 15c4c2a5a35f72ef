//! The formats of log lines.

use std::env;
use std::io::{self, Write as _};

use log::Level;
use nix::sys::stat::fstat;
use serde::Serialize;

use crate::config::LogFormat;
use crate::daemon::TimeOfDay;
use crate::escape;
use crate::time::rfc3339;

impl LogFormat {
    /// Returns the format for standard error: that of the journal if it leads there, else text.
    pub(super) fn of_stderr() -> Self {
        // systemd.exec(5): JOURNAL_STREAM "contains the device and inode numbers of the file
        // descriptor, formatted in decimal, separated by a colon (":")".
        let stream = env::var("JOURNAL_STREAM");
        let stat = fstat(io::stderr());
        match (stream, stat) {
            (Ok(stream), Ok(stat)) if stream == format!("{}:{}", stat.st_dev, stat.st_ino) => {
                Self::Journald
            }
            _ => Self::Text,
        }
    }

    /// Returns a line.
    pub(super) fn line(self, level: Level, target: &str, message: &str) -> Vec<u8> {
        let time = rfc3339(TimeOfDay::now().since_1970());
        let mut line = Vec::with_capacity(message.len() + BEFORE);
        match self {
            Self::Text => {
                let level = level.as_str();
                let space = &"      "[level.len()..];
                for part in [&time, " ", level, space, message] {
                    line.extend_from_slice(part.as_bytes());
                }
            }
            Self::Json => {
                let level = level.as_str();
                let object = Object {
                    time,
                    level,
                    target,
                    message,
                };
                escape::json(&object, &mut line);
            }
            Self::Journald => {
                let priority = match level {
                    Level::Error => 3,
                    Level::Warn => 4,
                    Level::Info => 6,
                    Level::Debug | Level::Trace => 7,
                };
                // The journal makes an entry of each line, and a panic has two.
                let _ = write!(line, "<{priority}>{}", message.replace('\n', " "));
            }
        }
        line.push(b'\n');
        line
    }

    /// Returns the line of an error, which is printed as it is where that is possible.
    pub(super) fn error(self, text: &str) -> Vec<u8> {
        match self {
            Self::Text => format!("{text}\n").into_bytes(),
            Self::Json | Self::Journald => self.line(Level::Error, env!("CARGO_PKG_NAME"), text),
        }
    }
}

/// The room for what is before the message in a line of text, and for its end (octets).
const BEFORE: usize = 32;

/// A line as an object.
#[derive(Serialize)]
struct Object<'a> {
    time: String,
    level: &'a str,
    target: &'a str,
    message: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(format: LogFormat) -> String {
        String::from_utf8(format.error("panicked at \"a\":\nb\u{1b}")).unwrap()
    }

    #[test]
    fn an_error_of_two_lines_is_one_object() {
        assert_eq!(error(LogFormat::Text), "panicked at \"a\":\nb\u{1b}\n");
        assert_eq!(
            error(LogFormat::Journald),
            "<3>panicked at \"a\": b\u{1b}\n"
        );
        let line = error(LogFormat::Json);
        assert!(
            line.ends_with("\"}\n") && line.lines().count() == 1,
            "{line}"
        );
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], "panicked at \"a\":\nb\u{1b}");
        assert_eq!(
            (&read["level"], &read["target"]),
            (&"ERROR".into(), &"plugind".into())
        );
    }

    #[test]
    fn levels_are_the_priorities_of_syslog_in_the_journal() {
        let line = |level| String::from_utf8(LogFormat::Journald.line(level, "a", "b")).unwrap();
        let lines: Vec<_> = Level::iter().map(line).collect();
        assert_eq!(lines, ["<3>b\n", "<4>b\n", "<6>b\n", "<7>b\n", "<7>b\n"]);
    }

    #[test]
    fn a_line_is_text_or_a_json_object_in_this_order() {
        let line = |format: LogFormat| {
            let line = format.line(Level::Info, "plugind::daemon", "a \"b\" \u{e9}");
            String::from_utf8(line).unwrap()
        };
        assert_eq!(&line(LogFormat::Text)[24..], " INFO  a \"b\" \u{e9}\n");
        let json = line(LogFormat::Json);
        assert!(json.starts_with("{\"time\":\"2"), "{json}");
        let rest = "\",\"level\":\"INFO\",\"target\":\"plugind::daemon\",\
                    \"message\":\"a \\\"b\\\" \\u00e9\"}\n";
        assert!(json.ends_with(rest), "{json}");
    }
}
