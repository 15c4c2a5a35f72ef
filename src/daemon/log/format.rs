//! The formats of log lines.

use std::env;
use std::io::{self, IsTerminal, Write as _};

use log::Level;
use log::kv::{Error, Key, Source, Value, VisitSource};
use nix::sys::stat::fstat;
use serde::Serialize;

use crate::config::LogFormat;
use crate::daemon::clock::time_of_day;
use crate::escape;
use crate::time::rfc3339_octets;

/// The format of lines, and whether they have colours.
#[derive(Debug)]
pub(super) struct Style {
    format: LogFormat,
    is_coloured: bool,
}

/// Returns whether this output may have colours: on a terminal that is not dumb, without
/// `NO_COLOR`.
pub fn has_colours(output: &impl IsTerminal) -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = || env::var_os("TERM").is_some_and(|term| term == "dumb");
    output.is_terminal() && !is_set("NO_COLOR") && !is_dumb()
}

/// Returns the format for standard error: that of the journal if it is connected to the journal,
/// else text.
fn default_format() -> LogFormat {
    // systemd.exec(5): JOURNAL_STREAM "contains the device and inode numbers of the connection file
    // descriptor, formatted in decimal, separated by a colon (":")".
    let stream = env::var("JOURNAL_STREAM");
    let stat = fstat(io::stderr());
    match (stream, stat) {
        (Ok(stream), Ok(stat)) if stream == format!("{}:{}", stat.st_dev, stat.st_ino) => {
            LogFormat::Journald
        }
        _ => LogFormat::Text,
    }
}

impl Style {
    /// Returns the style of lines on standard error: in this format or, if it is `None`, in the
    /// default format for what standard error is connected to.
    pub(super) fn new(format: Option<LogFormat>) -> Self {
        Self {
            format: format.unwrap_or_else(default_format),
            is_coloured: has_colours(&io::stderr()),
        }
    }

    /// Writes a line into an empty buffer. Only the JSON format includes the fields.
    pub(super) fn write_line(
        &self,
        level: Level,
        target: &str,
        message: &str,
        fields: Option<&dyn Source>,
        line: &mut Vec<u8>,
    ) {
        let time = rfc3339_octets(time_of_day());
        let time = std::str::from_utf8(&time).expect("it is ASCII");
        let name = level.as_str();
        match self.format {
            LogFormat::Text => {
                let [begin, end] = match level {
                    Level::Error | Level::Warn if self.is_coloured => ["\x1b[31m", "\x1b[0m"],
                    _ => ["", ""],
                };
                let space = &"      "[name.len()..];
                for part in [time, " ", begin, name, end, space, message] {
                    line.extend_from_slice(part.as_bytes());
                }
            }
            LogFormat::Json => {
                let mut object = Object(line);
                object.add("time", time);
                object.add("level", name);
                object.add("target", target);
                object.add("message", message);
                let _ = fields.map(|fields| fields.visit(&mut object)); // Never fails.
                line.push(b'}');
            }
            LogFormat::Journald => {
                let priority = match level {
                    Level::Error => 3,
                    Level::Warn => 4,
                    Level::Info => 6,
                    Level::Debug | Level::Trace => 7,
                };
                // The journal makes an entry of each line, but a panic message has two lines.
                let _ = write!(line, "<{priority}>{}", message.replace('\n', " "));
            }
        }
        line.push(b'\n');
    }

    /// Returns a line without fields.
    pub(super) fn format_line(&self, level: Level, target: &str, message: &str) -> Vec<u8> {
        let mut line = Vec::new();
        self.write_line(level, target, message, None, &mut line);
        line
    }

    /// Returns the line of an error. In the text format, the line is the text alone.
    pub(super) fn format_error(&self, text: &str) -> Vec<u8> {
        match self.format {
            LogFormat::Text => format!("{text}\n").into_bytes(),
            _ => self.format_line(Level::Error, env!("CARGO_PKG_NAME"), text),
        }
    }
}

/// A line in JSON that is being written: an object without its closing brace.
struct Object<'a>(&'a mut Vec<u8>);

impl Object<'_> {
    fn add(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        escape::append_json(key, self.0);
        self.0.push(b':');
        escape::append_json(value, self.0);
    }
}

impl<'kvs> VisitSource<'kvs> for Object<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        match value.to_u64() {
            Some(number) => self.add(key.as_str(), &number),
            None => self.add(key.as_str(), &value.to_string()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(format: LogFormat) -> Style {
        Style {
            format,
            is_coloured: false,
        }
    }

    fn error_line(format: LogFormat) -> String {
        String::from_utf8(style(format).format_error("panicked at \"a\":\nb\u{1b}")).unwrap()
    }

    #[test]
    fn an_error_of_two_lines_is_one_object() {
        assert_eq!(error_line(LogFormat::Text), "panicked at \"a\":\nb\u{1b}\n");
        assert_eq!(
            error_line(LogFormat::Journald),
            "<3>panicked at \"a\": b\u{1b}\n"
        );
        let line = error_line(LogFormat::Json);
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
        let line = |level| {
            let line = style(LogFormat::Journald).format_line(level, "a", "b");
            String::from_utf8(line).unwrap()
        };
        let lines: Vec<_> = Level::iter().map(line).collect();
        assert_eq!(lines, ["<3>b\n", "<4>b\n", "<6>b\n", "<7>b\n", "<7>b\n"]);
    }

    #[test]
    fn a_line_is_text_or_a_json_object_in_this_order() {
        let line = |style: Style, level| {
            let fields = [("name", Value::from("7")), ("attempt", Value::from(7_u32))];
            let (message, mut line) = ("a \"b\" \u{e9}", Vec::new());
            style.write_line(level, "plugind::daemon", message, Some(&fields), &mut line);
            String::from_utf8(line).unwrap()
        };
        let text = line(style(LogFormat::Text), Level::Info);
        assert_eq!(&text[24..], " INFO  a \"b\" \u{e9}\n");
        let coloured = |level| {
            let is_coloured = true;
            let style = Style {
                is_coloured,
                ..style(LogFormat::Text)
            };
            line(style, level)[24..].to_owned()
        };
        assert_eq!(coloured(Level::Info), " INFO  a \"b\" \u{e9}\n");
        let red = " \x1b[31mWARN\x1b[0m  a \"b\" \u{e9}\n";
        assert_eq!(coloured(Level::Warn), red);
        let json = line(style(LogFormat::Json), Level::Info);
        assert!(json.starts_with("{\"time\":\"2"), "{json}");
        let rest = "\",\"level\":\"INFO\",\"target\":\"plugind::daemon\",\
                    \"message\":\"a \\\"b\\\" \\u00e9\",\"name\":\"7\",\"attempt\":7}\n";
        assert!(json.ends_with(rest), "{json}");
    }
}
