//! A handler that runs a program for each plugin.
//!
//! This module decides which program is run and what its end means; the daemon runs it. The command
//! line is
//!
//! ```text
//! PROGRAM add|re-add|del TYPE NAME ENDPOINT
//! ```
//!
//! The verb is `add` for a plugin that is registered, `del` for one that is deregistered, and
//! `re-add` for one that the program may know already: the plugin was registered before a restart
//! of the daemon, is current again because the newer plugins of its name have ended, or is a CSI
//! driver whose node information has changed ([`ExecHandler::with_node_info_periods`]). The
//! environment contains the same values ([`environment`]), and standard input contains all that the
//! plugin reported, as JSON. Status 0 accepts; any other end refuses, with the first line of
//! standard error that is not blank as the reason, or else a description of the end.
//!
//! The values passed to a program have a grammar (`exec/grammar.rs`): a plugin with other values is
//! refused. A plugin that an older version of this crate registered and saved may have such values:
//! the program is not run for that plugin any more, and a warning reports it.
//!
//! For one plugin name, one program runs at a time, in the order of the handler's calls: when the
//! manager does not make the sockets of a name wait for each other, their programs wait here. An
//! `add` or `re-add` that fails is trusted to have undone its changes; if a registration's program
//! was killed, a `del` follows.
//!
//! Programs and the pauses before retries are detached from the plugins: a `del` outlives its
//! plugin, and the plugins of one name share a queue.
//!
//! A `del` is owed, even across restarts, until it has run or is given up. A `del` that was started
//! counts as run, whatever its end. A `del` that cannot be started is tried again after a pause, or
//! at once when a new job for the same name arrives; the job proceeds after the `del` has run. If
//! the `del` cannot be started then either, the `add` behind it is refused, and so tried again by
//! the manager: an `add` never runs before the `del`.
//!
//! After a restart with a state file, a `del` that was still owed runs at once. A plugin whose
//! socket does not exist any more gets its `del` when the socket's directory has been listed
//! completely.

mod grammar;
mod node;
mod owed;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use self::node::Nodes;
use self::owed::Owed;
use super::csi;
use super::{
    Answer, Context, EffectId, Event, EventType, Plugin, PluginHandler, Program, ProgramEnd,
    ProgramOutcome, Reason, Run, Ticket,
};
use crate::config::{EXEC_TIMEOUT, MAX_OWED};
use crate::escape;

/// A handler that runs a program for every plugin of its types.
#[derive(Debug)]
pub struct ExecHandler {
    program: PathBuf,
    timeout: Duration,
    /// The running and waiting jobs, one queue for each plugin type and name.
    queues: Vec<Queue>,
    nodes: Nodes,
}

/// The jobs for the plugins of one type and name, at least one.
#[derive(Debug)]
struct Queue {
    phase: Phase,
    /// The first one is the one that `phase` describes; the others wait.
    jobs: VecDeque<Job>,
}

/// The event that the first job in a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The end of the job's program.
    Running(EffectId),
    /// The end of a pause, after which a `del` that could not be started is tried again.
    Pausing(EffectId),
}

