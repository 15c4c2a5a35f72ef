//! The core of the plugin manager: the desired state, the actual state, and what to do next.
//!
//! Pure, like the rest of the folder: no clock, no descriptor, no thread. Each event arrives as an
//! [`Input`] with its time, each request to the daemon leaves as an [`Output`], and the bytes of a
//! connection are exchanged through [`Manager::endpoint`].
//!
//! ```text
//!  Found, Lost                                     Name: lock, instances
//!       |                                            ^
//!       v              events, actions               |
//!    Sockets --> Visit <-----------------> Manager --+-> Limiter: permits, queue
//!                 |  operation, liveness   (router)  |
//!                 v                                  v
//!         Dial, Transmit, Hangup          HandlerHost: handlers, effects, programs
//! ```
//!
//! Work is proportional to what changed: a socket is examined when an event concerns it, when its
//! backoff ends, and once per [`RESYNC_INTERVAL`] as a safety net. All deadlines of the manager
//! are in one index, so the next one is found without a search.
//!
//! Reading order: `socket` has all that is known about one path, with `desired` (what exists),
//! `registered` (what a handler knows) and an `Active` of its own (what runs); `operation` is the
//! state machine of one registration. `visit` passes events to a socket, `actions` carries out what
//! its operation requests, and `outcomes` what follows from the end of the operation. `names`,
//! `limiter` and `host` are what sockets share; `context`, `connections` and `timers` are their
//! environment. `trust` decides which plugins are refused or reported before their handlers are
//! asked. `router` visits each socket and passes on what is left to do. `sockets` finds a socket by
//! its path; `announced` has the plugins that announce themselves; `saved_state` saves and restores
//! the registered plugins. `records` is what operators see of a socket, `changes` what has changed
//! since they looked. `reconcile` chooses the action that a socket needs. `messages` has the inputs
//! and outputs, `event` the events for operators, `failure` the errors, and `ids` the numbers.

mod actions;

mod announced;
mod changes;
mod connections;
mod context;
mod desired;
pub mod event;
mod failure;
mod host;
mod ids;
mod limiter;
mod messages;
mod names;
mod operation;
mod outcomes;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod reconcile;
mod records;
mod registered;
mod router;
mod saved_state;
mod socket;
mod sockets;
mod timers;
mod trust;
mod visit;

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use self::{
    desired::RetryDelay,
    ids::{ConnectionId, OperationId, SocketId},
    messages::{
        AnnouncementError, AnnouncementId, ConnectionEvent, Input, Limit, Measurement, Output,
    },
    saved_state::{SavedState, SavedStateError},
    socket::Socket,
    timers::Timer,
};
pub use crate::config::OnDown;
pub use crate::handler::DialError;
pub use changes::State;
pub use desired::Desired;
pub use event::{Generation, PluginEvent};
pub use failure::{Failure, Refusal};
pub use ids::Process;
pub use records::{
    Change, ChangeCursor, Expired, LastError, Record, RecordCursor, Records, Status, Usage,
};
pub use registered::{Health, Registered};

#[cfg(doc)]
use crate::config::RESYNC_INTERVAL;
use crate::config::{Distrust, IDLE_QUEUE_CAPACITY, Mode, PathMap, Trust};
use crate::handler::{HandlerId, HandlerTable, Plugin, PluginHandler};
use crate::http2::Endpoint;
use crate::time::Time;
use connections::Owner;
use context::{Context, Work};
use event::EventKind;
use host::HandlerHost;
use limiter::Limiter;
use names::Names;
use sockets::Sockets;
use timers::Scheduled;

/// The core of the plugin manager: passes each event to the part that it is about.
#[derive(Debug, Default)]
pub struct Manager {
    /// All that is known about each path.
    sockets: Sockets,
    /// All that is known about each plugin name.
    names: Names,
    /// The handlers and their effects.
    host: HandlerHost,
    /// The permits of operations, and the sockets that wait for one.
    limiter: Limiter,
    /// The environment of the other parts: time, policy, connections, timers and outputs.
    context: Context,
    last_operation: OperationId,
    resync: Scheduled,
    stop: Scheduled,
}

impl Manager {
    /// Creates a manager that knows no sockets yet and passes plugins to these handlers.
    pub fn new(handlers: HandlerTable) -> Self {
        let mut manager = Self::default();
        manager.host.handlers = handlers;
        manager
    }

