//! The memory and the descriptors that a subject holds for registered plugins.

use std::error::Error;

use serde_json::{Value, json};

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
    fn of(&self, subject: Subject, plugins: usize) -> Option<&Holding> {
        let mut all = self.0.iter();
        all.find(|holding| holding.subject == subject && holding.plugins == plugins)
    }

    /// Returns the resident memory with this many plugins (KiB).
    pub(crate) fn resident(&self, subject: Subject, plugins: usize) -> Option<f64> {
        let resident = self.of(subject, plugins)?.memory.resident;
        Some(f64::from(u32::try_from(resident).ok()?))
    }

    /// Returns the private memory with this many plugins (KiB).
    pub(crate) fn private(&self, subject: Subject, plugins: usize) -> Option<f64> {
        let private = self.of(subject, plugins)?.memory.private_dirty;
        Some(f64::from(u32::try_from(private).ok()?))
    }

    /// Returns the growth of the resident memory per plugin, between the two numbers of plugins
    /// (KiB).
    pub(crate) fn per_plugin(&self, subject: Subject, few: usize, many: usize) -> Option<f64> {
        let more = self.resident(subject, many)? - self.resident(subject, few)?;
        Some(more / f64::from(u32::try_from(many - few).ok()?))
    }

    pub(crate) fn table(&self) -> Table {
        Table {
            title: "Registered and at rest".to_owned(),
            name: "held",
            columns: vec![
                "subject",
                "plugins",
                "resident KiB",
                "of files KiB",
                "anonymous KiB",
                "private dirty KiB",
                "more per plugin KiB",
                "descriptors",
            ],
            rows: self.0.iter().map(|holding| self.row(holding)).collect(),
        }
    }

    fn row(&self, holding: &Holding) -> Vec<Value> {
        let place = PLUGINS
            .iter()
            .position(|&plugins| plugins == holding.plugins);
        let fewer = place.and_then(|place| place.checked_sub(1));
        let more = fewer
            .and_then(|fewer| self.per_plugin(holding.subject, PLUGINS[fewer], holding.plugins));
        let memory = holding.memory;
        vec![
            json!(holding.subject.name()),
            json!(holding.plugins),
            json!(memory.resident),
            json!(memory.resident.saturating_sub(memory.anonymous)),
            json!(memory.anonymous),
            json!(memory.private_dirty),
            json!(more),
            json!(holding.descriptors),
        ]
    }
}

/// The numbers of registered plugins.
const PLUGINS: [usize; 3] = [0, 100, 1000];
