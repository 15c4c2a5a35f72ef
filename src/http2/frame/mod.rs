//! The frames of RFC 9113 §6: octets to values and back.
//!
//! Pure and stateless: a frame is judged by itself here (its length, its padding, whether it may be
//! on stream 0), never by earlier frames. There is one file per frame type; [`head`] has the nine
//! octets that all of them share.

mod data;
mod goaway;
mod head;
mod headers;
mod padding;
mod ping;
mod rst_stream;
mod settings;
mod window_update;

pub(super) use data::Data;
pub(super) use goaway::GoAway;
pub(super) use head::{HEAD, Head, INITIAL_MAX_FRAME_SIZE, flag};
pub(super) use headers::{Continuation, Headers};
pub(super) use ping::Ping;
pub(super) use rst_stream::RstStream;
pub(super) use settings::{Entries, SettingId, SettingsFrame};
pub(super) use window_update::WindowUpdate;

use super::error::Violation;
use super::frame_type::FrameType;

/// A received frame that borrows its payload from the receive buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// Part of the content of a message.
    Data(Data<'a>),
    /// A header block, or its first fragment.
    Headers(Headers<'a>),
    /// A further fragment of a header block.
    Continuation(Continuation<'a>),
    /// The abrupt end of a stream.
    RstStream(RstStream),
    /// Settings of the peer, or its acknowledgement of ours.
    Settings(SettingsFrame<'a>),
    /// A liveness check, or the answer to ours.
    Ping(Ping),
    /// The announcement that the connection ends.
    GoAway(GoAway<'a>),
    /// Permission to send more.
    WindowUpdate(WindowUpdate),
    /// A server push.
    PushPromise,
    /// A frame to be ignored: a priority, an extension, a frame of a future version.
    ///
    /// RFC 9113 §4.1: "Implementations MUST ignore and discard frames of unknown types."
    Ignored(FrameType),
}

impl<'a> Frame<'a> {
    /// Parses a complete frame.
    pub(super) fn parse(head: Head, payload: &'a [u8]) -> Result<Self, Violation> {
        Ok(match head.kind {
            FrameType::Data => Self::Data(Data::parse(head, payload)?),
            FrameType::Headers => Self::Headers(Headers::parse(head, payload)?),
            FrameType::Continuation => Self::Continuation(Continuation::parse(head, payload)?),
            FrameType::RstStream => Self::RstStream(RstStream::parse(head, payload)?),
            FrameType::Settings => Self::Settings(SettingsFrame::parse(head, payload)?),
            FrameType::Ping => Self::Ping(Ping::parse(head, payload)?),
            FrameType::GoAway => Self::GoAway(GoAway::parse(head, payload)?),
            FrameType::WindowUpdate => Self::WindowUpdate(WindowUpdate::parse(head, payload)?),
            FrameType::PushPromise => Self::PushPromise,
            FrameType::Priority => priority(head)?,
            FrameType::Unknown(_) => Self::Ignored(head.kind),
        })
    }

    /// Returns the type of the frame.
    pub(super) fn kind(&self) -> FrameType {
        match self {
            Self::Data(_) => FrameType::Data,
            Self::Headers(_) => FrameType::Headers,
            Self::Continuation(_) => FrameType::Continuation,
            Self::RstStream(_) => FrameType::RstStream,
            Self::Settings(_) => FrameType::Settings,
            Self::Ping(_) => FrameType::Ping,
            Self::GoAway(_) => FrameType::GoAway,
            Self::WindowUpdate(_) => FrameType::WindowUpdate,
            Self::PushPromise => FrameType::PushPromise,
            Self::Ignored(kind) => *kind,
        }
    }
}

/// Checks a PRIORITY frame, which is otherwise ignored.
///
/// RFC 9113 §6.3: "A PRIORITY frame with a length other than 5 octets MUST be treated as a stream
/// error of type FRAME_SIZE_ERROR". A stream about which nothing is known may be idle, and an idle
/// stream cannot be reset, so the error ends the connection.
fn priority(head: Head) -> Result<Frame<'static>, Violation> {
    head.stream()?;
    if head.length != 5 {
        return Err(Violation::FrameLength(head.kind));
    }
    Ok(Frame::Ignored(head.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payload has a valid length for the type; only the stream is wrong.
    #[test]
    fn a_frame_on_the_wrong_kind_of_stream_is_a_connection_error() {
        let on_stream_zero = [
            (FrameType::Data, 1),
            (FrameType::Headers, 1),
            (FrameType::Priority, 5),
            (FrameType::RstStream, 4),
            (FrameType::Continuation, 1),
        ];
        for (kind, length) in on_stream_zero {
            assert_eq!(
                Frame::parse(Head::new(kind, 0, 0, length), &vec![0; length]),
                Err(Violation::NeedsStream(kind)),
            );
        }
        for (kind, length) in [
            (FrameType::Settings, 6),
            (FrameType::Ping, 8),
            (FrameType::GoAway, 8),
        ] {
            assert_eq!(
                Frame::parse(Head::new(kind, 0, 1, length), &vec![0; length]),
                Err(Violation::NeedsConnection(kind)),
            );
        }
    }

    #[test]
    fn a_frame_too_short_or_too_long_for_its_kind_is_a_frame_size_error() {
        let wrong = [
            (FrameType::Priority, 1, 4),
            (FrameType::Priority, 1, 6),
            (FrameType::RstStream, 1, 3),
            (FrameType::RstStream, 1, 5),
            (FrameType::Settings, 0, 5),
            (FrameType::Settings, 0, 7),
            (FrameType::Ping, 0, 7),
            (FrameType::Ping, 0, 9),
            (FrameType::GoAway, 0, 7),
            (FrameType::WindowUpdate, 0, 3),
            (FrameType::WindowUpdate, 1, 5),
        ];
        for (kind, stream, length) in wrong {
            let violation = Frame::parse(Head::new(kind, 0, stream, length), &vec![0; length])
                .expect_err("the length is wrong");
            assert_eq!(
                violation,
                Violation::FrameLength(kind),
                "{kind} of {length}"
            );
        }
    }

    #[test]
    fn unknown_kinds_flags_and_the_reserved_bit_are_ignored() {
        let head = Head::parse(*b"\x00\x00\x02\xee\xff\x80\x00\x00\x07");
        assert_eq!(
            Frame::parse(head, b"hi"),
            Ok(Frame::Ignored(FrameType::Unknown(0xee)))
        );
        let ping = Head::parse(*b"\x00\x00\x08\x06\xfe\x80\x00\x00\x00");
        assert_eq!(
            Frame::parse(ping, b"12345678"),
            Ok(Frame::Ping(Ping {
                ack: false,
                opaque: *b"12345678"
            }))
        );
    }
}