    /// Sets whether plugins are registered or only observed, from the next attempt on. Plugins that
    /// announce themselves are registered in any case.
    pub fn set_mode(&mut self, mode: Mode) {
        self.context.policy.mode = mode;
    }

    /// Sets whether the sockets that are found existed before the daemon: a plugin that does not
    /// listen on such a socket has usually ended.
    pub fn set_starting(&mut self, is_starting: bool) {
        self.context.policy.is_starting = is_starting;
    }

    /// Sets the mapping of endpoint paths that plugins report from their own mount namespaces.
    ///
    /// Handlers and events keep the paths as the plugins reported them.
    pub fn set_path_map(&mut self, path_map: PathMap) {
        self.context.policy.path_map = path_map;
    }

    /// Returns the mapping that [`Manager::set_path_map`] has set.
    pub(crate) fn path_map(&self) -> &PathMap {
        &self.context.policy.path_map
    }

    /// Sets the policy for registered plugins that are down. Also applies to plugins that are down
    /// already, from the next input or timeout on: their grace period is counted from the time at
    /// which they went down.
    pub fn set_on_down(&mut self, on_down: OnDown) {
        self.context.policy.on_down = on_down;
        self.sockets.apply_down_policy(&mut self.context);
    }

    /// Sets which plugins are trusted from now on. Registered plugins stay registered. The reasons
    /// that were recorded are forgotten, and may be reported again.
    pub fn set_trust(&mut self, trust: Trust) {
        self.context.policy.trust = trust;
        for socket in self.sockets.iter_mut() {
            if let Some(desired) = &mut socket.desired {
                desired.distrust = Box::default();
            }
        }
        self.sockets.mark_all_dirty(&mut self.context);
    }

    /// Sets the directories below which no socket is trusted, each with the reason, and reports
    /// those that are new: other users can change the directory, or one that all plugins depend on.
    /// In strict mode, plugins with sockets below them are refused from now on.
    pub fn set_distrusted_directories(&mut self, dirs: Vec<(PathBuf, Distrust)>, now: Time) {
        self.context.now = now;
        for dir in &dirs {
            if !self.context.policy.distrusted.contains(dir) {
                self.emit_daemon_event(EventKind::Untrusted(dir.1.clone()));
            }
        }
        self.context.policy.distrusted = dirs;
    }

    /// Sets the memory budget: the number of octets that may be held for all plugins together.
    pub fn set_memory_budget(&mut self, octets: usize) {
        self.context.budget.set_limit(octets);
    }

    /// Sets the maximum number of descriptors that the process may have open.
    pub fn set_descriptor_limit(&mut self, limit: usize) {
        self.context.connections.set_limit(limit);
    }

    /// Processes an event and everything that follows from it.
    pub fn handle_input(&mut self, input: Input, now: Time) {
        let (sockets, context) = (&mut self.sockets, &mut self.context);
        context.now = now;
        match input {
            Input::Found { path, identity } => sockets.record_found(&path, identity, context),
            Input::Lost { path } => sockets.record_lost(&path, context),
            Input::Announced { id, plugin, caller } => {
                sockets.handle_announcement(id, *plugin, caller, context);
            }
            Input::CallEnded { id } => sockets.handle_call_ended(id, context),
            Input::Connection(conn, event) => self.handle_connection_event(conn, event),
            Input::Distrusted(conn, why) => self.distrust_connection(conn, why),
            Input::DistrustedEndpoint { socket, why } => {
                if let Some(id) = sockets.get_by_path(&socket).map(|socket| socket.id) {
                    self.visit(id, |visit| visit.record_distrust(why));
                }
            }
            Input::ProgramEnded { id, outcome } => {
                self.host.handle_program_ended(id, outcome, context);
            }
            Input::Answered { ticket, result } => {
                context.work.push_back(Work::Answer(ticket, result));
            }
            Input::Reconsider => sockets.retry_failed(context),
            Input::Stop => self.stop(),
        }
        self.run_until_idle();
    }

