//! Records or events, shown one per line in one or several parts.

use serde::Serialize;
use serde_json::Value;

use super::client::print;
use super::failure::Result;
use super::json::{self, plain, text};
use super::options::{Context, Format, now, remark};
use super::table::{Column, Table, cells, labels};
use crate::escape;

/// Records or events, as the option `--output` has them shown: a table, or lines of one cell.
#[derive(Debug)]
pub(super) struct Rows {
    format: Format,
    columns: &'static [Column],
    table: Table,
}

/// A change, as a line of JSON.
#[derive(Serialize)]
struct Change<'a> {
    event: &'a str,
    generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a Value>,
}

impl Rows {
    /// Creates the rows of a table with these columns, after one with the label `first` if there is
    /// one. If changes are followed, the columns have these minimum widths, so that later rows
    /// stand below earlier ones.
    pub(super) fn new(
        context: &Context<'_>,
        first: Option<&str>,
        columns: &'static [Column],
        widths: &[usize],
    ) -> Self {
        let options = context.options;
        let mut table = Table::new(context.is_coloured);
        if options.follows {
            table.widths = widths.to_vec();
        }
        let is_table = matches!(options.format, Format::Text | Format::Wide);
        if is_table && options.has_headers {
            let first = first.map(str::to_owned);
            table.add(first.into_iter().chain(labels(columns)));
        }
        Self {
            format: options.format,
            columns,
            table,
        }
    }

    /// Adds a row, or the line of another format.
    pub(super) fn add(&mut self, value: &Value, now: u64) {
        match self.format {
            Format::Text | Format::Wide => self.table.add(cells(self.columns, value, now)),
            Format::Name => self.table.add([object(value, value)]),
            Format::Json | Format::JsonLines => self.table.add([json::line(value)]),
        }
    }

    /// Adds a record, and what happened to it in this generation. Without a record, only JSON has a
    /// line for the event.
    pub(super) fn add_change(
        &mut self,
        event: &str,
        generation: u64,
        record: Option<&Value>,
        now: u64,
    ) {
        match (self.format, record) {
            (Format::Json | Format::JsonLines, _) => self.table.add([json::line(&Change {
                event,
                generation,
                record,
            })]),
            (_, None) => {}
            (Format::Name, Some(record)) => self.add(record, now),
            (Format::Text | Format::Wide, Some(record)) => {
                let event = [event.to_owned()].into_iter();
                self.table
                    .add(event.chain(cells(self.columns, record, now)));
            }
        }
    }

    /// Removes and returns what was added.
    pub(super) fn show(&mut self) -> String {
        self.table.show("")
    }
}

/// Returns the plugin in a value, as the commands accept it, or else the socket of `owner`.
pub(super) fn object(value: &Value, owner: &Value) -> String {
    match text(&value["type"]) {
        "" => plain(&owner["socket"]),
        kind => {
            let name = escape::text(text(&value["name"]));
            format!("{}/{name}", escape::text(kind))
        }
    }
}

/// Prints the daemon's list: as it is if its format is JSON, else a row for each of `items`.
pub(super) fn print_list(
    context: &Context<'_>,
    list: &Value,
    items: &[Value],
    mut rows: Rows,
    absent: &str,
) -> Result<()> {
    if context.options.format == Format::Json {
        return print(json::document(list));
    }
    if items.is_empty() {
        remark(absent);
        return Ok(());
    }
    for item in items {
        rows.add(item, now());
    }
    print(rows.show())
}
