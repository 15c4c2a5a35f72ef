//! Every kind of event: each has a reason, a line of the log, and a count in the metrics. A kind
//! that is added without a row here does not compile, or fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::config::Distrust;
use plugind::handler::{DialError, EventType, Notice, Plugin, Reason};
use plugind::manager::event::{EventKind, Shortage};
use plugind::manager::{Failure, PluginEvent, Refusal};
use plugind::proto::pluginregistration::PluginInfo;

use crate::metrics::Scraped;
use crate::metrics::exposition::Exposition;
use crate::world::World;

/// Returns the number of the kind's row.
fn row(kind: &EventKind) -> usize {
    match kind {
        EventKind::SocketFound => 0,
        EventKind::SocketReplaced => 1,
        EventKind::SocketLost => 2,
        EventKind::SocketMissing => 3,
        EventKind::Registered { .. } => 4,
        EventKind::Deregistered => 5,
        EventKind::NotUndone(_) => 6,
        EventKind::FailureNotUndone(_) => 7,
        EventKind::WouldRegister(_) => 8,
        EventKind::WouldRefuse(_) => 9,
        EventKind::NotConnected { .. } => 10,
        EventKind::AttemptFailed { .. } => 11,
        EventKind::HandlerStalled => 12,
        EventKind::OperationDropped(_) => 13,
        EventKind::Down { .. } => 14,
        EventKind::Up => 15,
        EventKind::PluginChanged => 16,
        EventKind::Promoted => 17,
        EventKind::TakenOver { .. } => 18,
        EventKind::Reported(_) => 19,
        EventKind::DebtDropped => 20,
        EventKind::DescriptorsShort(_) => 21,
        EventKind::Announced => 22,
        EventKind::NotAnnounced => 23,
        EventKind::ConfigReloaded(_) => 24,
        EventKind::ConfigRejected(_) => 25,
        EventKind::Untrusted(_) => 26,
    }
}

const ROWS: usize = 27;

/// Returns an event of each kind, with its reason.
fn all() -> Vec<(EventKind, &'static str)> {
    let refusal = || Refusal::Registration(Reason::new("no"));
    let failure = || Box::new(Failure::Dial(DialError::Refused));
    let path: Arc<Path> = Path::new("/r/other.sock").into();
    let took = Duration::from_millis(1);
    vec![
        (EventKind::SocketFound, "SocketFound"),
        (EventKind::Untrusted(Distrust::Abstract), "Untrusted"),
        (EventKind::SocketReplaced, "SocketReplaced"),
        (EventKind::SocketLost, "SocketLost"),
        (EventKind::SocketMissing, "SocketMissing"),
        (EventKind::Announced, "Announced"),
        (EventKind::NotAnnounced, "NotAnnounced"),
        (EventKind::Registered { took }, "Registered"),
        (EventKind::Deregistered, "Deregistered"),
        (EventKind::NotUndone(refusal()), "DeregistrationFailed"),
        (
            EventKind::FailureNotUndone(refusal()),
            "DeregistrationFailed",
        ),
        (EventKind::WouldRegister(Some("a")), "WouldRegister"),
        (EventKind::WouldRefuse(refusal()), "WouldRefuse"),
        (
            EventKind::NotConnected {
                error: DialError::Refused,
                retry_for: took,
                is_first: true,
            },
            "NotConnected",
        ),
        (
            EventKind::AttemptFailed {
                failure: failure(),
                retry_in: Some(took),
                is_repeated: false,
            },
            "ConnectFailed",
        ),
        (EventKind::HandlerStalled, "HandlerStalled"),
        (
            EventKind::OperationDropped("AskingInfo"),
            "OperationDropped",
        ),
        (
            EventKind::Down {
                process: None,
                failure: failure(),
                grace: None,
            },
            "Down",
        ),
        (EventKind::Up, "Up"),
        (EventKind::PluginChanged, "PluginChanged"),
        (EventKind::Promoted, "Promoted"),
        (
            EventKind::TakenOver {
                uid: 1,
                previous_uid: 2,
                previous_socket: path,
            },
            "TakenOver",
        ),
        (
            EventKind::Reported(Box::new(Notice {
                kind: EventType::Normal,
                reason: "DevicesListed",
                message: "lists its devices".to_owned(),
            })),
            "DevicesListed",
        ),
        (EventKind::DebtDropped, "DebtDropped"),
        (
            EventKind::ConfigReloaded("changed=type".to_owned()),
            "ConfigReloaded",
        ),
        (
            EventKind::ConfigRejected("/a.conf:1: unknown key x".to_owned()),
            "ConfigRejected",
        ),
        (
            EventKind::DescriptorsShort(Shortage::Call),
            "DescriptorsShort",
        ),
    ]
}

fn event(kind: EventKind) -> PluginEvent {
    let info = PluginInfo {
        r#type: "CSIPlugin".into(),
        name: "disk".into(),
        ..PluginInfo::default()
    };
    let socket: Arc<Path> = Path::new("/r/a.sock").into();
    let plugin = Plugin::from_info(info, socket.clone()).expect("it has a name");
    PluginEvent {
        generation: 1,
        socket: Some(socket),
        plugin: Some(Arc::new(plugin)),
        attempt: 1,
        kind,
    }
}

#[test]
fn every_kind_has_a_reason_a_line_and_a_count() {
    let mut missing: BTreeSet<_> = (0..ROWS).collect();
    for (kind, reason) in all() {
        missing.remove(&row(&kind));
        let event = event(kind);
        assert_eq!(event.reason(), reason, "{event}");
        let is_camel_case = reason.starts_with(|c: char| c.is_ascii_uppercase())
            && reason.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(is_camel_case, "{reason}");
        let message = event.message().to_string();
        assert!(!message.is_empty());
        let line = event.to_string();
        assert_eq!(line, format!("/r/a.sock: attempt 1: {message}"));
        let (world, mut scraped) = (World::new(), Scraped::default());
        scraped.record(event, &world.manager);
        let scraped = Exposition::parse(&scraped.text(&world.manager));
        let counted = scraped.get("plugind_events_total", &[("reason", reason)]);
        assert_eq!(counted, Some(1), "{reason}");
    }
    assert_eq!(missing, BTreeSet::new(), "kinds without a row");
}
