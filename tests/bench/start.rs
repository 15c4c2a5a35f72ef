//! How long plugins wait that existed before the subject, beside sockets on which nothing listens.

use std::error::Error;
use std::os::unix::net::UnixListener;

use serde_json::json;

use super::clock::now;
use super::field::Field;
use super::report::{Table, millis};
use super::spread::{Spread, ratio};
use super::subject::Subject;

/// Starts every subject in turn, several times. The floor does not know the dead sockets.
pub(crate) fn measure(subjects: &[Subject]) -> Result<Table, Box<dyn Error>> {
    let mut times: Vec<_> = subjects
        .iter()
        .map(|&subject| (subject, Vec::new()))
        .collect();
    for _ in 0..ROUNDS {
        for (subject, times) in &mut times {
            let mut field = Field::new(*subject)?;
            for number in 0..PLUGINS {
                // Its socket stays when the listener is dropped.
                UnixListener::bind(field.registry().join(format!("dead-{number}.sock")))?;
            }
            field.farm.come(PLUGINS)?;
            let started = now();
            let _process = field.start()?;
            let lives = field.farm.until_told()?;
            let last = lives.iter().map(|life| life.told).max();
            times.push(last.ok_or("no plugin")?.saturating_sub(started));
        }
    }
    let medians = times
        .into_iter()
        .map(|(subject, times)| (subject, Spread::new(times).median()));
    let medians: Vec<_> = medians.collect();
    let floor = medians.iter().find(|(subject, _)| *subject == Subject::H2);
    let row = |&(subject, median): &(Subject, _)| {
        let to_floor = floor.map(|(_, floor)| ratio(median, *floor));
        vec![json!(subject.name()), millis(median), json!(to_floor)]
    };
    Ok(Table {
        title: format!("Started with {PLUGINS} plugins and {PLUGINS} dead sockets"),
        columns: "subject, p50 ms, p50 to h2",
        rows: medians.iter().map(row).collect(),
    })
}

/// The number of plugins, and of sockets on which nothing listens.
const PLUGINS: usize = 50;

/// The number of starts of each subject.
const ROUNDS: usize = 7;
