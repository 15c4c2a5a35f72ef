//! The response to `GET /metrics`: Prometheus text, rendered in pieces.
//!
//! Pure. Gauges are computed from the manager while they are rendered, and counters are those of
//! [`Counters`], so nothing is kept for a response but the position in it. The sockets are read in
//! the order of their paths, so a socket that appears or disappears meanwhile never makes a series
//! occur twice.
//!
//! Every socket has up to three series, and any process that may write to a watched directory
//! creates sockets. If a response would have more than [`MAX_SERIES`] series, those of the sockets
//! are summed up instead, without the labels that name a socket or a plugin.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::counters::{Counters, OTHER, UNKNOWN, type_of};
use super::exposition::{Family, HISTOGRAM_SERIES, Label, Value, head, histogram, sample, single};
use super::families::{
    BACKOFF, BUILD_INFO, CALLS, CONNECTIONS, DEVICES, DIRECTORIES, DROPPED, HISTOGRAMS,
    MEMORY_LIMIT, MEMORY_USED, PLUGINS, PROCESS, RESCANS, TABLES, TOTAL_PLUGINS, TURNS,
};
use super::process::ProcessFacts;
use crate::handler::{Inventory, device};
use crate::manager::{Manager, Socket, State, World};
use crate::watch::{DirectoryState, RoundReason, Watch};

/// What the metrics are read from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The core.
    pub manager: &'a Manager,
    /// The watched directories.
    pub watch: &'a Watch,
    /// What has been counted.
    pub counters: &'a Counters,
    /// The devices of the built-in handlers; `None` without them.
    pub inventory: Option<&'a Inventory>,
    /// The resources of the process; `None` if the system does not report them.
    pub process: Option<&'a ProcessFacts>,
}

/// The position in a response.
#[derive(Debug)]
pub struct Cursor {
    /// The most series of the response.
    limit: u64,
    /// The index of the current stage.
    stage: usize,
    /// The path of the last socket that was read in this stage.
    last: Option<Arc<Path>>,
    /// The number of rows that were rendered in this stage.
    row: usize,
    totals: Totals,
}

/// The sums over all sockets.
#[derive(Debug, Default)]
struct Totals {
    /// The number of plugins in each state, by type.
    plugins: Vec<(Box<str>, [u64; State::ALL.len()])>,
    /// The sockets that exist, and the plugins that a handler knows.
    worlds: [u64; 2],
    /// The sockets that wait after a failure, and the longest wait.
    backoffs: u64,
    longest_backoff: Duration,
    device_plugins: u64,
    /// The healthy devices, and the others.
    devices: [u64; 2],
    /// Whether the series of sockets are summed up.
    is_aggregated: bool,
    /// The number of series of sockets that fit.
    left: u64,
    /// The number of series that were left out.
    dropped: u64,
}

/// A piece of the response, and what may still be added to it.
struct Piece<'a> {
    out: &'a mut Vec<u8>,
    /// The length at which the piece is full.
    end: usize,
    /// The sockets, or as much other work, that may still be read.
    work: usize,
}

impl Piece<'_> {
    fn is_full(&self) -> bool {
        self.work == 0 || self.out.len() >= self.end
    }
}

impl Default for Cursor {
    fn default() -> Self {
        Self::with_limit(MAX_SERIES)
    }
}

impl Cursor {
    /// Creates the beginning of a response with at most about `limit` series.
    pub fn with_limit(limit: u64) -> Self {
        Self {
            limit,
            stage: 0,
            last: None,
            row: 0,
            totals: Totals::default(),
        }
    }

    /// Appends the next piece of the response, of about 8 KiB; none while the sockets
    /// are counted. Returns false at the end of the response.
    pub fn next(&mut self, sources: &Sources<'_>, out: &mut Vec<u8>) -> bool {
        let mut piece = Piece {
            end: out.len() + PIECE,
            out,
            work: WORK,
        };
        while let Some(stage) = STAGES.get(self.stage) {
            if piece.is_full() {
                return true;
            }
            if stage(self, sources, &mut piece) {
                self.stage += 1;
                self.last = None;
                self.row = 0;
            }
        }
        false
    }

