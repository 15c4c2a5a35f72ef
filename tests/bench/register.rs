//! How long a device plugin waits that registers itself, from the moment before it connects to
//! `kubelet.sock` and calls Register until its first list of devices is known.
//!
//! Each subject writes a line to standard error when it has the list, the daemon to its log, and
//! the time is that at which the benchmark has read the line: the way of the line is in the time of
//! both.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::ChildStderr;
use std::time::Duration;

use serde_json::json;

use super::clock::Moment;
use super::field::Field;
use super::process::Process;
use super::report::{Table, millis};
use super::spread::{Spread, ratio};
use super::subject::Subject;

/// The times that plugins waited.
pub(crate) struct Register(Vec<Waits>);

/// The times that the plugins of one subject waited.
struct Waits {
    subject: Subject,
    /// Until the reply to Register.
    replied: Spread,
    /// Until the list of devices was known.
    listed: Spread,
}

/// A subject at which device plugins register themselves.
struct Registrar {
    field: Field,
    _process: Process,
    log: BufReader<ChildStderr>,
    replied: Vec<Duration>,
    listed: Vec<Duration>,
}

/// Has device plugins register themselves with both subjects in turn.
pub(crate) fn measure() -> Result<Register, Box<dyn Error>> {
    let mut registrars = Vec::new();
    for subject in [Subject::Plugind, Subject::H2] {
        let mut registrar = Registrar::start(subject)?;
        registrar.register()?;
        (registrar.replied, registrar.listed) = (Vec::new(), Vec::new());
        registrars.push(registrar);
    }
    for _ in 0..ROUNDS {
        for registrar in &mut registrars {
            registrar.register()?;
        }
    }
    let waits = |registrar: Registrar| Waits {
        subject: registrar.field.subject,
        replied: Spread::new(registrar.replied),
        listed: Spread::new(registrar.listed),
    };
    Ok(Register(registrars.into_iter().map(waits).collect()))
}

impl Registrar {
    fn start(subject: Subject) -> Result<Self, Box<dyn Error>> {
        let mut field = Field::new(subject)?;
        let (process, log) = field.start_registrar()?;
        process.until_quiet()?;
        Ok(Self {
            field,
            _process: process,
            log: BufReader::new(log),
            replied: Vec::new(),
            listed: Vec::new(),
        })
    }

    /// Has one plugin register itself.
    fn register(&mut self) -> Result<(), Box<dyn Error>> {
        self.field.farm.register()?;
        let listed = self.until_listed()?;
        for life in self.field.farm.told()? {
            self.replied.push(life.wait());
            self.listed.push(listed.since(life.listened));
        }
        Ok(())
    }

    /// Returns the time at which the subject has a list of devices.
    fn until_listed(&mut self) -> Result<Moment, Box<dyn Error>> {
        let mut line = String::new();
        while self.log.read_line(&mut line)? > 0 {
            if line.contains(LISTED) {
                return Ok(Moment::now());
            }
            line.clear();
        }
        Err("the subject has ended".into())
    }
}

impl Register {
    fn of(&self, wanted: Subject) -> Option<&Waits> {
        self.0.iter().find(|waits| waits.subject == wanted)
    }

    /// Returns the ratio of the medians of two subjects, until the list is known.
    pub(crate) fn ratio(&self, one: Subject, other: Subject) -> Option<f64> {
        let of = |subject| Some(self.of(subject)?.listed.median());
        Some(ratio(of(one)?, of(other)?))
    }

    pub(crate) fn table(&self) -> Table {
        let row = |waits: &Waits| {
            vec![
                json!(waits.subject.name()),
                millis(waits.replied.median()),
                millis(waits.listed.median()),
                millis(waits.listed.percentile(99)),
                json!(self.ratio(waits.subject, Subject::H2)),
            ]
        };
        Table {
            title: format!(
                "One of {ROUNDS} device plugins at a time, from Register to its list of devices"
            ),
            name: "register",
            columns: vec!["subject", "reply p50 ms", "p50 ms", "p99 ms", "p50 to h2"],
            rows: self.0.iter().map(row).collect(),
        }
    }
}

/// The words in the line of each subject about a list of devices.
pub(crate) const LISTED: &str = "received a device list";

/// The number of plugins: the daemon logs less about them than it may log at once.
const ROUNDS: usize = 51;
