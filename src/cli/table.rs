//! Tables with a row for each value, or with a row for each column of one value.
//!
//! A column is as wide as its widest cell, and two spaces separate columns. The widths are kept, so
//! that rows which are shown later are aligned with the earlier ones.

use std::borrow::Cow;
use std::{iter, mem};

use serde_json::Value;

use super::client::print;
use super::failure::Result;
use super::json::{format_value, items, to_json_document, to_json_line};
use super::options::{Context, Format, now, print_remark};
use crate::escape;

/// A column: its label, and the function that returns the cell of a value at a time, in
/// milliseconds since the Unix epoch.
pub(super) type Column<T = Value> = (&'static str, fn(&T, u64) -> Cow<'_, str>);

/// A table that is shown in one or several parts.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The rows. A cell ends with a tab and a row with a line end, which no cell contains.
    rows: String,
    /// The widths of the columns, which only grow: the initial widths are minimum widths.
    pub(super) widths: Vec<usize>,
    is_coloured: bool,
}

impl Table {
    /// Creates a table. If it is not coloured, it removes the colours of its cells.
    pub(super) fn new(is_coloured: bool) -> Self {
        Self {
            is_coloured,
            ..Self::default()
        }
    }

    /// Creates a table of values with these columns, in the format of the option `--output`. If
    /// changes are followed, the columns have these minimum widths, so that later rows are aligned
    /// with earlier ones.
    pub(super) fn of<T>(context: &Context<'_>, columns: &[Column<T>], widths: &[usize]) -> Self {
        let options = context.options;
        let mut table = Self::new(context.is_coloured);
        if options.follows {
            table.widths = widths.to_vec();
        }
        if options.has_headers && matches!(options.format, Format::Text | Format::Wide) {
            table.add(columns.iter().map(|(label, _)| label));
        }
        table
    }

    /// Adds a row of cells.
    pub(super) fn add(&mut self, cells: impl IntoIterator<Item: AsRef<str>>) {
        for (at, cell) in cells.into_iter().enumerate() {
            let cell = cell.as_ref();
            debug_assert!(!cell.contains(['\t', '\n']), "{cell:?}");
            let plain = strip_colour(cell);
            let cell = if self.is_coloured { cell } else { plain };
            if self.widths.len() == at {
                self.widths.push(0);
            }
            self.widths[at] = self.widths[at].max(width(cell));
            self.rows.push_str(cell);
            self.rows.push('\t');
        }
        self.rows.push('\n');
    }

    /// Adds a row for a value.
    pub(super) fn add_value<T>(&mut self, columns: &[Column<T>], value: &T, now: u64) {
        self.add(columns.iter().map(|(_, cell)| cell(value, now)));
    }

    /// Adds a row for each column of a value, with the column's label and cell.
    pub(super) fn add_lines(&mut self, columns: &[Column], value: &Value, now: u64) {
        for (label, cell) in columns {
            self.add([Cow::Borrowed(*label), cell(value, now)]);
        }
    }

    /// Adds a row of labels, and a row for each value.
    pub(super) fn add_with_labels<'a>(
        &mut self,
        columns: &[Column],
        values: impl IntoIterator<Item = &'a Value>,
        now: u64,
    ) {
        self.add(columns.iter().map(|(label, _)| label));
        for value in values {
            self.add_value(columns, value, now);
        }
    }

    /// Adds a row for each entry of an object. `above` begins each label. The label of an entry in
    /// an inner object contains both keys: `OUTER.INNER:`.
    pub(super) fn add_entries(&mut self, above: &str, object: &Value) {
        for (key, value) in object.as_object().into_iter().flatten() {
            let key = format!("{above}{}", escape::text(key));
            if value.as_object().is_some_and(|inner| !inner.is_empty()) {
                self.add_entries(&(key + "."), value);
            } else {
                self.add([(key + ":").into(), format_value(value)]);
            }
        }
    }

    /// Removes and returns the rows as text, each line indented by `indent`.
    pub(super) fn take_text(&mut self, indent: &str) -> String {
        let mut text = String::new();
        for row in mem::take(&mut self.rows).lines() {
            text.push_str(indent);
            let mut gap = 0;
            for (cell, max) in row.split_terminator('\t').zip(&self.widths) {
                text.extend(iter::repeat_n(' ', gap));
                text.push_str(cell);
                gap = max - width(cell) + 2; // Two spaces between the columns.
            }
            text.push('\n');
        }
        text
    }
}

