//! How long many plugins wait that appear at once, and what it costs to register them.
//!
//! All are plugins of one process, which binds one socket after the other and then serves them all:
//! its own work is in the wall time of every subject. Subjects that watch the directory see each
//! socket appear; the clients are told of each when it listens, and register all of them
//! concurrently.

use std::error::Error;
use std::time::Duration;

use serde_json::json;

use super::field::Field;
use super::order::wall;
use super::report::{Table, millis};
use super::spread::{Spread, ratio};
use super::subject::Subject;

/// The outcome of one subject with this many plugins at once.
struct Outcome {
    subject: Subject,
    plugins: usize,
    /// The time from the first plugin that listened until the last one was notified.
    wall: Duration,
    /// The CPU time of the subject.
    cpu: Duration,
    /// The peak of its resident memory (KiB).
    peak: u64,
}

/// Has plugins appear at once for every subject in turn, several times. Returns the medians.
pub(crate) fn measure(subjects: &[Subject]) -> Result<Table, Box<dyn Error>> {
    let mut outcomes = Vec::new();
    for plugins in PLUGINS {
        let mut runs: Vec<Vec<Outcome>> = subjects.iter().map(|_| Vec::new()).collect();
        for _ in 0..ROUNDS {
            for (&subject, runs) in subjects.iter().zip(&mut runs) {
                runs.push(run(subject, plugins)?);
            }
        }
        outcomes.extend(runs.iter().filter_map(|runs| median(runs)));
    }
    let row = |outcome: &Outcome| {
        let is_floor = |it: &&Outcome| it.subject == Subject::H2 && it.plugins == outcome.plugins;
        let floor = outcomes.iter().find(is_floor);
        vec![
            json!(outcome.subject.name()),
            json!(outcome.plugins),
            millis(outcome.wall),
            json!(floor.map(|floor| ratio(outcome.wall, floor.wall))),
            millis(outcome.cpu),
            json!(floor.map(|floor| ratio(outcome.cpu, floor.cpu))),
            json!(outcome.peak),
        ]
    };
    Ok(Table {
        title: "Many at once, from the first listen to the last NotifyRegistrationStatus"
            .to_owned(),
        columns: "subject, plugins, wall ms, wall to h2, CPU ms, CPU to h2, peak RSS KiB",
        rows: outcomes.iter().map(row).collect(),
    })
}

fn run(subject: Subject, plugins: usize) -> Result<Outcome, Box<dyn Error>> {
    let (mut field, process) = Field::with_subject(subject)?;
    let before = process.cpu()?;
    let lives = field.farm.at_once(plugins)?;
    process.until_quiet()?;
    Ok(Outcome {
        subject,
        plugins,
        wall: wall(&lives),
        cpu: process.cpu()?.saturating_sub(before),
        peak: process.peak()?,
    })
}

/// Returns the median of each figure.
fn median(runs: &[Outcome]) -> Option<Outcome> {
    let of = |figure: fn(&Outcome) -> Duration| Spread::new(runs.iter().map(figure).collect());
    let first = runs.first()?;
    let mut peaks: Vec<u64> = runs.iter().map(|run| run.peak).collect();
    peaks.sort_unstable();
    Some(Outcome {
        subject: first.subject,
        plugins: first.plugins,
        wall: of(|run| run.wall).median(),
        cpu: of(|run| run.cpu).median(),
        peak: peaks[peaks.len() / 2],
    })
}

/// The numbers of plugins that appear at once.
const PLUGINS: [usize; 3] = [1, 100, 1000];

/// The number of runs for each.
const ROUNDS: usize = 7;
