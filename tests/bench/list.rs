//! What `plugind list` costs with many registered plugins: the time until the command has ended,
//! its CPU time, and the longest turn that the daemon took meanwhile. With twice as many, the
//! longest turn in which a long response is sent.

use std::error::Error;
use std::io::{self, BufRead as _, BufReader};
use std::process::{ChildStderr, Command};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use serde_json::json;

use super::field::Field;
use super::process::Process;
use super::readers::request;
use super::report::{Table, millis};
use super::spread::Spread;
use super::subject::{Subject, plugind};

/// The times of the lists.
pub(crate) struct List {
    wall: Spread,
    cpu: Spread,
    turn: Spread,
    /// The longest turns of the long responses.
    responses: Spread,
}

/// Lists the plugins several times.
pub(crate) fn measure() -> Result<List, Box<dyn Error>> {
    let mut field = Field::new(Subject::Plugind)?;
    let (process, log) = field.start_logged()?;
    let mut log = BufReader::new(log);
    field.farm.at_once(PLUGINS)?;
    process.until_quiet()?;
    longest_turn(&process, &mut log)?;
    let (mut walls, mut cpus, mut turns) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let before = cpu_of_children()?;
        walls.push(list(&field)?);
        cpus.push(cpu_of_children()?.saturating_sub(before));
        turns.push(longest_turn(&process, &mut log)?);
    }
    field.farm.at_once(PLUGINS)?;
    process.until_quiet()?;
    longest_turn(&process, &mut log)?;
    let mut responses = Vec::new();
    for target in ["/metrics", "/v1/plugins"].repeat(ROUNDS) {
        io::copy(&mut request(&field.api(), target)?, &mut io::sink())?;
        responses.push(longest_turn(&process, &mut log)?);
    }
    Ok(List {
        wall: Spread::new(walls),
        cpu: Spread::new(cpus),
        turn: Spread::new(turns),
        responses: Spread::new(responses),
    })
}

/// Returns the CPU time of the commands that have ended.
fn cpu_of_children() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let times = [usage.user_time(), usage.system_time()];
    let micros = times.map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
    let sum = u64::try_from(micros[0] + micros[1]);
    Ok(Duration::from_micros(sum.unwrap_or(0)))
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
    /// Returns the median of the command's CPU times (ms).
    pub(crate) fn cpu(&self) -> f64 {
        self.cpu.median().as_secs_f64() * 1e3
    }

    /// Returns the longest turn of all (ms).
    pub(crate) fn turn(&self) -> f64 {
        self.turn.percentile(100).as_secs_f64() * 1e3
    }

    /// Returns the longest turn in which a long response was sent (ms).
    pub(crate) fn response(&self) -> f64 {
        self.responses.percentile(100).as_secs_f64() * 1e3
    }

    pub(crate) fn table(&self) -> Table {
        Table {
            title: format!("`plugind list` with {PLUGINS} registered, {ROUNDS} times"),
            name: "list",
            columns: vec![
                "wall p50 ms",
                "most ms",
                "CPU p50 ms",
                "longest turn p50 ms",
                "most turn ms",
                "most turn with 2,000 ms",
            ],
            rows: vec![vec![
                millis(self.wall.median()),
                millis(self.wall.percentile(100)),
                millis(self.cpu.median()),
                millis(self.turn.median()),
                json!(self.turn()),
                json!(self.response()),
            ]],
        }
    }
}

/// The number of registered plugins.
const PLUGINS: usize = 1000;

/// The number of lists.
const ROUNDS: usize = 11;
