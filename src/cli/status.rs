//! `plugind status` and `plugind metrics`: the daemon itself.

use super::NONE;
use super::client::{Request, print, print_bytes};
use super::failure::Result;
use super::json::Json;
use super::options::{Context, Format};
use super::table::Table;

/// Shows the status of the daemon.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let status = context.client.json(&Request::get("/v1/status"))?;
    if context.options.format == Format::Json {
        return print(&status.document());
    }
    print(&text(&status, context.is_coloured))
}

/// Prints the metrics as they are. For a terminal, bytes that it could misunderstand are replaced.
pub(super) fn metrics(context: &Context<'_>) -> Result<()> {
    let mut metrics = context.client.body(&Request::get("/metrics"))?;
    if context.is_terminal {
        make_visible(&mut metrics);
    }
    print_bytes(&metrics)
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
fn text(status: &Json, is_coloured: bool) -> String {
    let mut table = Table::default();
    table.lines(LINES, status, 0);
    let lines = table.show("");

    let mut table = Table::default();
    table.coloured = is_coloured.then_some(1);
    table.part(DIRECTORY, status.items("directories"));
    let directories = table.show("  ");

    let mut table = Table::default();
    table.entries("", &status["plugins"]);
    let states = table.show("  ");

    let mut table = Table::default();
    table.part(LIMIT, status.items("limits"));
    let limits = table.show("  ");

    [
        &*lines,
        "Directories:\n",
        &directories,
        "Sockets:  ",
        &status["sockets"].shown(NONE),
        "\n",
        &states,
        "Limits:\n",
        &limits,
    ]
    .concat()
}

const LINES: &str = "\
Version:|version|?
Process:|pid|?
Mode:|mode|?
Started:|startTime|?
Uptime:|uptimeSeconds|seconds
Instance:|instance|?
Generation:|generation|?
Longest Turn:|longestTurnMicroseconds|us";

const DIRECTORY: &str = "\
PATH|path|
STATE|state|
PROBLEM|problem|text";

const LIMIT: &str = "\
NAME|name|
USED|used|
LIMIT|limit|";

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
        let shown = text(&Json::Null, true);
        assert!(shown.starts_with("Version:       <unknown>\n"), "{shown}");
        assert!(
            shown.ends_with("Sockets:  <none>\nLimits:\n  NAME  USED  LIMIT\n"),
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
