//! The arrows of the diagram: the state that each leads to, and its commands.
//!
//! Pure.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

use super::messages::{Command, Outcome, Question, Step};
use super::{Asked, Budget, DialRetry, Goal, Notification, Operation, Purpose, State, Then};
use crate::config::{DIAL_RETRY, HANDLER_TIMEOUT, NOTIFY_TIMEOUT};
use crate::grpc::CallError;
use crate::handler::{CallFailure, DialError, Plugin, Reason};
use crate::manager::failure::{Failure, Refusal};
use crate::proto::pluginregistration::{PluginInfo, RegistrationStatusResponse};
use crate::time::Time;

type Reply = Result<Vec<u8>, CallError>;

/// The inputs of a step. Each method takes one step.
pub(super) struct Steps<'a> {
    /// The operation's registration socket.
    pub(super) socket: Arc<Path>,
    /// The time of the step.
    pub(super) now: Time,
    /// The commands to carry out before the next step, in this order.
    pub(super) commands: &'a mut Vec<Command>,
}

impl Steps<'_> {
    fn go(self, state: State) -> Step {
        Step::Goes(Operation {
            socket: self.socket,
            state,
        })
    }

    pub(super) fn fail(self, failure: Failure) -> Step {
        self.commands.push(Command::Hangup);
        Step::Ends(Outcome::Failed(failure))
    }

    /// Reports that a socket cannot be connected to yet: at once, and when that has lasted longer
    /// than a plugin needs that is about to listen.
    fn report_not_connected(&mut self, retry: DialRetry, error: DialError) {
        let is_first = retry.pause == DIAL_RETRY.first;
        let is_dead = (DEAD_SOCKET_PAUSE..DEAD_SOCKET_PAUSE * 2).contains(&retry.pause);
        if is_first || is_dead {
            let retry_for = retry.give_up.saturating_since(self.now);
            self.commands.push(Command::ReportNotConnected {
                error,
                retry_for,
                is_first,
            });
        }
    }

    /// Dials again after a pause if the failure may pass and the budget allows it: nothing listens
    /// yet (ECONNREFUSED), the backlog is full (EAGAIN), or descriptors have run out.
    pub(super) fn dial_failed(mut self, retry: DialRetry, goal: Goal, error: DialError) -> Step {
        let may_pass = match error {
            DialError::Busy | DialError::NoDescriptors => true,
            DialError::Refused => retry.retries_refused,
            // kubelet dials the endpoint for as long, whatever the error.
            DialError::Gone => matches!(goal, Goal::RegisterAnnounced(_)),
            _ => false,
        };
        let until = self.now + retry.pause;
        if !may_pass || retry.give_up <= until {
            return self.fail(Failure::Dial(error));
        }
        self.report_not_connected(retry, error);
        let pause = DIAL_RETRY.after(Some(retry.pause));
        let retry = DialRetry { pause, ..retry };
        self.go(State::AwaitingListener(retry, goal, until))
    }

    pub(super) fn dial_again(self, retry: DialRetry, goal: Goal) -> Step {
        self.commands.push(Command::Dial);
        self.go(State::Dialing(retry, goal))
    }

    /// Asks the plugin for its description, unless it has announced itself.
    pub(super) fn connected(self, goal: Goal) -> Step {
        match goal {
            Goal::RegisterAnnounced(plugin) => self.acquire_lock(plugin, Purpose::Register),
            Goal::CheckAnnounced(plugin) => {
                self.commands.push(Command::MonitorLiveness);
                Step::Ends(Outcome::Alive(plugin))
            }
            goal => {
                self.commands.push(Command::GetInfo);
                self.go(State::AskingInfo(goal))
            }
        }
    }

    /// Continues with the plugin's description. "If GetInfo fails, the plugin is not notified"
    /// ([R11](crate::guide::kubelet)). A plugin that answers may still be refused because of its
    /// answer.
    pub(super) fn info_replied(self, goal: Goal, reply: Reply) -> Step {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return self.fail(Failure::GetInfo(error)),
        };
        let info = match PluginInfo::decode(reply.as_slice()) {
            Ok(info) => info,
            Err(error) => return self.fail(Failure::UndecodableInfo(error.to_string())),
        };
        // Validation checks the description, after the handler lookup.
        let plugin = Plugin::unchecked(info, self.socket.clone());
        match goal {
            Goal::Check(registered) if *registered == plugin => {
                self.commands.push(Command::MonitorLiveness);
                Step::Ends(Outcome::Alive(registered))
            }
            Goal::RegisterAgain(registered) if *registered == plugin => {
                self.acquire_lock(registered, Purpose::Register)
            }
            Goal::Check(registered)
            | Goal::RegisterAgain(registered)
            | Goal::RegisterAnnounced(registered)
            | Goal::CheckAnnounced(registered) => {
                self.commands.push(Command::Hangup);
                Step::Ends(Outcome::Changed(registered))
            }
            Goal::Register => self.acquire_lock(Arc::new(plugin), Purpose::Register),
            Goal::Observe => {
                self.commands.push(Command::Hangup);
                self.acquire_lock(Arc::new(plugin), Purpose::Observe)
            }
        }
    }

    fn acquire_lock(self, plugin: Arc<Plugin>, purpose: Purpose) -> Step {
        self.commands.push(Command::AcquireLock(plugin.clone()));
        self.go(State::AwaitingLock(plugin, purpose))
    }

    /// Asks the handler a question at once, and returns the question with its deadline.
    fn ask(&mut self, question: Question, plugin: Arc<Plugin>) -> Asked {
        self.commands.push(Command::Ask(question, plugin.clone()));
        Asked::new(plugin, self.now)
    }

    pub(super) fn validate_only(mut self, plugin: Arc<Plugin>) -> Step {
        let asked = self.ask(Question::Validate, plugin);
        self.go(State::Observing(asked))
    }

    pub(super) fn observed(found: Result<Arc<Plugin>, Refusal>) -> Step {
        Step::Ends(Outcome::Observed(found))
    }

    pub(super) fn observed_no_answer(self, plugin: Arc<Plugin>) -> Step {
        self.commands.push(Command::Abandon(plugin));
        Self::observed(Err(Refusal::Validation(no_answer())))
    }

    pub(super) fn validate(mut self, plugin: Arc<Plugin>) -> Step {
        let asked = self.ask(Question::Validate, plugin);
        self.go(State::Validating(asked))
    }

    pub(super) fn validation_timed_out(self, plugin: Arc<Plugin>) -> Step {
        self.commands.push(Command::Abandon(plugin));
        self.refuse(Refusal::Validation(no_answer()))
    }

    /// Registers a plugin that was validated. "A plugin enters the actual state before its handler
    /// registers it, so that a removal in between becomes a deregistration"
    /// ([R15](crate::guide::kubelet)).
    pub(super) fn register(mut self, plugin: Arc<Plugin>) -> Step {
        self.commands.push(Command::EnterActual(plugin.clone()));
        let asked = self.ask(Question::Register, plugin);
        self.go(State::Registering(asked))
    }

    pub(super) fn registration_refused(self, refusal: Refusal) -> Step {
        self.commands.push(Command::LeaveActual);
        self.refuse(refusal)
    }

    pub(super) fn registration_timed_out(self, plugin: Arc<Plugin>) -> Step {
        self.commands
            .extend([Command::Abandon(plugin.clone()), Command::LeaveActual]);
        let then = Then::Refuse(Refusal::Registration(no_answer()));
        self.undo(plugin, then)
    }

    pub(super) fn refuse(self, refusal: Refusal) -> Step {
        if !refusal.is_notified() {
            return self.fail(Failure::Refused(refusal));
        }
        self.notify(Notification::Refused(refusal))
    }

    /// Notifies the plugin of the outcome, with kubelet's deadline for that.
    pub(super) fn notify(self, notification: Notification) -> Step {
        let budget = Budget {
            until: self.now + NOTIFY_TIMEOUT,
            may_redial: true,
        };
        self.notify_again(notification, budget)
    }

    pub(super) fn notify_again(self, notification: Notification, budget: Budget) -> Step {
        self.commands.push(notification.command(budget));
        self.go(State::Notifying(notification, budget))
    }

    /// Processes the reply to a notification. A call that never reached the plugin is retried on a
    /// new connection, because the old one may have died while the handler was at work.
    pub(super) fn notified(self, notification: Notification, budget: Budget, reply: Reply) -> Step {
        match reply {
            Ok(reply) => self.reply_received(notification, &reply),
            Err(error) if error.may_retry() && budget.may_redial && self.now < budget.until => {
                let budget = Budget {
                    may_redial: false,
                    ..budget
                };
                self.commands.extend([Command::Hangup, Command::Dial]);
                self.go(State::Redialing(notification, budget))
            }
            Err(error) => self.not_notified(notification, CallFailure::Call(error)),
        }
    }

    fn reply_received(self, notification: Notification, reply: &[u8]) -> Step {
        match (notification, RegistrationStatusResponse::decode(reply)) {
            (Notification::Refused(refusal), _) => self.fail(Failure::Refused(refusal)),
            (Notification::Registered(plugin), Ok(RegistrationStatusResponse {})) => {
                self.commands.push(Command::MonitorLiveness);
                Step::Ends(Outcome::Registered(plugin))
            }
            (Notification::Registered(plugin), Err(error)) => {
                let failure = Failure::UndecodableResponse(error.to_string());
                self.undo_unnotified(plugin, failure)
            }
        }
    }

    /// Ends a notification that failed. A plugin that was refused may well exit because of that, so
    /// the failure stays the refusal.
    pub(super) fn not_notified(self, notification: Notification, error: CallFailure) -> Step {
        match notification {
            Notification::Refused(refusal) => self.fail(Failure::Refused(refusal)),
            Notification::Registered(plugin) => {
                self.undo_unnotified(plugin, Failure::Notify(error))
            }
        }
    }

    /// Undoes a registration: "If a plugin cannot be notified of its registration, it leaves the
    /// actual state, is deregistered, and is tried again with backoff"
    /// ([R17](crate::guide::kubelet)).
    fn undo_unnotified(self, plugin: Arc<Plugin>, failure: Failure) -> Step {
        self.commands
            .extend([Command::Hangup, Command::LeaveActual]);
        self.undo(plugin, Then::Fail(failure))
    }

    /// Deregisters the plugin, and ends the operation then.
    pub(super) fn deregister(self, plugin: Arc<Plugin>) -> Step {
        self.undo(plugin, Then::Report)
    }

    fn undo(mut self, plugin: Arc<Plugin>, then: Then) -> Step {
        let asked = self.ask(Question::Deregister, plugin);
        self.go(State::Deregistering(asked, then))
    }

    pub(super) fn deregistered(
        self,
        plugin: Arc<Plugin>,
        then: Then,
        answer: Result<(), Refusal>,
    ) -> Step {
        if let (Then::Fail(_) | Then::Refuse(_), Err(refusal)) = (&then, &answer) {
            let not_undone = Command::ReportNotUndone(plugin.clone(), refusal.clone());
            self.commands.push(not_undone);
        }
        match then {
            Then::Report => Step::Ends(Outcome::Deregistered(plugin, answer)),
            Then::Fail(failure) => Step::Ends(Outcome::Failed(failure)),
            Then::Refuse(refusal) => self.refuse(refusal),
        }
    }

    pub(super) fn deregistration_timed_out(self, plugin: Arc<Plugin>, then: Then) -> Step {
        self.commands.push(Command::Abandon(plugin.clone()));
        let answer = Err(Refusal::Registration(no_answer()));
        self.deregistered(plugin, then, answer)
    }

    pub(super) fn cancelled(self, state: State) -> Step {
        match state {
            State::Dialing(..)
            | State::AwaitingListener(..)
            | State::AskingInfo(_)
            | State::AwaitingLock(_, Purpose::Register | Purpose::Observe)
            | State::Notifying(Notification::Refused(_), _)
            | State::Redialing(Notification::Refused(_), _) => {
                self.commands.push(Command::Hangup);
                Step::Ends(Outcome::Cancelled)
            }
            State::Validating(asked) | State::Observing(asked) => {
                self.commands
                    .extend([Command::Abandon(asked.plugin), Command::Hangup]);
                Step::Ends(Outcome::Cancelled)
            }
            State::Registering(asked) => {
                let abandon = Command::Abandon(asked.plugin.clone());
                self.commands
                    .extend([abandon, Command::Hangup, Command::LeaveActual]);
                self.deregister(asked.plugin)
            }
            State::Notifying(Notification::Registered(plugin), _)
            | State::Redialing(Notification::Registered(plugin), _) => {
                self.commands
                    .extend([Command::Hangup, Command::LeaveActual]);
                self.deregister(plugin)
            }
            State::Deregistering(asked, Then::Refuse(_)) => {
                self.commands.push(Command::Hangup);
                self.go(State::Deregistering(asked, Then::Report))
            }
            state @ (State::AwaitingLock(..) | State::Deregistering(..)) => self.go(state),
        }
    }
}

impl Notification {
    fn command(&self, budget: Budget) -> Command {
        let result = match self {
            Self::Registered(_) => Ok(()),
            Self::Refused(refusal) => Err(refusal.clone()),
        };
        Command::Notify(result, budget.until)
    }
}

/// The pause between two dials from which a socket without a listener is worth a log line: the
/// pauses before it add up to about as much.
const DEAD_SOCKET_PAUSE: Duration = Duration::from_millis(500);

fn no_answer() -> Reason {
    let limit = HANDLER_TIMEOUT.as_secs();
    Reason::new(format!("no answer from the handler within {limit} s"))
}
