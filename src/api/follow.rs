//! Responses that follow changes, and have no end of their own.
//!
//! Such a response is a cursor, and is rendered in pieces as fast as the client reads: a slow
//! reader of a watch gets the latest state of each record.

use serde::Serialize;
use serde_json::json;

use super::json::{EventEntry, RecordEntry};
use super::view::View;
use crate::config::API_FOLLOW_PAUSE;
use crate::escape;
use crate::manager::event::Generation;
use crate::manager::{Change, ChangeCursor, Expired, Record, RecordCursor};
use crate::time::Time;

/// A response that follows changes.
#[derive(Debug)]
pub(super) struct Follower {
    position: Position,
    /// The last generation at which everything was rendered; `None` before that has happened.
    caught_up: Option<Generation>,
    /// The time at which the next changes and events are rendered, if fewer than [`MAX_GATHERED`]
    /// have gathered by then; `None` before the first of them. See [`API_FOLLOW_PAUSE`].
    resumes_at: Option<Time>,
}

/// The position of the next line.
#[derive(Debug)]
enum Position {
    /// In the list of records: the cursor, and the generation at which the list began, after which
    /// the changes begin. `None` before the first record.
    Records(Option<(RecordCursor, Generation)>),
    Changes(ChangeCursor),
    Events(EventCursor),
}

impl Follower {
    /// Returns a watch of the changes after a generation, or of all records and later changes.
    pub(super) fn watch(since: Option<Generation>) -> Self {
        Self::new(match since {
            Some(since) => Position::Changes(ChangeCursor::after(since)),
            None => Position::Records(None),
        })
    }

    /// Returns a follower of the events after a generation.
    pub(super) fn events(since: Option<Generation>) -> Self {
        Self::new(Position::Events(EventCursor::after(since.unwrap_or(0))))
    }

    fn new(position: Position) -> Self {
        Self {
            position,
            caught_up: None,
            resumes_at: None,
        }
    }

    /// Returns the earliest time at which there is anything to render if the manager is at this
    /// generation; `None` if there is nothing to render.
    pub(super) fn next_work_time(&self, generation: Generation) -> Option<Time> {
        let Some(caught_up) = self.caught_up else {
            return Some(Time::ZERO);
        };
        match generation.saturating_sub(caught_up) {
            0 => None,
            1..MAX_GATHERED => Some(self.resumes_at.unwrap_or(Time::ZERO)),
            _ => Some(Time::ZERO),
        }
    }

    /// Appends lines until `out` has this length or nothing is left, or begins a pause in which
    /// further changes gather. Returns whether the response is over.
    pub(super) fn render(&mut self, view: &View<'_>, len: usize, out: &mut Vec<u8>) -> bool {
        let gathered = self.caught_up.map(|it| view.manager.generation() - it);
        if self.resumes_at.is_none() && gathered.is_some_and(|it| it < MAX_GATHERED) {
            self.resumes_at = Some(view.now + API_FOLLOW_PAUSE);
            return false;
        }
        while out.len() < len {
            match &mut self.position {
                Position::Records(position) => {
                    let generation = view.manager.generation();
                    let (cursor, generation) =
                        position.get_or_insert((RecordCursor::default(), generation));
                    if let Some(record) = view.manager.records().next_record(cursor) {
                        write_record("ADDED", &record, view, out);
                        continue;
                    }
                    let generation = *generation;
                    write_change("BOOKMARK", Some(generation), None::<()>, out);
                    self.position = Position::Changes(ChangeCursor::after(generation));
                }
                Position::Changes(cursor) => match view.manager.records().next_change(cursor) {
                    Ok(Some(Change::Set { record, is_new })) => {
                        let event = if is_new { "ADDED" } else { "MODIFIED" };
                        write_record(event, &record, view, out);
                    }
                    Ok(Some(Change::Removed { socket, generation })) => {
                        let record = json!({ "socket": socket.to_string_lossy() });
                        write_change("DELETED", Some(generation), Some(record), out);
                    }
                    Ok(None) => return self.catch_up(view),
                    Err(Expired) => {
                        write_change("EXPIRED", None, None::<()>, out);
                        return true;
                    }
                },
                Position::Events(cursor) => {
                    if cursor.render(view, len, out) {
                        return self.catch_up(view);
                    }
                }
            }
        }
        false
    }

    /// Records that everything was rendered. Returns `false`: the response is not over.
    fn catch_up(&mut self, view: &View<'_>) -> bool {
        self.caught_up = Some(view.manager.generation());
        self.resumes_at = None;
        false
    }
}

/// The position of a reader in the kept events.
#[derive(Debug)]
pub(super) struct EventCursor {
    /// The generation of the last event that was rendered.
    seen: Generation,
    /// The generation of the newest dropped event that was reported to the client.
    dropped: Generation,
}

impl EventCursor {
    /// Returns the cursor of a reader that has seen everything up to a generation.
    pub(super) fn after(generation: Generation) -> Self {
        Self {
            seen: generation,
            dropped: 0,
        }
    }

    /// Appends events until `out` has this length. Returns whether no events are left.
    pub(super) fn render(&mut self, view: &View<'_>, len: usize, out: &mut Vec<u8>) -> bool {
        let known = self.seen.max(self.dropped);
        if let Some((generation, last)) = view.events.newest_dropped_after(known) {
            self.dropped = generation;
            write_line(&EventEntry::dropped(self.seen, last, view), out);
        }
        for event in view.events.after(self.seen) {
            if out.len() >= len {
                return false;
            }
            write_line(&EventEntry::new(event, view), out);
            self.seen = event.generation;
        }
        true
    }
}

fn write_record(event: &'static str, record: &Record<'_>, view: &View<'_>, out: &mut Vec<u8>) {
    let entry = RecordEntry::new(record, view);
    write_change(event, Some(record.generation), Some(entry), out);
}

/// Appends a line of a watch.
fn write_change(
    event: &'static str,
    generation: Option<Generation>,
    record: Option<impl Serialize>,
    out: &mut Vec<u8>,
) {
    #[derive(Serialize)]
    struct Line<R> {
        event: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        generation: Option<Generation>,
        #[serde(skip_serializing_if = "Option::is_none")]
        record: Option<R>,
    }
    let line = Line {
        event,
        generation,
        record,
    };
    write_line(&line, out);
}

fn write_line(line: &impl Serialize, out: &mut Vec<u8>) {
    escape::append_json(line, out);
    out.push(b'\n');
}

/// The number of changes and events that end a pause. It is less than the limits on the removals
/// and events that are kept, which must not be exceeded during a pause.
const MAX_GATHERED: Generation = 64;
