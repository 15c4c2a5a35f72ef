//! What each arrow of the drawing computes: the state it leads to, and what is to be done.
//!
//! Pure.

use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

use super::messages::{Command, Outcome, Question, Step};
use super::{Asked, Budget, Goal, Ladder, Operation, Purpose, State, Then, Verdict};
use crate::config::{HANDLER_TIMEOUT, LADDER_MAX, NOTIFY_TIMEOUT};
use crate::grpc::CallError;
use crate::handler::{CallFailure, DialError, Plugin, Reason};
use crate::manager::failure::{Failure, Refusal};
use crate::proto::pluginregistration::{PluginInfo, RegistrationStatusResponse};
use crate::time::Time;

type Reply = Result<Vec<u8>, CallError>;

/// What an operation wants done: what a step adds is done after what is there.
type Commands = Vec<Command>;

fn go(socket: Arc<Path>, state: State) -> Step {
    Step::Goes(Operation { socket, state })
}

pub(super) fn fail(failure: Failure, commands: &mut Commands) -> Step {
    commands.push(Command::Hangup);
    Step::Ends(Outcome::Failed(failure))
}

/// The dial budget goes on while nobody listens (ECONNREFUSED) or the backlog is full (EAGAIN).
pub(super) fn dial_failed(
    socket: Arc<Path>,
    ladder: Ladder,
    goal: Goal,
    error: DialError,
    now: Time,
    commands: &mut Commands,
) -> Step {
    let may_pass = match error {
        DialError::Busy => true,
        DialError::Refused => ladder.is_patient,
        _ => false,
    };
    let until = now + ladder.pause;
    if !may_pass || ladder.give_up <= until {
        return fail(Failure::Dial(error), commands);
    }
    let pause = (ladder.pause * 2).min(LADDER_MAX);
    let ladder = Ladder { pause, ..ladder };
    let state = State::AwaitingListener(ladder, goal, until);
    go(socket, state)
}

pub(super) fn dial_again(
    socket: Arc<Path>,
    ladder: Ladder,
    goal: Goal,
    commands: &mut Commands,
) -> Step {
    commands.push(Command::Dial);
    go(socket, State::Dialing(ladder, goal))
}

pub(super) fn ask_info(socket: Arc<Path>, goal: Goal, commands: &mut Commands) -> Step {
    commands.push(Command::GetInfo);
    go(socket, State::AskingInfo(goal))
}

/// "GetInfo. Failure: the plugin is not told." What it says of itself may still be refused.
pub(super) fn info_replied(
    socket: Arc<Path>,
    goal: Goal,
    reply: Reply,
    now: Time,
    commands: &mut Commands,
) -> Step {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return fail(Failure::GetInfo(error), commands),
    };
    let info = match PluginInfo::decode(reply.as_slice()) {
        Ok(info) => info,
        Err(error) => return fail(Failure::UndecodableInfo(error.to_string()), commands),
    };
    match (goal, Plugin::from_info(info, socket.clone())) {
        (Goal::Check(known), Ok(plugin)) if *known == plugin => {
            commands.push(Command::Guard);
            Step::Ends(Outcome::Alive(known))
        }
        (Goal::Check(known), _) => {
            commands.push(Command::Hangup);
            Step::Ends(Outcome::Changed(known))
        }
        (Goal::Register, Ok(plugin)) => {
            take_turn(socket, Arc::new(plugin), Purpose::Register, commands)
        }
        (Goal::Register, Err(invalid)) => refuse(socket, invalid.into(), now, commands),
        (Goal::Observe, Ok(plugin)) => {
            commands.push(Command::Hangup);
            take_turn(socket, Arc::new(plugin), Purpose::Observe, commands)
        }
        (Goal::Observe, Err(invalid)) => {
            commands.push(Command::Hangup);
            observed(Err(invalid.into()))
        }
    }
}

fn take_turn(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    purpose: Purpose,
    commands: &mut Commands,
) -> Step {
    commands.push(Command::TakeTurn(plugin.clone()));
    go(socket, State::AwaitingTurn(plugin, purpose))
}

/// The question, which is asked at once.
fn ask(question: Question, plugin: Arc<Plugin>, now: Time, commands: &mut Commands) -> Asked {
    commands.push(Command::Ask(question, plugin.clone()));
    Asked::new(plugin, now)
}

