//! The reconcile pass: does everything that follows from an event.
//!
//! Pure. A pass examines the sockets that were touched, first for what must be cancelled or
//! deregistered, then for what may be registered. Passes repeat until nothing is left to do.

use std::path::Path;
use std::sync::Arc;

use log::Level;

use super::desired::Told;
use super::execute::{Attempt, Running, Work};
use super::failure::{EndpointFailure, Failure, Refusal};
use super::operation::{Event, Operation, Outcome};
use super::reconcile::{Action, Target, action};
use super::shortage::Waiting;
use super::{DialError, Manager, Output, Socket, Wake};
use crate::config::{FIRST_MINUTE, Mode, REDIAL_MAX, REDIAL_PATIENCE};
use crate::escape;
use crate::handler::{CallFailure, EndpointUse, Plugin};
use crate::time::Time;

impl Manager {
    /// Does everything that can be done at `now`.
    pub(super) fn settle(&mut self, now: Time) {
        loop {
            while let Some(work) = self.work.pop_front() {
                match work {
                    Work::Operation(attempt, event) => self.step(attempt, event, now),
                    Work::Handler(work) => self.handler_work(work, now),
                }
            }
            if !self.pass(now) {
                break;
            }
        }
        self.check_invariants();
    }

    /// Examines the sockets for which there is a place now, in the order in which they came, and
    /// then every touched socket. Returns whether there were any.
    fn pass(&mut self, now: Time) -> bool {
        let mut paths = self.places.call(self.room_for_operations());
        for path in &paths {
            if let Some(socket) = self.desired.get_mut(path) {
                socket.in_line = None;
            }
        }
        let is_called = !paths.is_empty();
        paths.append(&mut self.touched);
        let is_any = !paths.is_empty();
        paths.retain(|path| match self.action_on(path) {
            Some(Action::Cancel) => {
                self.cancel(path);
                false
            }
            Some(Action::Deregister) => {
                self.start_deregister(path, now);
                false
            }
            Some(Action::Register) => true,
            None => false,
        });
        for path in &paths {
            self.start_register(path, now);
        }
        if is_called {
            self.watch_line(); // The operations that have just started hold the places now.
        }
        is_any
    }

    fn action_on(&self, path: &Path) -> Option<Action> {
        if self.restored.contains(path) {
            return None; // It is not known yet whether its socket exists.
        }
        let registered = self.actual.get(path);
        let is_condemned = registered.is_some_and(|it| it.health.is_condemned);
        let actual = registered.map(|registered| registered.identity);
        let socket = self.desired.get(path).filter(|_| !is_condemned);
        let desired = socket.map(|socket| socket.identity);
        let running = self
            .operations
            .at(path)
            .map(|running| running.attempt.target);
        action(desired, actual, running)
    }

    fn cancel(&mut self, path: &Arc<Path>) {
        if let Some(running) = self.operations.at_mut(path) {
            running.attempt.target = Target::Gone;
            let id = running.attempt.id;
            self.push_event(id, Event::Cancelled);
        }
    }

    fn start_deregister(&mut self, path: &Arc<Path>, now: Time) {
        let Some(registered) = self.actual.get(path) else {
            return;
        };
        let identity = registered.identity;
        let operation = Operation::deregister(registered.plugin.clone(), &mut self.commands);
        self.start(path.clone(), operation, Target::Gone, identity, 0, now);
    }

    /// Starts to register a plugin, unless its socket has to wait for its backoff, its redial or a
    /// place.
    fn start_register(&mut self, path: &Arc<Path>, now: Time) {
        if self.operations.is_any_at(path) {
            return; // It is listed twice: it was touched, and there is a place for it.
        }
        let has_descriptors = self.room_for_operations() > 0;
        let has_room = self.places.is_any_free() && has_descriptors;
        let Some(socket) = self.desired.get_mut(path) else {
            return;
        };
        if self.is_stopping || socket.is_observed(now) {
            return;
        }
        if let Some(until) = socket.backoff.until().filter(|until| now < *until) {
            return self.deadlines.set(Wake::Retry(path.clone()), Some(until));
        }
        if socket.has_refused() {
            let redials = &mut self.redials;
            let at = *socket.redial_at.get_or_insert_with(|| redials.reserve(now));
            if now < at {
                return self.deadlines.set(Wake::Retry(path.clone()), Some(at));
            }
        }
        if !has_room {
            if socket.in_line.is_none() {
                let is_renewed = self.renewals.is_frequent(path, now);
                socket.in_line = Some(self.places.line_up(path.clone(), is_renewed));
            }
            if !has_descriptors {
                self.warn_of_shortage(Waiting::Plugins, now);
            }
            return self.watch_line();
        }
        let identity = socket.identity;
        socket.redial_at = None;
        let is_new = socket.attempts == 0;
        socket.attempts = socket.attempts.saturating_add(1);
        let number = socket.attempts;
        let begin = match self.mode {
            Mode::Register => Operation::register,
            Mode::Observe => Operation::observe,
        };
        let operation = begin(path.clone(), is_new, now, &mut self.commands);
        self.start(
            path.clone(),
            operation,
            Target::Registered(identity),
            identity,
            number,
            now,
        );
    }

