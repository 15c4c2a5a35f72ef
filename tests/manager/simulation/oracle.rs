//! The oracle: a handler that answers at random, and checks what it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use plugind::config::STALLED_AFTER;
use plugind::handler::{Answer as HandlerAnswer, Context, Event, Plugin, PluginHandler, Ticket};
use plugind::time::Time;

use crate::restored::{Restored, is_twin};
use crate::rng::Rng;
use crate::wanted::Wanted;

/// A handler that answers at random, from the seed, and checks its contract: per plugin name,
/// validate, then register, then deregister, each after the last question has been answered or
/// abandoned. Questions about two sockets of one name overlap only if one question stayed open for
/// [`STALLED_AFTER`]. Handlers that replace each other share this state: the handler that validated
/// a plugin receives all later questions about that plugin. A plugin that was restored after a
/// restart is registered already: it is registered again, or deregistered by the newest handler.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    state: Arc<Mutex<OracleState>>,
    /// The number of handlers before this one.
    number: usize,
}

#[derive(Debug, Default)]
pub(super) struct OracleState {
    pub(super) rng: Rng,
    /// Whether the faults have ceased: every answer is an immediate yes.
    pub(super) is_honest: bool,
    /// The number of handlers before the newest one.
    newest: usize,
    /// The plugins that were registered before the last restart.
    restored: Restored,
    /// The sockets of registered plugins whose names and endpoints were deregistered.
    pub(super) undone: Vec<Arc<Path>>,
    /// The open question about the plugin behind each socket, and its time.
    pub(super) open: BTreeMap<Arc<Path>, (Ticket, &'static str, Time)>,
    /// The sockets whose question stayed open for so long that others of the name went ahead.
    stalled: BTreeSet<Arc<Path>>,
    /// Tickets that were abandoned: an answer to them must not change anything.
    pub(super) stale: Vec<Ticket>,
    /// The plugin behind each socket, and how far it is.
    pub(super) phases: BTreeMap<Arc<Path>, (Arc<Plugin>, Phase)>,
    /// The handler that was asked to validate the plugin behind each socket.
    asked: BTreeMap<Arc<Path>, usize>,
    /// The effects that the handlers asked for.
    pub(super) wanted: Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Validating,
    Valid,
    Registering,
    Registered,
    Deregistering,
}

fn name(plugin: &Plugin) -> (String, String) {
    (plugin.kind.clone(), plugin.name.clone())
}

impl OracleState {
    fn new(seed: u64, restored: Restored) -> Self {
        Self {
            rng: Rng::new(seed),
            restored,
            wanted: Wanted::new(!seed),
            ..Self::default()
        }
    }

    fn ask(
        &mut self,
        question: &'static str,
        plugin: &Arc<Plugin>,
        context: &Context<'_>,
    ) -> HandlerAnswer {
        let open = self.open.get(&plugin.socket);
        assert!(open.is_none(), "{question} {plugin} while {open:?} is open");
        let now = context.now();
        for (socket, (_, _, since)) in &self.open {
            if now.saturating_since(*since) >= STALLED_AFTER {
                self.stalled.insert(socket.clone());
            }
        }
        if question == "validate" {
            self.stalled.remove(&plugin.socket);
        }
        let is_held_up = |other: &Plugin| {
            let stalled = [&plugin.socket, &other.socket].map(|it| self.stalled.contains(it));
            stalled == [false; 2]
        };
        let busy = self.phases.values().find(|(other, phase)| {
            name(other) == name(plugin)
                && other.socket != plugin.socket
                && *phase != Phase::Registered
                && is_held_up(other)
        });
        assert!(busy.is_none(), "{question} {plugin} during {busy:?}");
        let before = self.phases.get(&plugin.socket);
        let before = before.map(|(known, phase)| (known, *phase));
        match question {
            "validate" => self.restored.validate(plugin),
            "register" => self.restored.register(plugin),
            _ => {}
        }
        let after = match (question, before) {
            ("validate", None) => Phase::Validating,
            ("register", Some((known, Phase::Valid))) if known == plugin => Phase::Registering,
            ("deregister", Some((known, Phase::Registered))) if known == plugin => {
                Phase::Deregistering
            }
            ("deregister", None) if self.restored.deregister(plugin) => {
                self.note_twins(plugin);
                Phase::Deregistering
            }
            other => panic!("{plugin} at {:?}: {other:?}", plugin.socket),
        };
        self.phases
            .insert(plugin.socket.clone(), (plugin.clone(), after));
        let say = match self.rng.below(0..8) {
            _ if self.is_honest => HandlerAnswer::YES,
            0 => HandlerAnswer::no("the oracle says so"),
            1 | 2 => HandlerAnswer::Pending,
            _ => HandlerAnswer::YES,
        };
        match &say {
            HandlerAnswer::Done(result) => {
                self.answered(question, &plugin.socket.clone(), result.is_ok());
            }
            HandlerAnswer::Pending => {
                let ticket = context.ticket().expect("a question has a ticket");
                self.open
                    .insert(plugin.socket.clone(), (ticket, question, now));
            }
        }
        say
    }