    /// Calls `each` with the sockets after the last one, until the piece is full. Returns whether
    /// none is left.
    fn walk(
        &mut self,
        sources: &Sources<'_>,
        piece: &mut Piece<'_>,
        each: fn(&mut Totals, &Sources<'_>, &Socket, &mut Piece<'_>),
    ) -> bool {
        let last = self.last.take();
        for socket in sources.manager.sockets_after(last.as_deref()) {
            piece.work = piece.work.saturating_sub(1);
            each(&mut self.totals, sources, socket, piece);
            if piece.is_full() {
                self.last = Some(socket.path().clone());
                return false;
            }
        }
        true
    }

    /// Walks over the sockets, after the head of a metric with a series for each of them.
    fn walk_family(
        &mut self,
        family: &Family,
        sources: &Sources<'_>,
        piece: &mut Piece<'_>,
        each: fn(&mut Totals, &Sources<'_>, &Socket, &mut Piece<'_>),
    ) -> bool {
        if self.last.is_none() {
            head(piece.out, family);
        }
        self.walk(sources, piece, each)
    }

    // --- Stages ---

    fn count(&mut self, sources: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        if self.last.is_none() {
            let types = sources.manager.types().take(MAX_TYPES);
            let rows = types.map(|kind| (kind.into(), [0; State::ALL.len()]));
            self.totals.plugins = rows.collect();
        }
        if !self.walk(sources, piece, Totals::count) {
            return false;
        }
        let totals = &mut self.totals;
        let of_sockets = totals.worlds[0] + totals.worlds[1] + totals.backoffs;
        let of_sockets = of_sockets + 2 * totals.device_plugins;
        let others = series_of(sources.counters) + totals.plugins.len() * State::ALL.len();
        let others = others + sources.watch.directories().count() + SINGLE_SERIES;
        totals.left = self.limit.saturating_sub(others as u64);
        if of_sockets > totals.left {
            totals.is_aggregated = true;
            totals.dropped = of_sockets;
        }
        true
    }