pub(super) fn validate_only(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    now: Time,
    commands: &mut Commands,
) -> Step {
    let asked = ask(Question::Validate, plugin, now, commands);
    go(socket, State::Observing(asked))
}

pub(super) fn observed(found: Result<Arc<Plugin>, Refusal>) -> Step {
    Step::Ends(Outcome::Observed(found))
}

pub(super) fn observed_no_answer(plugin: Arc<Plugin>, commands: &mut Commands) -> Step {
    commands.push(Command::Abandon(plugin));
    observed(Err(Refusal::Validation(no_answer())))
}

pub(super) fn validate(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    now: Time,
    commands: &mut Commands,
) -> Step {
    let asked = ask(Question::Validate, plugin, now, commands);
    go(socket, State::Validating(asked))
}

pub(super) fn validation_timed_out(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    now: Time,
    commands: &mut Commands,
) -> Step {
    commands.push(Command::Abandon(plugin));
    let refusal = Refusal::Validation(no_answer());
    refuse(socket, refusal, now, commands)
}

/// "The plugin enters the actual state BEFORE the handler's register, so that a removal during it
/// becomes a deregistration."
pub(super) fn register(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    now: Time,
    commands: &mut Commands,
) -> Step {
    commands.push(Command::EnterActual(plugin.clone()));
    let asked = ask(Question::Register, plugin, now, commands);
    go(socket, State::Registering(asked))
}

pub(super) fn registration_refused(
    socket: Arc<Path>,
    refusal: Refusal,
    now: Time,
    commands: &mut Commands,
) -> Step {
    commands.push(Command::LeaveActual);
    refuse(socket, refusal, now, commands)
}

pub(super) fn registration_timed_out(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    now: Time,
    commands: &mut Commands,
) -> Step {
    commands.extend([Command::Abandon(plugin.clone()), Command::LeaveActual]);
    let then = Then::Refuse(Refusal::Registration(no_answer()));
    undo(socket, plugin, then, now, commands)
}

pub(super) fn refuse(
    socket: Arc<Path>,
    refusal: Refusal,
    now: Time,
    commands: &mut Commands,
) -> Step {
    if !refusal.is_told() {
        return fail(Failure::Refused(refusal), commands);
    }
    tell(socket, Verdict::Refused(refusal), now, commands)
}

/// Tells the plugin the outcome, in the time that kubelet takes for it.
pub(super) fn tell(
    socket: Arc<Path>,
    verdict: Verdict,
    now: Time,
    commands: &mut Commands,
) -> Step {
    let budget = Budget {
        until: now + NOTIFY_TIMEOUT,
        may_redial: true,
    };
    tell_again(socket, verdict, budget, commands)
}

pub(super) fn tell_again(
    socket: Arc<Path>,
    verdict: Verdict,
    budget: Budget,
    commands: &mut Commands,
) -> Step {
    commands.push(verdict.notify(budget));
    go(socket, State::Notifying(verdict, budget))
}

impl Verdict {
    fn notify(&self, budget: Budget) -> Command {
        let result = match self {
            Self::Registered(_) => Ok(()),
            Self::Refused(refusal) => Err(refusal.clone()),
        };
        Command::Notify(result, budget.until)
    }
}

/// A call that never reached the plugin is made again on a new connection: the old one may have
/// died while the handler was at work.
pub(super) fn notified(
    socket: Arc<Path>,
    verdict: Verdict,
    budget: Budget,
    reply: Reply,
    now: Time,
    commands: &mut Commands,
) -> Step {
    match reply {
        Ok(reply) => told(socket, verdict, &reply, now, commands),
        Err(error) if error.may_retry() && budget.may_redial && now < budget.until => {
            let budget = Budget {
                may_redial: false,
                ..budget
            };
            commands.extend([Command::Hangup, Command::Dial]);
            go(socket, State::Redialing(verdict, budget))
        }
        Err(error) => not_notified(socket, verdict, CallFailure::Call(error), now, commands),
    }
}

