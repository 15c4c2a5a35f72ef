//! The measurements, as tables for readers and as JSON for programs: the same figures in both.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// All tables of a run.
#[derive(Default)]
pub(crate) struct Report(Vec<Table>);

/// One table.
pub(crate) struct Table {
    /// The title, for readers.
    pub(crate) title: String,
    /// The name in JSON.
    pub(crate) name: &'static str,
    /// The heads of the columns, each with its unit last.
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Report {
    /// Adds a table, and prints it.
    pub(crate) fn add(&mut self, table: Table) {
        table.print();
        self.0.push(table);
    }

    /// Writes everything to a file, and prints its path.
    pub(crate) fn save(&self) -> Result<(), Box<dyn Error>> {
        let tables = self
            .0
            .iter()
            .map(|table| (table.name.to_owned(), table.json()));
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench.json");
        let all = Value::Object(tables.collect());
        fs::write(&file, serde_json::to_string_pretty(&all)?)?;
        println!("\nthe same as JSON: {}", file.display());
        Ok(())
    }
}

impl Table {
    /// Prints the table, every column as wide as its widest cell.
    pub(crate) fn print(&self) {
        println!("\n{}", self.title);
        let columns: Vec<Vec<String>> = (0..self.columns.len())
            .map(|column| self.column(column))
            .collect();
        for line in 0..=self.rows.len() {
            let cells = columns.iter().map(|column| format!("  {}", column[line]));
            println!("{}", cells.collect::<String>().trim_end());
        }
    }

    /// Returns a column with its head: words are aligned to the left, figures to the right.
    fn column(&self, column: usize) -> Vec<String> {
        let cells = self.rows.iter().map(|row| &row[column]);
        let are_words = cells.clone().all(Value::is_string);
        let mut cells: Vec<String> = cells.map(text).collect();
        cells.insert(0, self.columns[column].to_owned());
        let width = cells.iter().map(String::len).max().unwrap_or(0);
        let wide = |cell: &String| {
            if are_words {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        };
        cells.iter().map(wide).collect()
    }

    /// Returns one object per row, whose keys are made of the columns' heads.
    fn json(&self) -> Value {
        let keys: Vec<String> = self.columns.iter().map(|head| key(head)).collect();
        let row = |row: &Vec<Value>| {
            let cells = keys.iter().cloned().zip(row.iter().cloned());
            Value::Object(cells.collect())
        };
        json!({ "what": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

/// Returns a cell for readers.
fn text(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            if number < 10.0 {
                format!("{number:.3}")
            } else {
                format!("{number:.1}")
            }
        }
        other => other.to_string(),
    }
}

/// Returns `p50 ms` as a key: `p50_ms`.
fn key(head: &str) -> String {
    head.replace(|c: char| !c.is_alphanumeric(), "_")
}

/// Returns a time in milliseconds.
pub(crate) fn millis(time: std::time::Duration) -> Value {
    json!(time.as_secs_f64() * 1000.0)
}