    fn total_plugins(&mut self, sources: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        if !self.totals.is_aggregated {
            return self.walk_family(&TOTAL_PLUGINS, sources, piece, Totals::total_plugins);
        }
        head(piece.out, &TOTAL_PLUGINS);
        for (world, count) in [World::Desired, World::Actual]
            .iter()
            .zip(self.totals.worlds)
        {
            let labels: [Label<'_>; 1] = [("state", world.as_str().as_bytes())];
            let count = Value::Number(count);
            sample(piece.out, &TOTAL_PLUGINS, "", &labels, count);
        }
        true
    }

    fn devices(&mut self, sources: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        if !self.walk_family(&DEVICES, sources, piece, Totals::devices) {
            return false;
        }
        if self.totals.is_aggregated {
            let name = ("", &b""[..]);
            sample_devices(piece.out, name, self.totals.devices);
        }
        true
    }

    fn backoffs(&mut self, sources: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        if !self.totals.is_aggregated {
            return self.walk_family(&BACKOFF, sources, piece, Totals::backoff);
        }
        let longest = Value::Seconds(self.totals.longest_backoff);
        single(piece.out, &BACKOFF, longest);
        true
    }

    fn plugins(&mut self, _: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        if self.row == 0 {
            head(piece.out, &PLUGINS);
        }
        for (kind, counts) in self.totals.plugins.iter().skip(self.row) {
            for (state, count) in State::ALL.iter().zip(counts) {
                let labels: [Label<'_>; 2] = [
                    ("type", kind.as_bytes()),
                    ("state", state.name().as_bytes()),
                ];
                sample(piece.out, &PLUGINS, "", &labels, Value::Number(*count));
            }
            self.row += 1;
            if piece.is_full() {
                return false;
            }
        }
        true
    }

    /// Renders the tables of counters, each at once: a table is short.
    fn tables(&mut self, sources: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        for (family, names, table) in TABLES.iter().skip(self.row) {
            head(piece.out, family);
            for row in table(sources.counters).rows() {
                let labels = [0, 1, 2].map(|n| (names[n], row.labels[n].as_bytes()));
                sample(piece.out, family, "", &labels, Value::Number(row.count));
            }
            self.row += 1;
            if piece.is_full() {
                return false;
            }
        }
        true
    }

    fn histograms(_: &mut Self, sources: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        for (family, of) in HISTOGRAMS {
            head(piece.out, family);
            let labels = [("", &b""[..]); 2];
            histogram(piece.out, family, labels, of(sources.counters));
        }
        true
    }

    fn calls(&mut self, sources: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        if self.row == 0 {
            head(piece.out, &CALLS);
        }
        let Counters {
            calls,
            call_durations,
            ..
        } = sources.counters;
        for (row, durations) in calls.rows().iter().zip(call_durations).skip(self.row) {
            let [method, code, _] = &row.labels;
            let labels = [("method", method.as_bytes()), ("code", code.as_bytes())];
            histogram(piece.out, &CALLS, labels, durations);
            self.row += 1;
            if piece.is_full() {
                return false;
            }
        }
        true
    }

    fn rest(&mut self, sources: &Sources<'_>, piece: &mut Piece<'_>) -> bool {
        let Sources {
            manager,
            watch,
            counters,
            process,
            ..
        } = sources;
        let out = &mut *piece.out;
        head(out, &RESCANS);
        for reason in RoundReason::ALL {
            let labels: [Label<'_>; 1] = [("reason", reason.name().as_bytes())];
            let count = Value::Number(watch.count_rounds(reason));
            sample(out, &RESCANS, "", &labels, count);
        }
        head(out, &DIRECTORIES);
        for directory in watch.directories() {
            let path = directory.path.as_os_str().as_encoded_bytes();
            let is_watched = directory.state == DirectoryState::Watched;
            let watched = Value::Number(u64::from(is_watched));
            sample(out, &DIRECTORIES, "", &[("path", path)], watched);
        }
        head(out, &BUILD_INFO);
        let labels: [Label<'_>; 2] = [
            ("version", env!("CARGO_PKG_VERSION").as_bytes()),
            ("revision", REVISION.as_bytes()),
        ];
        sample(out, &BUILD_INFO, "", &labels, Value::Number(1));
        let connections = Value::Number(manager.connections() as u64);
        single(out, &CONNECTIONS, connections);
        let [.., memory] = manager.usage();
        single(out, &MEMORY_USED, Value::Number(memory.used as u64));
        single(out, &MEMORY_LIMIT, Value::Number(memory.limit as u64));
        single(out, &TURNS, Value::Number(counters.turns));
        single(out, &DROPPED, Value::Number(self.totals.dropped));
        if let Some(process) = process {
            for (family, of) in PROCESS {
                single(out, family, of(process));
            }
        }
        true
    }
}

/// The stages of a response. Each returns whether it is complete.
const STAGES: [fn(&mut Cursor, &Sources<'_>, &mut Piece<'_>) -> bool; 9] = [
    Cursor::count,
    Cursor::total_plugins,
    Cursor::plugins,
    Cursor::tables,
    Cursor::histograms,
    Cursor::calls,
    Cursor::devices,
    Cursor::backoffs,
    Cursor::rest,
];

impl Totals {
    fn count(&mut self, sources: &Sources<'_>, socket: &Socket, _: &mut Piece<'_>) {
        let manager = sources.manager;
        self.worlds[0] += u64::from(socket.desired().is_some());
        self.worlds[1] += u64::from(socket.registered().is_some());
        self.device_plugins += u64::from(is_device_plugin(socket));
        if let Some(backoff) = backoff_of(socket) {
            self.backoffs += 1;
            self.longest_backoff = self.longest_backoff.max(backoff);
        }
        let Some(record) = manager.record(socket.path()) else {
            return;
        };
        let kind = record.plugin.map_or(UNKNOWN, |it| type_of(it, manager));
        let index = self.row_of(kind).unwrap_or_else(|| {
            let kind = if kind == UNKNOWN { UNKNOWN } else { OTHER };
            self.row_of(kind).unwrap_or_else(|| {
                self.plugins.push((kind.into(), [0; State::ALL.len()]));
                self.plugins.len() - 1
            })
        });
        self.plugins[index].1[record.state as usize] += 1;
    }

    /// Returns the index of the row of a type.
    fn row_of(&self, kind: &str) -> Option<usize> {
        self.plugins.iter().position(|row| *row.0 == *kind)
    }

    fn total_plugins(&mut self, _: &Sources<'_>, socket: &Socket, piece: &mut Piece<'_>) {
        let path = socket.path().as_os_str().as_encoded_bytes();
        for (is_in, world) in [
            (socket.desired().is_some(), World::Desired),
            (socket.registered().is_some(), World::Actual),
        ] {
            if is_in && self.has_room() {
                let state = world.as_str().as_bytes();
                let labels: [Label<'_>; 2] = [("socket_path", path), ("state", state)];
                sample(piece.out, &TOTAL_PLUGINS, "", &labels, Value::Number(1));
            }
        }
    }

    fn devices(&mut self, sources: &Sources<'_>, socket: &Socket, piece: &mut Piece<'_>) {
        let registered = socket.registered().filter(|_| is_device_plugin(socket));
        let (Some(registered), Some(inventory)) = (registered, sources.inventory) else {
            return;
        };
        let plugin = &registered.plugin;
        // Of several plugins of a resource, the current one lists the devices to use.
        let current = inventory.device_plugins.get(&plugin.name);
        let Some(current) = current.filter(|it| it.plugin == *plugin) else {
            return;
        };
        let (total, healthy) = (current.devices.len(), current.healthy());
        let counts = [healthy as u64, (total - healthy) as u64];
        piece.work = piece.work.saturating_sub(total / DEVICES_AS_A_SOCKET);
        if self.is_aggregated {
            self.devices[0] += counts[0];
            self.devices[1] += counts[1];
        } else if self.has_room() && self.has_room() {
            sample_devices(piece.out, ("name", plugin.name.as_bytes()), counts);
        }
    }

    fn backoff(&mut self, _: &Sources<'_>, socket: &Socket, piece: &mut Piece<'_>) {
        if let Some(backoff) = backoff_of(socket).filter(|_| self.has_room()) {
            let path = socket.path().as_os_str().as_encoded_bytes();
            let labels = [("socket_path", path)];
            sample(piece.out, &BACKOFF, "", &labels, Value::Seconds(backoff));
        }
    }

    /// Takes the room for one more series of a socket, if there is any: sockets may appear after
    /// they were counted.
    fn has_room(&mut self) -> bool {
        let has_room = self.left > 0;
        self.left = self.left.saturating_sub(1);
        self.dropped += u64::from(!has_room);
        has_room
    }
}

fn sample_devices(out: &mut Vec<u8>, name: Label<'_>, counts: [u64; 2]) {
    let kind = ("type", device::TYPE.as_bytes());
    for (health, count) in ["healthy", "unhealthy"].into_iter().zip(counts) {
        let labels = [kind, name, ("health", health.as_bytes())];
        sample(out, &DEVICES, "", &labels, Value::Number(count));
    }
}

fn is_device_plugin(socket: &Socket) -> bool {
    let registered = socket.registered();
    registered.is_some_and(|it| it.plugin.kind == device::TYPE)
}

/// Returns the pause after the last failure of a socket, if it has failed.
fn backoff_of(socket: &Socket) -> Option<Duration> {
    socket.desired()?.backoff.delay()
}

/// Returns the number of series that the counters have.
fn series_of(counters: &Counters) -> usize {
    let tables = TABLES.iter().map(|(_, _, of)| of(counters).rows().len());
    let histograms = counters.call_durations.len() + HISTOGRAMS.len();
    tables.sum::<usize>() + histograms * HISTOGRAM_SERIES
}

/// The revision of the source, which the builder may set.
pub(crate) const REVISION: &str = match option_env!("PLUGIND_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// The most series of a response: what a small monitoring server can store per scrape.
pub const MAX_SERIES: u64 = 10_000;

/// The series that are rendered at the end of a response, besides those of directories.
const SINGLE_SERIES: usize = 18;

/// The length of a piece (octets).
const PIECE: usize = 8 * 1024;

/// The most sockets that are read for one piece: about half a millisecond.
const WORK: usize = 1024;

/// The number of devices whose counting takes as long as a socket.
const DEVICES_AS_A_SOCKET: usize = 16;

/// The most types with rows of their own.
const MAX_TYPES: usize = 32;
