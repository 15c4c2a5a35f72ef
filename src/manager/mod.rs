//! The core of the plugin manager: the desired state, the actual state, and what to do next.
//!
//! Pure: no clock, no descriptor, no thread. Events arrive as an [`Input`] with their time;
//! requests to the daemon leave as an [`Output`]; bytes are read and written by [`ConnectionId`].
//!
//! ```text
//!  Found, Lost                                     Name: lock, instances
//!       |                                            ^
//!       v              events, actions               |
//!    Sockets --> Turn <------------------> Manager --+-> Limiter: permits, queue
//!                 |  operation, liveness   (router)  |
//!                 v                                  v
//!         Dial, Transmit, Hangup          HandlerHost: handlers, effects, programs
//! ```
//!
//! Work is proportional to what changed: a socket is examined when something happens to it, when
//! its backoff ends, and once per [`RESYNC_INTERVAL`] as a safety net. All deadlines of the manager
//! are in one index, so the next one is found without a search.
//!
//! Reading order: `socket` has all that is known about one path, with `desired`, `registered` and
//! `active` (what exists, what a handler knows, what runs); `operation` is the state machine of one
//! registration. `turn` is what an event means for a socket, `actions` what its operation does, and
//! `outcomes` what follows from its end. `names`, `limiter` and `host` are what sockets share;
//! `context`, `connections` and `timers` are their environment. `router` gives each socket its turn
//! and passes on what is left to do; `events` is the entry. `sockets` finds a socket by its path;
//! `announced` has the plugins that announce themselves; `saved_state` saves and restores the
//! registered plugins. `record` is what operators see of a socket, `changes` what has changed since
//! they looked, and `request` what they can ask for. `measurement` is what is counted for the
//! metrics.

mod actions;
mod active;
mod announced;
mod announcement;
mod changes;
mod connections;
mod context;
mod desired;
pub mod event;
mod events;
mod failure;
mod host;
mod ids;
mod invariants;
mod limiter;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod link_name;
mod measurement;
mod messages;
mod names;
mod operation;
mod outcomes;
mod process;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod reconcile;
mod record;
mod registered;
mod request;
mod retry_delay;
mod router;
mod saved_state;
mod socket;
mod sockets;
mod state;
mod status;
mod timers;
mod turn;

use std::path::Path;
use std::sync::Arc;

pub use crate::config::OnDown;
pub use crate::handler::DialError;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use announcement::{AnnouncementError, AnnouncementId};
pub use desired::Desired;
pub use event::{Generation, PluginEvent};
pub use failure::{Failure, Refusal};
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use ids::{AttemptId, ConnectionId, SocketId};
#[cfg_attr(not(plugind_internals), doc(hidden))]
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use measurement::{Limit, Measurement};
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use messages::{Input, LivenessSource, Output, World};
pub use process::Process;
pub use record::{Change, ChangeCursor, Expired, LastError, Record, RecordCursor};
pub use registered::{Health, Registered};
pub use request::ForgetError;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use retry_delay::RetryDelay;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use saved_state::{SavedState, SavedStateError};
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use socket::Socket;
pub use state::State;
pub use status::{Status, Usage};
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use timers::Timer;

#[cfg(doc)]
use crate::config::RESYNC_INTERVAL;
use crate::config::{IDLE_QUEUE_CAPACITY, Mode, PathMap};
use crate::handler::{HandlerId, HandlerTable, Plugin, PluginHandler};
use crate::http2::Endpoint;
use crate::time::Time;
use connections::Owner;
use context::{Context, Work};
use host::HandlerHost;
use limiter::Limiter;
use names::Names;
use sockets::Sockets;
use timers::Scheduled;

/// The plugin manager's core: a router of events to the parts that they are about.
#[derive(Debug)]
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
    last_attempt: AttemptId,
    resync: Scheduled,
    stop: Scheduled,
}

impl Manager {
    /// Creates a manager that knows no sockets yet and passes plugins to these handlers.
    pub fn new(handlers: HandlerTable) -> Self {
        Self {
            sockets: Sockets::default(),
            names: Names::default(),
            host: HandlerHost::new(handlers),
            limiter: Limiter::default(),
            context: Context::default(),
            last_attempt: AttemptId(0),
            resync: Scheduled::default(),
            stop: Scheduled::default(),
        }
    }

