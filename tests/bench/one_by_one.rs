//! How long one plugin waits from `listen` until it is notified that it is registered, when it
//! appears alone.

use std::error::Error;
use std::time::Duration;

use serde_json::json;

use super::field::Field;
use super::order::Life;
use super::report::{Table, millis};
use super::spread::{Spread, ratio};
use super::subject::Subject;

/// Has plugins appear for every subject in turn, so that whatever else runs on the machine affects
/// all of them.
pub(crate) fn measure(subjects: &[Subject]) -> Result<Table, Box<dyn Error>> {
    let mut fields = Vec::new();
    for &subject in subjects {
        fields.push((Field::with_subject(subject)?, Vec::new()));
    }
    for round in 0..ROUNDS {
        for ((field, _process), waits) in &mut fields {
            let pauses = pauses(field.subject, round);
            let lives = field.farm.one_by_one(pauses)?;
            waits.extend(lives.iter().map(Life::wait));
        }
    }
    let spread = |((field, _), waits): ((Field, _), _)| (field.subject, Spread::new(waits));
    let spreads: Vec<_> = fields.into_iter().map(spread).collect();
    let floor = spreads.iter().find(|(subject, _)| *subject == Subject::H2);
    let row = |(subject, spread): &(Subject, Spread)| {
        vec![
            json!(subject.name()),
            millis(spread.median()),
            millis(spread.percentile(99)),
            json!(floor.map(|(_, floor)| ratio(spread.median(), floor.median()))),
        ]
    };
    Ok(Table {
        title: "One plugin at a time, from listen to NotifyRegistrationStatus".to_owned(),
        columns: "subject, p50 ms, p99 ms, p50 to h2",
        rows: spreads.iter().map(row).collect(),
    })
}

/// Returns the pauses of a round before each plugin appears.
///
/// kubelet looks once a second: its plugins are spread evenly over that second, and fewer.
fn pauses(subject: Subject, round: u32) -> Vec<Duration> {
    match subject {
        Subject::Kubelet => {
            let each = |n| KUBELETS_TICK * ((round * KUBELETS_BATCH + n) * 5 % 8) / 8;
            (0..KUBELETS_BATCH).map(each).collect()
        }
        _ => vec![PAUSE; BATCH],
    }
}

/// The number of rounds for each subject.
const ROUNDS: u32 = 10;

/// The number of plugins in a round.
const BATCH: usize = 50;

/// The pause before a plugin appears: long enough for the previous one to be deregistered.
const PAUSE: Duration = Duration::from_millis(2);

/// The number of plugins in a round of kubelet.
const KUBELETS_BATCH: u32 = 4;

/// The interval at which kubelet looks.
const KUBELETS_TICK: Duration = Duration::from_secs(1);
