//! A call to the plugin, from its arrival to its end.
//!
//! ```text
//!          the delay is over                    the devices change
//! Delayed --+----------------> answered            +-------+
//!           |                                      v       |
//!           +----------------> Listening: a list of the devices, until the call ends
//! ```

use super::ConnectionId;
use super::devices::Devices;
use super::service::{Answer, short_path};
use crate::grpc::Server;
use crate::http2::StreamId;
use crate::time::Time;

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct Call {
    /// The connection of the call.
    pub(super) conn: ConnectionId,
    /// The stream of the call on that connection.
    pub(super) stream: StreamId,
    method: &'static str,
    answer: Answer,
    /// The time of the answer, or `None` once the stream of device lists has begun.
    pub(super) due: Option<Time>,
    /// Whether the current state of the devices was sent. Sending waits while the caller does not
    /// read.
    pub(super) is_sent: bool,
}

impl Call {
    /// Creates a call that receives this answer at the time `due`.
    pub(super) fn new(
        conn: ConnectionId,
        stream: StreamId,
        method: &'static str,
        answer: Answer,
        due: Time,
    ) -> Self {
        Self {
            conn,
            stream,
            method,
            answer,
            due: Some(due),
            is_sent: false,
        }
    }

    /// Sends the answer if it is due by `now`; on a stream of device lists, sends the state of the
    /// devices unless it was sent. Returns whether the call has ended.
    pub(super) fn send_due_answer(
        &mut self,
        server: &mut Server,
        devices: &Devices,
        now: Time,
    ) -> bool {
        if self.due.is_some_and(|due| now < due) {
            return false;
        }
        match &self.answer {
            Answer::Reply(message) => server.reply(self.stream, message, now),
            Answer::Refuse(status) => server.finish(self.stream, status.clone(), now),
            Answer::List(listing) => {
                self.due = None;
                if !self.is_sent {
                    let list = devices.encode_list(*listing);
                    self.is_sent = server.send(self.stream, &list, now).is_ok();
                }
                return false;
            }
        }
        true
    }

    /// Returns the report for a call that ended before its answer was complete.
    pub(super) fn end_report(&self) -> String {
        match self.due {
            Some(_) => format!("call cancelled by its caller: {}", short_path(self.method)),
            None => "device stream closed".to_owned(),
        }
    }
}
