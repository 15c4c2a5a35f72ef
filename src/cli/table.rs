//! Tables: which key of a value is shown in which column, and how.
//!
//! Pure. Columns are as wide as they have to be, with two spaces between them. Widths are
//! remembered, so that rows which are shown later stand below the earlier ones.
//!
//! The columns of a table are one text, with a line `LABEL|key|how` for each: in an array, each
//! label and key needs a relocation in the static binary. `how` is one of:
//!
//! | how | shown |
//! |---|---|
//! | nothing | the value |
//! | `?` | the value, or `<unknown>` |
//! | `text` | the value, in which the daemon has escaped what comes from plugins |
//! | `socket` | the value, or the socket |
//! | `age` | the time since then |
//! | `until` | the time until then |
//! | `since`, `next` | a time, and the time since then or until then |
//! | `seconds` | a number of seconds |
//! | `us` | a number of microseconds |
//! | `last` | when an event happened last, and how often since when if it was repeated |
//! | `object` | the plugin in this key, or else the socket |
//!
//! A value that is missing is `<none>`.

use std::mem;

use super::json::Json;
use super::{NONE, UNKNOWN, age};
use crate::escape;

/// A table that is shown in one or several parts.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The rows: each cell ends with a tab, which is escaped inside cells, and each row with a line
    /// end.
    text: String,
    widths: Vec<usize>,
    /// The column that is shown in colour, if any.
    pub(super) coloured: Option<usize>,
}

impl Table {
    /// Makes a column at least this wide.
    pub(super) fn widen(&mut self, column: usize, width: usize) {
        if self.widths.len() <= column {
            self.widths.resize(column + 1, 0);
        }
        self.widths[column] = self.widths[column].max(width);
    }

    /// Adds a cell, which is not empty and has neither a tab nor a line end, to the last row.
    pub(super) fn cell(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\t');
    }

    /// Ends the last row.
    pub(super) fn end(&mut self) {
        self.text.push('\n');
    }

    /// Adds the labels of columns to the last row.
    pub(super) fn labels(&mut self, columns: &'static str) {
        for column in columns.lines() {
            self.cell(split(column).0);
        }
    }

    /// Adds the cells of a value to the last row.
    pub(super) fn cells(&mut self, columns: &'static str, value: &Json, now: u64) {
        for column in columns.lines() {
            let (_, key, how) = split(column);
            self.cell(&shown(value, key, how, now));
        }
    }

    /// Adds a row with the label and the value of each column.
    pub(super) fn lines(&mut self, columns: &'static str, value: &Json, now: u64) {
        for column in columns.lines() {
            self.labels(column);
            self.cells(column, value, now);
            self.end();
        }
    }

    /// Adds a row of labels and one for each value, below a line with a heading.
    pub(super) fn part(&mut self, columns: &'static str, values: &[Json]) {
        self.labels(columns);
        self.end();
        for value in values {
            self.cells(columns, value, 0);
            self.end();
        }
    }

    /// Adds a row for each key of an object; those of an object in it have both keys.
    pub(super) fn entries(&mut self, above: &str, object: &Json) {
        for (key, value) in object.entries() {
            let key = [above, &escape::text(key).to_string()].concat();
            if value.entries().is_empty() {
                self.cell(&(key + ":"));
                self.cell(&value.shown(NONE));
                self.end();
            } else {
                self.entries(&(key + "."), value);
            }
        }
    }

