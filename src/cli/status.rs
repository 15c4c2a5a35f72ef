//! `plugind status` and `plugind metrics`: the state of the daemon itself.

use serde_json::Value;

use super::age;
use super::client::{Request, print};
use super::failure::Result;
use super::json::{format_value, join_or_none, to_json_document};
use super::options::{Context, Format};
use super::table::{Column, Table, add_colour};
use crate::escape;

/// Shows the status of the daemon.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let status = context.client.request_json(&Request::get("/v1/status"))?;
    if context.options.format == Format::Json {
        return print(to_json_document(&status));
    }
    print(format_status(&status, context.is_coloured))
}

/// Prints the metrics. Escapes control characters: plugind has already done that, but another
/// program may own the socket.
pub(super) fn print_metrics(context: &Context<'_>) -> Result<()> {
    print(escape_lines(
        &context.client.request_body(&Request::get("/metrics"))?,
    ))
}

/// Escapes the control and format characters of a text, except line ends. Backslashes are not
/// doubled.
fn escape_lines(text: &[u8]) -> String {
    let lines = text.split(|&byte| byte == b'\n');
    let lines = lines.map(|line| escape::bytes(line).at_most(usize::MAX).to_string());
    let lines = lines.map(|line| line.replace(r"\\", r"\"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the status as one screen of text.
fn format_status(status: &Value, is_coloured: bool) -> String {
    let items = |key| status[key].as_array().into_iter().flatten();
    let mut lines = Table::default();
    lines.add_lines(LINES, status, 0);
    let mut directories = Table::new(is_coloured);
    directories.add_with_labels(DIRECTORY, items("directories"), 0);
    let mut states = Table::default();
    states.add_entries("", &status["plugins"]);
    let mut limits = Table::default();
    limits.add_with_labels(LIMIT, items("limits"), 0);
    format!(
        "{}Directories:\n{}Sockets:  {}\n{}Limits:\n{}",
        lines.take_text(""),
        directories.take_text("  "),
        format_value(&status["sockets"]),
        states.take_text("  "),
        limits.take_text("  "),
    )
}

const LINES: &[Column] = &[
    ("Version:", |it, _| format_value(&it["version"])),
    ("Process:", |it, _| format_value(&it["pid"])),
    ("Mode:", |it, _| format_value(&it["mode"])),
    ("Sandbox:", |it, _| format_value(&it["sandbox"])),
    ("Started:", |it, _| format_value(&it["startTime"])),
    ("Uptime:", |it, _| {
        age::format_duration(it["uptimeSeconds"].as_u64().unwrap_or_default()).into()
    }),
    ("Instance:", |it, _| format_value(&it["instance"])),
    ("Generation:", |it, _| format_value(&it["generation"])),
    ("Longest Turn:", |it, _| {
        format_value(&it["longestTurnMicroseconds"]) + " us"
    }),
];

const DIRECTORY: &[Column] = &[
    ("PATH", |it, _| format_value(&it["path"])),
    ("STATE", |it, _| add_colour(format_value(&it["state"]))),
    ("PROBLEM", |it, _| join_or_none(&it["problem"])),
];

const LIMIT: &[Column] = &[
    ("NAME", |it, _| format_value(&it["name"])),
    ("USED", |it, _| format_amount(it, "used").into()),
    ("LIMIT", |it, _| format_amount(it, "limit").into()),
];

/// Returns the number in a field of a limit, with its unit.
fn format_amount(limit: &Value, key: &str) -> String {
    match limit[key].as_u64() {
        Some(octets) if limit["name"] == "memory" => format!("{} KiB", octets.div_ceil(1024)),
        _ => format_value(&limit[key]).into_owned(),
    }
}

pub(super) const STATUS_HELP: &str = "\
Show a running plugind: its version and process, its directories, the number of
sockets in each state, and how near its limits are.

Usage: plugind status [OPTIONS]

Options:
  -o, --output FORMAT  text (default), or json: the response of the API
";

pub(super) const METRICS_HELP: &str = "\
Print the metrics of a running plugind in the text format of Prometheus, for
example for the textfile collector of node_exporter.

Usage: plugind metrics [OPTIONS]

Options:
";

#[cfg(test)]
mod tests {
    use super::super::testing::status;
    use super::*;

    #[test]
    fn the_status_is_one_screen() {
        assert_eq!(
            format_status(&status(), false),
            "\
Version:       0.1.0
Process:       812
Mode:          register
Sandbox:       on, Landlock ABI 7
Started:       2026-01-31T08:48:00.000Z
Uptime:        3h12m
Instance:      9f2c
Generation:    17
Longest Turn:  312 us
Directories:
  PATH                                STATE    PROBLEM
  /var/lib/kubelet/plugins_registry   Watched  <none>
  /data                               Lost     it was removed
Sockets:  4
  Backoff:     1
  Registered:  3
Limits:
  NAME         USED  LIMIT
  sockets      4     16384
  connections  3     500
"
            .replace("registry   Watched", "registry  Watched")
            .replace(
                "PATH                                STATE",
                "PATH                               STATE"
            )
            .replace(
                "/data                               Lost",
                "/data                              Lost"
            )
        );
    }

    #[test]
    fn an_empty_status_is_shown() {
        let shown = format_status(&Value::Null, true);
        assert!(shown.starts_with("Version:       <none>\n"), "{shown}");
        assert!(
            shown.ends_with("Sockets:  <none>\nLimits:\n  NAME  USED  LIMIT\n"),
            "{shown}"
        );
    }

    #[test]
    fn control_characters_in_metrics_are_escaped() {
        let metrics = b"# HELP a \\n\na{b=\"c\\\\\"} 1\na{b=\"\x1b[2J\xff\"} 1\n";
        let expected = "# HELP a \\n\na{b=\"c\\\\\"} 1\na{b=\"\\u{1b}[2J\\xff\"} 1\n";
        assert_eq!(escape_lines(metrics), expected);
    }
}
