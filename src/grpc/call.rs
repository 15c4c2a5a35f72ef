//! One unary call: a request on its way out and a reply on its way in.
//!
//! Pure. The two go their ways independently of each other: a server may answer before it has read
//! the request.
//!
//! ```text
//!                    opened                   headers
//! Awaiting::Stream ----------> Awaiting::Head ---------> Awaiting::Reply <--+
//!        |                       |                         |     |          | its message,
//!        | deadline, cancel,     | trailers-only           |     +----------+ and no second one
//!        | connection lost       |                         | trailers
//!        v                       v                         v
//!        +-----------------------+-------------------------+------> outcome
//! ```
//!
//! The outcome consumes the call: [`Client`](super::Client) drops it and tells it.

use std::time::Duration;

use super::CallId;
use super::error::{Broken, CallError, NotGrpc};
use super::message::{self, Assembler};
use super::status::{Code, Status};
use super::timeout::Timeout;
use crate::http2::{Connection, Fields, OpenError, StreamId, Taken};
use crate::time::Time;

/// What a call ends with: the reply's message, or none.
pub(super) type Outcome = Result<Vec<u8>, CallError>;

/// A call under way.
#[derive(Debug)]
pub(super) struct Call {
    /// Its name.
    pub(super) id: CallId,
    /// When it must have ended.
    pub(super) deadline: Time,
    /// How long it was given.
    timeout: Duration,
    /// The largest reply it accepts.
    max_reply: usize,
    /// What is called and, behind it, the message with its prefix; empty when all of it is sent.
    request: Vec<u8>,
    /// How much of it is sent: at first the path, which goes out with the headers.
    sent: usize,
    awaiting: Awaiting,
}

/// What the call waits for.
#[derive(Debug)]
enum Awaiting {
    /// A stream of its own.
    Stream,
    /// The answer's headers.
    Head {
        /// The call's stream.
        stream: StreamId,
    },
    /// The answer's message, its status, or both.
    Reply {
        /// The call's stream.
        stream: StreamId,
        /// The message as far as it came.
        assembler: Assembler,
        /// The message, once it is complete.
        reply: Option<Vec<u8>>,
    },
}

impl Call {
    /// A call that is not on the wire yet.
    pub(super) fn new(
        id: CallId,
        path: &str,
        message: &[u8],
        max_reply: usize,
        deadline: Time,
        now: Time,
    ) -> Self {
        Self {
            id,
            deadline,
            timeout: deadline.saturating_since(now),
            max_reply,
            request: message::encode_behind(path, message),
            sent: path.len(),
            awaiting: Awaiting::Stream,
        }
    }

    /// Its time begins anew.
    pub(super) fn restart(&mut self, now: Time) {
        self.deadline = now + self.timeout;
    }

    /// The call's stream, once it has one.
    pub(super) fn stream(&self) -> Option<StreamId> {
        match self.awaiting {
            Awaiting::Stream => None,
            Awaiting::Head { stream } | Awaiting::Reply { stream, .. } => Some(stream),
        }
    }

    /// Sends what can be sent now; an error is the call's end.
    pub(super) fn send(&mut self, http2: &mut Connection, now: Time) -> Result<(), CallError> {
        if matches!(self.awaiting, Awaiting::Stream) {
            let path = &self.request[..self.sent];
            let timeout = Timeout::at_least(self.deadline.saturating_since(now));
            match http2.open(&request_headers(path, &timeout), false, now) {
                Ok(stream) => self.awaiting = Awaiting::Head { stream },
                Err(OpenError::Later) => return Ok(()),
                Err(OpenError::TooLarge) => return Err(CallError::RequestHeaders),
                Err(OpenError::Exhausted) => return Err(CallError::TooManyCalls),
                Err(OpenError::Closing(error)) => {
                    let written = false;
                    return Err(CallError::Connection { error, written });
                }
            }
        }
        self.send_request(http2, now);
        Ok(())
    }

    /// Sends as much of the request as the connection takes.
    fn send_request(&mut self, http2: &mut Connection, now: Time) {
        let Some(stream) = self.stream() else {
            return;
        };
        if self.request.is_empty() {
            return;
        }
        match http2.send_data(stream, &self.request[self.sent..], true, now) {
            Taken::All => self.request = Vec::new(),
            Taken::Some(octets) => self.sent += octets,
        }
    }