    /// Records which registrations are undone with that of a plugin that was restored.
    fn note_twins(&mut self, plugin: &Plugin) {
        let registered = self.phases.iter();
        let registered = registered.filter(|(_, (_, phase))| *phase == Phase::Registered);
        let twins = registered.filter(|(_, (other, _))| is_twin(other, plugin));
        let twins = twins.filter(|(socket, _)| !self.stalled.contains(*socket));
        self.undone.extend(twins.map(|(socket, _)| socket.clone()));
    }

    pub(super) fn answered(&mut self, question: &str, socket: &Arc<Path>, yes: bool) {
        let (plugin, phase) = self.phases.get_mut(socket).expect("it was asked about");
        match (question, yes) {
            ("validate", true) => *phase = Phase::Valid,
            ("register", true) => {
                *phase = Phase::Registered;
                self.restored.registered(plugin);
            }
            _ => {
                self.phases.remove(socket);
                self.wanted.cancelled(socket);
            }
        }
    }

    /// Abandons a question. A registration that is abandoned may have taken effect: the manager
    /// must undo it.
    fn abandon(&mut self, ticket: Ticket, now: Time) {
        let mut open = self.open.keys();
        let socket = open.find(|socket| self.open[*socket].0 == ticket).cloned();
        let socket = socket.expect("only open questions are abandoned");
        let question = self.close(&socket, now);
        self.stale.push(ticket);
        self.answered(question, &socket, question == "register");
    }

    /// Returns the plugins that are registered, or may be.
    pub(super) fn registered(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        let phases = self.phases.values();
        let known = [Phase::Registering, Phase::Registered];
        let known = phases.filter(move |(_, phase)| known.contains(phase));
        known.map(|(plugin, _)| plugin)
    }

    /// Closes the open question about the plugin behind that socket, and returns the question.
    pub(super) fn close(&mut self, socket: &Arc<Path>, now: Time) -> &'static str {
        let (_, question, since) = self.open.remove(socket).expect("the question is open");
        if now.saturating_since(since) >= STALLED_AFTER {
            self.stalled.insert(socket.clone());
        }
        question
    }
}

impl Oracle {
    /// Creates the first handler, which may be asked about these restored plugins.
    pub(super) fn new(seed: u64, restored: Restored) -> Self {
        Self {
            state: Arc::new(Mutex::new(OracleState::new(seed, restored))),
            number: 0,
        }
    }

    /// Returns a handler that replaces this one.
    pub(super) fn next(&self) -> Self {
        let mut state = self.lock();
        state.newest += 1;
        Self {
            state: self.state.clone(),
            number: state.newest,
        }
    }

    /// Returns the handler of a new process, which knows nothing of the questions before.
    pub(super) fn restarted(&self) -> Self {
        let mut state = self.lock();
        state.undone.clear();
        state.open.clear();
        state.stalled.clear();
        state.stale.clear();
        state.phases.clear();
        state.asked.clear();
        state.wanted.restarted();
        drop(state);
        self.next()
    }

    /// Returns the number of handlers that a manager still has.
    pub(super) fn handlers(&self) -> usize {
        Arc::strong_count(&self.state) - 1
    }

    /// Returns whether a handler has panicked, because its contract was broken.
    pub(super) fn has_panicked(&self) -> bool {
        self.state.is_poisoned()
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, OracleState> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn ask(
        &self,
        question: &'static str,
        plugin: &Arc<Plugin>,
        context: &mut Context<'_>,
    ) -> HandlerAnswer {
        let mut state = self.lock();
        if question == "validate" {
            state.asked.insert(plugin.socket.clone(), self.number);
        } else if question == "deregister" {
            state.wanted.cancelled(&plugin.socket);
        }
        let is_restored = question == "deregister" && !state.phases.contains_key(&plugin.socket);
        if is_restored {
            let newest = state.newest;
            state.asked.insert(plugin.socket.clone(), newest);
        }
        let asked = state.asked.get(&plugin.socket);
        assert_eq!(asked, Some(&self.number), "{question} {plugin}");
        let say = state.ask(question, plugin, context);
        if state.phases.contains_key(&plugin.socket) {
            state.wanted.ask(self.number, context);
        }
        say
    }
}

impl PluginHandler for Oracle {
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        self.ask("validate", plugin, context)
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        self.ask("register", plugin, context)
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        self.ask("deregister", plugin, context)
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        let mut state = self.lock();
        let known = state.phases.get(&plugin.socket);
        assert_eq!(known, Some(&(plugin.clone(), Phase::Registered)));
        state.wanted.ask(self.number, context);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let wanted = &mut self.lock().wanted;
        wanted.happened(self.number, &event, context);
        wanted.ask(self.number, context);
    }

    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        self.lock().abandon(ticket, context.now());
    }
}
