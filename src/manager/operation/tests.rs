//! A table of what every event does in every state.

use std::fmt::Write as _;

use prost::Message as _;

use super::*;
use crate::grpc::CallError;
use crate::handler::Reason;
use crate::proto::pluginregistration::PluginInfo;

/// A time after every deadline of an operation that started at zero.
const LATE: Time = Time::from_millis(1_000_000);

fn socket() -> Arc<Path> {
    Path::new("/r/a-reg.sock").into()
}

fn info() -> PluginInfo {
    PluginInfo {
        r#type: "CSIPlugin".into(),
        name: "a".into(),
        ..PluginInfo::default()
    }
}

fn plugin() -> Arc<Plugin> {
    Arc::new(Plugin::from_info(info(), socket()).expect("it has a name"))
}

fn no() -> Refusal {
    Refusal::Validation(Reason::new("no"))
}

fn retry() -> DialRetry {
    DialRetry {
        give_up: Time::ZERO + DIAL_TIMEOUT,
        pause: DIAL_RETRY.first,
        retries_refused: true,
    }
}

fn states() -> Vec<State> {
    let plugin = plugin();
    let asked = Asked::new(plugin.clone(), Time::ZERO);
    let budget = Budget {
        until: Time::from_millis(5000),
        may_redial: true,
    };
    vec![
        State::Dialing(retry(), Goal::Register),
        State::AwaitingListener(retry(), Goal::Register, Time::from_millis(10)),
        State::AskingInfo(Goal::Register),
        State::AskingInfo(Goal::RegisterAgain(plugin.clone())),
        State::AskingInfo(Goal::Check(plugin.clone())),
        State::AwaitingLock(plugin.clone(), Purpose::Register),
        State::AskingInfo(Goal::Observe),
        State::AwaitingLock(plugin.clone(), Purpose::Observe),
        State::Observing(asked.clone()),
        State::AwaitingLock(plugin.clone(), Purpose::Deregister),
        State::Validating(asked.clone()),
        State::Registering(asked.clone()),
        State::Notifying(Notification::Registered(plugin.clone()), budget),
        State::Notifying(Notification::Refused(no()), budget),
        State::Redialing(Notification::Registered(plugin), budget),
        State::Redialing(Notification::Refused(no()), budget),
        State::Deregistering(asked.clone(), Then::Refuse(no())),
        State::Deregistering(asked, Then::Report),
    ]
}

fn events() -> Vec<(&'static str, Event, Time)> {
    let failed = CallError::DeadlineExceeded;
    let unsent = CallError::Refused { again: true };
    vec![
        ("Connected", Event::Connected, Time::ZERO),
        (
            "DialFailed(Refused)",
            Event::DialFailed(DialError::Refused),
            Time::ZERO,
        ),
        (
            "DialFailed(Denied)",
            Event::DialFailed(DialError::Denied),
            Time::ZERO,
        ),
        (
            "Replied(info)",
            Event::Replied(Ok(info().encode_to_vec())),
            Time::ZERO,
        ),
        ("Replied(empty)", Event::Replied(Ok(Vec::new())), Time::ZERO),
        (
            "Replied(garbage)",
            Event::Replied(Ok(vec![0xff])),
            Time::ZERO,
        ),
        ("Replied(error)", Event::Replied(Err(failed)), Time::ZERO),
        ("Replied(unsent)", Event::Replied(Err(unsent)), Time::ZERO),
        ("LockAcquired", Event::LockAcquired, Time::ZERO),
        ("Answered(yes)", Event::Answered(Ok(())), Time::ZERO),
        ("Answered(no)", Event::Answered(Err(no())), Time::ZERO),
        (
            "Answered(ignore)",
            Event::Answered(Err(Refusal::Ignored("Toaster".into()))),
            Time::ZERO,
        ),
        ("Timeout, early", Event::Timeout, Time::ZERO),
        ("Timeout", Event::Timeout, LATE),
        ("Cancelled", Event::Cancelled, Time::ZERO),
    ]
}

