//! Carries out the commands of operations: the one place where they meet connections, handlers and
//! states.
//!
//! Pure. All events pass through one queue, so nothing is re-entered: a handler that answers at
//! once is treated like one that answers later.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

use super::deadlines::Kept;
use super::effects::HandlerWork;
use super::failure::Refusal;
use super::links::{LinkId, Owner};
use super::operation::{Command, Event, Operation, Question, Step};
use super::reconcile::Target;
use super::shortage::Waiting;
use super::verdict::find_handler;
use super::{Manager, Output, Wake};
use crate::config::{GET_INFO_TIMEOUT, MAX_GET_INFO_REPLY, MAX_NOTIFY_REPLY, READY_GRACE};
use crate::escape;
use crate::grpc::CallError;
use crate::handler::{Answer, DialError, EndpointUse, HandlerId, Plugin, Reason, Ticket};
use crate::proto::pluginregistration::{InfoRequest, RegistrationStatus, registration};
use crate::time::Time;
use crate::watch::Identity;

/// One run of an operation. Never reused, so late events of an earlier run are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId(pub(super) u64);

/// An operation that runs, and its attempt.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) operation: Operation,
    pub(super) attempt: Attempt,
    /// The deadline of the operation, as the index knows it.
    pub(super) deadline: Kept,
}

/// The purpose of one run of an operation, and what it holds.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    /// The number of attempts to register this socket's plugin, this one included; 0 if the
    /// operation does not register.
    number: u32,
    pub(super) path: Arc<Path>,
    pub(super) target: Target,
    /// The socket that the operation is about.
    pub(super) identity: Identity,
    /// The plugin behind the socket, once it has described itself.
    pub(super) plugin: Option<Arc<Plugin>>,
    link: Option<LinkId>,
    /// The question that a handler has not answered yet.
    question: Option<(Ticket, Question)>,
    /// The plugin that took over when this one left the actual state.
    pub(super) promoted: Option<Arc<Plugin>>,
}

impl Attempt {
    /// Returns the connection of the attempt, which belongs to the caller from now on.
    pub(super) fn take_link(&mut self) -> Option<LinkId> {
        self.link.take()
    }
}

/// Shows the socket, escaped, and the number of the attempt to register its plugin, if it has one:
/// `/r/a.sock: attempt 3`.
impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = escape::path(&self.path);
        match self.number {
            0 => path.fmt(f),
            number => write!(f, "{path}: attempt {number}"),
        }
    }
}

/// Work to do before the manager is at rest.
#[derive(Debug)]
pub(super) enum Work {
    /// An event for the operation of that attempt.
    Operation(AttemptId, Event),
    /// Work for or with a handler.
    Handler(HandlerWork),
}

impl Manager {
    /// Queues an event for the operation of that attempt. It is dropped if the operation has ended.
    pub(super) fn push_event(&mut self, attempt: AttemptId, event: Event) {
        self.work.push_back(Work::Operation(attempt, event));
    }

    /// Starts an operation after carrying out its first commands. `number` counts the attempts to
    /// register the socket's plugin; it is 0 if the operation does not register.
    pub(super) fn start(
        &mut self,
        path: Arc<Path>,
        operation: Operation,
        target: Target,
        identity: Identity,
        number: u32,
        now: Time,
    ) {
        self.last_attempt += 1;
        let id = AttemptId(self.last_attempt);
        self.operations.begin(path.clone(), id);
        let attempt = Attempt {
            id,
            number,
            path,
            target,
            identity,
            plugin: None,
            link: None,
            question: None,
            promoted: None,
        };
        self.places.change(id, false, operation.holds_place(), now);
        let running = Running {
            operation,
            attempt,
            deadline: Kept::default(),
        };
        self.go_on(Box::new(running), now);
    }

    /// Queues a timeout for the operation of that attempt, whose deadline is due.
    pub(super) fn operation_timeout(&mut self, id: AttemptId) {
        if let Some(running) = self.operations.get_mut(id) {
            running.deadline = Kept::default();
            self.push_event(id, Event::Timeout);
        }
    }

