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

fn go(socket: Arc<Path>, state: State, commands: Vec<Command>) -> Step {
    Step::Goes(Operation { socket, state }, commands)
}

pub(super) fn fail(failure: Failure) -> Step {
    Step::Ends(Outcome::Failed(failure), vec![Command::Hangup])
}

/// The dial budget goes on while nobody listens (ECONNREFUSED) or the backlog is full (EAGAIN).
pub(super) fn dial_failed(
    socket: Arc<Path>,
    ladder: Ladder,
    goal: Goal,
    error: DialError,
    now: Time,
) -> Step {
    let may_pass = match error {
        DialError::Busy => true,
        DialError::Refused => ladder.is_patient,
        _ => false,
    };
    let until = now + ladder.pause;
    if !may_pass || ladder.give_up <= until {
        return fail(Failure::Dial(error));
    }
    let pause = (ladder.pause * 2).min(LADDER_MAX);
    let ladder = Ladder { pause, ..ladder };
    let state = State::AwaitingListener(ladder, goal, until);
    go(socket, state, Vec::new())
}

pub(super) fn dial_again(socket: Arc<Path>, ladder: Ladder, goal: Goal) -> Step {
    go(socket, State::Dialing(ladder, goal), vec![Command::Dial])
}

pub(super) fn ask_info(socket: Arc<Path>, goal: Goal) -> Step {
    go(socket, State::AskingInfo(goal), vec![Command::GetInfo])
}

/// "GetInfo. Failure: the plugin is not told." What it says of itself may still be refused.
pub(super) fn info_replied(socket: Arc<Path>, goal: Goal, reply: Reply, now: Time) -> Step {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return fail(Failure::GetInfo(error)),
    };
    let info = match PluginInfo::decode(reply.as_slice()) {
        Ok(info) => info,
        Err(error) => return fail(Failure::UndecodableInfo(error.to_string())),
    };
    match (goal, Plugin::from_info(info, socket.clone())) {
        (Goal::Check(known), Ok(plugin)) if *known == plugin => {
            Step::Ends(Outcome::Alive(known), vec![Command::Guard])
        }
        (Goal::Check(known), _) => Step::Ends(Outcome::Changed(known), vec![Command::Hangup]),
        (Goal::Register, Ok(plugin)) => take_turn(socket, Arc::new(plugin)),
        (Goal::Register, Err(invalid)) => refuse(socket, invalid.into(), Vec::new(), now),
        (Goal::Observe, Ok(plugin)) => {
            let plugin = Arc::new(plugin);
            let state = State::AwaitingTurn(plugin.clone(), Purpose::Observe);
            go(
                socket,
                state,
                vec![Command::Hangup, Command::TakeTurn(plugin)],
            )
        }
        (Goal::Observe, Err(invalid)) => observed(Err(invalid.into()), vec![Command::Hangup]),
    }
}

pub(super) fn validate_only(socket: Arc<Path>, plugin: Arc<Plugin>, now: Time) -> Step {
    let commands = vec![Command::Ask(Question::Validate, plugin.clone())];
    go(socket, State::Observing(Asked::new(plugin, now)), commands)
}

pub(super) fn observed(found: Result<Arc<Plugin>, Refusal>, commands: Vec<Command>) -> Step {
    Step::Ends(Outcome::Observed(found), commands)
}

pub(super) fn observed_no_answer(plugin: Arc<Plugin>) -> Step {
    let refusal = Refusal::Validation(no_answer());
    observed(Err(refusal), vec![Command::Abandon(plugin)])
}

fn take_turn(socket: Arc<Path>, plugin: Arc<Plugin>) -> Step {
    let state = State::AwaitingTurn(plugin.clone(), Purpose::Register);
    go(socket, state, vec![Command::TakeTurn(plugin)])
}

pub(super) fn validate(socket: Arc<Path>, plugin: Arc<Plugin>, now: Time) -> Step {
    let commands = vec![Command::Ask(Question::Validate, plugin.clone())];
    go(socket, State::Validating(Asked::new(plugin, now)), commands)
}

pub(super) fn validation_timed_out(socket: Arc<Path>, plugin: Arc<Plugin>, now: Time) -> Step {
    let refusal = Refusal::Validation(no_answer());
    refuse(socket, refusal, vec![Command::Abandon(plugin)], now)
}

/// "The plugin enters the actual state BEFORE the handler's register, so that a removal during it
/// becomes a deregistration."
pub(super) fn register(socket: Arc<Path>, plugin: Arc<Plugin>, now: Time) -> Step {
    let commands = vec![
        Command::EnterActual(plugin.clone()),
        Command::Ask(Question::Register, plugin.clone()),
    ];
    go(
        socket,
        State::Registering(Asked::new(plugin, now)),
        commands,
    )
}

pub(super) fn registration_timed_out(socket: Arc<Path>, plugin: Arc<Plugin>, now: Time) -> Step {
    let commands = vec![Command::Abandon(plugin.clone()), Command::LeaveActual];
    let then = Then::Refuse(Refusal::Registration(no_answer()));
    undo(socket, plugin, then, commands, now)
}

pub(super) fn refuse(
    socket: Arc<Path>,
    refusal: Refusal,
    mut commands: Vec<Command>,
    now: Time,
) -> Step {
    if !refusal.is_told() {
        commands.push(Command::Hangup);
        let outcome = Outcome::Failed(Failure::Refused(refusal));
        return Step::Ends(outcome, commands);
    }
    tell(socket, Verdict::Refused(refusal), commands, now)
}