    /// Reports to the handler that the plugin was notified of its registration.
    fn announce_registered(&mut self, plugin: &Arc<Plugin>, now: Time) {
        if let Some(handler) = self.handlers.find(&plugin.kind) {
            self.with_handler(handler, None, now, |handler, context| {
                handler.registered(plugin, context);
            });
        }
    }

    /// Reports to the handler which plugin of a name to use now, unless that plugin has gone, too.
    fn announce(&mut self, promoted: Option<Arc<Plugin>>, now: Time) {
        let Some(plugin) = promoted else { return };
        let current = self.instances.current(&plugin.kind, &plugin.name);
        if current != Some(&plugin) {
            return;
        }
        log::info!(
            "{}: {plugin} is the one to use now",
            escape::path(&plugin.socket)
        );
        if let Some(handler) = self.handlers.find(&plugin.kind) {
            self.with_handler(handler, None, now, |handler, context| {
                handler.promoted(&plugin, context);
            });
        }
    }

    /// Records the outcome of an operation, and touches its socket, unless the plugin was
    /// registered and the socket still exists.
    pub(super) fn ended(&mut self, attempt: Attempt, outcome: Outcome, now: Time) {
        let mut is_settled = false;
        match outcome {
            Outcome::Registered(plugin) => {
                log::info!(
                    "{attempt}: registered {plugin} at {}",
                    escape::path(&plugin.endpoint)
                );
                let mut predecessor = None;
                if let Some(socket) = self.socket_of(&attempt) {
                    socket.backoff.succeed();
                    socket.last_failure = None;
                    socket.told = None;
                    socket.known = None;
                    predecessor = socket.predecessor.take();
                    is_settled = true;
                }
                let current = self.instances.add(plugin.clone());
                self.warn_of_takeover(&plugin, current, predecessor);
                self.announce_registered(&plugin, now);
            }
            Outcome::Deregistered(plugin, answer) => log_deregistered(&attempt, &plugin, answer),
            Outcome::Observed(found) => self.observed(&attempt, found, now),
            Outcome::EndpointFailed(plugin, error) => {
                let failure = self.endpoint_failure(&plugin, error);
                self.failed(&attempt, Failure::Endpoint(failure), now);
            }
            Outcome::Alive(plugin) => self.alive(&attempt, &plugin, now),
            Outcome::Changed(plugin) => {
                log::warn!("{attempt}: another plugin answers in the place of {plugin}");
                self.condemn(attempt.path.clone());
            }
            Outcome::Failed(failure) if matches!(attempt.target, Target::Checked(_)) => {
                self.check_failed(&attempt.path, &failure, now);
            }
            Outcome::Cancelled => log::debug!("{attempt}: cancelled"),
            Outcome::Failed(failure) => self.failed(&attempt, failure, now),
        }
        self.announce(attempt.promoted, now);
        if !is_settled {
            self.touch(attempt.path);
        }
    }

    /// Records the outcome of a dry run. The plugin is asked again only if it is refused early,
    /// because it may not be ready yet.
    fn observed(&mut self, attempt: &Attempt, found: Result<Arc<Plugin>, Refusal>, now: Time) {
        let Some(socket) = self.socket_of(attempt) else {
            return;
        };
        if found.is_ok() {
            socket.backoff.succeed();
        } else {
            socket.backoff.fail(now);
        }
        socket.last_failure = None;
        let before = socket.observed.replace(Box::new(found.clone()));
        if before.as_deref() == Some(&found) {
            return;
        }
        match found {
            Ok(plugin) => {
                let endpoint = escape::path(&plugin.endpoint);
                let mut line = format!("would register {plugin} at {endpoint}");
                for what in self.handlers.not_checked(&plugin) {
                    line.extend(["; ", what]);
                }
                log::info!("{attempt}: {line}");
            }
            Err(refusal) => log::info!("{attempt}: would refuse the plugin: {refusal}"),
        }
    }

    /// Returns the failure of a plugin at whose endpoint nothing can be called.
    fn endpoint_failure(&self, plugin: &Plugin, error: CallFailure) -> EndpointFailure {
        EndpointFailure {
            is_registered: self.handlers.endpoint_use(&plugin.kind) != EndpointUse::Registering,
            endpoint: plugin.endpoint.clone(),
            path: self.path_map.find(&plugin.endpoint).into(),
            error,
        }
    }

    /// Returns the socket that an attempt is about, if it still exists.
    fn socket_of(&mut self, attempt: &Attempt) -> Option<&mut Socket> {
        let socket = self.desired.get_mut(&attempt.path)?;
        (socket.identity == attempt.identity).then_some(socket)
    }