    /// Does what is due by `now`. Calling this early, or twice, is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.context.now = now;
        self.run_until_idle(); // `restore`, or a setting that was changed, may have left work.
        while let Some(timer) = self.context.timers.pop_due(now) {
            match timer {
                Timer::Socket(id) => self.visit(id, |visit| {
                    visit.socket.applied.deadline = Scheduled::default();
                    visit.handle_timeout();
                }),
                Timer::Effect(id) => self.host.handle_timeout(id, &mut self.context),
                Timer::Limiter => self.limiter.handle_timeout(now, &mut self.context.timers),
                Timer::Resync => {
                    self.resync = Scheduled::default();
                    self.sockets.mark_all_dirty(&mut self.context);
                }
                Timer::Stop => self.stop_at_once(),
            }
            self.run_until_idle();
        }
    }

    /// Returns when to call [`Manager::handle_timeout`] next, and the owner of that deadline, or
    /// `None` if no deadline is set.
    pub fn poll_timeout(&self) -> Option<(Time, Timer)> {
        let ((at, _), timer) = self.context.timers.by_time.first_key_value()?;
        Some((*at, *timer))
    }

    /// Removes and returns the oldest output, or `None` if there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        let outputs = &mut self.context.outputs;
        if outputs.is_empty() {
            outputs.shrink_to(IDLE_QUEUE_CAPACITY);
        }
        outputs.pop_front()
    }

    /// Returns the local end of a connection, or `None` if the connection is not open or belongs to
    /// an operation that makes no calls. After passing received bytes to this end, or writing bytes
    /// from it, call [`Manager::handle_io`]; after writing, only if the end then
    /// [has work](Endpoint::has_work) or its deadline has changed.
    pub fn endpoint(&mut self, conn: ConnectionId) -> Option<&mut impl Endpoint> {
        match self.context.connections.owner(conn)? {
            Owner::Operation(id) => self.sockets.get_mut(id)?.active.as_mut()?.client(),
            Owner::Liveness(id, server) => self.sockets.get_mut(id)?.liveness_client(server),
            Owner::Call(id) | Owner::Stream(id) => self.host.client(id),
        }
    }

    /// Processes the bytes that were read or written at [`Manager::endpoint`].
    pub fn handle_io(&mut self, conn: ConnectionId, now: Time) {
        self.handle_input(Input::Connection(conn, ConnectionEvent::Exchanged), now);
    }

    /// Returns every [`Socket`], in unspecified order.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.iter()
    }

    /// Returns what is known about a path, or `None` if nothing is known.
    pub fn socket(&self, path: &Path) -> Option<&Socket> {
        self.sockets.get_by_path(&path.into())
    }

    /// Returns every plugin that a handler knows or is being asked to register, in unspecified
    /// order.
    pub fn registered(&self) -> impl Iterator<Item = &Registered> {
        self.sockets().filter_map(Socket::registered)
    }

    /// Returns the registered plugins of a type and name, oldest first. The last one is the one to
    /// use.
    pub fn instances(&self, kind: &str, name: &str) -> impl Iterator<Item = &Arc<Plugin>> {
        let instances = self.names.instances(&Plugin::named(kind, name).into());
        instances.iter().map(|instance| &instance.plugin)
    }

    /// Returns the socket of the plugin to use for the type and the name of `of`, or `None` if no
    /// plugin of that name is registered.
    pub(crate) fn current_socket(&self, of: &Arc<Plugin>) -> Option<&Socket> {
        self.sockets.get(self.names.instances(of).last()?.socket)
    }

    /// Assigns plugins of these types to `handler`, instead of to an earlier handler. Attempts that
    /// have failed are retried at once. Registered plugins of these types are deregistered by
    /// the handler that registered them, and then registered with the new one. A handler to which
    /// no type is assigned any more is dropped once it has no plugin, no effect and nothing to
    /// deregister.
    pub fn add_handler<T: Into<String>>(
        &mut self,
        types: impl IntoIterator<Item = T>,
        handler: impl PluginHandler + 'static,
        now: Time,
    ) -> HandlerId {
        self.change_handlers(|table| table.add(types, handler), now)
    }

    /// Changes the assignment of plugins to handlers. The consequences are those of
    /// [`Manager::add_handler`]: attempts that have failed are retried, and registered plugins
    /// whose type has another handler now, or none, are deregistered. All others stay registered.
    pub fn change_handlers<T>(
        &mut self,
        change: impl FnOnce(&mut HandlerTable) -> T,
        now: Time,
    ) -> T {
        let handlers = &mut self.host.handlers;
        let changed = change(handlers);
        self.host.unassigned = handlers.unassigned_handlers().collect();
        self.sockets
            .deregister_reassigned(handlers, &mut self.context);
        self.handle_input(Input::Reconsider, now);
        changed
    }

    /// Wakes the handler of a type after data that the handler shares were changed from outside.
    /// Returns `false` if the type has no handler that shares such data.
    pub(crate) fn wake_handler(&mut self, kind: &str, now: Time) -> bool {
        let Self { host, context, .. } = self;
        context.now = now;
        let id = host.handlers.find(kind);
        let woken =
            id.and_then(|id| host.call_handler(id, None, context, |it, context| it.wake(context)));
        self.run_until_idle();
        woken == Some(true)
    }

    /// Returns a number that changes whenever the state that a restart needs has changed.
    pub fn revision(&self) -> u64 {
        self.context.revision
    }

    /// Returns the table that assigns plugins to handlers.
    pub fn handlers(&self) -> &HandlerTable {
        &self.host.handlers
    }

    /// Returns whether no operation runs.
    pub fn is_idle(&self) -> bool {
        self.sockets.iter().all(|socket| socket.active.is_none())
    }

    /// Returns whether the manager was stopped ([`Input::Stop`]) and no operation runs any more.
    pub fn is_stopped(&self) -> bool {
        self.context.policy.is_stopping && self.is_idle()
    }

    /// Returns the view that operators have of the sockets, with counts.
    pub fn records(&self) -> Records<'_> {
        Records(self)
    }

    /// Returns the number of events and changes of records so far.
    pub fn generation(&self) -> Generation {
        self.context.changes.generation
    }

    /// Starts the next generation, for an event that the manager does not emit itself, and returns
    /// it.
    pub fn advance_generation(&mut self) -> Generation {
        self.context.changes.advance_generation()
    }

    /// Emits an event of the daemon.
    pub(crate) fn emit_daemon_event(&mut self, kind: EventKind) {
        self.context.emit(PluginEvent::of_daemon(kind));
    }

    // --- The requests of an operator ---

    /// Retries the selected plugins now: those that were refused or wait for their backoff are
    /// dialed again with a new backoff, and those that are down are checked. Returns the number of
    /// these plugins, or `None` if no record was selected.
    pub fn retry(&mut self, is_selected: &dyn Fn(&Record<'_>) -> bool, now: Time) -> Option<usize> {
        self.context.now = now;
        let selected = self.records().select(is_selected);
        let mut retried = 0;
        for (id, state) in &selected {
            match state {
                State::Down => self.visit(*id, |visit| {
                    visit.start_check();
                }),
                State::Backoff | State::Rejected => {
                    if let Some(socket) = self.sockets.get_mut(*id) {
                        socket.retry_now(&mut self.context);
                        // Dial without a time reserved by the limiter.
                        if let Some(desired) = &mut socket.desired {
                            desired.redial_at = Some(now);
                        }
                    }
                }
                _ => continue,
            }
            retried += 1;
        }
        self.run_until_idle();
        (!selected.is_empty()).then_some(retried)
    }

    /// Deregisters the plugins of a type and name that are down. Those whose sockets exist are then
    /// tried again. Returns the number of plugins that were down.
    pub fn forget(&mut self, kind: &str, name: &str, now: Time) -> Result<usize, ForgetError> {
        self.context.now = now;
        let is_it = |plugin: &Arc<Plugin>| plugin.kind == kind && plugin.name == name;
        let mut down = self
            .records()
            .select(&|record| record.plugin.is_some_and(is_it));
        if down.is_empty() {
            return Err(ForgetError::NotFound);
        }
        down.retain(|(_, state)| *state == State::Down);
        if down.is_empty() {
            return Err(ForgetError::NotDown);
        }
        for (id, _) in &down {
            let socket = self.sockets.get_mut(*id);
            if let Some(registered) = socket.and_then(|it| it.registered.as_mut()) {
                registered.health.require_deregistration();
            }
            self.sockets.withdraw_announcement(*id, &mut self.context);
        }
        self.run_until_idle();
        Ok(down.len())
    }
}

/// The reason why a plugin cannot be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// No plugin of that type and name is known.
    #[error("no such plugin")]
    NotFound,
    /// No plugin of that type and name is down.
    #[error("the plugin is not down; only a plugin that is down can be forgotten")]
    NotDown,
}
