//! The events of the plugin manager, about sockets and their plugins, directories, or the daemon,
//! and those that are kept for readers.
//!
//! The newest events are kept, as many as [`KEPT_EVENTS`] permits, and of each socket or directory
//! as many as [`KEPT_EVENTS_OF_ONE`] permits, so that a plugin that flaps does not displace the
//! events of others. An event that repeats a kept one replaces it and increments its count, as in
//! Kubernetes. The newest [`KEPT_SECURITY_EVENTS`] events about security are not displaced by
//! events of other sockets. Events are kept as values and become text when they are read.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;

use crate::config::{KEPT_EVENTS, KEPT_EVENTS_OF_ONE, KEPT_SECURITY_EVENTS};
use crate::handler::Plugin;
use crate::manager::{Generation, PluginEvent};
use crate::octets::PathKey;
use crate::time::Time;
use crate::watch::Report;

/// An event of the plugin manager, which was already logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An event of a socket or its plugin, or of the daemon.
    Plugin(Arc<PluginEvent>),
    /// A watched directory, or one below it, has a problem, or its problem is solved.
    Directory(Box<Report>),
}

impl Event {
    /// Returns the path of the registration socket, if the event is about one.
    pub fn socket(&self) -> Option<&Arc<Path>> {
        match self {
            Self::Plugin(event) => event.socket.as_ref(),
            Self::Directory(_) => None,
        }
    }

    /// Returns the path of the socket or directory; `None` if the event is about the daemon.
    pub fn subject(&self) -> Option<&Arc<Path>> {
        match self {
            Self::Plugin(event) => event.socket.as_ref(),
            Self::Directory(report) => Some(report.dir()),
        }
    }

    /// Returns whether the event is about security, so that other events must not displace it.
    pub(super) fn is_security(&self) -> bool {
        matches!(self, Self::Plugin(event) if event.is_security())
    }

    /// Returns the plugin, if it is known.
    pub fn plugin(&self) -> Option<&Arc<Plugin>> {
        match self {
            Self::Plugin(event) => event.plugin.as_ref(),
            Self::Directory(_) => None,
        }
    }

    /// Returns the reason in CamelCase, as in Kubernetes events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Plugin(event) => event.reason(),
            Self::Directory(report) => report.reason(),
        }
    }

    /// Returns whether the type of the event is `Warning`; otherwise it is `Normal`.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::Plugin(event) => event.is_warning(),
            Self::Directory(report) => report.is_warning(),
        }
    }

    /// Returns whether `other` is a repetition of this event.
    pub fn is_repeated_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plugin(event), Self::Plugin(again)) => event.is_repeated_by(again),
            (Self::Directory(report), Self::Directory(again)) => report == again,
            _ => false,
        }
    }

    /// Returns the event as one sentence, without its subject.
    pub fn message(&self) -> String {
        match self {
            Self::Plugin(event) => event.message().to_string(),
            Self::Directory(report) => report.message(),
        }
    }

    /// Returns the event as text with everything that is known about it.
    pub fn detail(&self) -> String {
        match self {
            Self::Plugin(event) => event.detail(),
            Self::Directory(report) => report.to_string(),
        }
    }
}

/// Shows the event as a line of the log.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin(event) => event.fmt(f),
            Self::Directory(report) => report.fmt(f),
        }
    }
}

/// An event that is kept, with the number and the times of its occurrences.
#[derive(Clone, Debug)]
pub struct KeptEvent {
    /// The generation of the last occurrence.
    pub generation: Generation,
    /// The last occurrence.
    pub event: Event,
    /// The number of occurrences.
    pub count: u32,
    /// The time of the first occurrence.
    pub first: Time,
    /// The time of the last occurrence.
    pub last: Time,
    /// The memory that the event takes, approximately (octets).
    len: usize,
}

/// The events that are kept.
#[derive(Debug, Default)]
pub struct EventLog {
    /// Sorted by generation.
    events: VecDeque<KeptEvent>,
    /// The generations of the events by subject: a socket, a directory, or the daemon (`None`).
    subjects: HashMap<Option<PathKey>, SmallVec<[Generation; 2]>>,
    /// The memory that the events take, approximately (octets).
    len: usize,
    /// The newest event that was dropped: its generation, and the time of its last occurrence.
    dropped: (Generation, Time),
}