    /// Removes and returns the rows as text, each line after `indent`.
    pub(super) fn show(&mut self, indent: &str) -> String {
        let rows = mem::take(&mut self.text);
        for row in rows.lines() {
            for (column, cell) in row.split_terminator('\t').enumerate() {
                self.widen(column, cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in rows.lines() {
            text.push_str(indent);
            let mut gap = 0;
            for (column, cell) in row.split_terminator('\t').enumerate() {
                for _ in 0..gap {
                    text.push(' ');
                }
                gap = self.widths[column] - cell.chars().count() + GAP;
                let colour = match self.coloured {
                    Some(coloured) if coloured == column => colour(cell),
                    _ => "",
                };
                text.push_str(colour);
                text.push_str(cell);
                text.push_str(if colour.is_empty() { "" } else { RESET });
            }
            text.push('\n');
        }
        text
    }
}

/// Returns the label and the key of a column, and how its value is shown.
fn split(column: &'static str) -> (&'static str, &'static str, &'static str) {
    let (label, rest) = column.split_once('|').unwrap_or_default();
    let (key, how) = rest.split_once('|').unwrap_or_default();
    (label, key, how)
}

/// Returns the value of a key as it is shown.
fn shown(value: &Json, key: &str, how: &str, now: u64) -> String {
    let then = value.text(key);
    let plain = match how {
        "text" => escape::composed(then.as_bytes()),
        _ => value[key].shown(""),
    };
    match how {
        "age" => age::since(then, now),
        "object" => object(&value[key], value),
        "last" => last_seen(value, now),
        "socket" if plain.is_empty() => value["socket"].shown(NONE),
        _ if plain.is_empty() => if how == "?" { UNKNOWN } else { NONE }.to_owned(),
        "until" => age::until(then, now),
        "since" => [&plain, " (", &age::since(then, now), " ago)"].concat(),
        "next" => [&plain, " (in ", &age::until(then, now), ")"].concat(),
        "seconds" => age::duration(value.number(key)),
        "us" => plain + " us",
        _ => plain,
    }
}

/// Returns when an event happened last, and how often since when if it was repeated.
fn last_seen(event: &Json, now: u64) -> String {
    let mut last = age::since(event.text("lastTime"), now);
    if event.number("count") > 1 {
        let first = age::since(event.text("firstTime"), now);
        let count = event["count"].shown("");
        last = [&last, " (x", &count, " over ", &first, ")"].concat();
    }
    last
}

/// Returns the plugin in a value, as the commands accept it, or else the socket of `owner`.
pub(super) fn object(value: &Json, owner: &Json) -> String {
    match value.text("type") {
        "" => owner["socket"].shown(NONE),
        kind => plugin(kind, value.text("name")),
    }
}

/// Returns a plugin's type and name, escaped, as the commands accept them.
pub(super) fn plugin(kind: &str, name: &str) -> String {
    [kind, "/", name]
        .map(|part| escape::text(part).to_string())
        .concat()
}

/// Returns the terminal's sequence for the colour of a state, a health or an event's type, or
/// nothing.
fn colour(word: &str) -> &'static str {
    match word {
        "Registered" | "Watched" | "Healthy" => "\x1b[32m",
        "Backoff" | "Rejected" | "Down" | "Deleted" | "Lost" | "Warning" | "Unhealthy" => {
            "\x1b[31m"
        }
        "Discovered" | "Connecting" | "Registering" | "Standby" | "Deregistering" | "Polled" => {
            "\x1b[33m"
        }
        _ => "",
    }
}

/// The terminal's sequence that ends a colour.
const RESET: &str = "\x1b[0m";

/// The number of spaces between columns.
const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::super::testing::json;
    use super::*;

    fn push(table: &mut Table, cells: &[&str]) {
        for cell in cells {
            table.cell(cell);
        }
        table.end();
    }

    #[test]
    fn a_column_is_as_wide_as_its_widest_cell_and_the_last_one_is_not_filled() {
        let mut table = Table::default();
        push(&mut table, &["NAME", "STATE", "X"]);
        push(&mut table, &["größe", "Up", "y"]);
        push(&mut table, &["a", "Registered", "b"]);
        let expected = "NAME   STATE       X\ngröße  Up          y\na      Registered  b\n";
        assert_eq!(table.show(""), expected);
        push(&mut table, &["b", "Down", "c"]);
        assert_eq!(table.show("  "), "  b      Down        c\n");
        push(&mut table, &["longer", "Down", "c"]);
        assert_eq!(table.show(""), "longer  Down        c\n");
        assert_eq!(table.show(""), "");
    }

    #[test]
    fn a_colour_takes_no_room() {
        let mut table = Table {
            coloured: Some(1),
            ..Table::default()
        };
        push(&mut table, &["NAME", "STATE", "X"]);
        push(&mut table, &["Down", "Down", "b"]);
        let expected = "NAME  STATE  X\nDown  \x1b[31mDown\x1b[0m   b\n";
        assert_eq!(table.show(""), expected);
    }

    #[test]
    fn what_the_daemon_has_escaped_is_not_escaped_again() {
        let value = json!({"name": "a\\b\u{1b}", "error": "no \"a\\\\b\\u{1b}\": \u{1b}\t"});
        let mut table = Table::default();
        table.cells("NAME|name|\nERROR|error|text\nNONE|none|text", &value, 0);
        table.end();
        let expected = "a\\\\b\\u{1b}  no \"a\\\\b\\u{1b}\": \\u{1b}\\t  <none>\n";
        assert_eq!(table.show(""), expected);
    }

    #[test]
    fn an_object_in_an_object_is_shown_by_both_keys() {
        let details = json!({"csi": {
            "nodeId": "i-1", "maxVolumes": 0, "version": "",
            "topology": {"topology.ebs/zone\u{1b}\t": "a\n"}, "empty": {}, "list": ["a", "b"],
        }});
        let mut table = Table::default();
        table.entries("", &details);
        let expected = "\
csi.empty:                               <none>
csi.list:                                a,b
csi.maxVolumes:                          0
csi.nodeId:                              i-1
csi.topology.topology.ebs/zone\\u{1b}\\t:  a\\n
csi.version:                             <none>
";
        assert_eq!(table.show(""), expected);
    }
}