    fn failed(&mut self, attempt: &Attempt, failure: Failure, now: Time) {
        self.examine_replaced(&attempt.path, &failure);
        let is_past = self.is_past(&failure);
        let is_refused = failure == Failure::Dial(DialError::Refused);
        let Some(socket) = self.socket_of(attempt) else {
            return;
        };
        if is_past {
            socket.backoff.succeed();
        } else if failure.is_terminal() && socket.found + FIRST_MINUTE <= now {
            socket.backoff.fail_for_good(now);
        } else if is_refused && now < socket.found + REDIAL_PATIENCE {
            socket.backoff.fail_up_to(REDIAL_MAX, now);
        } else {
            socket.backoff.fail(now);
        }
        if let (Failure::Refused(refusal), Some(plugin)) = (&failure, &attempt.plugin) {
            let (plugin, refusal) = (plugin.clone(), refusal.clone());
            socket.told = Some(Box::new(Told { plugin, refusal }));
        }
        // One line per change: the same failure again is not worth an operator's time.
        let is_news = socket.last_failure.as_deref() != Some(&failure);
        let level = match (is_news, failure.is_wanted(), failure.is_overtaken()) {
            (true, true, _) => Level::Info,
            (true, false, false) => Level::Warn,
            _ => Level::Debug,
        };
        let delay = socket.backoff.delay().unwrap_or_default();
        log::log!(level, "{attempt}: {failure}; next try in {delay:?}");
        socket.last_failure = Some(Box::new(failure));
    }

    /// Has the path examined again if another socket exists there than the watch has found: for a
    /// link, or on a file system without birth times, the kernel does not report such a change.
    pub(super) fn examine_replaced(&mut self, path: &Arc<Path>, failure: &Failure) {
        if *failure == Failure::Dial(DialError::Replaced) {
            let socket = self.desired.get(path).map(|socket| socket.identity);
            let path = socket.map_or_else(|| path.clone(), |it| self.place(path, it));
            self.outputs.push_back(Output::Examine { path });
        }
    }

    /// Returns whether the cause of a failure has gone while the plugin was being notified.
    fn is_past(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Refused(Refusal::EndpointTaken { holder, .. }) => !self.is_up(holder),
            _ => false,
        }
    }

    /// Cancels the operations whose end neither a plugin nor a handler would notice.
    pub(super) fn cancel_uncommitted(&mut self) {
        let idle = |running: &Running| !running.operation.is_committed();
        let paths: Vec<_> = self
            .operations
            .iter()
            .filter(|running| idle(running))
            .map(|running| running.attempt.path.clone())
            .collect();
        for path in paths {
            self.cancel(&path);
        }
    }

    /// Drops everything that still runs, because [`STOP_GRACE`](crate::config::STOP_GRACE) is over.
    pub(super) fn stop_at_once(&mut self, now: Time) {
        let links: Vec<_> = self.links.iter().map(|(id, _)| id).collect();
        for link in links {
            self.drop_link(link, now);
        }
        for running in self.operations.take() {
            let Running {
                operation,
                attempt,
                mut deadline,
            } = *running;
            let state = operation.state();
            log::warn!("{attempt}: dropped while {state}, because the daemon stops");
            let held_place = operation.holds_place();
            self.places.change(attempt.id, held_place, false, now);
            let wake = Wake::Operation(attempt.id);
            self.deadlines.set_kept(wake, &mut deadline, None);
        }
        self.work.clear();
    }

    /// Asserts what must hold whenever the manager is at rest.
    fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let holders = self.operations.iter().filter(|running| {
            running.operation.holds_place() && self.places.is_held(running.attempt.id)
        });
        assert_eq!(self.places.held(), holders.count());
        for running in self.operations.iter() {
            let path = &running.attempt.path;
            assert_eq!(
                running.deadline.at(),
                running.operation.deadline(),
                "{path:?}"
            );
            if let Some(plugin) = running.operation.plugin_in_question() {
                let id = running.attempt.id;
                assert!(self.turns.holds(plugin, id), "{plugin}");
            }
        }
        let operations = self.operations.iter();
        let operations = operations.map(|it| (Wake::Operation(it.attempt.id), it.deadline));
        let links = self.links.iter();
        let links = links.map(|(id, link)| (Wake::Link(id), link.deadline));
        let line = (Wake::Line, self.places.deadline());
        let kept = operations.chain(links).chain([line]);
        let kept: Vec<_> = kept.filter(|(_, kept)| kept.at().is_some()).collect();
        assert_eq!(
            self.deadlines.kept(),
            kept.len(),
            "nobody's deadlines are kept"
        );
        for (wake, kept) in kept {
            assert!(self.deadlines.has(&wake, kept));
        }
        assert!(self.operations.is_one_per_socket());
        self.check_aliases();
        assert!(self.work.is_empty() && self.touched.is_empty());
    }
}

/// Logs that a plugin was deregistered, and why its handler did not undo the registration, if so.
fn log_deregistered(attempt: &Attempt, plugin: &Plugin, answer: Result<(), Refusal>) {
    let Err(refusal) = answer else {
        return log::info!("{attempt}: deregistered {plugin}");
    };
    let why = refusal.why_not_undone();
    log::warn!(
        "{attempt}: {plugin} has gone, but what its registration set up was not undone: {why}; \
         endpoint={}",
        escape::path(&plugin.endpoint)
    );
}
