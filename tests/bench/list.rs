//! What `plugind list` costs with many registered plugins: the time until the command has ended,
//! and the longest turn that the daemon took meanwhile.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{ChildStderr, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::field::Field;
use super::process::Process;
use super::report::{Table, millis};
use super::spread::Spread;
use super::subject::{Subject, plugind};

/// The times of the lists.
pub(crate) struct List {
    wall: Spread,
    turn: Spread,
}

/// Lists the plugins several times.
pub(crate) fn measure() -> Result<List, Box<dyn Error>> {
    let mut field = Field::new(Subject::Plugind)?;
    let (process, log) = field.start_logged()?;
    let mut log = BufReader::new(log);
    field.farm.at_once(PLUGINS)?;
    process.until_quiet()?;
    longest_turn(&process, &mut log)?;
    let (mut walls, mut turns) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        walls.push(list(&field)?);
        turns.push(longest_turn(&process, &mut log)?);
    }
    Ok(List {
        wall: Spread::new(walls),
        turn: Spread::new(turns),
    })
}

/// Returns how long the command takes, from before its start until its output has been read.
fn list(field: &Field) -> Result<Duration, Box<dyn Error>> {
    let mut command = Command::new(plugind());
    command.arg("list").arg("--socket").arg(field.api());
    let start = Instant::now();
    let output = command.output()?;
    let wall = start.elapsed();
    let lines = output.stdout.split(|&octet| octet == b'\n');
    let registered = lines.filter(|line| line.starts_with(b"SamplePlugin"));
    if registered.count() < PLUGINS {
        return Err("the list is not complete".into());
    }
    Ok(wall)
}

/// Returns the longest turn since the last call, which the daemon logs on a signal.
fn longest_turn(
    process: &Process,
    log: &mut BufReader<ChildStderr>,
) -> Result<Duration, Box<dyn Error>> {
    process.signal(Signal::SIGUSR1)?;
    for line in log.lines() {
        if let Some((_, micros)) = line?.split_once("longest_turn_us=") {
            return Ok(Duration::from_micros(micros.parse()?));
        }
    }
    Err("the daemon has ended".into())
}

impl List {
    /// Returns the median of the wall times (ms).
    pub(crate) fn wall(&self) -> f64 {
        self.wall.median().as_secs_f64() * 1e3
    }

    /// Returns the longest turn of all (ms).
    pub(crate) fn turn(&self) -> f64 {
        self.turn.percentile(100).as_secs_f64() * 1e3
    }

    pub(crate) fn table(&self) -> Table {
        Table {
            title: format!("`plugind list` with {PLUGINS} registered, {ROUNDS} times"),
            name: "list",
            columns: vec![
                "wall p50 ms",
                "most ms",
                "longest turn p50 ms",
                "most turn ms",
            ],
            rows: vec![vec![
                millis(self.wall.median()),
                millis(self.wall.percentile(100)),
                millis(self.turn.median()),
                json!(self.turn()),
            ]],
        }
    }
}

/// The number of registered plugins.
const PLUGINS: usize = 1000;

/// The number of lists.
const ROUNDS: usize = 11;