fn name(state: &State) -> String {
    let detail = match state {
        State::AskingInfo(Goal::RegisterAgain(_)) => "(RegisterAgain)",
        State::AskingInfo(Goal::Check(_)) => "(Check)",
        State::AskingInfo(Goal::Observe) => "(Observe)",
        State::AwaitingLock(_, Purpose::Observe) => "(Observe)",
        State::AwaitingLock(_, Purpose::Register) => "(Register)",
        State::AwaitingLock(_, Purpose::Deregister) => "(Deregister)",
        State::Notifying(notification, _) | State::Redialing(notification, _) => match notification
        {
            Notification::Registered(_) => "(Registered)",
            Notification::Refused(_) => "(Refused)",
        },
        State::Deregistering(_, Then::Refuse(_)) => "(Refuse)",
        _ => "",
    };
    format!("{}{detail}", state.name())
}

fn show_command(command: &Command) -> String {
    match command {
        Command::Notify(result, _) => format!("Notify({})", result.is_ok()),
        Command::AcquireLock(_) => "AcquireLock".into(),
        Command::ReportNotConnected { .. } => "ReportNotConnected".into(),
        Command::ReportNotUndone(..) => "ReportNotUndone".into(),
        Command::Ask(question, _) => format!("Ask({question:?})"),
        Command::Abandon(_) => "Abandon".into(),
        Command::EnterActual(_) => "EnterActual".into(),
        other => format!("{other:?}"),
    }
}

fn show_step(step: &Step, commands: &[Command]) -> String {
    let next = match step {
        Step::Ignores(..) => return "ignored".into(),
        Step::Goes(operation) => name(&operation.state),
        Step::Ends(Outcome::Registered(_)) => "ended: Registered".into(),
        Step::Ends(Outcome::Observed(found)) => format!("ended: Observed({})", found.is_ok()),
        Step::Ends(Outcome::Alive(_)) => "ended: Alive".into(),
        Step::Ends(Outcome::Changed(_)) => "ended: Changed".into(),
        Step::Ends(Outcome::Deregistered(..)) => "ended: Deregistered".into(),
        Step::Ends(Outcome::Failed(failure)) => {
            let failure = format!("{failure:?}");
            let kind = failure
                .split(['(', ' '])
                .next()
                .unwrap_or_default()
                .to_owned();
            format!("ended: Failed({kind})")
        }
        Step::Ends(Outcome::Cancelled) => "ended: Cancelled".into(),
    };
    let commands: Vec<_> = commands.iter().map(show_command).collect();
    format!("{next} [{}]", commands.join(", "))
}

#[test]
fn every_state_meets_every_event() {
    let mut table = String::new();
    for state in states() {
        writeln!(table, "{}", name(&state)).expect("a string takes it");
        for (event_name, event, now) in events() {
            let operation = Operation {
                socket: socket(),
                state: state.clone(),
            };
            let mut commands = Vec::new();
            let step = operation.handle(event, now, &mut commands);
            let step = show_step(&step, &commands);
            if step != "ignored" {
                writeln!(table, "    {event_name} -> {step}").expect("a string takes it");
            }
        }
    }
    assert_eq!(table, TABLE, "the table is now:\n{table}");
}

/// The transitions. An event that is not listed is ignored, as it is about something that the
/// operation has given up.
const TABLE: &str = "\
Dialing
    Connected -> AskingInfo [GetInfo]
    DialFailed(Refused) -> AwaitingListener [ReportNotConnected]
    DialFailed(Denied) -> ended: Failed(Dial) [Hangup]
    Timeout -> ended: Failed(Dial) [Hangup]
    Cancelled -> ended: Cancelled [Hangup]
AwaitingListener
    Timeout -> Dialing [Dial]
    Cancelled -> ended: Cancelled [Hangup]
