//! A client of the service: its connection, and its calls.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

use super::ClientId;
use crate::config::{MAX_REGISTER_REQUEST, MAX_WAITING_REGISTRATIONS};
use crate::grpc::{Code, Incoming, Server, Status};
use crate::http2::StreamId;
use crate::manager::{AnnouncementId, Process};
use crate::proto::v1beta1::{Empty, registration};
use crate::time::Time;

/// A client of the service.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: ClientId,
    /// The process at the other end, if it is known.
    pub(super) caller: Option<Process>,
    pub(super) server: Server,
    current: Option<Current>,
    /// The calls that wait, with their requests.
    waiting: VecDeque<(StreamId, Vec<u8>)>,
    is_closing: bool,
    /// Whether calls that were not received completely are not waited for.
    is_dropped: bool,
    pub(super) accepted_at: Time,
}

/// The call in progress.
#[derive(Debug)]
struct Current {
    stream: StreamId,
    /// The number of the call and the plugin's endpoint, once the request is found acceptable.
    announced: Option<(AnnouncementId, Arc<Path>)>,
}

impl Client {
    pub(super) fn new(id: ClientId, caller: Option<Process>, now: Time) -> Self {
        Self {
            id,
            caller,
            server: Server::new(METHODS, MAX_REGISTER_REQUEST, now),
            current: None,
            waiting: VecDeque::new(),
            is_closing: false,
            is_dropped: false,
            accepted_at: now,
        }
    }

    /// Returns whether a call is in progress or waits.
    pub(super) fn is_calling(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.is_dropped || self.server.is_closed()
    }

    /// Returns whether the call with this number is in progress.
    pub(super) fn is_in_progress(&self, id: AnnouncementId) -> bool {
        let announced = self.current.as_ref().and_then(|it| it.announced.as_ref());
        announced.is_some_and(|(current, _)| *current == id)
    }

    /// Returns the endpoint of the plugin whose call is in progress; an empty path without one.
    pub(super) fn endpoint_in_progress(&self) -> &Path {
        let announced = self.current.as_ref().and_then(|it| it.announced.as_ref());
        announced.map_or_else(|| Path::new(""), |(_, endpoint)| endpoint)
    }

    /// Processes the events of the connection: queues calls, and drops those that have ended.
    pub(super) fn receive(&mut self, now: Time) {
        while let Some(event) = self.server.poll_event(now) {
            match event {
                Incoming::Called { call, message, .. } => {
                    if self.waiting.len() < MAX_WAITING_REGISTRATIONS && !self.is_closing {
                        self.waiting.push_back((call, message));
                    } else {
                        self.server.finish(call, too_many(), now);
                    }
                }
                Incoming::Ended { call } => {
                    self.current.take_if(|current| current.stream == call);
                    self.waiting.retain(|(stream, _)| *stream != call);
                }
                Incoming::Closed(_) => {
                    self.current = None;
                    self.waiting.clear();
                }
            }
        }
    }

    /// Makes the call that has waited longest the one in progress, unless there is one. Returns its
    /// request.
    pub(super) fn next_request(&mut self) -> Option<Vec<u8>> {
        if self.current.is_some() {
            return None;
        }
        let (stream, request) = self.waiting.pop_front()?;
        let announced = None;
        self.current = Some(Current { stream, announced });
        Some(request)
    }

    /// Gives the call in progress its number.
    pub(super) fn begin(&mut self, id: AnnouncementId, endpoint: Arc<Path>) {
        if let Some(current) = &mut self.current {
            current.announced = Some((id, endpoint));
        }
    }

    /// Answers the call in progress.
    pub(super) fn answer(&mut self, result: Result<(), Status>, now: Time) {
        let Some(Current { stream, .. }) = self.current.take() else {
            return;
        };
        match result {
            Ok(()) => self.server.reply(stream, &Empty {}.encode_to_vec(), now),
            Err(status) => self.server.finish(stream, status, now),
        }
    }

    /// Closes the connection once the call in progress is answered. The calls that wait are
    /// rejected.
    pub(super) fn close(&mut self, now: Time) {
        self.is_closing = true;
        for (call, _) in std::mem::take(&mut self.waiting) {
            self.server.finish(call, too_many(), now);
        }
        self.server.shutdown(now);
    }

    /// Closes the connection at once, without waiting for the rest of a call or for the client to
    /// read.
    pub(super) fn drop_calls(&mut self, now: Time) {
        self.close(now);
        self.is_dropped = true;
    }
}

fn too_many() -> Status {
    let message = "too many registrations are in progress";
    Status::new(Code::ResourceExhausted, message)
}

/// The method that is served.
const METHODS: &[&str] = &[registration::REGISTER];
