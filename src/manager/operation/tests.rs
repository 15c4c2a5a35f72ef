//! A table of what every event does in every state.

use std::fmt::Write as _;

use prost::Message as _;

use super::*;
use crate::config::DIAL_RETRY;
use crate::handler::Reason;
use crate::proto::pluginregistration::PluginInfo;

/// A time after every deadline of an operation that started at zero.
const LATE: Time = Time::from_millis(1_000_000);

fn socket_path() -> Arc<Path> {
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
    Arc::new(Plugin::from_info(info(), socket_path()).expect("it has a name"))
}

fn refusal() -> Refusal {
    Refusal::Validation(Reason::new("no"))
}

fn dial_retry() -> DialRetry {
    DialRetry {
        give_up: Time::ZERO + DIAL_TIMEOUT,
        pause: None,
    }
}

fn registration_goal(is_new: bool) -> Goal {
    Goal::Register {
        is_new,
        known: None,
    }
}

fn reregistration_goal(known: Arc<Plugin>) -> Goal {
    Goal::Register {
        is_new: true,
        known: Some(known),
    }
}

/// Records the actions. Their results are still pending when they return, unless `is_prompt`: then
/// every lock is free, and every question and call succeeds immediately.
#[derive(Default)]
struct Recorder {
    now: Time,
    calls: Vec<String>,
    is_prompt: bool,
    is_driver_lost: bool,
}

impl Recorder {
    fn record(&mut self, call: impl Into<String>) {
        self.calls.push(call.into());
    }
}

impl Actions for Recorder {
    fn now(&self) -> Time {
        self.now
    }

    fn first_dial_pause(&self) -> Duration {
        DIAL_RETRY.first
    }

    fn socket_path(&self) -> Arc<Path> {
        socket_path()
    }

    fn dial(&mut self, endpoint_of: Option<&Plugin>) -> Result<(), DialError> {
        self.record(endpoint_of.map_or("Dial", |_| "DialEndpoint"));
        Ok(())
    }

    fn call_get_info(&mut self) -> Option<Reply> {
        self.record("GetInfo");
        self.is_prompt.then(|| Ok(info().encode_to_vec()))
    }

    fn notify_plugin(&mut self, refusal: Option<&Refusal>, _: Time) -> Option<Reply> {
        self.record(format!("Notify({})", refusal.is_none()));
        self.is_prompt.then(|| Ok(Vec::new()))
    }

    fn hang_up(&mut self) {
        self.record("Hangup");
    }

    fn monitor_liveness(&mut self, server: Server) {
        self.record(format!("MonitorLiveness({server:?})"));
    }

    fn is_driver_lost(&self) -> bool {
        self.is_driver_lost
    }

    fn acquire_lock(&mut self, _: &Arc<Plugin>) -> bool {
        self.record("AcquireLock");
        self.is_prompt
    }

    fn ask(&mut self, question: Question, _: &Arc<Plugin>) -> Option<Result<(), Refusal>> {
        self.record(format!("Ask({question:?})"));
        self.is_prompt.then_some(Ok(()))
    }

    fn abandon_question(&mut self, _: &Arc<Plugin>) {
        self.record("Abandon");
    }

    fn enter_actual(&mut self, _: &Arc<Plugin>) {
        self.record("EnterActual");
    }

    fn leave_actual(&mut self) {
        self.record("LeaveActual");
    }

    fn emit_event(&mut self, kind: EventKind) {
        self.record(match kind {
            EventKind::NotConnected { is_first, .. } => format!("ReportNotConnected({is_first})"),
            EventKind::FailureNotUndone(_) => "ReportNotUndone".into(),
            other => format!("{other:?}"),
        });
    }
}