AskingInfo
    Replied(info) -> AwaitingLock(Register) [AcquireLock]
    Replied(empty) -> AwaitingLock(Register) [AcquireLock]
    Replied(garbage) -> ended: Failed(UndecodableInfo) [Hangup]
    Replied(error) -> ended: Failed(GetInfo) [Hangup]
    Replied(unsent) -> ended: Failed(GetInfo) [Hangup]
    Cancelled -> ended: Cancelled [Hangup]
AskingInfo(RegisterAgain)
    Replied(info) -> AwaitingLock(Register) [AcquireLock]
    Replied(empty) -> ended: Changed [Hangup]
    Replied(garbage) -> ended: Failed(UndecodableInfo) [Hangup]
    Replied(error) -> ended: Failed(GetInfo) [Hangup]
    Replied(unsent) -> ended: Failed(GetInfo) [Hangup]
    Cancelled -> ended: Cancelled [Hangup]
AskingInfo(Check)
    Replied(info) -> ended: Alive [MonitorLiveness]
    Replied(empty) -> ended: Changed [Hangup]
    Replied(garbage) -> ended: Failed(UndecodableInfo) [Hangup]
    Replied(error) -> ended: Failed(GetInfo) [Hangup]
    Replied(unsent) -> ended: Failed(GetInfo) [Hangup]
    Cancelled -> ended: Cancelled [Hangup]
AwaitingLock(Register)
    LockAcquired -> Validating [Ask(Validate)]
    Cancelled -> ended: Cancelled [Hangup]
AskingInfo(Observe)
    Replied(info) -> AwaitingLock(Observe) [Hangup, AcquireLock]
    Replied(empty) -> AwaitingLock(Observe) [Hangup, AcquireLock]
    Replied(garbage) -> ended: Failed(UndecodableInfo) [Hangup]
    Replied(error) -> ended: Failed(GetInfo) [Hangup]
    Replied(unsent) -> ended: Failed(GetInfo) [Hangup]
    Cancelled -> ended: Cancelled [Hangup]
AwaitingLock(Observe)
    LockAcquired -> Observing [Ask(Validate)]
    Cancelled -> ended: Cancelled [Hangup]
Observing
    Answered(yes) -> ended: Observed(true) []
    Answered(no) -> ended: Observed(false) []
    Answered(ignore) -> ended: Observed(false) []
    Timeout -> ended: Observed(false) [Abandon]
    Cancelled -> ended: Cancelled [Abandon, Hangup]
AwaitingLock(Deregister)
    LockAcquired -> Deregistering [Ask(Deregister)]
    Cancelled -> AwaitingLock(Deregister) []
Validating
    Answered(yes) -> Registering [EnterActual, Ask(Register)]
    Answered(no) -> Notifying(Refused) [Notify(false)]
    Answered(ignore) -> ended: Failed(Refused) [Hangup]
    Timeout -> Notifying(Refused) [Abandon, Notify(false)]
    Cancelled -> ended: Cancelled [Abandon, Hangup]
Registering
    Answered(yes) -> Notifying(Registered) [Notify(true)]
    Answered(no) -> Notifying(Refused) [LeaveActual, Notify(false)]
    Answered(ignore) -> ended: Failed(Refused) [LeaveActual, Hangup]
    Timeout -> Deregistering(Refuse) [Abandon, LeaveActual, Ask(Deregister)]
    Cancelled -> Deregistering [Abandon, Hangup, LeaveActual, Ask(Deregister)]
Notifying(Registered)
    Replied(info) -> ended: Registered [MonitorLiveness]
    Replied(empty) -> ended: Registered [MonitorLiveness]
    Replied(garbage) -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
    Replied(error) -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
    Replied(unsent) -> Redialing(Registered) [Hangup, Dial]
    Cancelled -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
