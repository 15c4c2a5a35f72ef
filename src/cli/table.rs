//! Tables: which key of a value is shown in which column, and how.
//!
//! Pure. Columns are as wide as they have to be, with two spaces between them. Widths are
//! remembered, so that rows which are shown later stand below the earlier ones.

use std::mem;

use serde_json::Value;

use super::json::{shown, text};
use super::{NONE, UNKNOWN, age};
use crate::escape;

/// A column: its label, the key of its value, and the form of the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    label: &'static str,
    key: &'static str,
    form: Form,
}

/// Creates a column.
pub(super) const fn column(label: &'static str, key: &'static str, form: Form) -> Column {
    Column { label, key, form }
}

/// The form of a value; one that is missing is `<none>`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Plain,
    /// The value, or `<unknown>`.
    Known,
    /// As `Known`, and in colour on a terminal.
    State,
    /// A text in which the daemon has escaped what comes from plugins.
    Composed,
    /// The value, or the socket.
    OrSocket,
    /// The time since then.
    Age,
    /// The time until then.
    Until,
    /// A time, and the time since then.
    Since,
    /// A time, and the time until then.
    Next,
    /// A number of seconds.
    Seconds,
    /// A number of microseconds.
    Micros,
    /// When an event happened last, and how often since when if it was repeated.
    LastSeen,
    /// The plugin in this key, or else the socket.
    Object,
}

/// A table that is shown in one or several parts.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// The widths of the columns; those that a table has at the beginning are the least ones.
    pub(super) widths: Vec<usize>,
    is_coloured: bool,
}

impl Table {
    /// Creates a table, which has colours if the terminal has.
    pub(super) fn new(is_coloured: bool) -> Self {
        Self {
            is_coloured,
            ..Self::default()
        }
    }

    /// Adds a row of cells that are not empty.
    pub(super) fn add(&mut self, cells: Vec<String>) {
        self.widths.resize(self.widths.len().max(cells.len()), 0);
        for (max, cell) in self.widths.iter_mut().zip(&cells) {
            *max = width(cell).max(*max);
        }
        self.rows.push(cells);
    }

    /// Returns the cells of a value.
    pub(super) fn cells(&self, columns: &[Column], value: &Value, now: u64) -> Vec<String> {
        let cells = columns.iter().map(|column| self.cell(column, value, now));
        cells.collect()
    }

    fn cell(&self, column: &Column, value: &Value, now: u64) -> String {
        let cell = form(column, value, now);
        match column.form {
            Form::State if self.is_coloured => coloured(cell),
            _ => cell,
        }
    }

    /// Adds a row with the label and the value of each column.
    pub(super) fn add_lines(&mut self, columns: &[Column], value: &Value, now: u64) {
        for column in columns {
            self.add(vec![column.label.to_owned(), self.cell(column, value, now)]);
        }
    }

    /// Adds a row of labels and one for each value.
    pub(super) fn add_all<'a>(
        &mut self,
        columns: &[Column],
        values: impl IntoIterator<Item = &'a Value>,
        now: u64,
    ) {
        self.add(labels(columns));
        for value in values {
            self.add(self.cells(columns, value, now));
        }
    }

    /// Adds a row for each key of an object; those of an object in it have both keys.
    pub(super) fn add_entries(&mut self, above: &str, object: &Value) {
        for (key, value) in object.as_object().into_iter().flatten() {
            let key = format!("{above}{}", escape::text(key));
            if value.as_object().is_some_and(|inner| !inner.is_empty()) {
                self.add_entries(&(key + "."), value);
            } else {
                self.add(vec![key + ":", shown(value, NONE)]);
            }
        }
    }

    /// Removes and returns the rows as text, each line after `indent`.
    pub(super) fn show(&mut self, indent: &str) -> String {
        let mut text = String::new();
        for row in mem::take(&mut self.rows) {
            text.push_str(indent);
            let mut gap = 0;
            for (cell, max) in row.iter().zip(&self.widths) {
                text.push_str(&" ".repeat(gap));
                text.push_str(cell);
                gap = max - width(cell) + GAP;
            }
            text.push('\n');
        }
        text
    }
}

/// Returns the labels of columns.
pub(super) fn labels(columns: &[Column]) -> Vec<String> {
    let labels = columns.iter().map(|column| column.label.to_owned());
    labels.collect()
}

