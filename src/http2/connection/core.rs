//! The state of a connection apart from its input: streams, windows, the send buffer.

use super::super::block::Block;
use super::super::error::{ConnectionError, ErrorCode, GoAwayReceived};
use super::super::fields::Fields;
use super::super::flood::FloodGuard;
use super::super::flow::{ReceiveWindow, SendWindow};
use super::super::frame::{GoAway, WindowUpdate};
use super::super::outbox::Outbox;
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
    /// The send buffer.
    pub(super) outbox: Outbox,
    /// The streams.
    pub(super) streams: Streams,
    /// The connection's window for what we send.
    pub(super) send: SendWindow,
    /// The connection's window for what the peer sends.
    pub(super) receive: ReceiveWindow,
    /// The peer's settings, or `None` before its first SETTINGS frame.
    pub(super) peer: Option<Settings>,
    /// The decoder of the peer's header blocks, kept for the whole life of the connection.
    pub(super) decoder: Decoder,
    /// The fields of the last block.
    pub(super) fields: Fields,
    /// An unfinished header block: until it is complete, no other frames are allowed.
    pub(super) block: Option<Block>,
    /// The flood counters.
    pub(super) flood: FloodGuard,
    /// The peer's last GOAWAY.
    pub(super) goaway_received: Option<GoAwayReceived>,
    /// Whether we sent GOAWAY.
    pub(super) goaway_sent: bool,
    /// The last stream opened by the peer that was accepted, or 0: on a client it stays 0, because
    /// pushes are refused.
    pub(super) last_peer_stream: u32,
    /// The time by which the peer must have read some of what is to be written.
    pub(super) stalls_at: Option<Time>,
    /// The latest time that a caller passed.
    pub(super) now: Time,
}

impl Core {
    /// Returns the state of a connection that was just made.
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
            flood: FloodGuard::default(),
            goaway_received: None,
            goaway_sent: false,
            last_peer_stream: 0,
            stalls_at: Some(now + config::WRITE_STALL_TIMEOUT),
            now,
        }
    }

    /// Advances the time, which never decreases.
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

    /// Starts the deadline for the peer to read if there is something to be written, or clears it.
    #[inline]
    pub(super) fn watch_writing(&mut self) {
        if self.outbox.transmit().is_empty() {
            self.stalls_at = None;
        } else if self.stalls_at.is_none() {
            self.stalls_at = Some(self.now + config::WRITE_STALL_TIMEOUT);
        }
    }

    /// Returns whether GOAWAY was sent or received, so that no more streams can be opened.
    pub(super) fn is_closing(&self) -> bool {
        self.goaway_received.is_some() || self.goaway_sent
    }

    /// Returns why no more streams can be opened, if GOAWAY was sent or received.
    pub(super) fn closing(&self) -> Option<ConnectionError> {
        match &self.goaway_received {
            Some(gone) => Some(ConnectionError::GoAwayReceived(gone.clone())),
            None => self.goaway_sent.then_some(ConnectionError::ShutDown),
        }
    }

    /// Returns why the connection is over, if GOAWAY was sent or received and all streams have
    /// ended.
    pub(super) fn drained(&self) -> Option<ConnectionError> {
        if self.streams.count() > 0 {
            return None;
        }
        self.closing()
    }

    /// Queues GOAWAY as the last frame, and drops the queued frames that are not begun.
    pub(super) fn send_goaway(&mut self, code: ErrorCode) {
        self.outbox.drop_queue();
        self.outbox
            .push_control(&GoAway::encode(self.last_peer_stream, code));
        self.watch_writing();
    }

    /// Drops the state that only a running connection needs.
    pub(super) fn forget(&mut self) {
        self.streams = Streams::new(self.role);
        self.block = None;
        self.fields = Fields::default();
    }

    /// Queues a WINDOW_UPDATE.
    pub(super) fn update_window(&mut self, update: WindowUpdate) {
        self.outbox.answer(&update.encode());
    }

    /// Returns the octets of memory held, beyond the value itself.
    pub(super) fn mem_used(&self) -> usize {
        self.outbox.mem_used()
            + self.streams.mem_used()
            + self.decoder.mem_used()
            + self.fields.mem_used()
            + self.block.as_ref().map_or(0, Block::mem_used)
            + self
                .goaway_received
                .as_ref()
                .map_or(0, |gone| gone.debug.capacity())
    }
}
