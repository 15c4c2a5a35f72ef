//! Responses in progress: what a client has asked for, and how far the response is.
//!
//! Pure. A response is rendered from the [`View`] of each turn, and continues where the turn before
//! has ended: nothing is rendered for a client that does not read. A list of records and a watch
//! are cursors; a slow reader of a watch gets the latest state of each record.

mod devices;

use self::devices::Devices;
use super::ProcessFacts;
use super::connection::Connection;
use super::json;
use super::metrics::{self, Sources};
use super::response::{ContentType, Response, Status};
use super::route::{Call, Change};
use super::view::View;
use crate::config::{API_FOLLOW_PAUSE, API_TURN, API_TURN_RECORDS};
use crate::json::Writer;
use crate::manager::event::Generation;
use crate::manager::{self, ChangeCursor, Record, RecordCursor, State};
use crate::time::Time;

/// A response in progress.
#[derive(Debug)]
pub(super) enum Answer {
    Plugins(List),
    Devices(Devices),
    Status(Count),
    Events(Events),
    Watch(Watch),
    Metrics(Option<Box<Metrics>>),
    Live,
    Ready,
    /// A change, until the caller takes it, and then nothing until the caller answers.
    Change(Option<Change>),
}

/// What may still be rendered in a turn.
#[derive(Debug)]
pub(super) struct Turn {
    /// The number of clients.
    pub(super) clients: usize,
    octets: usize,
    records: usize,
}

impl Turn {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            clients,
            octets: API_TURN,
            records: API_TURN_RECORDS,
        }
    }

    /// Returns whether nothing more may be rendered.
    pub(super) fn is_over(&self) -> bool {
        self.octets == 0 || self.records == 0
    }

    fn examine(&mut self, records: usize) {
        self.records = self.records.saturating_sub(records);
    }
}

/// The part of a body that is rendered at once.
struct Piece<'a> {
    out: &'a mut Vec<u8>,
    /// The length at which the piece is full.
    end: usize,
    turn: &'a mut Turn,
}

impl Piece<'_> {
    fn is_full(&self) -> bool {
        self.out.len() >= self.end || self.turn.records == 0
    }

    fn json(&mut self) -> Writer<'_> {
        Writer(self.out)
    }

    fn record(&mut self, record: &Record<'_>, view: &View<'_>) {
        let records = json::record(&mut self.json(), record, view);
        self.turn.examine(records);
    }
}

impl Answer {
    /// Returns the response to a call, of which nothing is rendered yet.
    pub(super) fn new(call: Call) -> Self {
        match call {
            Call::Plugins { kind, name, state } => Self::Plugins(List {
                kind,
                name,
                state,
                cursor: RecordCursor::default(),
                place: Place::Before,
            }),
            Call::Devices { name } => Self::Devices(Devices::new(name)),
            Call::Status => Self::Status(Count::default()),
            Call::Events { since, follow } => Self::Events(Events {
                seen: since.unwrap_or(0),
                dropped: 0,
                follows: follow,
                place: Place::Before,
                until: Generation::MAX,
                looked: None,
                resumes_at: Time::ZERO,
            }),
            Call::Watch { since } => Self::Watch(Watch {
                since,
                phase: Phase::Before,
                resumes_at: Time::ZERO,
            }),
            Call::Metrics => Self::Metrics(None),
            Call::Live => Self::Live,
            Call::Ready => Self::Ready,
            Call::Change(change) => Self::Change(Some(change)),
        }
    }

    /// Returns the earliest time at which [`Answer::advance`] would do anything if the manager is
    /// at this generation; `None` if it would not.
    pub(super) fn work_at(&self, generation: Generation) -> Option<Time> {
        let (seen, resumes_at) = match self {
            Self::Change(_) => return None,
            Self::Events(events) => (events.looked, events.resumes_at),
            Self::Watch(watch) => (watch.seen(), watch.resumes_at),
            _ => (None, Time::ZERO),
        };
        let is_pausing = seen.is_some_and(|seen| generation.saturating_sub(seen) < MOST_GATHERED);
        let at = if is_pausing { resumes_at } else { Time::ZERO };
        (seen != Some(generation)).then_some(at)
    }

    /// Returns whether the response may take as long as the daemon runs.
    pub(super) fn is_open_ended(&self) -> bool {
        match self {
            Self::Events(events) => events.follows,
            Self::Watch(_) | Self::Change(_) => true,
            _ => false,
        }
    }