/// Returns the value of a column in its form.
fn form(column: &Column, value: &Value, now: u64) -> String {
    let found = &value[column.key];
    let then = text(found);
    match column.form {
        Form::Age => age::since(then, now),
        Form::Seconds => age::duration(found.as_u64().unwrap_or_default()),
        Form::LastSeen => last_seen(value, now),
        Form::Object => object(found, value),
        Form::OrSocket if then.is_empty() => shown(&value["socket"], NONE),
        Form::Known | Form::State => shown(found, UNKNOWN),
        Form::Composed if !then.is_empty() => escape::composed(then.as_bytes()),
        Form::Until if !then.is_empty() => age::until(then, now),
        Form::Since if !then.is_empty() => {
            format!("{} ({} ago)", shown(found, NONE), age::since(then, now))
        }
        Form::Next if !then.is_empty() => {
            format!("{} (in {})", shown(found, NONE), age::until(then, now))
        }
        Form::Micros if !found.is_null() => shown(found, NONE) + " us",
        _ => shown(found, NONE),
    }
}

/// Returns when an event happened last, and how often since when if it was repeated.
fn last_seen(event: &Value, now: u64) -> String {
    let last = age::since(text(&event["lastTime"]), now);
    match event["count"].as_u64() {
        Some(count @ 2..) => {
            let first = age::since(text(&event["firstTime"]), now);
            format!("{last} (x{count} over {first})")
        }
        _ => last,
    }
}

/// Returns the plugin in a value, as the commands accept it, or else the socket of `owner`.
pub(super) fn object(value: &Value, owner: &Value) -> String {
    match text(&value["type"]) {
        "" => shown(&owner["socket"], NONE),
        kind => plugin(kind, text(&value["name"])),
    }
}

/// Returns a plugin's type and name, escaped, as the commands accept them.
pub(super) fn plugin(kind: &str, name: &str) -> String {
    format!("{}/{}", escape::text(kind), escape::text(name))
}

/// Returns a state, a health or an event's type in its colour, if it has one.
fn coloured(word: String) -> String {
    let colour = match &*word {
        "Registered" | "Watched" | "Healthy" => "\x1b[32m",
        "Backoff" | "Rejected" | "Down" | "Deleted" | "Lost" | "Warning" | "Unhealthy" => {
            "\x1b[31m"
        }
        "Discovered" | "Connecting" | "Registering" | "Standby" | "Deregistering" | "Polled" => {
            "\x1b[33m"
        }
        _ => return word,
    };
    format!("{colour}{word}{RESET}")
}

/// Returns the number of columns that a cell takes on a terminal.
fn width(cell: &str) -> usize {
    let shown = cell.strip_suffix(RESET).map(|cell| &cell[COLOUR..]);
    shown.unwrap_or(cell).chars().count()
}

/// The length of the terminal's sequence that begins a colour.
const COLOUR: usize = "\x1b[3_m".len();

/// The terminal's sequence that ends a colour.
const RESET: &str = "\x1b[0m";

/// The number of spaces between columns.
const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn push(table: &mut Table, cells: &[&str]) {
        table.add(cells.iter().map(|cell| (*cell).to_owned()).collect());
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
        let mut table = Table::new(true);
        let columns = [
            column("NAME", "name", Form::Known),
            column("STATE", "state", Form::State),
            column("X", "x", Form::Plain),
        ];
        let value = json!({"name": "Down", "state": "Down", "x": "b"});
        table.add_all(&columns, [&value], 0);
        let expected = "NAME  STATE  X\nDown  \x1b[31mDown\x1b[0m   b\n";
        assert_eq!(table.show(""), expected);
    }

    #[test]
    fn what_the_daemon_has_escaped_is_not_escaped_again() {
        let value = json!({"name": "a\\b\u{1b}", "error": "no \"a\\\\b\\u{1b}\": \u{1b}\t"});
        let columns = [
            column("NAME", "name", Form::Plain),
            column("ERROR", "error", Form::Composed),
            column("NONE", "none", Form::Composed),
        ];
        let expected = [
            "a\\\\b\\u{1b}",
            "no \"a\\\\b\\u{1b}\": \\u{1b}\\t",
            "<none>",
        ];
        assert_eq!(Table::default().cells(&columns, &value, 0), expected);
    }

    #[test]
    fn an_object_in_an_object_is_shown_by_both_keys() {
        let details = json!({"csi": {
            "nodeId": "i-1", "maxVolumes": 0, "version": "",
            "topology": {"topology.ebs/zone\u{1b}\t": "a\n"}, "empty": {}, "list": ["a", "b"],
        }});
        let mut table = Table::default();
        table.add_entries("", &details);
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