    /// Sets what is done with the plugins that are found from now on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.context.policy.mode = mode;
    }

    /// Sets where to dial endpoints whose paths belong to the plugins' own mount namespaces.
    ///
    /// Handlers and the log keep the paths as the plugins reported them.
    pub fn set_path_map(&mut self, path_map: PathMap) {
        self.context.policy.path_map = path_map;
    }

    /// Sets what is done with registered plugins that are down. For those that are down already, it
    /// is in force with the next input, and counts from when they went down.
    pub fn set_on_down(&mut self, on_down: OnDown) {
        self.context.policy.on_down = on_down;
        self.set_graces();
    }

    /// Sets the number of octets that may be held of plugins, from now on.
    pub fn set_memory_budget(&mut self, octets: usize) {
        self.context.budget.set_limit(octets);
    }

    /// Sets the number of descriptors that the process may have.
    pub fn set_descriptor_limit(&mut self, limit: usize) {
        self.context.connections.set_limit(limit);
    }

    /// Processes an event and everything that follows from it.
    pub fn handle_input(&mut self, input: Input, now: Time) {
        self.context.now = now;
        match input {
            Input::Found { path, identity } => {
                self.sockets.found(&path, identity, &mut self.context);
            }
            Input::Lost { path } => self.sockets.lost(&path, &mut self.context),
            Input::Announced { id, plugin, caller } => self.announced(id, *plugin, caller),
            Input::Connected { conn, process } => self.connected(conn, process),
            Input::DialFailed { conn, error } => self.dial_failed(conn, error),
            Input::Closed { conn } => self.closed(conn),
            Input::PeerWatched { conn, by } => self.peer_watched(conn, by),
            Input::ProcessEnded { conn } => self.process_ended(conn),
            Input::ProgramEnded { id, outcome } => {
                self.host.program_ended(id, outcome, &mut self.context);
            }
            Input::Answered { ticket, result } => {
                self.context.work.push_back(Work::Answer(ticket, result));
            }
            Input::Reconsider => self.reconsider(),
            Input::Stop => self.stop(),
        }
        self.run_until_idle();
    }

    /// Does what is due by `now`. Calling this early, or twice, is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.context.now = now;
        if !self.context.work.is_empty() {
            self.run_until_idle(); // Restored deregistrations are due since before the start.
        }
        while let Some(timer) = self.context.timers.pop_due(now) {
            match timer {
                Timer::Socket(id) => self.socket_timeout(id),
                Timer::Effect(id) => self.host.handle_timeout(id, &mut self.context),
                Timer::Limiter => self.limiter.handle_timeout(now, &mut self.context.timers),
                Timer::Resync => self.resync(),
                Timer::Stop => self.stop_at_once(),
            }
            self.run_until_idle();
        }
    }

    /// Returns the time of the next [`Manager::handle_timeout`], and the owner of the deadline.
    pub fn poll_timeout(&self) -> Option<(Time, Timer)> {
        self.context.timers.first()
    }

    /// Removes and returns the oldest output, or `None` if there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        let outputs = &mut self.context.outputs;
        if outputs.is_empty() {
            outputs.shrink_to(IDLE_QUEUE_CAPACITY);
        }
        outputs.pop_front()
    }

    /// Returns the local end of a connection, or `None` if it is not connected. After reading into
    /// it or writing from it, call [`Manager::handle_io`].
    pub fn endpoint(&mut self, conn: ConnectionId) -> Option<&mut impl Endpoint> {
        match self.context.connections.owner(conn)? {
            owner @ (Owner::Operation(id) | Owner::Liveness(id)) => {
                self.sockets.get_mut(id)?.client(owner)
            }
            Owner::Call(id) | Owner::Stream(id) => self.host.client(id),
        }
    }

    /// Processes the bytes that were read or written at [`Manager::endpoint`].
    pub fn handle_io(&mut self, conn: ConnectionId, now: Time) {
        self.context.now = now;
        self.poll_connection(conn);
        self.run_until_idle();
    }

    /// Returns every path at which a socket exists or a plugin is registered, in unspecified order.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.iter()
    }

    /// Returns every path at which a socket exists or a plugin is registered, in the order of the
    /// paths.
    pub fn sockets_by_path(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.by_path()
    }

    /// Returns what is known about a path.
    pub fn socket(&self, path: &Path) -> Option<&Socket> {
        self.sockets.at(path)
    }

    /// Returns every socket that exists and its path, in unspecified order.
    pub fn desired(&self) -> impl Iterator<Item = (&Arc<Path>, &Desired)> {
        let sockets = self.sockets();
        sockets.filter_map(|socket| Some((socket.path(), socket.desired()?)))
    }

    /// Returns every plugin that a handler knows, in unspecified order.
    pub fn registered(&self) -> impl Iterator<Item = &Registered> {
        self.sockets().filter_map(Socket::registered)
    }

    /// Returns the registered plugins of a type and name, oldest first. The last one is the one to
    /// use.
    pub fn instances(&self, kind: &str, name: &str) -> impl Iterator<Item = &Arc<Plugin>> {
        let instances = self.names.instances(kind, name);
        instances.iter().map(|instance| &instance.plugin)
    }

    /// Assigns plugins of these types to `handler`, instead of to an earlier handler. Plugins that
    /// were refused are tried again at once. Registered plugins of these types are deregistered by
    /// the handler that registered them, and then registered with the new one. A handler that no
    /// type is assigned to any more is dropped when its last plugin, effect and debt is gone.
    pub fn add_handler<T: Into<String>>(
        &mut self,
        types: impl IntoIterator<Item = T>,
        handler: impl PluginHandler + 'static,
        now: Time,
    ) -> HandlerId {
        self.change_handlers(|table| table.add(types, handler), now)
    }

    /// Changes which handlers plugins are assigned to. What follows for them is the same as in
    /// [`Manager::add_handler`]: plugins that were refused are tried again, and registered plugins
    /// are deregistered whose type has another handler now, or none. No other plugin is touched.
    pub fn change_handlers<T>(
        &mut self,
        change: impl FnOnce(&mut HandlerTable) -> T,
        now: Time,
    ) -> T {
        let changed = change(self.host.handlers_mut());
        self.handlers_changed(now);
        changed
    }

    fn handlers_changed(&mut self, now: Time) {
        self.host.find_replaced();
        self.replace_handlers();
        self.handle_input(Input::Reconsider, now);
    }

    /// Returns a number that changes whenever the state that a restart needs has changed.
    pub fn revision(&self) -> u64 {
        // Both numbers only grow.
        self.context.revision + self.host.owed_revision()
    }

    /// Returns whether a handler is assigned to plugins of that type by name. False for a type that
    /// is accepted, refused or ignored as an unknown one.
    pub fn has_handler_for(&self, kind: &str) -> bool {
        self.host.handlers().is_assigned(kind)
    }

    /// Returns the types that a handler is assigned to by name, sorted.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.host.handlers().types()
    }

    /// Returns the number of connections to plugins that are dialled or open.
    pub fn connections(&self) -> usize {
        self.context.connections.open()
    }

    /// Returns the name of the state of the operation on the socket at `path`, if one runs.
    pub fn operation(&self, path: &Path) -> Option<&'static str> {
        self.socket(path)?.operation()
    }

    /// Returns whether no operation runs.
    pub fn is_idle(&self) -> bool {
        self.sockets.iter().all(|socket| socket.active.is_none())
    }

    /// Returns whether [`Input::Stop`] has been carried out completely.
    pub fn is_stopped(&self) -> bool {
        self.context.policy.is_stopping && self.is_idle()
    }

    /// Returns every entry of kubelet's gauge `plugin_manager_total_plugins`; each has the value 1.
    pub fn total_plugins(&self) -> impl Iterator<Item = (&Path, World)> {
        let actual = self.sockets().filter(|socket| socket.registered.is_some());
        let desired = self.sockets().filter(|socket| socket.desired.is_some());
        let actual = actual.map(|socket| (&*socket.path, World::Actual));
        actual.chain(desired.map(|socket| (&*socket.path, World::Desired)))
    }
}