    /// Renders as much as fits in the turn and in the output of the connection. Returns whether the
    /// response is complete.
    pub(super) fn advance(
        &mut self,
        connection: &mut Connection,
        view: &View<'_>,
        turn: &mut Turn,
    ) -> bool {
        if self
            .work_at(view.manager.generation())
            .is_none_or(|at| at > view.now)
        {
            return false;
        }
        match self {
            Self::Plugins(list) => list.advance(connection, view, turn),
            Self::Devices(devices) => devices.advance(connection, view, turn),
            Self::Status(count) => {
                if !count.advance(view, turn) {
                    return false;
                }
                let body = json::status(view, &count.states, turn.clients);
                let response = Response::new(Status::Ok, ContentType::Json, body);
                respond(connection, &response, view, turn)
            }
            Self::Events(events) => events.advance(connection, view, turn),
            Self::Watch(watch) => watch.advance(connection, view, turn),
            Self::Metrics(metrics) => Metrics::advance(metrics, connection, view, turn),
            Self::Live => {
                let response = Response::new(Status::Ok, ContentType::Text, b"ok\n".to_vec());
                respond(connection, &response, view, turn)
            }
            Self::Ready => respond(connection, &readiness(view), view, turn),
            Self::Change(_) => false,
        }
    }
}

/// Responds at once. Returns true: the response is complete.
fn respond(
    connection: &mut Connection,
    response: &Response,
    view: &View<'_>,
    turn: &mut Turn,
) -> bool {
    connection.respond(response, view.now);
    turn.octets = turn.octets.saturating_sub(response.body.len());
    turn.examine(1);
    true
}

/// Renders a piece of the body in progress. Returns whether the body is complete, as `render` does.
fn send(
    connection: &mut Connection,
    view: &View<'_>,
    turn: &mut Turn,
    render: &mut dyn FnMut(&mut Piece<'_>) -> bool,
) -> bool {
    let room = connection.room().min(turn.octets);
    if room == 0 {
        return false;
    }
    let mut is_complete = false;
    let mut rendered = 0;
    let fill = &mut |out: &mut Vec<u8>| {
        let start = out.len();
        let mut piece = Piece {
            end: start + room,
            out,
            turn,
        };
        is_complete = render(&mut piece);
        rendered = piece.out.len() - start;
    };
    connection.send_body(fill, view.now);
    turn.octets = turn.octets.saturating_sub(rendered);
    if is_complete {
        connection.finish_body(view.now);
    }
    is_complete
}

fn readiness(view: &View<'_>) -> Response {
    if view.not_ready.is_empty() {
        return Response::new(Status::Ok, ContentType::Text, b"ok\n".to_vec());
    }
    let mut body = view.not_ready.join("\n").into_bytes();
    body.push(b'\n');
    Response::new(Status::ServiceUnavailable, ContentType::Text, body)
}

/// The metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    cursor: metrics::Cursor,
    process: Option<ProcessFacts>,
}

impl Metrics {
    /// Renders a piece of the metrics, which are `None` before the head.
    fn advance(
        this: &mut Option<Box<Self>>,
        connection: &mut Connection,
        view: &View<'_>,
        turn: &mut Turn,
    ) -> bool {
        if this.is_none() && !connection.begin_body(ContentType::Metrics, view.now) {
            return true;
        }
        let metrics = this.get_or_insert_with(|| {
            Box::new(Self {
                cursor: metrics::Cursor::default(),
                process: (view.process)(),
            })
        });
        let sources = Sources {
            manager: view.manager,
            watch: view.watch,
            counters: view.counters,
            inventory: view.inventory,
            process: metrics.process.as_ref(),
        };
        send(connection, view, turn, &mut |piece| {
            // One step of the cursor does all the work for which a turn has time.
            piece.turn.records = 0;
            !metrics.cursor.next(&sources, piece.out)
        })
    }
}

/// The next part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The head of the response.
    Before,
    /// What precedes the items.
    Start,
    /// The next item, which is the first one.
    First,
    /// The next item.
    Items,
}

/// Renders what precedes the items of a list.
fn begin_list(kind: &str, view: &View<'_>, piece: &mut Piece<'_>) {
    let mut json = piece.json();
    json.open(b'{');
    json.key("kind").text(kind);
    json.key("instance").text(&view.daemon.instance);
    json.key("generation").number(view.manager.generation());
    json.key("items").open(b'[');
}

