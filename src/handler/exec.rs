//! A handler that runs a program for each plugin.
//!
//! Pure: this module decides which program is run and what its end means; the daemon runs it. The
//! command line is
//!
//! ```text
//! PROGRAM add|re-add|del TYPE NAME ENDPOINT
//! ```
//!
//! The verb is `add` for a plugin that is registered, `del` for one that is deregistered, and
//! `re-add` for one that the program may know already: the plugin was registered before a restart
//! of the daemon, or is current again because the newer plugins of its name are gone. The
//! environment holds the same values ([`environment`]), and standard input holds all that the
//! plugin reported, as JSON. Status 0 registers the plugin; any other end refuses it, with the
//! first line of standard error that is not empty as the reason.
//!
//! The values passed to a program have a grammar (`exec/grammar.rs`): a plugin outside it is
//! refused. A plugin that an older version of this crate registered and saved may be outside it:
//! its program is not run for it any more, and a warning names what is not undone.
//!
//! One program at a time runs for one plugin name, in the order of events: if the manager stops
//! making the sockets of a name wait for each other, their programs wait here. An `add` or `re-add`
//! that fails is trusted to have undone its changes; if a registration's program was killed, a
//! `del` follows.
//!
//! Programs and their pauses are detached from the plugins: a `del` outlives its plugin, and the
//! plugins of one name share a queue.
//!
//! A `del` that was started counts as run, whatever its end. A `del` that cannot be started is
//! tried again, and is owed until then, over a restart, too. A new job for the same name tries the
//! `del` at once, and proceeds after it has run. If the `del` cannot be started then either, an
//! `add` is refused, and so tried again by the manager: an `add` never runs before the `del`, and
//! never waits for it.
//!
//! After a restart with a state file, a `del` that was still owed runs at once. A plugin whose
//! socket has gone gets its `del` when the socket's directory has been listed completely.

mod grammar;
mod owed;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use self::owed::Owed;
use super::{
    Answer, Context, EffectId, Event, EventType, Plugin, PluginHandler, Program, ProgramEnd,
    ProgramOutcome, Reason, Ticket,
};
use crate::config::{EXEC_TIMEOUT, MAX_OWED};
use crate::escape;

/// A handler that runs a program for every plugin of its types.
#[derive(Debug)]
pub struct ExecHandler {
    program: PathBuf,
    timeout: Duration,
    /// The running and waiting jobs, one queue for each plugin name.
    queues: Vec<Queue>,
}

/// The jobs for the plugins of one type and name.
#[derive(Debug)]
struct Queue {
    phase: Phase,
    job: Job,
    waiting: VecDeque<Job>,
}

/// The event that the first job in a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The end of its program.
    Running(EffectId),
    /// The timer after which the job is tried again: the job is a `del` that could not be started.
    Pausing(EffectId),
}

/// One run of the program, now or later.
#[derive(Debug)]
struct Job {
    verb: Verb,
    plugin: Arc<Plugin>,
    /// The question that the job answers, or `None` if no answer is expected.
    ticket: Option<Ticket>,
    /// The debt of a `del`, until the `del` has run.
    owed: Option<Owed>,
}

/// The first argument of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    ReAdd,
    Del,
}

