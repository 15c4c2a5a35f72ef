//! The transitions in the diagram of [`super`]: the actions of each, and the state that follows.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

use super::{
    Actions, Asked, DialRetry, Goal, Notification, NotifyBudget, Operation, Outcome, Purpose,
    Question, Reply, Step, Then,
};
use crate::config::{DIAL_RETRY, HANDLER_TIMEOUT, Mode, NOTIFY_TIMEOUT};
use crate::handler::{CallFailure, DialError, Plugin, Reason};
use crate::manager::connections::Server;
use crate::manager::event::EventKind;
use crate::manager::failure::{Failure, Refusal};
use crate::proto::pluginregistration::{PluginInfo, RegistrationStatusResponse};

type Answer = Result<(), Refusal>;

/// The steps of an operation: each method is a step, and calls the actions that it needs.
pub(super) struct Steps<'a>(pub(super) &'a mut dyn Actions);

impl Steps<'_> {
    pub(super) fn end_with_failure(self, failure: Failure) -> Step {
        self.0.hang_up();
        Step::Ends(Outcome::Failed(failure))
    }

    pub(super) fn dial(self, retry: DialRetry, goal: Goal) -> Step {
        let endpoint_of = match &goal {
            Goal::RegisterAnnounced(plugin) | Goal::CheckEndpoint(plugin) => Some(&**plugin),
            Goal::Register { .. } | Goal::Observe { .. } | Goal::Check(_) => None,
        };
        match self.0.dial(endpoint_of) {
            Ok(()) => Step::Goes(Operation::Dialing(retry, goal)),
            Err(error) => self.handle_dial_failed(retry, goal, error),
        }
    }

    /// Dials again after a pause if time is left and the failure may be temporary: nothing listens
    /// yet (ECONNREFUSED), the endpoint of an announced plugin does not exist yet, the backlog is
    /// full (EAGAIN), or descriptors have run out. Otherwise ends the operation.
    pub(super) fn handle_dial_failed(
        mut self,
        retry: DialRetry,
        goal: Goal,
        error: DialError,
    ) -> Step {
        let may_pass = match error {
            DialError::Busy | DialError::NoDescriptors => true,
            DialError::Refused => goal.retries_refused(),
            // kubelet dials the endpoint until the same timeout, whatever the error.
            DialError::Gone => matches!(goal, Goal::RegisterAnnounced(_)),
            _ => false,
        };
        let pause = match retry.pause {
            None => self.0.first_dial_pause(),
            before => DIAL_RETRY.next_pause(before),
        };
        let until = self.0.now() + pause;
        if !may_pass || retry.give_up <= until {
            return self.end_with_failure(goal.dial_failure(error));
        }
        self.report_not_connected(retry, pause, error);
        let pause = Some(pause);
        let retry = DialRetry { pause, ..retry };
        Step::Goes(Operation::AwaitingListener(retry, goal, until))
    }

    /// Reports that a socket cannot be connected to yet: after the first dial, and once more when
    /// the retries have lasted longer than a plugin needs to start listening.
    fn report_not_connected(&mut self, retry: DialRetry, pause: Duration, error: DialError) {
        let is_first = retry.pause.is_none();
        let is_dead = (DEAD_SOCKET_PAUSE..DEAD_SOCKET_PAUSE * 2).contains(&pause);
        if is_first || is_dead {
            let retry_for = retry.give_up.saturating_since(self.0.now());
            let kind = EventKind::NotConnected {
                error,
                retry_for,
                is_first,
            };
            self.0.emit_event(kind);
        }
    }

    /// Calls GetInfo, unless the plugin has announced itself or only its endpoint is checked.
    pub(super) fn handle_connected(self, goal: Goal) -> Step {
        match goal {
            Goal::RegisterAnnounced(plugin) => {
                self.acquire_lock(plugin, Purpose::Validate(Mode::Register))
            }
            Goal::CheckEndpoint(plugin) => {
                self.0.monitor_liveness(Server::Endpoint);
                Step::Ends(Outcome::Alive(plugin))
            }
            goal => match self.0.call_get_info() {
                Some(reply) => self.handle_info_reply(goal, reply),
                None => Step::Goes(Operation::AskingInfo(goal)),
            },
        }
    }

    /// Processes the reply to GetInfo. "If GetInfo fails, the plugin is not notified"
    /// ([R11](crate::guide::kubelet)). If it succeeds, the plugin may still be refused because of
    /// its description.
    pub(super) fn handle_info_reply(self, goal: Goal, reply: Reply) -> Step {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return self.end_with_failure(Failure::GetInfo(error)),
        };
        // Most plugins have one version: with room for one, the list is not cut to its length.
        let mut info = PluginInfo {
            supported_versions: Vec::with_capacity(1),
            ..PluginInfo::default()
        };
        if let Err(error) = info.merge(reply.as_slice()) {
            return self.end_with_failure(Failure::UndecodableInfo(error.to_string()));
        }
        // Validation checks the description, after the handler lookup.
        let plugin = Plugin::from_info_unchecked(info, self.0.socket_path());
        match goal {
            Goal::Check(registered) if *registered == plugin => {
                self.0.monitor_liveness(Server::Registration);
                if self.0.is_driver_lost() {
                    return Operation::start_dial(Goal::CheckEndpoint(registered), self.0);
                }
                Step::Ends(Outcome::Alive(registered))
            }
            Goal::Register { known: None, .. } => {
                self.acquire_lock(Arc::new(plugin), Purpose::Validate(Mode::Register))
            }
            Goal::Register {
                known: Some(known), ..
            } if *known == plugin => self.acquire_lock(known, Purpose::Validate(Mode::Register)),
            Goal::Observe { .. } => {
                self.0.hang_up();
                self.acquire_lock(Arc::new(plugin), Purpose::Validate(Mode::Observe))
            }
            Goal::Check(known)
            | Goal::Register {
                known: Some(known), ..
            }
            | Goal::RegisterAnnounced(known)
            | Goal::CheckEndpoint(known) => {
                self.0.hang_up();
                Step::Ends(Outcome::Changed(known))
            }
        }
    }

    pub(super) fn acquire_lock(self, plugin: Arc<Plugin>, purpose: Purpose) -> Step {
        if self.0.acquire_lock(&plugin) {
            self.handle_lock_acquired(plugin, purpose)
        } else {
            Step::Goes(Operation::AwaitingLock(plugin, purpose))
        }
    }

    pub(super) fn handle_lock_acquired(self, plugin: Arc<Plugin>, purpose: Purpose) -> Step {
        match purpose {
            Purpose::Validate(mode) => {
                if let Some(answer) = self.0.ask(Question::Validate, &plugin) {
                    return self.handle_validation(plugin, mode, answer);
                }
                let asked = Asked::new(plugin, self.0.now());
                Step::Goes(Operation::Validating(asked, mode))
            }
            Purpose::Deregister => self.ask_to_deregister(plugin, Then::Report),
        }
    }

    /// Registers the plugin, or refuses it if its validation failed; ends a dry run. "A plugin
    /// enters the actual state before its handler registers it, so that a removal in between
    /// becomes a deregistration" ([R15](crate::guide::kubelet)).
    pub(super) fn handle_validation(self, plugin: Arc<Plugin>, mode: Mode, answer: Answer) -> Step {
        if matches!(mode, Mode::Observe) {
            return Step::Ends(Outcome::Observed(answer.map(|()| plugin)));
        }
        if let Err(refusal) = answer {
            return self.refuse(refusal);
        }
        // mutation: a plugin enters the actual state too late for a removal in between
        self.0.enter_actual(&plugin);
        match self.0.ask(Question::Register, &plugin) {
            Some(answer) => self.handle_registration(plugin, answer),
            None => Step::Goes(Operation::Registering(Asked::new(plugin, self.0.now()))),
        }
    }

    pub(super) fn handle_registration(self, plugin: Arc<Plugin>, answer: Answer) -> Step {
        match answer {
            Ok(()) => self.notify_plugin(Ok(plugin)),
            Err(refusal) => {
                // mutation: a plugin that could not be registered stays in the actual state
                self.0.leave_actual();
                self.refuse(refusal)
            }
        }
    }

    /// Undoes a registration about which the handler has not answered in time.
    pub(super) fn handle_registration_timeout(mut self, plugin: Arc<Plugin>) -> Step {
        let refusal = Refusal::Registration(self.time_out_question(&plugin));
        self.0.leave_actual();
        self.ask_to_deregister(plugin, Then::Refuse(refusal))
    }

    /// Abandons a question whose deadline has passed. Returns the reason for the refusal that takes
    /// the place of the handler's answer.
    pub(super) fn time_out_question(&mut self, plugin: &Arc<Plugin>) -> Reason {
        self.0.abandon_question(plugin);
        let limit = HANDLER_TIMEOUT.as_secs();
        Reason::new(format!("no answer from the handler within {limit} s"))
    }

    fn refuse(self, refusal: Refusal) -> Step {
        match refusal {
            Refusal::Ignored(_) => self.end_with_failure(Failure::Refused(refusal)),
            _ => self.notify_plugin(Err(refusal)),
        }
    }

    /// Notifies the plugin of the outcome, within kubelet's time limit for that.
    fn notify_plugin(self, notification: Notification) -> Step {
        let budget = NotifyBudget {
            until: self.0.now() + NOTIFY_TIMEOUT,
            may_redial: true,
        };
        self.notify_within(notification, budget)
    }

    pub(super) fn notify_within(self, notification: Notification, budget: NotifyBudget) -> Step {
        let refusal = notification.as_ref().err();
        match self.0.notify_plugin(refusal, budget.until) {
            Some(reply) => self.handle_notification_reply(notification, budget, reply),
            None => Step::Goes(Operation::Notifying(notification, budget)),
        }
    }

    /// Processes the reply to a notification. A call that never reached the plugin is retried once,
    /// on a new connection, because the old one may have ended while the handler was at work.
    pub(super) fn handle_notification_reply(
        self,
        notification: Notification,
        budget: NotifyBudget,
        reply: Reply,
    ) -> Step {
        let (error, notification) = match (reply, notification) {
            (Err(error), notification) => (error, notification),
            (Ok(_), Err(refusal)) => {
                self.0.hang_up();
                return Step::Ends(Outcome::Refused(refusal));
            }
            (Ok(reply), Ok(plugin)) => {
                if let Err(error) = RegistrationStatusResponse::decode(&*reply) {
                    let failure = Failure::UndecodableResponse(error.to_string());
                    return self.undo_registration(plugin, Then::Fail(failure));
                }
                self.0.monitor_liveness(Server::Registration);
                return Step::Ends(Outcome::Registered(plugin));
            }
        };
        if !(error.may_retry() && budget.may_redial && self.0.now() < budget.until) {
            return self.handle_notification_failure(notification, CallFailure::Call(error));
        }
        self.0.hang_up();
        let budget = NotifyBudget {
            may_redial: false,
            ..budget
        };
        match self.0.dial(None) {
            Ok(()) => Step::Goes(Operation::Redialing(notification, budget)),
            Err(error) => self.handle_notification_failure(notification, CallFailure::Dial(error)),
        }
    }

    /// Processes a notification that failed. A plugin that was refused may well exit because of the
    /// refusal, so the refusal stays the failure of the operation.
    pub(super) fn handle_notification_failure(
        self,
        notification: Notification,
        error: CallFailure,
    ) -> Step {
        match notification {
            Err(refusal) => self.end_with_failure(Failure::Refused(refusal)),
            Ok(plugin) => self.undo_registration(plugin, Then::Fail(Failure::Notify(error))),
        }
    }

    /// Undoes a registration, because the operation was cancelled or the plugin was not notified:
    /// "If a plugin cannot be notified of its registration, it leaves the actual state, is
    /// deregistered, and is tried again with backoff" ([R17](crate::guide::kubelet)).
    fn undo_registration(self, plugin: Arc<Plugin>, then: Then) -> Step {
        self.0.hang_up();
        self.0.leave_actual();
        self.ask_to_deregister(plugin, then)
    }

    /// Asks the handler to deregister a plugin that has left the actual state.
    fn ask_to_deregister(self, plugin: Arc<Plugin>, then: Then) -> Step {
        match self.0.ask(Question::Deregister, &plugin) {
            Some(answer) => self.handle_deregistration(then, answer),
            None => Step::Goes(Operation::Deregistering(
                Asked::new(plugin, self.0.now()),
                then,
            )),
        }
    }

    pub(super) fn handle_deregistration(self, then: Then, answer: Answer) -> Step {
        match (then, answer) {
            (Then::Report, answer) => Step::Ends(Outcome::Deregistered(answer)),
            (then, Err(refusal)) => {
                self.0.emit_event(EventKind::FailureNotUndone(refusal));
                self.handle_deregistration(then, Ok(()))
            }
            (Then::Fail(failure), Ok(())) => Step::Ends(Outcome::Failed(failure)),
            (Then::Refuse(refusal), Ok(())) => self.refuse(refusal),
        }
    }

    pub(super) fn cancel(self, operation: Operation) -> Step {
        use Operation as O;
        match operation {
            O::Validating(asked, _) => self.0.abandon_question(&asked.plugin),
            O::Registering(asked) => {
                // mutation: a handler is not told that its question is abandoned
                self.0.abandon_question(&asked.plugin);
                return self.undo_registration(asked.plugin, Then::Report);
            }
            O::Notifying(Ok(plugin), _) | O::Redialing(Ok(plugin), _) => {
                return self.undo_registration(plugin, Then::Report);
            }
            O::Deregistering(asked, Then::Refuse(_)) => {
                self.0.hang_up();
                return Step::Goes(O::Deregistering(asked, Then::Report));
            }
            O::AwaitingLock(_, Purpose::Deregister) | O::Deregistering(..) => {
                return Step::Goes(operation);
            }
            O::Dialing(..)
            | O::AwaitingListener(..)
            | O::AskingInfo(_)
            | O::AwaitingLock(..)
            | O::Notifying(Err(_), _)
            | O::Redialing(Err(_), _) => {}
        }
        self.0.hang_up();
        Step::Ends(Outcome::Cancelled)
    }
}

impl Goal {
    /// Returns the failure of an operation with this goal whose dial has failed.
    pub(super) fn dial_failure(&self, error: DialError) -> Failure {
        match self {
            Self::CheckEndpoint(plugin) if plugin.endpoint != plugin.socket => {
                Failure::Driver(plugin.endpoint.clone(), error)
            }
            _ => Failure::Dial(error),
        }
    }

    /// Returns whether to dial again after a refused connection.
    fn retries_refused(&self) -> bool {
        match self {
            Self::Register { is_new, .. } | Self::Observe { is_new } => *is_new,
            Self::RegisterAnnounced(_) => true,
            Self::Check(_) | Self::CheckEndpoint(_) => false,
        }
    }
}

/// The pause between two dials at which a socket without a listener is reported: the pauses before
/// it add up to about as much.
const DEAD_SOCKET_PAUSE: Duration = Duration::from_millis(500);