/// Tells the plugin the outcome, in the time that kubelet takes for it.
pub(super) fn tell(
    socket: Arc<Path>,
    verdict: Verdict,
    mut commands: Vec<Command>,
    now: Time,
) -> Step {
    let budget = Budget {
        until: now + NOTIFY_TIMEOUT,
        may_redial: true,
    };
    commands.push(verdict.notify(budget));
    go(socket, State::Notifying(verdict, budget), commands)
}

pub(super) fn tell_again(socket: Arc<Path>, verdict: Verdict, budget: Budget) -> Step {
    let commands = vec![verdict.notify(budget)];
    go(socket, State::Notifying(verdict, budget), commands)
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
) -> Step {
    match reply {
        Ok(reply) => told(socket, verdict, &reply, now),
        Err(error) if error.may_retry() && budget.may_redial && now < budget.until => {
            let budget = Budget {
                may_redial: false,
                ..budget
            };
            let commands = vec![Command::Hangup, Command::Dial];
            go(socket, State::Redialing(verdict, budget), commands)
        }
        Err(error) => not_notified(socket, verdict, CallFailure::Call(error), now),
    }
}

fn told(socket: Arc<Path>, verdict: Verdict, reply: &[u8], now: Time) -> Step {
    match (verdict, RegistrationStatusResponse::decode(reply)) {
        (Verdict::Refused(refusal), _) => fail(Failure::Refused(refusal)),
        (Verdict::Registered(plugin), Ok(RegistrationStatusResponse {})) => {
            Step::Ends(Outcome::Registered(plugin), vec![Command::Guard])
        }
        (Verdict::Registered(plugin), Err(error)) => {
            let failure = Failure::UndecodableResponse(error.to_string());
            undo_untold(socket, plugin, failure, now)
        }
    }
}

/// A plugin that was refused may well die of the news: that is no further failure.
pub(super) fn not_notified(
    socket: Arc<Path>,
    verdict: Verdict,
    error: CallFailure,
    now: Time,
) -> Step {
    match verdict {
        Verdict::Refused(refusal) => fail(Failure::Refused(refusal)),
        Verdict::Registered(plugin) => undo_untold(socket, plugin, Failure::Notify(error), now),
    }
}

/// "Notify(true). Error: leaves the actual state, Deregister is called, all of it is retried with
/// backoff."
fn undo_untold(socket: Arc<Path>, plugin: Arc<Plugin>, failure: Failure, now: Time) -> Step {
    let commands = vec![Command::Hangup, Command::LeaveActual];
    let then = Then::End(Outcome::Failed(failure));
    undo(socket, plugin, then, commands, now)
}

/// Deregisters because the plugin has gone.
pub(super) fn deregister(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    commands: Vec<Command>,
    now: Time,
) -> Step {
    let then = Then::End(Outcome::Deregistered(plugin.clone()));
    undo(socket, plugin, then, commands, now)
}

fn undo(
    socket: Arc<Path>,
    plugin: Arc<Plugin>,
    then: Then,
    mut commands: Vec<Command>,
    now: Time,
) -> Step {
    commands.push(Command::Ask(Question::Deregister, plugin.clone()));
    let state = State::Deregistering(Asked::new(plugin, now), then);
    go(socket, state, commands)
}

pub(super) fn deregistered(
    socket: Arc<Path>,
    then: Then,
    commands: Vec<Command>,
    now: Time,
) -> Step {
    match then {
        Then::End(outcome) => Step::Ends(outcome, commands),
        Then::Refuse(refusal) => refuse(socket, refusal, commands, now),
    }
}

pub(super) fn cancelled(socket: Arc<Path>, state: State, now: Time) -> Step {
    match state {
        State::Dialing(..)
        | State::AwaitingListener(..)
        | State::AskingInfo(_)
        | State::AwaitingTurn(_, Purpose::Register | Purpose::Observe)
        | State::Notifying(Verdict::Refused(_), _)
        | State::Redialing(Verdict::Refused(_), _) => {
            Step::Ends(Outcome::Cancelled, vec![Command::Hangup])
        }
        State::Validating(asked) | State::Observing(asked) => {
            let commands = vec![Command::Abandon(asked.plugin), Command::Hangup];
            Step::Ends(Outcome::Cancelled, commands)
        }
        State::Registering(asked) => {
            let abandon = Command::Abandon(asked.plugin.clone());
            let commands = vec![abandon, Command::Hangup, Command::LeaveActual];
            deregister(socket, asked.plugin, commands, now)
        }
        State::Notifying(Verdict::Registered(plugin), _)
        | State::Redialing(Verdict::Registered(plugin), _) => {
            let commands = vec![Command::Hangup, Command::LeaveActual];
            deregister(socket, plugin, commands, now)
        }
        State::Deregistering(asked, Then::Refuse(_)) => {
            let then = Then::End(Outcome::Deregistered(asked.plugin.clone()));
            go(
                socket,
                State::Deregistering(asked, then),
                vec![Command::Hangup],
            )
        }
        state @ (State::AwaitingTurn(..) | State::Deregistering(..)) => {
            go(socket, state, Vec::new())
        }
    }
}

fn no_answer() -> Reason {
    let limit = HANDLER_TIMEOUT.as_secs();
    Reason::new(format!("no answer from the handler within {limit} s"))
}