impl ExecHandler {
    /// Creates a handler that runs the program at this absolute path.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            timeout: EXEC_TIMEOUT,
            queues: Vec::new(),
        }
    }

    /// Sets the time limit for the program.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn ask(&mut self, verb: Verb, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let ticket = context.ticket();
        self.submit(verb, plugin.clone(), ticket, context);
        Answer::Pending
    }

    /// Runs the program as soon as none runs for this plugin name.
    fn submit(
        &mut self,
        verb: Verb,
        plugin: Arc<Plugin>,
        ticket: Option<Ticket>,
        context: &mut Context<'_>,
    ) {
        let mut queues = self.queues.iter();
        let queue = queues.position(|queue| name_of(&queue.job) == (&*plugin.kind, &*plugin.name));
        let is_del = verb == Verb::Del;
        let job = Job {
            owed: is_del.then(|| Owed::new(context.owe(plugin.clone()))),
            verb,
            plugin,
            ticket,
        };
        match queue {
            Some(queue) => {
                self.queues[queue].waiting.push_back(job);
                if let Phase::Pausing(timer) = self.queues[queue].phase {
                    context.cancel(timer);
                    self.try_again(queue, context);
                }
            }
            None => self.start(job, VecDeque::new(), context),
        }
    }

    /// Runs the first job in a queue again.
    fn try_again(&mut self, queue: usize, context: &mut Context<'_>) {
        self.queues[queue].phase = self.spawn(&self.queues[queue].job, context);
    }

    fn start(&mut self, job: Job, waiting: VecDeque<Job>, context: &mut Context<'_>) {
        let phase = self.spawn(&job, context);
        self.queues.push(Queue {
            phase,
            job,
            waiting,
        });
    }

    fn spawn(&self, job: &Job, context: &mut Context<'_>) -> Phase {
        let (action, program) = (job.verb.word(), self.run_of(job));
        let mut detached = context.detached();
        Phase::Running(detached.spawn_for(&job.plugin, action, program))
    }

    /// Removes the first job of a queue, which has ended, and starts the next. Returns the ended
    /// job.
    fn advance(&mut self, queue: usize, context: &mut Context<'_>) -> Job {
        let Queue {
            job, mut waiting, ..
        } = self.queues.swap_remove(queue);
        if let Some(next) = waiting.pop_front() {
            self.start(next, waiting, context);
        }
        job
    }

    /// Handles that the `del` that is first in a queue could not be started. The `del` is tried
    /// again later and the questions that wait behind it are refused, or the `del` is given up.
    fn not_started(&mut self, queue: usize, outcome: &ProgramOutcome, context: &mut Context<'_>) {
        let Err(reason) = self.judge(outcome) else {
            return;
        };
        let has_room = self.count_owed() < MAX_OWED;
        let Queue { phase, job, .. } = &mut self.queues[queue];
        let owed = job.owed.as_mut().filter(|_| has_room);
        let pause = owed.and_then(|owed| owed.fail(context.now()));
        if let Some(ticket) = job.ticket.take() {
            context.answer(ticket, Err(reason.clone()));
        }
        report_not_started(job, &reason, pause, context);
        if let Some(pause) = pause {
            *phase = Phase::Pausing(context.detached().set_timer(pause));
            self.refuse_waiting(queue, &reason, context);
        } else {
            let given_up = self.advance(queue, context);
            settle(&given_up, context);
        }
    }

    /// Refuses the questions that wait in a queue behind a `del` that could not be started. Each
    /// waiting `del` stays, and so does each job without a question.
    fn refuse_waiting(&mut self, queue: usize, reason: &Reason, context: &mut Context<'_>) {
        let first = "an earlier plugin of the same name is not deregistered yet";
        self.queues[queue].waiting.retain_mut(|job| {
            let Some(ticket) = job.ticket.take() else {
                return true;
            };
            let refusal = Reason::new(format!("{first}: {}", reason.as_str()));
            context.answer(ticket, Err(refusal));
            job.verb == Verb::Del
        });
    }

    /// Returns the number of jobs that could not be started or that wait behind such a job.
    fn count_owed(&self) -> usize {
        let pausing = |queue: &&Queue| matches!(queue.phase, Phase::Pausing(_));
        let queues = self.queues.iter().filter(pausing);
        queues.map(|queue| 1 + queue.waiting.len()).sum()
    }

    fn ended(&mut self, job: Job, outcome: &ProgramOutcome, context: &mut Context<'_>) {
        settle(&job, context);
        let Job {
            verb,
            plugin,
            ticket,
            owed,
        } = job;
        let result = self.judge(outcome);
        let tries = owed.map_or(0, |owed| owed.tries);
        let (action, program) = (verb.word(), escape::path(&self.program));
        let why = why(outcome);
        let why = escape::text(&why);
        match (&result, ticket) {
            (Ok(()), _) if tries > 0 => {
                let message = format!(
                    "{action} succeeded after failed tries program={program} tries={tries}"
                );
                context.emit(&plugin, EventType::Normal, "ProgramSucceeded", message);
            }
            (Ok(()), _) => log::debug!("{plugin}: {action} succeeded program={program}"),
            // The caller logs the reason.
            (Err(_), Some(_)) if verb != Verb::Del => {
                log::debug!("{plugin}: {action} failed: {why} program={program}");
            }
            (Err(_), _) => {
                let message = format!("{action} failed: {why} program={program}");
                context.emit(&plugin, EventType::Warning, "ProgramFailed", message);
            }
        }
        let was_killed = matches!(
            outcome.end,
            ProgramEnd::Killed(_) | ProgramEnd::TimedOut | ProgramEnd::NotInTime
        );
        if was_killed && verb != Verb::Del && ticket.is_some() {
            self.submit(Verb::Del, plugin, None, context);
        }
        if let Some(ticket) = ticket {
            context.answer(ticket, result);
        }
    }

    /// Returns whether a `del` could not be started, and so is tried again.
    fn is_owed(&self, queue: usize, outcome: &ProgramOutcome) -> bool {
        let is_del = self.queues[queue].job.verb == Verb::Del;
        let end = &outcome.end;
        is_del && matches!(end, ProgramEnd::NotStarted(_) | ProgramEnd::NotInTime)
    }

    /// Returns the answer that follows from a program's end: status 0 registers, and any other end
    /// refuses, with the first line of standard error that is not empty.
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
        let verb = if context.was_registered() {
            Verb::ReAdd
        } else {
            Verb::Add
        };
        self.ask(verb, plugin, context)
    }

    fn not_checked(&self) -> Option<&'static str> {
        Some("the program was not run")
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        match grammar::check(plugin) {
            Ok(()) => self.ask(Verb::Del, plugin, context),
            refused => Answer::Done(refused),
        }
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        match grammar::check(plugin) {
            Ok(()) => self.submit(Verb::ReAdd, plugin.clone(), None, context),
            Err(reason) => {
                let program = escape::path(&self.program);
                let reason = escape::text(reason.as_str());
                let message = format!("re-add is not run: {reason} program={program}");
                context.emit(plugin, EventType::Warning, "ProgramNotRun", message);
            }
        }
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let phase = match &event {
            Event::ProgramEnded { id, .. } => Phase::Running(*id),
            Event::TimerFired { id } => Phase::Pausing(*id),
            _ => return,
        };
        let Some(queue) = self.queues.iter().position(|queue| queue.phase == phase) else {
            return;
        };
        match event {
            Event::ProgramEnded { outcome, .. } if self.is_owed(queue, &outcome) => {
                self.not_started(queue, &outcome, context);
            }
            Event::ProgramEnded { outcome, .. } => {
                let job = self.advance(queue, context);
                self.ended(job, &outcome, context);
            }
            _ => self.try_again(queue, context),
        }
    }

    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        let is_meant = |job: &Job| job.ticket == Some(ticket);
        let jobs = self.queues.iter_mut().flat_map(Queue::jobs);
        for del in jobs.filter(|job| is_meant(job) && job.verb == Verb::Del) {
            del.ticket = None; // It is run nevertheless, and its own time limit ends it.
        }
        for queue in &mut self.queues {
            queue.waiting.retain(|job| !is_meant(job));
        }
        let place = self.queues.iter().position(|queue| is_meant(&queue.job));
        if let Some(queue) = place {
            let (Phase::Running(effect) | Phase::Pausing(effect)) = self.queues[queue].phase;
            context.cancel(effect);
            self.advance(queue, context);
        }
    }

    fn resume_deregistration(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> bool {
        match grammar::check(plugin) {
            Ok(()) => self.submit(Verb::Del, plugin.clone(), None, context),
            Err(reason) => {
                let reason = escape::text(reason.as_str());
                let message = format!(
                    "del is not run, so what its program set up before the restart is not undone: \
                     {reason}"
                );
                context.emit(plugin, EventType::Warning, "ProgramNotRun", message);
            }
        }
        true
    }
}