/// A run of the program, now or later.
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
            nodes: Nodes::default(),
        }
    }

    /// Sets the time limit for the program.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Makes the handler periodically call NodeGetInfo on the CSI drivers among the plugins, and
    /// run the program with `re-add` when the reply changes. Each period is that of the named
    /// driver; `*` names all others.
    #[must_use]
    pub fn with_node_info_periods(self, periods: &[(String, Duration)]) -> Self {
        let nodes = Nodes::new(csi::node::Periods::new(periods));
        Self { nodes, ..self }
    }

    fn ask_program(
        &mut self,
        verb: Verb,
        plugin: &Arc<Plugin>,
        context: &mut Context<'_>,
    ) -> Answer {
        let ticket = context.ticket();
        self.submit_job(verb, plugin.clone(), ticket, context);
        Answer::Pending
    }

    /// Runs the program once the earlier jobs of the plugin's name have ended. If the first of
    /// these pauses, retries it at once.
    fn submit_job(
        &mut self,
        verb: Verb,
        plugin: Arc<Plugin>,
        ticket: Option<Ticket>,
        context: &mut Context<'_>,
    ) {
        let is_del = verb == Verb::Del;
        let job = Job {
            // mutation: a `del` that is yet to be started is not owed
            owed: is_del.then(|| Owed::new(context.owe(plugin.clone()))),
            verb,
            plugin,
            ticket,
        };
        let mut queues = self.queues.iter();
        let Some(queue) = queues.position(|queue| queue.jobs[0].plugin.key() == job.plugin.key())
        else {
            let phase = self.spawn(&job, context);
            let jobs = VecDeque::from([job]);
            return self.queues.push(Queue { phase, jobs });
        };
        self.queues[queue].jobs.push_back(job);
        if let Phase::Pausing(timer) = self.queues[queue].phase {
            context.cancel(timer);
            self.run_first_job(queue, context);
        }
    }

    fn run_first_job(&mut self, queue: usize, context: &mut Context<'_>) {
        self.queues[queue].phase = self.spawn(&self.queues[queue].jobs[0], context);
    }

    fn spawn(&self, job: &Job, context: &mut Context<'_>) -> Phase {
        let (plugin, action) = (job.plugin.clone(), job.verb.word());
        let run = Some(Box::new(Run { plugin, action }));
        let mut detached = context.detached();
        Phase::Running(detached.spawn_for(run, self.program_for(job)))
    }

    /// Removes the first job of a queue, which has ended or was given up, and starts the next.
    /// Returns the removed job.
    fn finish_first_job(&mut self, queue: usize, context: &mut Context<'_>) -> Option<Job> {
        let job = self.queues[queue].jobs.pop_front();
        if self.queues[queue].jobs.is_empty() {
            self.queues.swap_remove(queue);
        } else {
            self.run_first_job(queue, context);
        }
        job
    }

    /// Handles the failure to start the `del` that is first in a queue: answers its question with
    /// the failure, and either schedules another try and refuses the questions that wait behind the
    /// `del`, or gives up the `del`.
    fn handle_not_started(
        &mut self,
        queue: usize,
        outcome: &ProgramOutcome,
        context: &mut Context<'_>,
    ) {
        let Err(reason) = self.answer_for(outcome) else {
            return;
        };
        // The jobs that could not be started or that wait behind such a job.
        let pausing = |queue: &&Queue| matches!(queue.phase, Phase::Pausing(_));
        let queues = self.queues.iter().filter(pausing);
        let has_room = queues.map(|queue| queue.jobs.len()).sum::<usize>() < MAX_OWED;
        let Queue { phase, jobs } = &mut self.queues[queue];
        let job = &mut jobs[0];
        let owed = job.owed.as_mut().filter(|_| has_room);
        let is_first = owed.as_ref().is_some_and(|owed| owed.tries == 0);
        let pause = owed.and_then(|owed| owed.record_failure(context.now()));
        if let Some(ticket) = job.ticket.take() {
            context.answer(ticket, Err(reason.clone()));
        }
        report_not_started(job, &reason, pause, is_first, context);
        let Some(pause) = pause else {
            let given_up = self.finish_first_job(queue, context);
            return cancel_debt(given_up.and_then(|job| job.owed), context);
        };
        *phase = Phase::Pausing(context.detached().set_timer(pause));
        // Each waiting `del` stays, and so does each job without a question.
        jobs.retain_mut(|job| {
            let Some(ticket) = job.ticket.take() else {
                return true;
            };
            let refusal = format!(
                "an earlier plugin of the same name is not deregistered yet: {}",
                reason.as_str()
            );
            context.answer(ticket, Err(Reason::new(refusal)));
            job.verb == Verb::Del
        });
    }

    fn handle_program_end(
        &mut self,
        job: Job,
        outcome: &ProgramOutcome,
        context: &mut Context<'_>,
    ) {
        let Job {
            verb,
            plugin,
            ticket,
            owed,
        } = job;
        let result = self.answer_for(outcome);
        let tries = owed.as_ref().map_or(0, |owed| owed.tries);
        cancel_debt(owed, context);
        let (action, program) = (verb.word(), escape::path(&self.program));
        let why = outcome.first_error();
        let why = why.unwrap_or_else(|| outcome.end.to_string());
        let why = escape::text(&why);
        match (&result, ticket) {
            (Ok(()), _) if tries > 0 => {
                let message = format!(
                    "{action} succeeded after failed tries program={program} tries={tries}"
                );
                context.emit(&plugin, EventType::Normal, "ProgramSucceeded", message);
            }
            (Ok(()), _) => log::debug!("{plugin}: {action} succeeded program={program}"),
            // The manager logs the reason.
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
            // mutation: a program that was killed is not undone
            ProgramEnd::Killed(_) | ProgramEnd::TimedOut | ProgramEnd::NotInTime
        );
        if was_killed && verb != Verb::Del && ticket.is_some() {
            self.submit_job(Verb::Del, plugin, None, context);
        }
        if let Some(ticket) = ticket {
            context.answer(ticket, result);
        }
    }

    /// Returns whether the first job of a queue is a `del`, and could not be started.
    fn is_del_not_started(&self, queue: usize, outcome: &ProgramOutcome) -> bool {
        let is_del = self.queues[queue].jobs[0].verb == Verb::Del;
        let end = &outcome.end;
        is_del && matches!(end, ProgramEnd::NotStarted(_) | ProgramEnd::NotInTime)
    }

    /// Returns the answer that follows from a program's end: status 0 accepts, and any other end
    /// refuses, with the first line of standard error that is not blank as the reason, or else a
    /// description of the end.
    fn answer_for(&self, outcome: &ProgramOutcome) -> Result<(), Reason> {
        if outcome.end == ProgramEnd::Exited(0) {
            return Ok(());
        }
        let words = outcome
            .first_error()
            .unwrap_or_else(|| format!("{}: {}", self.program.display(), outcome.end));
        Err(Reason::new(words))
    }

    fn program_for(&self, job: &Job) -> Program {
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
            input: encode_registration(*verb, plugin, self.nodes.find(plugin)),
            timeout: self.timeout,
        }
    }
}