impl EventLog {
    /// Adds an event that happened at `now`, and drops older ones beyond the limits. An event may
    /// be added after events with higher generations.
    pub fn add(&mut self, generation: Generation, mut event: Event, now: Time) {
        let mut len = len_of(&event);
        if len > KEPT_EVENTS_OF_ONE.octets {
            remove_versions(&mut event);
            len = len_of(&event);
        }
        let Self {
            events, subjects, ..
        } = self;
        let find = |generation: &Generation| Some(&events[index_of(events, *generation)?]);
        let of_subject = subjects.entry(subject(&event)).or_default();
        let kept = of_subject.iter().map(find);
        let mut sum: usize = kept.clone().flatten().map(|it| it.len).sum();
        let mut repeated = kept.clone();
        let repeated =
            repeated.position(|it| matches!(it, Some(it) if it.event.is_repeated_by(&event)));
        let repeated = repeated.map(|at| of_subject.remove(at));
        let mut excess = Vec::new();
        let is_limited = repeated.is_none() && event.subject().is_some();
        while is_limited
            && !of_subject.is_empty()
            && KEPT_EVENTS_OF_ONE.is_exceeded_by(of_subject.len() + 1, sum + len)
        {
            let is_security = |it: &Generation| find(it).is_some_and(|it| it.event.is_security());
            let other = of_subject.iter().position(|it| !is_security(it));
            let oldest = of_subject.remove(other.unwrap_or(0));
            sum -= find(&oldest).map_or(0, |it| it.len);
            excess.push(oldest);
        }
        let place = of_subject.partition_point(|it| *it < generation);
        of_subject.insert(place, generation);
        let before = repeated.and_then(|it| self.remove(it));
        let (count, first) = before.map_or((1, now), |before| {
            (before.count.saturating_add(1), before.first)
        });
        for oldest in excess {
            self.drop_event(oldest);
        }
        let kept = KeptEvent {
            generation,
            event,
            count,
            first,
            last: now,
            len,
        };
        self.len += len;
        let at = self.index_after(generation);
        // For one event more than are kept, the list would double.
        self.events
            .reserve_exact(usize::from(self.events.len() == KEPT_EVENTS.count));
        self.events.insert(at, kept);
        while KEPT_EVENTS.is_exceeded_by(self.events.len(), self.len) {
            self.drop_oldest();
        }
    }

    /// Returns the events after a generation, oldest first.
    pub fn after(&self, generation: Generation) -> impl Iterator<Item = &KeptEvent> {
        self.events.range(self.index_after(generation)..)
    }

    /// Returns the index of the first event after a generation.
    fn index_after(&self, generation: Generation) -> usize {
        match self.events.back() {
            // Most events are added at the end, and most readers have seen all of them.
            Some(newest) if newest.generation <= generation => self.events.len(),
            _ => self
                .events
                .partition_point(|it| it.generation <= generation),
        }
    }

    /// Returns the generation of the newest event that was dropped, and the time of its last
    /// occurrence, if events after the given generation were dropped.
    pub fn newest_dropped_after(&self, generation: Generation) -> Option<(Generation, Time)> {
        (generation < self.dropped.0).then_some(self.dropped)
    }

    /// Returns the number of events.
    pub fn count(&self) -> usize {
        self.events.len()
    }

    /// Drops the oldest event that is not about security, if it is among the
    /// [`KEPT_SECURITY_EVENTS`] oldest ones, else the oldest of all.
    fn drop_oldest(&mut self) {
        let mut oldest = self.events.iter().take(KEPT_SECURITY_EVENTS);
        let other = oldest.find(|it| !it.event.is_security());
        let Some(oldest) = other.or_else(|| self.events.front()) else {
            return;
        };
        let generation = oldest.generation;
        if let Entry::Occupied(mut of_subject) = self.subjects.entry(subject(&oldest.event)) {
            of_subject.get_mut().retain(|it| *it != generation);
            if of_subject.get().is_empty() {
                of_subject.remove();
            }
        }
        self.drop_event(generation);
    }

    fn drop_event(&mut self, generation: Generation) {
        if let Some(dropped) = self.remove(generation) {
            self.dropped = self.dropped.max((dropped.generation, dropped.last));
        }
    }

    fn remove(&mut self, generation: Generation) -> Option<KeptEvent> {
        let at = index_of(&self.events, generation)?;
        let removed = self.events.remove(at)?;
        self.len -= removed.len;
        Some(removed)
    }
}

/// Returns the index of the event of a generation.
fn index_of(events: &VecDeque<KeptEvent>, generation: Generation) -> Option<usize> {
    let place = events.binary_search_by_key(&generation, |it| it.generation);
    place.ok()
}

/// Returns the path that an event is about; `None` if it is about the daemon.
fn subject(event: &Event) -> Option<PathKey> {
    Some(PathKey(event.subject()?.clone()))
}