impl Queue {
    /// Returns the first job of the queue and those that wait.
    fn jobs(&mut self) -> impl Iterator<Item = &mut Job> {
        iter::once(&mut self.job).chain(&mut self.waiting)
    }
}

impl Verb {
    const fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::ReAdd => "re-add",
            Self::Del => "del",
        }
    }
}

/// Cancels the debt of a job that has ended or was given up.
fn settle(job: &Job, context: &mut Context<'_>) {
    if let Some(owed) = &job.owed {
        context.cancel(owed.id);
    }
}

/// Reports that a `del` could not be started: a warning the first time, and when it is given up.
fn report_not_started(
    job: &Job,
    reason: &Reason,
    pause: Option<Duration>,
    context: &mut Context<'_>,
) {
    let (plugin, reason) = (&job.plugin, escape::text(reason.as_str()));
    let tries = job.owed.as_ref().map_or(0, |owed| owed.tries);
    match pause {
        None => {
            let message = format!(
                "del is given up, so what its program set up is not undone: {reason} tries={tries}"
            );
            context.emit(plugin, EventType::Warning, "ProgramGivenUp", message);
        }
        Some(pause) if tries == 1 => {
            let message =
                format!("del failed and is retried with backoff: {reason} retry_in={pause:?}");
            context.emit(plugin, EventType::Warning, "ProgramFailed", message);
        }
        Some(pause) => {
            log::debug!("{plugin}: del failed again: {reason} retry_in={pause:?} tries={tries}");
        }
    }
}

