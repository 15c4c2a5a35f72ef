//! The measurements, as tables.

use serde_json::{Value, json};

/// One table.
pub(crate) struct Table {
    pub(crate) title: String,
    /// The heads of the columns, each with its unit last, separated by commas.
    pub(crate) columns: &'static str,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Table {
    /// Prints the table, every column as wide as its widest cell.
    pub(crate) fn print(&self) {
        println!("\n{}", self.title);
        let heads = self.columns.split(", ").enumerate();
        let columns: Vec<_> = heads.map(|(at, head)| self.column(at, head)).collect();
        for line in 0..=self.rows.len() {
            let cells = columns.iter().map(|column| format!("  {}", column[line]));
            println!("{}", cells.collect::<String>().trim_end());
        }
    }

    /// Returns a column with its head: words are aligned to the left, figures to the right.
    fn column(&self, at: usize, head: &str) -> Vec<String> {
        let cells = self.rows.iter().map(|row| &row[at]);
        let are_words = cells.clone().all(Value::is_string);
        let mut cells: Vec<String> = cells.map(text).collect();
        cells.insert(0, head.to_owned());
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

/// Returns a time in milliseconds.
pub(crate) fn millis(time: std::time::Duration) -> Value {
    json!(time.as_secs_f64() * 1000.0)
}
