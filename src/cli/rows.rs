//! Records or events, shown one per line in one or several parts.
//!
//! Pure.

use std::mem;

use super::json::Json;
use super::options::{Context, Format};
use super::table::{Table, object};

/// Records or events, as the option `--output` has them shown.
#[derive(Debug)]
pub(super) struct Rows {
    format: Format,
    columns: &'static str,
    pub(super) table: Table,
    /// The lines of another format than a table.
    lines: String,
}

impl Rows {
    /// Creates the rows of a table with these columns, after one with the label `first` if that is
    /// not empty. The column with the index `coloured` has colours if the terminal has. If changes
    /// are followed, the columns have these minimum widths, so that later rows stand below earlier
    /// ones.
    pub(super) fn new(
        context: &Context<'_>,
        first: &str,
        columns: &'static str,
        coloured: usize,
        widths: &[u8],
    ) -> Self {
        let mut table = Table::default();
        if context.options.follows {
            for (column, width) in widths.iter().enumerate() {
                table.widen(column, (*width).into());
            }
        }
        table.coloured = context.is_coloured.then_some(coloured);
        if context.options.has_headers {
            if !first.is_empty() {
                table.cell(first);
            }
            table.labels(columns);
            table.end();
        }
        Self {
            format: context.options.format,
            columns,
            table,
            lines: String::new(),
        }
    }

    /// Adds a row, or the line of another format.
    pub(super) fn add(&mut self, value: &Json, now: u64) {
        match self.format {
            Format::Table | Format::Wide => {
                self.table.cells(self.columns, value, now);
                self.table.end();
            }
            Format::Name => self.line(&[&object(value, value)]),
            Format::Json | Format::JsonLines => self.line(&[&value.line()]),
        }
    }

    /// Adds a record, and what happened to it in this generation. Without a record, only JSON has a
    /// line for the event.
    pub(super) fn add_event(&mut self, event: &str, generation: u64, record: &Json, now: u64) {
        let has_record = !record.entries().is_empty();
        if matches!(self.format, Format::Json | Format::JsonLines) {
            let (key, shown) = if has_record {
                (",\"record\":", record.line())
            } else {
                ("", String::new())
            };
            let (before, generation) = ("{\"event\":\"", generation.to_string());
            let between = "\",\"generation\":";
            self.line(&[before, event, between, &generation, key, &shown, "}"]);
        } else if has_record {
            if self.format != Format::Name {
                self.table.cell(event);
            }
            self.add(record, now);
        }
    }

    fn line(&mut self, pieces: &[&str]) {
        self.lines.push_str(&pieces.concat());
        self.lines.push('\n');
    }

    /// Returns and removes what was added.
    pub(super) fn show(&mut self) -> String {
        match self.format {
            Format::Table | Format::Wide => self.table.show(""),
            _ => mem::take(&mut self.lines),
        }
    }
}
