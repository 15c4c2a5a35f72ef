//! `plugind status` and `plugind metrics`: the daemon itself.

use serde_json::json;

use super::age;
use super::ask::Context;
use super::client::{Request, print};
use super::failure::Result;
use super::json::{composed, document, known, plain};
use super::options::Format;
use super::table::{Column, Table, coloured};
use crate::api::json::{DirectoryEntry, StatusEntry, UsageEntry};

/// Shows the status of the daemon.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let status = context.client.json(&Request::get("/v1/status"))?;
    if context.options.format == Format::Json {
        return print(document(&status));
    }
    print(text(&status, context.is_coloured))
}

/// Prints the metrics as they are. For a terminal, bytes that it could misunderstand are replaced.
pub(super) fn metrics(context: &Context<'_>) -> Result<()> {
    let mut metrics = context.client.body(&Request::get("/metrics"))?;
    if context.is_terminal {
        make_visible(&mut metrics);
    }
    print(&metrics)
}

/// Replaces all bytes but line ends that are not visible ASCII.
fn make_visible(text: &mut [u8]) {
    for byte in text {
        if !matches!(byte, b' '..=b'~' | b'\n') {
            *byte = b'?';
        }
    }
}

/// Returns the status as one screen of text.
fn text(status: &StatusEntry<'static>, is_coloured: bool) -> String {
    let mut lines = Table::default();
    lines.add_lines(LINES, status, 0);
    let mut directories = Table::new(is_coloured);
    directories.add_all(DIRECTORY, &status.directories, 0);
    let mut states = Table::default();
    states.add_entries("", &json!(status.plugins));
    let mut limits = Table::default();
    limits.add_all(LIMIT, &status.limits, 0);
    format!(
        "{}Directories:\n{}Sockets:  {}\n{}Limits:\n{}",
        lines.show(""),
        directories.show("  "),
        status.sockets,
        states.show("  "),
        limits.show("  "),
    )
}

const LINES: &[Column<StatusEntry<'static>>] = &[
    ("Version:", |it, _| known(&it.version)),
    ("Process:", |it, _| it.pid.to_string()),
    ("Mode:", |it, _| known(&it.mode)),
    ("Started:", |it, _| known(&it.start_time)),
    ("Uptime:", |it, _| age::duration(it.uptime_seconds)),
    ("Instance:", |it, _| known(&it.instance)),
    ("Generation:", |it, _| it.generation.to_string()),
    ("Longest Turn:", |it, _| {
        format!("{} us", it.longest_turn_microseconds)
    }),
];

const DIRECTORY: &[Column<DirectoryEntry<'static>>] = &[
    ("PATH", |it, _| plain(&it.path)),
    ("STATE", |it, _| coloured(plain(&it.state))),
    ("PROBLEM", |it, _| composed(&it.problem)),
];

const LIMIT: &[Column<UsageEntry<'static>>] = &[
    ("NAME", |it, _| plain(&it.name)),
    ("USED", |it, _| it.used.to_string()),
    ("LIMIT", |it, _| it.limit.to_string()),
];

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
            text(&status(), false),
            "\
Version:       0.1.0
Process:       812
Mode:          register
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
        let shown = text(&StatusEntry::default(), true);
        assert!(shown.starts_with("Version:       <unknown>\n"), "{shown}");
        assert!(
            shown.ends_with("Sockets:  0\nLimits:\n  NAME  USED  LIMIT\n"),
            "{shown}"
        );
    }

    #[test]
    fn metrics_cannot_move_a_cursor() {
        let mut metrics = b"# HELP a \\n\na{b=\"c\\\\\"} 1\na{b=\"\x1b[2J\xff\"} 1\n".to_vec();
        make_visible(&mut metrics);
        let expected = "# HELP a \\n\na{b=\"c\\\\\"} 1\na{b=\"?[2J?\"} 1\n";
        assert_eq!(metrics, expected.as_bytes());
    }
}
