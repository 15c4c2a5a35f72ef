//! The cost of registered plugins when nothing happens: how often a subject wakes up for them.

use std::env;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use plugind::config::UPDATE_INTERVAL;
use serde_json::json;

use super::field::Field;
use super::report::{Table, millis};
use super::subject::Subject;

/// Measures every subject that keeps plugins at rest, all at the same time.
pub(crate) fn measure(subjects: &[Subject]) -> Result<Table, Box<dyn Error>> {
    let time = Duration::from_secs(seconds());
    let mut resting = Vec::new();
    for &subject in subjects.iter().filter(|subject| subject.watches()) {
        let (mut field, process) = Field::with_subject(subject)?;
        field.farm.at_once(PLUGINS)?;
        // Links by name that were changed a moment ago may be due once more.
        pause(UPDATE_INTERVAL);
        process.until_quiet()?;
        resting.push((field, process));
    }
    let mut before = Vec::new();
    for (_, process) in &resting {
        before.push((process.switches()?, process.cpu()?));
    }
    pause(time);
    let mut rows = Vec::new();
    for ((field, process), (wakeups, cpu)) in resting.iter().zip(before) {
        rows.push(vec![
            json!(field.subject.name()),
            json!(process.switches()? - wakeups),
            millis(process.cpu()?.saturating_sub(cpu)),
        ]);
    }
    Ok(Table {
        title: format!("{PLUGINS} registered, {} s at rest", time.as_secs()),
        columns: "subject, wakeups, CPU ms",
        rows,
    })
}

/// Lets time pass.
fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}

/// Returns the time to measure, which the environment may set.
fn seconds() -> u64 {
    let named = env::var("TEST_BENCH_REST").ok();
    named.and_then(|seconds| seconds.parse().ok()).unwrap_or(60)
}

/// The number of registered plugins: more than a node has.
const PLUGINS: usize = 100;