/// A list of records.
#[derive(Debug)]
pub(super) struct List {
    kind: Option<String>,
    name: Option<String>,
    state: Option<State>,
    cursor: RecordCursor,
    place: Place,
}

impl List {
    fn advance(&mut self, connection: &mut Connection, view: &View<'_>, turn: &mut Turn) -> bool {
        if self.place == Place::Before {
            if self.name.is_some() {
                // Whether there is such a plugin decides about the head.
                let mut ahead = self.cursor;
                let found = self.find(&mut ahead, view, turn);
                match found {
                    Found::Record(_) => {}
                    Found::Nothing => {
                        let missing = Response::error(Status::NotFound, "no such plugin");
                        return respond(connection, &missing, view, turn);
                    }
                    Found::Later => {
                        self.cursor = ahead;
                        return false;
                    }
                }
            }
            if !connection.begin_body(ContentType::Json, view.now) {
                return true;
            }
            self.place = Place::Start;
        }
        send(connection, view, turn, &mut |piece| {
            self.render(view, piece)
        })
    }

    fn render(&mut self, view: &View<'_>, piece: &mut Piece<'_>) -> bool {
        if self.place == Place::Start {
            self.place = Place::First;
            begin_list("PluginList", view, piece);
        }
        while !piece.is_full() {
            let mut cursor = self.cursor;
            let found = self.find(&mut cursor, view, piece.turn);
            self.cursor = cursor;
            match found {
                Found::Record(record) => {
                    if self.place == Place::Items {
                        piece.out.push(b',');
                    }
                    self.place = Place::Items;
                    piece.record(&record, view);
                }
                Found::Nothing => {
                    piece.out.extend_from_slice(b"]}\n");
                    return true;
                }
                Found::Later => return false,
            }
        }
        false
    }

    /// Returns the next record that is wanted.
    fn find<'a>(&self, cursor: &mut RecordCursor, view: &View<'a>, turn: &mut Turn) -> Found<'a> {
        while turn.records > 0 {
            let Some(record) = view.manager.next_record(cursor) else {
                return Found::Nothing;
            };
            if self.wants(&record) {
                return Found::Record(record);
            }
            turn.examine(1);
        }
        Found::Later
    }

    fn wants(&self, record: &Record<'_>) -> bool {
        let plugin = record.plugin;
        let is = |wanted: Option<&String>, actual: Option<&String>| {
            wanted.is_none_or(|wanted| actual == Some(wanted))
        };
        is(self.kind.as_ref(), plugin.map(|plugin| &plugin.kind))
            && is(self.name.as_ref(), plugin.map(|plugin| &plugin.name))
            && self.state.is_none_or(|state| state == record.state)
    }
}

/// The result of a search in the records.
enum Found<'a> {
    Record(Record<'a>),
    /// All records were examined.
    Nothing,
    /// The search continues in the next turn.
    Later,
}

/// The number of records in each state.
#[derive(Debug, Default)]
pub(super) struct Count {
    cursor: RecordCursor,
    states: [u64; State::ALL.len()],
}

impl Count {
    /// Counts some of the records. Returns whether all are counted.
    fn advance(&mut self, view: &View<'_>, turn: &mut Turn) -> bool {
        while turn.records > 0 {
            let Some(record) = view.manager.next_record(&mut self.cursor) else {
                return true;
            };
            self.states[record.state as usize] += 1;
            turn.examine(1);
        }
        false
    }
}

/// The kept events and, if they are followed, later ones.
#[derive(Debug)]
pub(super) struct Events {
    /// The generation of the last event that was rendered.
    seen: Generation,
    /// The generation up to which the client knows that events were dropped.
    dropped: Generation,
    follows: bool,
    place: Place,
    /// The generation at the beginning, unless the events are followed: an event that is repeated
    /// meanwhile is newer, and would be sent again.
    until: Generation,
    /// The generation up to which nothing is left to render.
    looked: Option<Generation>,
    /// The time before which nothing more is rendered: see [`API_FOLLOW_PAUSE`].
    resumes_at: Time,
}

impl Events {
    fn advance(&mut self, connection: &mut Connection, view: &View<'_>, turn: &mut Turn) -> bool {
        if self.place == Place::Before {
            self.place = Place::Items;
            if !connection.begin_body(ContentType::Json, view.now) {
                return true;
            }
            if !self.follows {
                self.until = view.manager.generation();
            }
        }
        send(connection, view, turn, &mut |piece| {
            self.render(view, piece)
        })
    }

