//! The memory and the descriptors that a subject holds for registered plugins.

use std::error::Error;

use serde_json::json;

use super::field::Field;
use super::report::Table;
use super::subject::Subject;

/// Registers plugins that stay, with every subject that keeps them, and measures at rest.
pub(crate) fn measure(subjects: &[Subject]) -> Result<Table, Box<dyn Error>> {
    let mut rows = Vec::new();
    for &subject in subjects.iter().filter(|subject| subject.watches()) {
        for plugins in PLUGINS {
            let mut field = Field::new(subject)?;
            let process = field.start()?;
            process.until_quiet()?;
            field.farm.at_once(plugins)?;
            process.until_quiet()?;
            let memory = process.memory()?;
            rows.push(vec![
                json!(subject.name()),
                json!(plugins),
                json!(memory.resident),
                json!(memory.private_dirty),
                json!(process.descriptors()?),
            ]);
        }
    }
    Ok(Table {
        title: "Registered and at rest".to_owned(),
        columns: "subject, plugins, resident KiB, private dirty KiB, descriptors",
        rows,
    })
}

/// The numbers of registered plugins.
const PLUGINS: [usize; 3] = [0, 100, 1000];