    /// Takes the answer's headers.
    pub(super) fn receive_head(
        &mut self,
        status: u16,
        fields: &Fields,
        end_stream: bool,
    ) -> Option<Outcome> {
        let Awaiting::Head { stream } = self.awaiting else {
            return None;
        };
        // gRPC: "Trailers-Only → HTTP-Status Content-Type Trailers": a status in the first headers
        // counts when they are the last, and only then.
        if end_stream && fields.get(b"grpc-status").is_some() {
            return Some(self.receive_trailers(fields));
        }
        if let Err(not_grpc) = check_head(status, fields) {
            return Some(Err(CallError::NotGrpc(not_grpc)));
        }
        if end_stream {
            return Some(Err(CallError::Broken(Broken::NoStatus)));
        }
        self.awaiting = Awaiting::Reply {
            stream,
            assembler: Assembler::new(self.max_reply),
            reply: None,
        };
        None
    }

    /// Takes a part of the answer's content.
    pub(super) fn receive_data(&mut self, mut data: &[u8], end_stream: bool) -> Option<Outcome> {
        let Awaiting::Reply {
            assembler, reply, ..
        } = &mut self.awaiting
        else {
            return None;
        };
        while !data.is_empty() {
            match assembler.receive(&mut data) {
                Ok(None) => {}
                Ok(Some(_)) if reply.is_some() => {
                    return Some(Err(CallError::Broken(Broken::SecondMessage)));
                }
                Ok(message) => *reply = message,
                Err(error) => return Some(Err(error)),
            }
        }
        end_stream.then(|| {
            Err(CallError::Broken(if assembler.is_inside_message() {
                Broken::CutMessage
            } else {
                Broken::NoStatus
            }))
        })
    }

    /// Takes the answer's end.
    pub(super) fn receive_trailers(&mut self, fields: &Fields) -> Outcome {
        let status = Status::from_fields(fields).ok_or(CallError::Broken(Broken::NoStatus))?;
        if status.code != Code::Ok {
            return Err(CallError::Status(status));
        }
        match &mut self.awaiting {
            Awaiting::Reply { assembler, .. } if assembler.is_inside_message() => {
                Err(CallError::Broken(Broken::CutMessage))
            }
            Awaiting::Reply { reply, .. } => {
                reply.take().ok_or(CallError::Broken(Broken::NoMessage))
            }
            Awaiting::Stream | Awaiting::Head { .. } => Err(CallError::Broken(Broken::NoMessage)),
        }
    }

    /// Octets of memory held, beyond the value itself.
    pub(super) fn mem_used(&self) -> usize {
        let awaited = match &self.awaiting {
            Awaiting::Stream | Awaiting::Head { .. } => 0,
            Awaiting::Reply {
                assembler, reply, ..
            } => assembler.mem_used() + reply.as_ref().map_or(0, Vec::capacity),
        };
        self.request.capacity() + awaited
    }
}

/// The headers of a request, as every gRPC server likes them best.
///
/// An `:authority` that is empty or a path is refused by grpc-js and tonic, and none at all by
/// C-core; a `:scheme` other than `http` by C-core.
fn request_headers<'a>(path: &'a [u8], timeout: &'a Timeout) -> [(&'static str, &'a [u8]); 8] {
    [
        (":method", b"POST"),
        (":scheme", b"http"),
        (":path", path),
        (":authority", b"localhost"),
        ("grpc-timeout", timeout.as_bytes()),
        ("te", b"trailers"),
        ("content-type", b"application/grpc"),
        ("user-agent", USER_AGENT.as_bytes()),
    ]
}

/// Whether an answer's headers are those of a gRPC answer.
fn check_head(status: u16, fields: &Fields) -> Result<(), NotGrpc> {
    if status != 200 {
        return Err(NotGrpc::HttpStatus(status));
    }
    let content_type = fields.get(b"content-type").unwrap_or_default();
    if is_grpc(content_type) {
        return Ok(());
    }
    let kept = content_type.len().min(KEPT_CONTENT_TYPE);
    Err(NotGrpc::ContentType(content_type[..kept].to_vec()))
}

/// Whether a content type is gRPC's: "application/grpc", alone, with a "+" and the message's
/// encoding, or with parameters.
fn is_grpc(content_type: &[u8]) -> bool {
    let rest = content_type.strip_prefix(CONTENT_TYPE);
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// How we call ourselves.
const USER_AGENT: &str = concat!("plugind/", env!("CARGO_PKG_VERSION"));

/// What gRPC answers are made of.
const CONTENT_TYPE: &[u8] = b"application/grpc";

/// How much is kept of another content type (octets).
const KEPT_CONTENT_TYPE: usize = 64;
