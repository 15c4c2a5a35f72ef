//! How long plugins wait that exist before the start, beside sockets on which nothing listens.

use std::error::Error;
use std::time::Duration;

use serde_json::json;

use super::clock::Moment;
use super::field::Field;
use super::report::{Table, millis};
use super::spread::{Spread, ratio};
use super::subject::Subject;

/// The times from the start of each subject until the last plugin was notified.
pub(crate) struct Start(Vec<(Subject, Spread)>);

pub(crate) fn measure(subjects: &[Subject]) -> Result<Start, Box<dyn Error>> {
    let mut times: Vec<(Subject, Vec<Duration>)> = subjects
        .iter()
        .map(|&subject| (subject, Vec::new()))
        .collect();
    for _ in 0..ROUNDS {
        for (subject, times) in &mut times {
            times.push(run(*subject)?);
        }
    }
    let spread = |(subject, times)| (subject, Spread::new(times));
    Ok(Start(times.into_iter().map(spread).collect()))
}

fn run(subject: Subject) -> Result<Duration, Box<dyn Error>> {
    let mut field = Field::new(subject)?;
    field.farm.listen(LIVE, DEAD)?;
    let start = Moment::now();
    let _process = field.start()?;
    let lives = field.farm.told()?;
    let last = lives.iter().map(|life| life.told).max();
    Ok(last.map_or(Duration::ZERO, |last| last.since(start)))
}

impl Start {
    /// Returns the ratio of the medians of two subjects.
    pub(crate) fn ratio(&self, one: Subject, other: Subject) -> Option<f64> {
        let of = |wanted| self.0.iter().find(|(subject, _)| *subject == wanted);
        Some(ratio(of(one)?.1.median(), of(other)?.1.median()))
    }

    pub(crate) fn table(&self) -> Table {
        let row = |(subject, spread): &(Subject, Spread)| {
            vec![
                json!(subject.name()),
                millis(spread.median()),
                millis(spread.percentile(100)),
                json!(self.ratio(*subject, Subject::H2)),
            ]
        };
        Table {
            title: format!(
                "Start with {LIVE} plugins there and {DEAD} dead sockets, until the last is told"
            ),
            name: "start",
            columns: vec!["subject", "p50 ms", "most ms", "p50 to h2"],
            rows: self.0.iter().map(row).collect(),
        }
    }
}

/// The number of plugins that exist before the start.
const LIVE: usize = 50;

/// The number of sockets on which nothing listens: after a reboot, half of them is not rare.
const DEAD: usize = 50;

/// The number of runs for each subject.
const ROUNDS: usize = 7;
