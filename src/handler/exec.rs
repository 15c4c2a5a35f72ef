//! The handler that has a program do the work.
//!
//! Pure: it decides what is run and what its end means; the daemon runs it. The program is called
//!
//! ```text
//! PROGRAM add|old|del TYPE NAME ENDPOINT
//! ```
//!
//! `add` for a plugin that is registered, `del` for one that has gone, and `old` for one that the
//! program may know already: it was registered before a restart of the daemon, or it is the one to
//! use again because the plugins that were registered under its name after it have gone. The same
//! is in its environment ([`environment`]), and all that the plugin said of itself is on its
//! standard input, as JSON. Status 0 registers the plugin; anything else refuses it, with the first
//! line of standard error as the reason.
//!
//! What a program is given has a grammar (`exec/grammar.rs`): a plugin outside it is refused.
//!
//! One program at a time runs for one plugin name, in the order of events. An `add` or `old` that
//! fails is trusted to have undone what it did; one that was killed is followed by a `del`.

mod grammar;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::{
    Answer, Context, EffectId, Event, Plugin, PluginHandler, Program, ProgramEnd, ProgramOutcome,
    Reason, Ticket,
};
use crate::config::EXEC_TIMEOUT;
use crate::escape;

/// Runs a program for every plugin of the types it is given to.
#[derive(Debug)]
pub struct ExecHandler {
    program: PathBuf,
    timeout: Duration,
    /// What runs and what waits, a line for each plugin name.
    lines: Vec<Line>,
}

/// The programs for the plugins of one type and name.
#[derive(Debug)]
struct Line {
    running: EffectId,
    job: Job,
    waiting: VecDeque<Job>,
}

/// One run of the program, now or later.
#[derive(Debug)]
struct Job {
    verb: Verb,
    plugin: Arc<Plugin>,
    /// The question that it answers; none: nobody waits for it.
    ticket: Option<Ticket>,
}

/// What the program is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    Old,
    Del,
}

impl ExecHandler {
    /// A handler that runs the program at this absolute path.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            timeout: EXEC_TIMEOUT,
            lines: Vec::new(),
        }
    }

    /// Lets the program run for so long, and no longer.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn ask(&mut self, verb: Verb, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let ticket = context.ticket();
        self.submit(verb, plugin.clone(), ticket, context);
        Answer::Pending
    }

    /// Runs the program as soon as it does not run for this plugin name any more.
    fn submit(
        &mut self,
        verb: Verb,
        plugin: Arc<Plugin>,
        ticket: Option<Ticket>,
        context: &mut Context<'_>,
    ) {
        let mut lines = self.lines.iter_mut();
        let line = lines.find(|line| name_of(&line.job) == (&*plugin.kind, &*plugin.name));
        let job = Job {
            verb,
            plugin,
            ticket,
        };
        match line {
            Some(line) => line.waiting.push_back(job),
            None => self.start(job, VecDeque::new(), context),
        }
    }

    fn start(&mut self, job: Job, waiting: VecDeque<Job>, context: &mut Context<'_>) {
        let running = context.spawn(self.run_of(&job));
        self.lines.push(Line {
            running,
            job,
            waiting,
        });
    }

    /// What runs in that line has ended: the next in it is started.
    fn advance(&mut self, line: usize, context: &mut Context<'_>) -> Job {
        let Line {
            job, mut waiting, ..
        } = self.lines.swap_remove(line);
        if let Some(next) = waiting.pop_front() {
            self.start(next, waiting, context);
        }
        job
    }

    fn ended(&mut self, job: Job, outcome: &ProgramOutcome, context: &mut Context<'_>) {
        let Job {
            verb,
            plugin,
            ticket,
        } = job;
        let result = self.judge(outcome);
        let shown = format!("{plugin}: {} {}", escape::path(&self.program), verb.word());
        match (&result, ticket) {
            (Ok(()), _) => log::debug!("{shown}: done"),
            // Whoever asked makes it known.
            (Err(reason), Some(_)) if verb != Verb::Del => {
                log::debug!("{shown}: {}", escape::text(reason.as_str()));
            }
            (Err(reason), _) => log::warn!("{shown}: {}", escape::text(reason.as_str())),
        }
        let was_killed = matches!(outcome.end, ProgramEnd::Killed(_) | ProgramEnd::TimedOut);
        if was_killed && verb != Verb::Del && ticket.is_some() {
            self.submit(Verb::Del, plugin, None, context);
        }
        if let Some(ticket) = ticket {
            context.answer(ticket, result);
        }
    }

    /// "Exit 0 registers, anything else refuses with the first line of standard error."
    fn judge(&self, outcome: &ProgramOutcome) -> Result<(), Reason> {
        if outcome.end == ProgramEnd::Exited(0) {
            return Ok(());
        }
        let words = outcome
            .first_error()
            .unwrap_or_else(|| format!("{}: {}", self.program.display(), outcome.end));
        Err(Reason::new(words))
    }

    fn run_of(&self, job: &Job) -> Program {
        let Job { verb, plugin, .. } = job;
        Program {
            path: self.program.clone(),
            arguments: vec![
                verb.word().into(),
                plugin.kind.clone().into(),
                plugin.name.clone().into(),
                (&*plugin.endpoint).into(),
            ],
            environment: environment(*verb, plugin),
            input: registration(*verb, plugin),
            timeout: self.timeout,
        }
    }
}