/// Returns why a program failed, for the log: the first line of standard error that is not empty,
/// or the way in which the program ended.
fn why(outcome: &ProgramOutcome) -> String {
    let words = outcome.first_error();
    words.unwrap_or_else(|| outcome.end.to_string())
}

/// Returns the type and the name of the job's plugin.
fn name_of(job: &Job) -> (&str, &str) {
    (&job.plugin.kind, &job.plugin.name)
}

/// Returns the environment variables for the program.
fn environment(verb: Verb, plugin: &Plugin) -> Vec<(&'static str, OsString)> {
    vec![
        ("PLUGIND_ACTION", verb.word().into()),
        ("PLUGIND_TYPE", plugin.kind.clone().into()),
        ("PLUGIND_NAME", plugin.name.clone().into()),
        ("PLUGIND_ENDPOINT", (&*plugin.endpoint).into()),
        ("PLUGIND_SOCKET", (&*plugin.socket).into()),
        ("PLUGIND_VERSIONS", plugin.versions.join(",").into()),
    ]
}

/// The object that the program reads from its standard input, in one line.
#[derive(Serialize)]
struct Registration<'a> {
    action: &'a str,
    r#type: &'a str,
    name: &'a str,
    endpoint: Cow<'a, str>,
    versions: &'a [String],
    socket: Cow<'a, str>,
}

fn registration(verb: Verb, plugin: &Plugin) -> Vec<u8> {
    let registration = Registration {
        action: verb.word(),
        r#type: &plugin.kind,
        name: &plugin.name,
        endpoint: plugin.endpoint.to_string_lossy(),
        versions: &plugin.versions,
        socket: plugin.socket.to_string_lossy(),
    };
    let mut line = Vec::new();
    escape::json(&registration, &mut line);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;
