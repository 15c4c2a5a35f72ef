//! The formats of log lines.

use std::env;
use std::io;

use log::Level;
use nix::sys::stat::fstat;

use crate::config::LogFormat;
use crate::daemon::time_of_day::TimeOfDay;
use crate::escape;

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

    /// Appends what precedes the message.
    pub(super) fn begin(self, level: Level, target: &str, line: &mut Vec<u8>) {
        match self {
            Self::Text => {
                TimeOfDay::now().push_to(line);
                line.extend_from_slice(match level {
                    Level::Error => b" ERROR ",
                    Level::Warn => b" WARN  ",
                    Level::Info => b" INFO  ",
                    Level::Debug => b" DEBUG ",
                    Level::Trace => b" TRACE ",
                });
            }
            Self::Json => {
                line.extend_from_slice(b"{\"time\":\"");
                TimeOfDay::now().push_to(line);
                line.extend_from_slice(b"\",\"level\":\"");
                line.extend_from_slice(level.as_str().as_bytes());
                line.extend_from_slice(b"\",\"target\":");
                escape::json(target, line);
                line.extend_from_slice(b",\"message\":");
            }
            Self::Journald => line.extend_from_slice(match level {
                Level::Error => b"<3>",
                Level::Warn => b"<4>",
                Level::Info => b"<6>",
                Level::Debug | Level::Trace => b"<7>",
            }),
        }
    }

    /// Ends a line whose message begins at `message`.
    pub(super) fn end(self, message: usize, line: &mut Vec<u8>) {
        match self {
            Self::Text => {}
            Self::Json => {
                let text = line[message..].to_vec();
                line.truncate(message);
                escape::json(&String::from_utf8_lossy(&text), line);
                line.push(b'}');
            }
            // The journal makes an entry of each line, and a panic has two.
            Self::Journald => {
                let line_feeds = line[message..].iter_mut().filter(|octet| **octet == b'\n');
                line_feeds.for_each(|octet| *octet = b' ');
            }
        }
        line.push(b'\n');
    }

    /// Appends an error that is printed as it is.
    pub(super) fn error(self, text: &str, line: &mut Vec<u8>) {
        if self != Self::Text {
            self.begin(Level::Error, env!("CARGO_PKG_NAME"), line);
        }
        let message = line.len();
        line.extend_from_slice(text.as_bytes());
        self.end(message, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(format: LogFormat) -> String {
        let mut line = Vec::new();
        format.error("panicked at \"a\":\nb\u{1b}", &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn an_error_of_two_lines_is_one_object_and_one_entry_of_the_journal() {
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
        let head = |level| {
            let mut line = Vec::new();
            LogFormat::Journald.begin(level, "a", &mut line);
            String::from_utf8(line).unwrap()
        };
        let levels = [
            Level::Error,
            Level::Warn,
            Level::Info,
            Level::Debug,
            Level::Trace,
        ];
        assert_eq!(levels.map(head), ["<3>", "<4>", "<6>", "<7>", "<7>"]);
    }
}