fn told(
    socket: Arc<Path>,
    verdict: Verdict,
    reply: &[u8],
    now: Time,
    commands: &mut Commands,
) -> Step {
    match (verdict, RegistrationStatusResponse::decode(reply)) {
        (Verdict::Refused(refusal), _) => fail(Failure::Refused(refusal), commands),
        (Verdict::Registered(plugin), Ok(RegistrationStatusResponse {})) => {
            commands.push(Command::Guard);
            Step::Ends(Outcome::Registered(plugin))
        }
        (Verdict::Registered(plugin), Err(error)) => {
            let failure = Failure::UndecodableResponse(error.to_string());
            undo_untold(socket, plugin, failure, now, commands)
        }
    }
}

/// A plugin that was refused may well die of the news: that is no further failure.
pub(super) fn not_notified(
    socket: Arc<Path>,
    verdict: Verdict,
    error: CallFailure,
    now: Time,
    commands: &mut Commands,
) -> Step {
    match verdict {
        Verdict::Refused(refusal) => fail(Failure::Refused(refusal), commands),
        Verdict::Registered(plugin) => {
            undo_untold(socket, plugin, Failure::Notify(error), now, commands)
        }
    }
}

/// "Notify(true). Error: leaves the actual state, Deregister is called, all of it is retried with
/// backoff."
fn undo_untold(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    failure: Failure,
    now: Time,
    commands: &mut Commands,
) -> Step {
    commands.extend([Command::Hangup, Command::LeaveActual]);
    let then = Then::End(Outcome::Failed(failure));
    undo(socket, plugin, then, now, commands)
}

/// Deregisters because the plugin has gone.
pub(super) fn deregister(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    now: Time,
    commands: &mut Commands,
) -> Step {
    let then = Then::End(Outcome::Deregistered(plugin.clone()));
    undo(socket, plugin, then, now, commands)
}

fn undo(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    then: Then,
    now: Time,
    commands: &mut Commands,
) -> Step {
    let asked = ask(Question::Deregister, plugin, now, commands);
    go(socket, State::Deregistering(asked, then))
}

pub(super) fn deregistered(
    socket: Arc<Path>,
    then: Then,
    now: Time,
    commands: &mut Commands,
) -> Step {
    match then {
        Then::End(outcome) => Step::Ends(outcome),
        Then::Refuse(refusal) => refuse(socket, refusal, now, commands),
    }
}

pub(super) fn deregistration_timed_out(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    then: Then,
    now: Time,
    commands: &mut Commands,
) -> Step {
    commands.push(Command::Abandon(plugin));
    deregistered(socket, then, now, commands)
}

pub(super) fn cancelled(
    socket: Arc<Path>,
    state: State,
    now: Time,
    commands: &mut Commands,
) -> Step {
    match state {
        State::Dialing(..)
        | State::AwaitingListener(..)
        | State::AskingInfo(_)
        | State::AwaitingTurn(_, Purpose::Register | Purpose::Observe)
        | State::Notifying(Verdict::Refused(_), _)
        | State::Redialing(Verdict::Refused(_), _) => {
            commands.push(Command::Hangup);
            Step::Ends(Outcome::Cancelled)
        }
        State::Validating(asked) | State::Observing(asked) => {
            commands.extend([Command::Abandon(asked.plugin), Command::Hangup]);
            Step::Ends(Outcome::Cancelled)
        }
        State::Registering(asked) => {
            let abandon = Command::Abandon(asked.plugin.clone());
            commands.extend([abandon, Command::Hangup, Command::LeaveActual]);
            deregister(socket, asked.plugin, now, commands)
        }
        State::Notifying(Verdict::Registered(plugin), _)
        | State::Redialing(Verdict::Registered(plugin), _) => {
            commands.extend([Command::Hangup, Command::LeaveActual]);
            deregister(socket, plugin, now, commands)
        }
        State::Deregistering(asked, Then::Refuse(_)) => {
            commands.push(Command::Hangup);
            let then = Then::End(Outcome::Deregistered(asked.plugin.clone()));
            go(socket, State::Deregistering(asked, then))
        }
        state @ (State::AwaitingTurn(..) | State::Deregistering(..)) => go(socket, state),
    }
}

fn no_answer() -> Reason {
    let limit = HANDLER_TIMEOUT.as_secs();
    Reason::new(format!("no answer from the handler within {limit} s"))
}