impl PluginHandler for ExecHandler {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::Done(grammar::check(plugin))
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let verb = if context.is_known() {
            Verb::Old
        } else {
            Verb::Add
        };
        self.ask(verb, plugin, context)
    }

    fn not_checked(&self) -> Option<&'static str> {
        Some("the program was not run")
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.ask(Verb::Del, plugin, context)
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        self.submit(Verb::Old, plugin.clone(), None, context);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let Event::ProgramEnded { id, outcome } = event else {
            return;
        };
        let place = self.lines.iter().position(|line| line.running == id);
        if let Some(line) = place {
            let job = self.advance(line, context);
            self.ended(job, &outcome, context);
        }
    }

    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        let is_meant = |job: &Job| job.ticket == Some(ticket);
        for line in &mut self.lines {
            line.waiting.retain(|job| !is_meant(job));
        }
        let place = self.lines.iter().position(|line| is_meant(&line.job));
        if let Some(line) = place {
            context.cancel(self.lines[line].running);
            self.advance(line, context);
        }
    }
}

impl Verb {
    const fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Old => "old",
            Self::Del => "del",
        }
    }
}

/// Type and name of the plugin that it is about.
fn name_of(job: &Job) -> (&str, &str) {
    (&job.plugin.kind, &job.plugin.name)
}

/// What the program finds in its environment. A plugin that was registered by an earlier version of
/// this program may have a version with a NUL, which can't be there; the JSON has all of them.
fn environment(verb: Verb, plugin: &Plugin) -> Vec<(&'static str, OsString)> {
    let versions = plugin.versions.iter().map(String::as_str);
    let versions: Vec<_> = versions.filter(|it| !it.contains('\0')).collect();
    vec![
        ("PLUGIND_ACTION", verb.word().into()),
        ("PLUGIND_TYPE", plugin.kind.clone().into()),
        ("PLUGIND_NAME", plugin.name.clone().into()),
        ("PLUGIND_ENDPOINT", (&*plugin.endpoint).into()),
        ("PLUGIND_SOCKET", (&*plugin.socket).into()),
        ("PLUGIND_VERSIONS", versions.join(",").into()),
    ]
}

/// What the program reads from its standard input.
#[derive(Debug, Serialize)]
struct Registration<'a> {
    action: &'static str,
    r#type: &'a str,
    name: &'a str,
    endpoint: &'a str,
    versions: &'a [String],
    socket: &'a str,
}

fn registration(verb: Verb, plugin: &Plugin) -> Vec<u8> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let registration = Registration {
        action: verb.word(),
        r#type: &plugin.kind,
        name: &plugin.name,
        endpoint: &text(&plugin.endpoint),
        versions: &plugin.versions,
        socket: &text(&plugin.socket),
    };
    // Strings only: there is nothing that JSON could refuse.
    let mut line = serde_json::to_vec(&registration).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;
