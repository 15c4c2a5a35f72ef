//! The memory and the descriptors that a subject holds for registered plugins.

use std::error::Error;

use serde_json::json;

use super::field::Field;
use super::process::Memory;
use super::report::Table;
use super::subject::Subject;

/// The holdings, by subject and number of plugins.
pub(crate) struct Held(Vec<Holding>);

/// The holdings of one subject when this many plugins are registered and nothing happens.
struct Holding {
    subject: Subject,
    plugins: usize,
    memory: Memory,
    descriptors: usize,
}

/// Registers plugins that stay, with every subject that keeps them, and measures at rest.
pub(crate) fn measure(subjects: &[Subject]) -> Result<Held, Box<dyn Error>> {
    let mut all = Vec::new();
    for &subject in subjects.iter().filter(|subject| subject.watches()) {
        for plugins in PLUGINS {
            all.push(run(subject, plugins)?);
        }
    }
    Ok(Held(all))
}

fn run(subject: Subject, plugins: usize) -> Result<Holding, Box<dyn Error>> {
    let mut field = Field::new(subject)?;
    let process = field.start()?;
    process.until_quiet()?;
    field.farm.at_once(plugins)?;
    process.until_quiet()?;
    Ok(Holding {
        subject,
        plugins,
        memory: process.memory()?,
        descriptors: process.descriptors()?,
    })
}

impl Held {
    pub(crate) fn table(&self) -> Table {
        let row = |holding: &Holding| {
            vec![
                json!(holding.subject.name()),
                json!(holding.plugins),
                json!(holding.memory.resident),
                json!(holding.memory.private_dirty),
                json!(holding.descriptors),
            ]
        };
        Table {
            title: "Registered and at rest".to_owned(),
            columns: vec![
                "subject",
                "plugins",
                "resident KiB",
                "private dirty KiB",
                "descriptors",
            ],
            rows: self.0.iter().map(row).collect(),
        }
    }
}

/// The numbers of registered plugins.
const PLUGINS: [usize; 3] = [0, 100, 1000];