/// Returns the memory that an event takes, approximately (octets). Memory that is shared with other
/// events counts in full.
fn len_of(event: &Event) -> usize {
    let mut len = size_of::<KeptEvent>() + size_of::<PluginEvent>();
    if let Some(path) = event.subject() {
        len += path.as_os_str().len();
    }
    if let Some(plugin) = event.plugin() {
        len += plugin.kind.len() + plugin.name.len() + plugin.endpoint.as_os_str().len();
        for version in &plugin.versions {
            len += version.len() + size_of::<String>();
        }
    }
    match event {
        // It stores texts, such as the words of a peer. Any other message takes memory only while
        // it is read.
        Event::Plugin(event) if event.has_stored_text() => len + event.message().to_string().len(),
        Event::Plugin(_) | Event::Directory(_) => len,
    }
}

/// Removes the versions of an event's plugin, which can be longer than everything else.
fn remove_versions(event: &mut Event) {
    let Event::Plugin(event) = event else {
        return;
    };
    if let Some(plugin) = &mut Arc::make_mut(event).plugin {
        *plugin = Arc::new(Plugin {
            versions: Vec::new(),
            ..Plugin::clone(plugin)
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::handler::{EventType, Notice};
    use crate::manager::event::EventKind;
    use crate::watch::{Problem, Report};

    fn event(socket: &str, kind: EventKind) -> Event {
        let plugin = Plugin {
            kind: "CSIPlugin".into(),
            name: "a".into(),
            endpoint: Path::new(socket).into(),
            versions: Vec::new(),
            socket: Path::new(socket).into(),
        };
        Event::Plugin(Arc::new(PluginEvent {
            generation: 0,
            socket: Some(plugin.socket.clone()),
            plugin: Some(Arc::new(plugin)),
            attempt: 1,
            kind,
        }))
    }

    const REGISTERED: EventKind = EventKind::Registered {
        took: Duration::ZERO,
    };

    /// Returns the kept events as text: `reason socket xCOUNT`.
    fn event_lines(log: &EventLog) -> Vec<String> {
        let shown = log.after(0).map(|kept| {
            let subject = kept.event.subject().map(|it| it.display().to_string());
            let count = kept.count;
            format!(
                "{} {} x{count}",
                kept.event.reason(),
                subject.unwrap_or_default()
            )
        });
        shown.collect()
    }

    fn warning(n: usize) -> EventKind {
        EventKind::Reported(Box::new(Notice {
            kind: EventType::Warning,
            reason: "Warned",
            message: n.to_string(),
        }))
    }

    #[test]
    fn security_events_are_not_displaced_by_others() {
        let mut log = EventLog::default();
        let taken_over = EventKind::TakenOver {
            uid: 5,
            previous_uid: 0,
            previous_socket: Path::new("/r/before").into(),
        };
        log.add(1, event("/r/taken", taken_over.clone()), Time::ZERO);
        for generation in 2..2000 {
            let of_it = event("/r/taken", warning(generation));
            log.add(generation as u64 * 2, of_it, Time::ZERO);
            let other = event(&format!("/r/{generation}"), REGISTERED);
            log.add(generation as u64 * 2 + 1, other, Time::ZERO);
        }
        assert_eq!(log.count(), KEPT_EVENTS.count);
        assert_eq!(event_lines(&log)[0], "TakenOver /r/taken x1");
        for generation in 5000..5000 + 2 * KEPT_EVENTS.count {
            let socket = format!("/r/{generation}");
            let event = event(&socket, taken_over.clone());
            log.add(generation as u64, event, Time::ZERO);
        }
        assert_eq!(
            log.count(),
            KEPT_EVENTS.count,
            "security events are limited, too"
        );
    }

    #[test]
    fn an_event_that_is_repeated_is_counted_and_becomes_the_newest() {
        let mut log = EventLog::default();
        let at = Time::from_millis;
        for (generation, kind) in [EventKind::Up, EventKind::Promoted, EventKind::Up]
            .into_iter()
            .enumerate()
        {
            let generation = generation as u64 + 1;
            log.add(generation, event("/r/a", kind), at(generation));
        }
        assert_eq!(event_lines(&log), ["Promoted /r/a x1", "Up /r/a x2"]);
        let up = log.after(2).next().expect("the third event");
        assert_eq!((up.generation, up.first, up.last), (3, at(1), at(3)));
        assert!(log.after(3).next().is_none());
        assert_eq!(log.newest_dropped_after(0), None);
    }

    #[test]
    fn events_are_in_the_order_of_their_generations() {
        let mut log = EventLog::default();
        for generation in [1, 5, 2, 3, 6, 4] {
            let event = event(&format!("/r/{generation}"), EventKind::Up);
            log.add(generation, event, Time::ZERO);
        }
        for seen in 0..=6 {
            let after: Vec<_> = log.after(seen).map(|kept| kept.generation).collect();
            assert_eq!(after, (seen + 1..=6).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_socket_that_flaps_does_not_displace_the_events_of_others() {
        let mut log = EventLog::default();
        log.add(1, event("/r/calm", REGISTERED), Time::ZERO);
        for n in 2..10_000 {
            let kind = match n % 3 {
                0 => EventKind::Up,
                _ => warning(n),
            };
            log.add(n as u64, event("/r/flaps", kind), Time::ZERO);
        }
        assert_eq!(log.count(), 1 + KEPT_EVENTS_OF_ONE.count);
        assert_eq!(event_lines(&log)[0], "Registered /r/calm x1");
        assert!(event_lines(&log).contains(&"Up /r/flaps x3333".to_owned()));
        let dropped = log.newest_dropped_after(1);
        assert!(dropped.is_some_and(|(newest, _)| newest < 9_999));
        assert_eq!(log.newest_dropped_after(9_999), None);
    }

    #[test]
    fn the_newest_are_kept_up_to_the_limits_of_number_and_memory() {
        let mut log = EventLog::default();
        for n in 0..10 * KEPT_EVENTS.count {
            log.add(
                n as u64,
                event(&format!("/r/{n}"), EventKind::Up),
                Time::ZERO,
            );
        }
        assert!(!KEPT_EVENTS.is_exceeded_by(log.count(), log.len));
        assert!(log.count() > KEPT_EVENTS.count / 2, "{}", log.count());
        let newest = format!("/r/{}", 10 * KEPT_EVENTS.count - 1);
        assert_eq!(event_lines(&log).pop(), Some(format!("Up {newest} x1")));
    }

    #[test]
    fn events_with_long_texts_are_limited_by_their_length() {
        let mut log = EventLog::default();
        for n in 0..100 {
            let mut long = event("/r/long", warning(n));
            if let Event::Plugin(event) = &mut long {
                let plugin = Arc::make_mut(event).plugin.as_mut().map(Arc::make_mut);
                plugin.expect("the event has a plugin").versions = vec!["v".repeat(256); 64];
            }
            log.add(n as u64, long, Time::ZERO);
            log.add(
                1000 + n as u64,
                event(&format!("/r/{n}"), EventKind::Up),
                Time::ZERO,
            );
        }
        let of_long = event_lines(&log)
            .iter()
            .filter(|it| it.contains("/r/long"))
            .count();
        assert!((1..=KEPT_EVENTS_OF_ONE.count).contains(&of_long));
        assert!(event_lines(&log).iter().any(|it| it == "Up /r/0 x1"));
        let sum: usize = log.events.iter().map(|kept| kept.len).sum();
        assert_eq!(sum, log.len);
    }

    #[test]
    fn the_words_of_an_event_count_as_its_length() {
        let mut log = EventLog::default();
        for (generation, reason) in [(1, "First"), (2, "Second")] {
            let kind = EventKind::Reported(Box::new(Notice {
                kind: EventType::Warning,
                reason,
                message: "x".repeat(KEPT_EVENTS_OF_ONE.octets / 2),
            }));
            log.add(generation, event("/r/a", kind), Time::ZERO);
        }
        assert_eq!(event_lines(&log), ["Second /r/a x1"]);
    }

    #[test]
    fn a_report_about_a_directory_that_is_repeated_is_counted() {
        let mut log = EventLog::default();
        for (generation, problem) in [(1, Problem::TooDeep), (2, Problem::Missing)] {
            let dir: Arc<Path> = Path::new("/r").into();
            let trouble = Report::Trouble { dir, problem };
            for generation in [generation, generation + 2] {
                let event = Event::Directory(Box::new(trouble.clone()));
                log.add(generation, event, Time::ZERO);
            }
        }
        let expected = ["DirectoryLimited /r x2", "DirectoryLost /r x2"];
        assert_eq!(event_lines(&log), expected);
    }

    #[test]
    fn an_event_that_is_longer_than_its_share_is_kept_alone() {
        let mut log = EventLog::default();
        log.add(1, event("/r/calm", REGISTERED), Time::ZERO);
        let long = format!("/r/{}", "x".repeat(KEPT_EVENTS_OF_ONE.octets));
        for (generation, kind) in [(2, EventKind::Up), (3, EventKind::Promoted)] {
            log.add(generation, event(&long, kind), Time::ZERO);
        }
        let kept: Vec<_> = log.after(0).map(|it| it.event.reason()).collect();
        assert_eq!(kept, ["Registered", "Promoted"]);
    }
}