impl PluginHandler for ExecHandler {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::Done(grammar::check_values(plugin))
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let verb = if context.was_registered() {
            Verb::ReAdd
        } else {
            Verb::Add
        };
        self.ask_program(verb, plugin, context)
    }

    fn not_checked(&self) -> Option<&'static str> {
        Some("the program was not run")
    }

    fn registered(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        self.nodes.start_asking(plugin, context);
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.nodes.remove(plugin);
        match grammar::check_values(plugin) {
            Ok(()) => self.ask_program(Verb::Del, plugin, context),
            refused => Answer::Done(refused),
        }
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        self.nodes.promote(plugin);
        match grammar::check_values(plugin) {
            Ok(()) => self.submit_job(Verb::ReAdd, plugin.clone(), None, context),
            Err(reason) => {
                let program = escape::path(&self.program);
                let reason = escape::text(reason.as_str());
                let message = format!("not running re-add: {reason} program={program}");
                context.emit(plugin, EventType::Warning, "ProgramNotRun", message);
            }
        }
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        if let Some(plugin) = context.plugin() {
            // Programs and their pauses are detached from plugins, so this is an event of a call of
            // NodeGetInfo or of the timer for the next call.
            if self.nodes.handle_event(event, plugin, context) {
                self.submit_job(Verb::ReAdd, plugin.clone(), None, context);
            }
            return;
        }
        let phase = match &event {
            Event::ProgramEnded { id, .. } => Phase::Running(*id),
            Event::TimerFired { id } => Phase::Pausing(*id),
            _ => return,
        };
        let Some(queue) = self.queues.iter().position(|queue| queue.phase == phase) else {
            return;
        };
        match event {
            Event::ProgramEnded { outcome, .. } if self.is_del_not_started(queue, &outcome) => {
                self.handle_not_started(queue, &outcome, context);
            }
            Event::ProgramEnded { outcome, .. } => {
                if let Some(job) = self.finish_first_job(queue, context) {
                    self.handle_program_end(job, &outcome, context);
                }
            }
            _ => self.run_first_job(queue, context),
        }
    }

    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        let is_meant = |job: &Job| job.ticket == Some(ticket);
        let mut queues = self.queues.iter();
        let Some(queue) = queues.position(|queue| queue.jobs.iter().any(is_meant)) else {
            return;
        };
        let Queue { phase, jobs } = &mut self.queues[queue];
        let Some(place) = jobs.iter().position(is_meant) else {
            return;
        };
        if jobs[place].verb == Verb::Del {
            jobs[place].ticket = None; // The `del` is run nevertheless; its own time limit ends it.
        } else if place > 0 {
            jobs.remove(place);
        } else {
            let (Phase::Running(effect) | Phase::Pausing(effect)) = *phase;
            context.cancel(effect);
            self.finish_first_job(queue, context);
        }
    }

    fn resume_deregistration(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> bool {
        match grammar::check_values(plugin) {
            Ok(()) => self.submit_job(Verb::Del, plugin.clone(), None, context),
            Err(reason) => {
                let reason = escape::text(reason.as_str());
                let message = format!(
                    "not running del, so the program cannot clean up what it set up before the restart: \
                     {reason}"
                );
                context.emit(plugin, EventType::Warning, "ProgramNotRun", message);
            }
        }
        true
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

/// Cancels the debt of a job, if any: the job has ended or was given up.
fn cancel_debt(owed: Option<Owed>, context: &mut Context<'_>) {
    if let Some(owed) = owed {
        context.cancel(owed.id);
    }
}

/// Reports that a `del` could not be started: as a warning the first time, and when the `del` is
/// given up.
fn report_not_started(
    job: &Job,
    reason: &Reason,
    pause: Option<Duration>,
    is_first: bool,
    context: &mut Context<'_>,
) {
    let (plugin, reason) = (&job.plugin, escape::text(reason.as_str()));
    let tries = job.owed.as_ref().map_or(0, |owed| owed.tries);
    match pause {
        None => {
            let message =
                format!("giving up del, so the program did not clean up: {reason} tries={tries}");
            context.emit(plugin, EventType::Warning, "ProgramGivenUp", message);
        }
        Some(pause) if is_first => {
            let message =
                format!("del failed and is retried with backoff: {reason} retry_in={pause:?}");
            context.emit(plugin, EventType::Warning, "ProgramFailed", message);
        }
        Some(pause) => {
            log::debug!("{plugin}: del failed again: {reason} retry_in={pause:?} tries={tries}");
        }
    }
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

/// The JSON object that the program reads from its standard input, in one line.
#[derive(Serialize)]
struct Registration<'a> {
    action: &'a str,
    r#type: &'a str,
    name: &'a str,
    endpoint: Cow<'a, str>,
    versions: &'a [String],
    socket: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<csi::Driver>,
}

fn encode_registration(verb: Verb, plugin: &Plugin, node: Option<csi::Driver>) -> Vec<u8> {
    let registration = Registration {
        action: verb.word(),
        r#type: &plugin.kind,
        name: &plugin.name,
        endpoint: plugin.endpoint.to_string_lossy(),
        versions: &plugin.versions,
        socket: plugin.socket.to_string_lossy(),
        node,
    };
    let mut line = Vec::new();
    escape::append_json(&registration, &mut line);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;