Notifying(Refused)
    Replied(info) -> ended: Failed(Refused) [Hangup]
    Replied(empty) -> ended: Failed(Refused) [Hangup]
    Replied(garbage) -> ended: Failed(Refused) [Hangup]
    Replied(error) -> ended: Failed(Refused) [Hangup]
    Replied(unsent) -> Redialing(Refused) [Hangup, Dial]
    Cancelled -> ended: Cancelled [Hangup]
Redialing(Registered)
    Connected -> Notifying(Registered) [Notify(true)]
    DialFailed(Refused) -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
    DialFailed(Denied) -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
    Timeout -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
    Cancelled -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
Redialing(Refused)
    Connected -> Notifying(Refused) [Notify(false)]
    DialFailed(Refused) -> ended: Failed(Refused) [Hangup]
    DialFailed(Denied) -> ended: Failed(Refused) [Hangup]
    Timeout -> ended: Failed(Refused) [Hangup]
    Cancelled -> ended: Cancelled [Hangup]
Deregistering(Refuse)
    Answered(yes) -> Notifying(Refused) [Notify(false)]
    Answered(no) -> Notifying(Refused) [ReportNotUndone, Notify(false)]
    Answered(ignore) -> Notifying(Refused) [ReportNotUndone, Notify(false)]
    Timeout -> Notifying(Refused) [Abandon, ReportNotUndone, Notify(false)]
    Cancelled -> Deregistering [Hangup]
Deregistering
    Answered(yes) -> ended: Deregistered []
    Answered(no) -> ended: Deregistered []
    Answered(ignore) -> ended: Deregistered []
    Timeout -> ended: Deregistered [Abandon]
    Cancelled -> Deregistering []
";

#[test]
fn a_new_socket_is_dialled_with_doubling_pauses_until_the_dial_timeout() {
    let mut commands = Vec::new();
    let mut operation = Operation::register(socket(), true, Time::ZERO, &mut commands);
    let mut now = Time::ZERO;
    let (mut pauses, mut reports) = (Vec::new(), Vec::new());
    loop {
        let refused = Event::DialFailed(DialError::Refused);
        assert_eq!(commands, [Command::Dial]);
        commands.clear();
        let Step::Goes(waiting) = operation.handle(refused, now, &mut commands) else {
            break;
        };
        reports.append(&mut commands);
        let until = waiting.deadline().expect("it waits for a moment");
        pauses.push(until.saturating_since(now).as_micros());
        now = until;
        let Step::Goes(dialing) = waiting.handle(Event::Timeout, now, &mut commands) else {
            panic!("it dials again")
        };
        operation = dialing;
    }
    assert_eq!(pauses[..5], [5, 10, 20, 40, 80]);
    assert_eq!(pauses[17..20], [655_360, 1_000_000, 1_000_000]);
    assert!(now > Time::from_millis(9000) && now < Time::ZERO + DIAL_TIMEOUT);
    let is_first = |report: &Command| matches!(report, Command::ReportNotConnected { is_first, .. } if *is_first);
    let reports: Vec<_> = reports.iter().map(is_first).collect();
    assert_eq!(reports, [true, false], "at once, and when it lasts");
}

/// Returns the step after a failed dial of a socket that has failed before.
fn dialled_in_vain(error: DialError) -> Step {
    let mut commands = Vec::new();
    let operation = Operation::register(socket(), false, Time::ZERO, &mut commands);
    operation.handle(Event::DialFailed(error), Time::ZERO, &mut commands)
}

#[test]
fn a_socket_that_has_failed_before_is_dialled_once() {
    let step = dialled_in_vain(DialError::Refused);
    assert!(matches!(
        step,
        Step::Ends(Outcome::Failed(Failure::Dial(DialError::Refused)))
    ));
}

#[test]
fn a_full_backlog_is_waited_out_even_on_a_socket_that_has_failed_before() {
    let step = dialled_in_vain(DialError::Busy);
    assert!(matches!(step, Step::Goes(_)));
}