    /// Passes an event to the operation of that attempt, unless the operation has ended.
    pub(super) fn step(&mut self, id: AttemptId, event: Event, now: Time) {
        let Some(mut running) = self.operations.take_out(id) else {
            return;
        };
        let held_place = running.operation.holds_place();
        let held_turn = running.operation.plugin().cloned();
        match running.operation.handle(event, now, &mut self.commands) {
            Step::Goes(operation) => {
                let holds_place = operation.holds_place();
                self.places.change(id, held_place, holds_place, now);
                if operation.plugin().is_none() {
                    self.leave_turn(held_turn, id);
                }
                running.operation = operation;
                self.go_on(running, now);
            }
            Step::Ends(outcome) => {
                let (mut attempt, mut kept) = (running.attempt, running.deadline);
                self.places.change(id, held_place, false, now);
                self.leave_turn(held_turn, id);
                self.deadlines
                    .set_kept(Wake::Operation(id), &mut kept, None);
                self.execute(&mut attempt, now);
                self.operations.end(&attempt);
                self.ended(attempt, outcome, now);
            }
            Step::Ignores(operation, unexpected) => {
                running.operation = operation;
                log::debug!("{}: {unexpected}", running.attempt);
                self.go_on(running, now);
            }
        }
    }

    fn go_on(&mut self, mut running: Box<Running>, now: Time) {
        let id = running.attempt.id;
        self.execute(&mut running.attempt, now);
        if !self.is_addressed(id) {
            let deadline = running.operation.deadline();
            self.deadlines
                .set_kept(Wake::Operation(id), &mut running.deadline, deadline);
        }
        self.operations.put_back(running);
    }

    /// Returns whether an event for that attempt is queued: its operation needs no deadline until
    /// then.
    fn is_addressed(&self, id: AttemptId) -> bool {
        let mut work = self.work.iter().rev();
        work.any(|work| matches!(work, Work::Operation(to, _) if *to == id))
    }

    fn leave_turn(&mut self, plugin: Option<Arc<Plugin>>, id: AttemptId) {
        let next = plugin.and_then(|plugin| self.turns.leave(&plugin, id));
        if let Some(next) = next {
            self.push_event(next, Event::TurnCame);
        }
    }