    fn render(&mut self, view: &View<'_>, piece: &mut Piece<'_>) -> bool {
        let known = self.seen.max(self.dropped);
        if let Some((generation, last)) = view.events.dropped_after(known) {
            self.dropped = generation;
            json::dropped(&mut piece.json(), self.seen, last, view);
            piece.out.push(b'\n');
        }
        let events = view.events.after(self.seen);
        for event in events.take_while(|event| event.generation <= self.until) {
            if piece.is_full() {
                return false;
            }
            json::event(&mut piece.json(), event, view);
            piece.out.push(b'\n');
            self.seen = event.generation;
        }
        self.looked = Some(view.manager.generation());
        if self.follows {
            self.resumes_at = view.now + API_FOLLOW_PAUSE;
        }
        !self.follows
    }
}

/// The records and their changes.
#[derive(Debug)]
pub(super) struct Watch {
    since: Option<Generation>,
    phase: Phase,
    /// The time before which nothing more is rendered: see [`API_FOLLOW_PAUSE`].
    resumes_at: Time,
}

/// The next part of a watch.
#[derive(Debug)]
enum Phase {
    /// The head of the response.
    Before,
    /// The records, and then the changes after this generation.
    Records(RecordCursor, Generation),
    Changes(ChangeCursor),
}

impl Watch {
    /// Returns the generation that the reader has seen, after the records.
    fn seen(&self) -> Option<Generation> {
        match &self.phase {
            Phase::Changes(cursor) => Some(cursor.seen()),
            Phase::Before | Phase::Records(..) => None,
        }
    }

    fn advance(&mut self, connection: &mut Connection, view: &View<'_>, turn: &mut Turn) -> bool {
        if let Phase::Before = self.phase {
            self.phase = match self.since {
                Some(since) => Phase::Changes(ChangeCursor::after(since)),
                None => Phase::Records(RecordCursor::default(), view.manager.generation()),
            };
            if !connection.begin_body(ContentType::Json, view.now) {
                return true;
            }
        }
        send(connection, view, turn, &mut |piece| {
            self.render(view, piece)
        })
    }

    fn render(&mut self, view: &View<'_>, piece: &mut Piece<'_>) -> bool {
        while !piece.is_full() {
            match &mut self.phase {
                Phase::Before => return false,
                Phase::Records(cursor, generation) => {
                    if let Some(record) = view.manager.next_record(cursor) {
                        write_record("ADDED", &record, view, piece);
                        continue;
                    }
                    let generation = *generation;
                    write_head("BOOKMARK", Some(generation), piece);
                    piece.out.extend_from_slice(b"}\n");
                    self.phase = Phase::Changes(ChangeCursor::after(generation));
                }
                Phase::Changes(cursor) => match view.manager.next_change(cursor) {
                    Ok(Some(manager::Change::Set { record, is_new })) => {
                        let event = if is_new { "ADDED" } else { "MODIFIED" };
                        write_record(event, &record, view, piece);
                    }
                    Ok(Some(manager::Change::Removed { socket, generation })) => {
                        write_head("DELETED", Some(generation), piece);
                        let mut json = piece.json();
                        json.key("record").open(b'{');
                        json.key("socket").text(&socket.to_string_lossy());
                        piece.out.extend_from_slice(b"}}\n");
                    }
                    Ok(None) => {
                        self.resumes_at = view.now + API_FOLLOW_PAUSE;
                        return false;
                    }
                    Err(manager::Expired) => {
                        write_head("EXPIRED", None, piece);
                        piece.out.extend_from_slice(b"}\n");
                        return true;
                    }
                },
            }
        }
        false
    }
}

fn write_record(event: &str, record: &Record<'_>, view: &View<'_>, piece: &mut Piece<'_>) {
    write_head(event, Some(record.generation), piece);
    piece.json().key("record");
    piece.record(record, view);
    piece.out.extend_from_slice(b"}\n");
}

/// Begins a line of a watch.
fn write_head(event: &str, generation: Option<Generation>, piece: &mut Piece<'_>) {
    let mut json = piece.json();
    json.open(b'{');
    json.key("event").text(event);
    if let Some(generation) = generation {
        json.key("generation").number(generation);
    }
}

/// The number of changes and events that end a pause: fewer than the removals and events that are
/// kept, so that a reader misses none of them because of a pause.
const MOST_GATHERED: Generation = 64;