/// Prints a list from the daemon: the whole object if the format is JSON, else a row for each item,
/// or `absent` on standard error if the list is empty.
pub(super) fn print_list(
    context: &Context<'_>,
    mut list: Value,
    columns: &[Column],
    absent: &str,
) -> Result<()> {
    let items = items(&mut list)?;
    match context.options.format {
        Format::Json => print(to_json_document(&list)),
        format => print_values(context, items, json_or(format, columns), absent),
    }
}

/// Prints a row for each value, or `absent` on standard error if there is none.
pub(super) fn print_values<T>(
    context: &Context<'_>,
    values: &[T],
    columns: &[Column<T>],
    absent: &str,
) -> Result<()> {
    if values.is_empty() {
        print_remark(absent);
        return Ok(());
    }
    let (mut table, now) = (Table::of(context, columns, &[]), now());
    for value in values {
        table.add_value(columns, value, now);
    }
    print(table.take_text(""))
}

/// Returns a column with lines of JSON if that is the format, else these columns.
pub(super) fn json_or(format: Format, columns: &[Column]) -> &[Column] {
    match format {
        Format::JsonLines => &[("", |it, _| to_json_line(it).into())],
        _ => columns,
    }
}

/// Adds a colour to a word, such as a state, a health or a level, if the word has one. A table
/// without colours removes the colour.
pub(super) fn add_colour(word: Cow<'_, str>) -> Cow<'_, str> {
    let colour = match &*word {
        "Registered" | "Watched" | "Healthy" | "WouldRegister" => "\x1b[32m",
        "Backoff"
        | "Rejected"
        | "Down"
        | "Deleted"
        | "Lost"
        | "Warning"
        | "Unhealthy"
        | "WouldRefuse"
        | "NotASocket"
        | "NotFound"
        | "TimedOut"
        | "EndpointUnavailable"
        | "warning"
        | "problem" => "\x1b[31m",
        failed if failed.ends_with("Failed") => "\x1b[31m",
        "Discovered" | "Connecting" | "Registering" | "Standby" | "Deregistering" | "Polled" => {
            "\x1b[33m"
        }
        _ => return word,
    };
    [colour, &word, RESET].concat().into()
}

fn strip_colour(cell: &str) -> &str {
    // The first `m` is the end of the escape sequence that begins the colour.
    let coloured = cell.strip_suffix(RESET).and_then(|it| it.split_once('m'));
    coloured.map_or(cell, |(_, word)| word)
}

/// Returns the number of characters of a cell, without its colour.
fn width(cell: &str) -> usize {
    strip_colour(cell).chars().count()
}

/// The escape sequence that ends a colour.
const RESET: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn push(table: &mut Table, cells: &[&str]) {
        table.add(cells.iter().map(|cell| (*cell).to_owned()));
    }

    #[test]
    fn a_column_is_as_wide_as_its_widest_cell() {
        let mut table = Table::default();
        push(&mut table, &["NAME", "STATE", "X"]);
        push(&mut table, &["größe", "Up", "y"]);
        push(&mut table, &["a", "Registered", "b"]);
        let expected = "NAME   STATE       X\ngröße  Up          y\na      Registered  b\n";
        assert_eq!(table.take_text(""), expected);
        push(&mut table, &["b", "Down", "c"]);
        assert_eq!(table.take_text("  "), "  b      Down        c\n");
        push(&mut table, &["longer", "Down", "c"]);
        assert_eq!(table.take_text(""), "longer  Down        c\n");
        assert_eq!(table.take_text(""), "");
    }

    #[test]
    fn a_colour_does_not_widen_a_column() {
        let mut table = Table::new(true);
        push(&mut table, &["NAME", "STATE", "X"]);
        table.add(["Down".into(), add_colour("Down".into()), "b".into()]);
        let expected = "NAME  STATE  X\nDown  \x1b[31mDown\x1b[0m   b\n";
        assert_eq!(table.take_text(""), expected);
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
        assert_eq!(table.take_text(""), expected);
    }
}