    /// Carries out the commands of an operation.
    fn execute(&mut self, attempt: &mut Attempt, now: Time) {
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            log_command(attempt, &command);
            match command {
                Command::Dial => self.dial(attempt, now),
                Command::CheckEndpoint(plugin, until) => {
                    self.check_endpoint(attempt, &plugin, until);
                }
                Command::GetInfo => self.get_info(attempt, now),
                Command::Notify(result, until) => self.notify(attempt, result, until, now),
                Command::Hangup => self.hangup(attempt, now),
                Command::Guard => self.guard(attempt, now),
                Command::TakeTurn(plugin) => self.take_turn(attempt, plugin),
                Command::Ask(question, plugin) => self.ask(attempt, question, &plugin, now),
                Command::Abandon(plugin) => self.abandon(attempt, &plugin, now),
                Command::EnterActual(plugin) => {
                    self.supersede(&plugin);
                    // The path is not empty: it was in the desired state.
                    let _ = self.actual.add(plugin, attempt.identity);
                }
                Command::LeaveActual => self.leave_actual(attempt, now),
            }
        }
        self.commands = commands;
    }

    fn leave_actual(&mut self, attempt: &mut Attempt, now: Time) {
        let Some(left) = self.actual.remove(&attempt.path) else {
            return;
        };
        self.unguard(&left, now);
        self.keep_predecessor(&left);
        let removed = self.instances.remove(&left.plugin);
        attempt.promoted = removed.promoted;
        for path in removed.unblocked {
            self.retry_now(path);
        }
    }

    fn dial(&mut self, attempt: &mut Attempt, now: Time) {
        if self.room_for_operations() == 0 || !self.make_room(now) {
            self.warn_of_shortage(Waiting::Plugins, now);
            let refused = Event::DialFailed(DialError::NoDescriptors);
            return self.push_event(attempt.id, refused);
        }
        let link = self.links.add(Owner::Operation(attempt.id), None);
        attempt.link = Some(link);
        let identity = Some(attempt.identity);
        self.outputs.push_back(Output::Dial {
            link,
            path: self.place(&attempt.path, attempt.identity),
            identity,
        });
    }

    /// Dials a plugin's endpoint at the path that the plugin reported, if its handler uses the
    /// endpoint.
    fn check_endpoint(&mut self, attempt: &mut Attempt, plugin: &Plugin, until: Time) {
        if self.handlers.endpoint_use(&plugin.kind) == EndpointUse::None {
            return self.push_event(attempt.id, Event::EndpointChecked(Ok(())));
        }
        let link = self.links.add(Owner::Endpoint(attempt.id), None);
        attempt.link = Some(link);
        self.set_link_deadline(link, until);
        self.outputs.push_back(Output::Dial {
            link,
            path: self.endpoint_place(&plugin.endpoint),
            identity: None,
        });
    }

    fn get_info(&mut self, attempt: &Attempt, now: Time) {
        let request = InfoRequest {}.encode_to_vec();
        let deadline = now + GET_INFO_TIMEOUT;
        self.call(
            attempt,
            registration::GET_INFO,
            &request,
            MAX_GET_INFO_REPLY,
            deadline,
            now,
        );
    }

    fn notify(
        &mut self,
        attempt: &Attempt,
        result: Result<(), Refusal>,
        deadline: Time,
        now: Time,
    ) {
        let refusal = result.as_ref().err();
        if refusal.is_some_and(|refusal| self.is_known(attempt, refusal)) {
            let as_if_told = Event::Replied(Ok(Vec::new()));
            return self.push_event(attempt.id, as_if_told);
        }
        let status = RegistrationStatus {
            plugin_registered: result.is_ok(),
            error: result
                .err()
                .and_then(|why| why.status_error(&attempt.path))
                .unwrap_or_default(),
        };
        let method = registration::NOTIFY_REGISTRATION_STATUS;
        let request = status.encode_to_vec();
        self.call(attempt, method, &request, MAX_NOTIFY_REPLY, deadline, now);
    }

    /// Returns whether the same plugin was refused for the same reason before, and so is not
    /// notified again.
    fn is_known(&self, attempt: &Attempt, refusal: &Refusal) -> bool {
        let socket = self.desired.get(&attempt.path);
        let socket = socket.filter(|socket| socket.identity == attempt.identity);
        let told = socket.and_then(|socket| socket.told.as_deref());
        refusal.is_told_once()
            && told.is_some_and(|told| {
                told.refusal == *refusal && Some(&told.plugin) == attempt.plugin.as_ref()
            })
    }

    fn call(
        &mut self,
        attempt: &Attempt,
        method: &str,
        request: &[u8],
        max_reply: usize,
        deadline: Time,
        now: Time,
    ) {
        let client = attempt
            .link
            .and_then(|link| Some((link, self.links.client(link)?)));
        if let Some((link, client)) = client {
            client.unary(method, request, max_reply, deadline, now);
            self.pump(link, now);
        } else {
            let lost = Event::Replied(Err(CallError::Cancelled));
            self.push_event(attempt.id, lost);
        }
    }

    fn hangup(&mut self, attempt: &mut Attempt, now: Time) {
        if let Some(link) = attempt.take_link() {
            self.drop_link(link, now);
        }
    }

    fn take_turn(&mut self, attempt: &mut Attempt, plugin: Arc<Plugin>) {
        if self.turns.take(&plugin, attempt.id) {
            self.push_event(attempt.id, Event::TurnCame);
        }
        attempt.plugin = Some(plugin);
    }

    /// Asks the handler of a plugin. "The handler is looked up by the exact type"
    /// ([R12](crate::guide::kubelet)), again for each question, because a handler may have gone
    /// since the last one.
    fn ask(&mut self, attempt: &mut Attempt, question: Question, plugin: &Arc<Plugin>, now: Time) {
        // A plugin that was validated is not checked again.
        let found = match question {
            Question::Validate => find_handler(&self.handlers, plugin),
            Question::Register | Question::Deregister => {
                let handler = self.handlers.find(&plugin.kind);
                handler.ok_or_else(|| Refusal::without_handler(plugin.kind.clone(), &self.handlers))
            }
        };
        let handler = match found {
            Ok(handler) => handler,
            Err(refusal) => {
                let answer = Event::Answered(Err(refusal));
                return self.push_event(attempt.id, answer);
            }
        };
        let (mut is_known, mut ready_by) = (false, None);
        if question == Question::Register {
            if let Some(refusal) = self.endpoint_taken(handler, plugin) {
                let answer = Event::Answered(Err(refusal));
                return self.push_event(attempt.id, answer);
            }
            if let Some(socket) = self.desired.get(&attempt.path) {
                // Exactly this plugin was registered through the socket before a restart.
                is_known = socket.known.as_ref() == Some(plugin);
                ready_by = Some(socket.found + READY_GRACE);
            }
        }
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let answer = self.with_handler(handler, Some(ticket), now, |handler, context| {
            context.set_known(is_known);
            context.set_ready_by(ready_by);
            match question {
                Question::Validate => handler.validate(plugin, context),
                Question::Register => handler.register(plugin, context),
                Question::Deregister => handler.deregister(plugin, context),
            }
        });
        match answer {
            Answer::Done(result) => {
                let asker = (&attempt.path, attempt.id);
                self.take_answer(asker, question, plugin, result);
            }
            Answer::Pending => {
                attempt.question = Some((ticket, question));
                self.watch_question(attempt.id, Some(now));
                self.tickets.insert(ticket, attempt.id);
            }
        }
    }

    /// Returns the refusal of a plugin whose endpoint another plugin has: "An endpoint of a DRA
    /// driver is registered once" ([R32](crate::guide::kubelet)). The handler decides for which
    /// types. The first plugin keeps the endpoint for as long as it is up; then the refused one is
    /// retried.
    fn endpoint_taken(&mut self, handler: HandlerId, plugin: &Plugin) -> Option<Refusal> {
        let holder = {
            let mut holders = self.instances.holders_of_endpoint(plugin);
            holders.find(|socket| self.is_up(socket)).cloned()?
        };
        let reason = self.handlers.get_mut(handler).endpoint_taken(plugin)?;
        self.instances.block(plugin.socket.clone(), holder.clone());
        Some(Refusal::EndpointTaken { holder, reason })
    }

    /// Returns whether the plugin behind that socket is registered and not known to be down.
    pub(super) fn is_up(&self, socket: &Path) -> bool {
        let health = self.actual.get(socket).map(|registered| &registered.health);
        health.is_some_and(|it| it.down_since.is_none() && !it.is_condemned)
    }

    /// Accepts the answer to a pending question, or drops it if the operation does not wait any
    /// more.
    pub(super) fn answered(&mut self, ticket: Ticket, result: Result<(), Reason>) {
        let asker = self.tickets.remove(&ticket);
        let Some(running) = asker.and_then(|id| self.operations.get_mut(id)) else {
            return;
        };
        let asked = running.attempt.question.take_if(|(it, _)| *it == ticket);
        if let (Some((_, question)), Some(plugin)) = (asked, running.operation.plugin().cloned()) {
            let (path, id) = (running.attempt.path.clone(), running.attempt.id);
            self.watch_question(id, None);
            self.take_answer((&path, id), question, &plugin, result);
        }
    }

    /// Passes a handler's answer to the operation that asked.
    fn take_answer(
        &mut self,
        (path, attempt): (&Arc<Path>, AttemptId),
        question: Question,
        plugin: &Plugin,
        result: Result<(), Reason>,
    ) {
        if question == Question::Validate && result.is_err() {
            self.retry_after_current(path, plugin);
        }
        let result = result.map_err(|reason| question.refusal(reason));
        self.push_event(attempt, Event::Answered(result));
    }

    /// Has a refused plugin retried when the plugin that is registered under its name goes, because
    /// that may be why the handler refused it, as for CSI drivers.
    fn retry_after_current(&mut self, path: &Arc<Path>, plugin: &Plugin) {
        let current = self.instances.current(&plugin.kind, &plugin.name);
        if let Some(holder) = current.map(|current| current.socket.clone()) {
            self.instances.block(path.clone(), holder);
        }
    }

    fn abandon(&mut self, attempt: &mut Attempt, plugin: &Plugin, now: Time) {
        let Some((ticket, _)) = attempt.question.take() else {
            return;
        };
        self.tickets.remove(&ticket);
        self.watch_question(attempt.id, None);
        if let Some(handler) = self.handlers.find(&plugin.kind) {
            self.with_handler(handler, None, now, |handler, context| {
                handler.abandon(ticket, context);
            });
        }
    }
}

impl Question {
    /// Returns the refusal for a handler's rejection. Plugins are not notified of a failed
    /// deregistration.
    fn refusal(self, reason: Reason) -> Refusal {
        match self {
            Self::Validate => Refusal::Validation(reason),
            Self::Register | Self::Deregister => Refusal::Registration(reason),
        }
    }
}

/// Logs a command whose effect a plugin or its handler sees.
fn log_command(attempt: &Attempt, command: &Command) {
    match command {
        Command::Dial => log::debug!("{attempt}: connecting"),
        Command::GetInfo => log::debug!("{attempt}: calling GetInfo"),
        Command::TakeTurn(plugin) if attempt.target != Target::Gone => log::debug!(
            "{attempt}: the plugin is {plugin}; endpoint={} versions={}",
            escape::path(&plugin.endpoint),
            escape::text(&plugin.versions.join(","))
        ),
        Command::Ask(question, plugin) => {
            log::debug!("{attempt}: asking the handler to {question} {plugin}");
        }
        Command::Notify(result, _) => log::debug!(
            "{attempt}: calling NotifyRegistrationStatus; plugin_registered={}",
            result.is_ok()
        ),
        _ => {}
    }
}
