//! What a connection knows besides its input: streams, windows, what is to be written.

use super::super::block::Block;
use super::super::error::{ConnectionError, ErrorCode, GoneAway};
use super::super::fields::Fields;
use super::super::flow::{ReceiveWindow, SendWindow};
use super::super::frame::{GoAway, WindowUpdate};
use super::super::outbox::Outbox;
use super::super::patience::Patience;
use super::super::role::Role;
use super::super::settings::{INITIAL_WINDOW, Settings};
use super::super::streams::Streams;
use crate::config;
use crate::hpack::Decoder;
use crate::time::Time;

/// The state of a connection.
#[derive(Debug)]
pub(super) struct Core {
    /// Which end of the connection this is.
    pub(super) role: Role,
    /// What is to be written.
    pub(super) outbox: Outbox,
    /// The streams.
    pub(super) streams: Streams,
    /// What we may send on all streams together.
    pub(super) send: SendWindow,
    /// What the peer may send on all streams together.
    pub(super) receive: ReceiveWindow,
    /// What the peer wants, once it said so.
    pub(super) peer: Option<Settings>,
    /// The peer's header blocks, over the whole life of the connection.
    pub(super) decoder: Decoder,
    /// The fields of the last block.
    pub(super) fields: Fields,
    /// A block whose end has not come: nothing else may come until then.
    pub(super) block: Option<Block>,
    /// What the peer may still send without bringing anything forward.
    pub(super) patience: Patience,
    /// What the peer said when it began to go away.
    pub(super) gone: Option<GoneAway>,
    /// Whether we said that we go.
    pub(super) leaving: bool,
    /// The last stream of the peer's that we looked at, or 0: a client looks at none, because it
    /// refuses pushes.
    pub(super) last_peer_stream: u32,
    /// When the peer must have read something of what is to be written.
    pub(super) stalls_at: Option<Time>,
    /// The latest moment that we were told of.
    pub(super) now: Time,
}

impl Core {
    /// A connection that was just made.
    pub(super) fn new(role: Role, now: Time) -> Self {
        Self {
            role,
            outbox: Outbox::new(role.preface(), role.settings()),
            streams: Streams::new(role),
            send: SendWindow::new(INITIAL_WINDOW),
            receive: ReceiveWindow::new(INITIAL_WINDOW),
            peer: None,
            decoder: Decoder::new(config::HEADER_TABLE),
            fields: Fields::default(),
            block: None,
            patience: Patience::default(),
            gone: None,
            leaving: false,
            last_peer_stream: 0,
            stalls_at: Some(now + config::WRITE_STALL_TIMEOUT),
            now,
        }
    }

    /// Takes note of the time.
    pub(super) fn at(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Counts octets that were written.
    pub(super) fn sent(&mut self, octets: usize) {
        self.outbox.sent(octets);
        if octets > 0 {
            self.stalls_at = None;
        }
        self.watch_writing();
    }

    /// Watches whether the peer reads, while there is something to be read.
    pub(super) fn watch_writing(&mut self) {
        if self.outbox.transmit().is_empty() {
            self.stalls_at = None;
        } else if self.stalls_at.is_none() {
            self.stalls_at = Some(self.now + config::WRITE_STALL_TIMEOUT);
        }
    }

    /// Whether somebody has said goodbye, so that no stream can be opened any more.
    pub(super) fn is_closing(&self) -> bool {
        self.gone.is_some() || self.leaving
    }

    /// Why no stream can be opened any more, once somebody has said goodbye.
    pub(super) fn closing(&self) -> Option<ConnectionError> {
        match &self.gone {
            Some(gone) => Some(ConnectionError::GoneAway(gone.clone())),
            None => self.leaving.then_some(ConnectionError::ShutDown),
        }
    }

    /// Why the connection is over, once somebody has said goodbye and the last stream has ended.
    pub(super) fn drained(&self) -> Option<ConnectionError> {
        if self.streams.count() > 0 {
            return None;
        }
        self.closing()
    }

    /// Says GOAWAY as the last words: what is queued and not begun will not be needed any more.
    pub(super) fn say_goodbye(&mut self, code: ErrorCode) {
        self.outbox.drop_queue();
        self.outbox
            .push_control(&GoAway::encode(self.last_peer_stream, code));
        self.watch_writing();
    }

    /// Drops what only a running connection needs.
    pub(super) fn forget(&mut self) {
        self.streams = Streams::new(self.role);
        self.block = None;
        self.fields = Fields::default();
    }

    /// Gives the peer back what was used up of a window.
    pub(super) fn update_window(&mut self, update: WindowUpdate) {
        self.outbox.answer(&update.encode());
    }

    /// Octets of memory held, beyond the value itself.
    pub(super) fn mem_used(&self) -> usize {
        self.outbox.mem_used()
            + self.streams.mem_used()
            + self.decoder.mem_used()
            + self.fields.mem_used()
            + self.block.as_ref().map_or(0, Block::mem_used)
            + self.gone.as_ref().map_or(0, |gone| gone.debug.capacity())
    }
}