fn states() -> Vec<Operation> {
    let plugin = plugin();
    let asked = Asked::new(plugin.clone(), Time::ZERO);
    let budget = NotifyBudget {
        until: Time::from_millis(5000),
        may_redial: true,
    };
    vec![
        Operation::Dialing(dial_retry(), registration_goal(true)),
        Operation::AwaitingListener(dial_retry(), registration_goal(true), Time::from_millis(10)),
        Operation::AskingInfo(registration_goal(true)),
        Operation::AskingInfo(reregistration_goal(plugin.clone())),
        Operation::AskingInfo(Goal::Check(plugin.clone())),
        Operation::AwaitingLock(plugin.clone(), Purpose::Validate(Mode::Register)),
        Operation::AskingInfo(Goal::Observe { is_new: true }),
        Operation::AwaitingLock(plugin.clone(), Purpose::Validate(Mode::Observe)),
        Operation::Validating(asked.clone(), Mode::Observe),
        Operation::AwaitingLock(plugin.clone(), Purpose::Deregister),
        Operation::Validating(asked.clone(), Mode::Register),
        Operation::Registering(asked.clone()),
        Operation::Notifying(Ok(plugin.clone()), budget),
        Operation::Notifying(Err(refusal()), budget),
        Operation::Redialing(Ok(plugin), budget),
        Operation::Redialing(Err(refusal()), budget),
        Operation::Deregistering(asked.clone(), Then::Refuse(refusal())),
        Operation::Deregistering(asked, Then::Report),
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
        ("Answered(no)", Event::Answered(Err(refusal())), Time::ZERO),
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

fn state_name(state: &Operation) -> String {
    let detail = match state {
        Operation::AskingInfo(Goal::Register { known: Some(_), .. }) => "(RegisterAgain)",
        Operation::AskingInfo(Goal::Check(_)) => "(Check)",
        Operation::AskingInfo(Goal::Observe { .. }) => "(Observe)",
        Operation::AwaitingLock(_, Purpose::Validate(Mode::Observe)) => "(Observe)",
        Operation::AwaitingLock(_, Purpose::Validate(Mode::Register)) => "(Register)",
        Operation::AwaitingLock(_, Purpose::Deregister) => "(Deregister)",
        Operation::Notifying(notification, _) | Operation::Redialing(notification, _) => {
            match notification {
                Ok(_) => "(Registered)",
                Err(_) => "(Refused)",
            }
        }
        Operation::Deregistering(_, Then::Refuse(_)) => "(Refuse)",
        _ => "",
    };
    format!("{}{detail}", state.state_name())
}

fn show_step(step: &Step, calls: &[String]) -> String {
    let next = match step {
        Step::Ignores(..) => return "ignored".into(),
        Step::Goes(operation) => state_name(operation),
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
        Step::Ends(Outcome::Refused(_)) => "ended: Refused".into(),
        Step::Ends(Outcome::Cancelled) => "ended: Cancelled".into(),
    };
    format!("{next} [{}]", calls.join(", "))
}

#[test]
fn every_state_meets_every_event() {
    let mut table = String::new();
    for state in states() {
        writeln!(table, "{}", state_name(&state)).expect("writing to a string succeeds");
        for (event_name, event, now) in events() {
            let mut recorder = Recorder {
                now,
                ..Recorder::default()
            };
            let step = state.clone().handle_event(event, &mut recorder);
            if let Step::Ignores(_, name) = &step {
                assert_eq!(event_name.split(['(', ',']).next(), Some(*name));
            }
            let step = show_step(&step, &recorder.calls);
            if step != "ignored" {
                writeln!(table, "    {event_name} -> {step}")
                    .expect("writing to a string succeeds");
            }
        }
    }
    assert_eq!(table, TABLE, "the table is now:\n{table}");
}

/// The transitions. An event that is not listed is ignored: it is early, or about something for
/// which the operation does not wait.
const TABLE: &str = "\
Dialing
    Connected -> AskingInfo [GetInfo]
    DialFailed(Refused) -> AwaitingListener [ReportNotConnected(true)]
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
    Replied(info) -> ended: Alive [MonitorLiveness(Registration)]
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
    Replied(info) -> ended: Registered [MonitorLiveness(Registration)]
    Replied(empty) -> ended: Registered [MonitorLiveness(Registration)]
    Replied(garbage) -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
    Replied(error) -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
    Replied(unsent) -> Redialing(Registered) [Hangup, Dial]
    Cancelled -> Deregistering [Hangup, LeaveActual, Ask(Deregister)]
Notifying(Refused)
    Replied(info) -> ended: Refused [Hangup]
    Replied(empty) -> ended: Refused [Hangup]
    Replied(garbage) -> ended: Refused [Hangup]
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
fn a_plugin_is_registered_in_one_step() {
    let mut recorder = Recorder {
        is_prompt: true,
        ..Recorder::default()
    };
    let Step::Goes(operation) = Operation::start_dial(registration_goal(true), &mut recorder)
    else {
        panic!("it dials")
    };
    let step = operation.handle_event(Event::Connected, &mut recorder);
    assert_eq!(
        show_step(&step, &recorder.calls),
        "ended: Registered [Dial, GetInfo, AcquireLock, Ask(Validate), EnterActual, Ask(Register), \
         Notify(true), MonitorLiveness(Registration)]"
    );
}

#[test]
fn a_check_goes_on_to_the_endpoint_if_the_driver_is_lost() {
    let info = PluginInfo {
        endpoint: "/p/a.sock".into(),
        ..info()
    };
    let plugin = Arc::new(Plugin::from_info(info.clone(), socket_path()).expect("it has a name"));
    let mut recorder = Recorder {
        is_driver_lost: true,
        ..Recorder::default()
    };
    let asking = Operation::AskingInfo(Goal::Check(plugin.clone()));
    let reply = Event::Replied(Ok(info.encode_to_vec()));
    let Step::Goes(dialing) = asking.handle_event(reply, &mut recorder) else {
        panic!("it dials")
    };
    let step = dialing
        .clone()
        .handle_event(Event::Connected, &mut recorder);
    let calls = "MonitorLiveness(Registration), DialEndpoint, MonitorLiveness(Endpoint)";
    assert_eq!(
        show_step(&step, &recorder.calls),
        format!("ended: Alive [{calls}]")
    );
    let step = dialing.handle_event(Event::DialFailed(DialError::Refused), &mut recorder);
    let Step::Ends(Outcome::Failed(failure)) = step else {
        panic!("it fails")
    };
    assert_eq!(
        failure.to_string(),
        "the driver's process at /p/a.sock has ended"
    );
}

#[test]
fn a_second_connection_that_dies_is_not_replaced() {
    let mut recorder = Recorder::default();
    let mut step = Steps(&mut recorder).handle_registration(plugin(), Ok(()));
    let unsent = || Event::Replied(Err(CallError::Refused { again: true }));
    for event in [unsent(), Event::Connected, unsent()] {
        let Step::Goes(operation) = step else {
            panic!("it is redialed once: {step:?}")
        };
        step = operation.handle_event(event, &mut recorder);
    }
    let dials = recorder.calls.iter().filter(|call| *call == "Dial");
    assert_eq!(dials.count(), 1, "{:?}", recorder.calls);
}

#[test]
fn a_new_socket_is_dialed_with_doubling_pauses() {
    let mut recorder = Recorder::default();
    let mut step = Operation::start_dial(registration_goal(true), &mut recorder);
    let mut pauses = Vec::new();
    while let Step::Goes(operation) = step {
        step = match operation {
            Operation::Dialing(..) => {
                let refused = Event::DialFailed(DialError::Refused);
                operation.handle_event(refused, &mut recorder)
            }
            waiting => {
                let until = waiting.deadline().expect("it waits for a moment");
                pauses.push(until.saturating_since(recorder.now).as_micros());
                recorder.now = until;
                waiting.handle_event(Event::Timeout, &mut recorder)
            }
        };
    }
    let now = recorder.now;
    assert_eq!(pauses[..5], [5, 10, 20, 40, 80]);
    assert_eq!(pauses[17..20], [655_360, 1_000_000, 1_000_000]);
    assert!(now > Time::from_millis(9000) && now < Time::ZERO + DIAL_TIMEOUT);
    recorder.calls.retain(|call| call.starts_with("Report"));
    let reports = ["ReportNotConnected(true)", "ReportNotConnected(false)"];
    assert_eq!(recorder.calls, reports, "at first and after 0.5 s");
}

/// Returns the step after a failed dial of a socket that has failed before.
fn step_after_failed_dial(error: DialError) -> Step {
    let mut recorder = Recorder::default();
    let Step::Goes(operation) = Operation::start_dial(registration_goal(false), &mut recorder)
    else {
        panic!("it dials")
    };
    operation.handle_event(Event::DialFailed(error), &mut recorder)
}

#[test]
fn a_socket_that_has_failed_before_is_dialed_once() {
    let step = step_after_failed_dial(DialError::Refused);
    assert!(matches!(
        step,
        Step::Ends(Outcome::Failed(Failure::Dial(DialError::Refused)))
    ));
}

#[test]
fn a_socket_with_a_full_backlog_is_dialed_again_after_a_failure() {
    let step = step_after_failed_dial(DialError::Busy);
    assert!(matches!(step, Step::Goes(_)));
}
