//! Values of one kind, as the option `--output` has them shown: a table, or lines of JSON.

use serde::Serialize;

use super::ask::{Context, now, remark};
use super::client::print;
use super::failure::Result;
use super::json::{document, line};
use super::options::Format;
use super::table::{Column, Table, cells, labels};
use crate::api::json::List;

/// Rows of a table, or lines of one cell.
#[derive(Debug)]
pub(super) struct Rows<T: 'static> {
    pub(super) is_json: bool,
    columns: &'static [Column<T>],
    table: Table,
}

impl<T: Serialize> Rows<T> {
    /// Creates the rows of a table with these columns, after one with the label `first` if there is
    /// one. If changes are followed, the columns have these minimum widths, so that later rows
    /// stand below earlier ones.
    pub(super) fn new(
        context: &Context<'_>,
        first: Option<&str>,
        columns: &'static [Column<T>],
        widths: &[usize],
    ) -> Self {
        let options = context.options;
        let mut table = Table::new(context.is_coloured);
        if options.follows {
            table.widths = widths.to_vec();
        }
        if options.has_headers && matches!(options.format, Format::Text | Format::Wide) {
            let first = first.map(str::to_owned);
            table.add(first.into_iter().chain(labels(columns)));
        }
        Self {
            is_json: matches!(options.format, Format::Json | Format::JsonLines),
            columns,
            table,
        }
    }

    /// Adds a row, after a cell with `first` if there is one, or a line of JSON.
    pub(super) fn add(&mut self, first: Option<&str>, value: &T, now: u64) {
        if self.is_json {
            return self.add_line(line(value));
        }
        let first = first.map(str::to_owned).into_iter();
        self.table.add(first.chain(cells(self.columns, value, now)));
    }

    /// Adds a line.
    pub(super) fn add_line(&mut self, line: String) {
        self.table.add([line]);
    }

    /// Removes and returns what was added.
    pub(super) fn show(&mut self) -> String {
        self.table.show("")
    }
}

/// Prints the daemon's list: as it is if its format is JSON, else a row for each of its items.
pub(super) fn print_list<T: Serialize>(
    context: &Context<'_>,
    list: &List<'_, T>,
    columns: &'static [Column<T>],
    absent: &str,
) -> Result<()> {
    if context.options.format == Format::Json {
        return print(document(list));
    }
    if list.items.is_empty() {
        remark(absent);
        return Ok(());
    }
    let (mut rows, now) = (Rows::new(context, None, columns, &[]), now());
    for item in &list.items {
        rows.add(None, item, now);
    }
    print(rows.show())
}
