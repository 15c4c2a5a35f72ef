//! The same scenarios with kubelet's own plugin manager and with this one: the statuses sent to
//! plugins and the calls of handlers have to be equal, apart from their times.
//!
//! Intended differences are rows of the guide's page `differences`, and a scenario names its row.
//! A scenario that names a row but does not differ fails, too. `make full ONLY=parity` builds
//! kubelet's plugin manager and runs this.

#[path = "../support/bind.rs"]
mod bind;
mod plugin;
mod scenarios;
#[path = "../support/skip.rs"]
mod skip;
mod stage;
mod subject;

#[path = "../support/grpc.rs"]
mod grpc;

use std::path::PathBuf;
use std::thread;

use self::scenarios::{SCENARIOS, Scenario};
use self::stage::{Seen, Stage};
use self::subject::Which;

#[test]
fn plugins_and_handlers_see_what_they_see_with_kubelet() {
    let Some(kubelet) = std::env::var_os("TEST_KUBELET") else {
        return skip::skip("kubelet's plugin manager is not installed");
    };
    let kubelet = PathBuf::from(kubelet);
    let mut differences = Vec::new();
    for scenarios in SCENARIOS.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let kubelet = &kubelet;
            let running: Vec<_> = scenarios
                .iter()
                .map(|scenario| scope.spawn(move || compare(scenario, kubelet)))
                .collect();
            differences.extend(running.into_iter().filter_map(|it| it.join().unwrap()));
        });
    }
    println!(
        "{} scenarios, {} differences",
        SCENARIOS.len(),
        differences.len()
    );
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Plays a scenario with both. Returns how they differ, unless that is intended.
fn compare(scenario: &Scenario, kubelet: &std::path::Path) -> Option<String> {
    let [theirs, ours] = thread::scope(|scope| {
        let subjects = [Which::Kubelet(kubelet), Which::Plugind];
        let playing = subjects.map(|subject| scope.spawn(move || play(scenario, subject)));
        playing.map(|it| it.join().unwrap())
    });
    let name = scenario.name;
    match (theirs == ours, scenario.differs) {
        (true, None) => None,
        (false, Some(row)) if is_row(row) => None,
        (false, Some(row)) => Some(format!("{name}: the guide has no row {row:?}")),
        (true, Some(row)) => Some(format!("{name}: names {row:?}, but does not differ")),
        (false, None) => Some(format!("{name}:\nkubelet {theirs:#?}\nplugind {ours:#?}")),
    }
}

fn play(scenario: &Scenario, subject: Which<'_>) -> Seen {
    let mut stage = Stage::new(subject);
    scenario.play.on(&mut stage);
    stage.end()
}

/// Returns whether the guide's page has a row that begins with these words.
fn is_row(words: &str) -> bool {
    let page = include_str!("../../src/guide/differences.rs");
    let row = format!("//! | {words} |");
    page.lines().any(|line| line.starts_with(&row))
}

/// The number of scenarios that run at a time, each with a kubelet of its own.
const AT_ONCE: usize = 16;
