//! The limits and timeouts of gRPC and HTTP/2.

use std::time::Duration;

/// The largest reply to `GetInfo` that is accepted: a hundred times the usual one (octets; kubelet:
/// 4 MiB, the default of its gRPC library).
pub const MAX_GET_INFO_REPLY: usize = 64 * 1024;

/// The largest reply to any other call: the default of most gRPC libraries, so no plugin can rely
/// on more (octets; kubelet: the same).
pub const MAX_REPLY: usize = 4 * 1024 * 1024;

/// The maximum number of messages of one connection that are handled at once, before other
/// connections have their turn: a frame of 16 KiB may hold thousands, and a list of devices that is
/// different every time takes several microseconds (kubelet: no limit; a thread for each stream).
pub const MAX_EVENTS_AT_ONCE: usize = 64;

/// The maximum number of calls of one connection at a time, open or waiting for a stream: more than
/// any handler needs, and few enough to look at each in every turn.
pub const MAX_CALLS: usize = 100;

/// The maximum number of streams that a client may have open on a connection to a server of this
/// crate, advertised as SETTINGS_MAX_CONCURRENT_STREAMS: the least that RFC 9113 §6.5.2 recommends.
pub const MAX_STREAMS: u32 = 100;

/// The maximum number of requests that a client may cancel in excess of those that were answered:
/// as many as it may have open, for a client that cancels all of them at once.
pub const MAX_CANCELLED: u32 = 100;

/// The time that a client has from the headers of a request to its end: the message has a few
/// octets, and a client that sends it slowly occupies one of [`MAX_STREAMS`].
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that a client has to read a complete answer: as long as it may leave everything unread.
pub const ANSWER_TIMEOUT: Duration = WRITE_STALL_TIMEOUT;

/// The number of unsent octets of a stream at which its server cannot queue another message. One
/// message may exceed this number: its size is not known in advance.
pub const UNSENT_MESSAGES: usize = 64 * 1024;

/// The time that a client has for its preface and SETTINGS after its connection is accepted: a
/// client sends them with its first request. A server has the rest of its caller's dial budget,
/// [`DIAL_TIMEOUT`](super::DIAL_TIMEOUT).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that a peer has from the first to the last frame of a header block, which blocks all
/// other streams: honest peers send the block at once.
pub const HEADER_BLOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that a peer may leave written octets unread.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest header list that is accepted, advertised as SETTINGS_MAX_HEADER_LIST_SIZE, and the
/// most that is kept of a larger one: three times the metadata that servers were seen to send
/// (octets, with RFC 9113's 32 for each field; kubelet: 16 MiB, the default of its gRPC library).
///
/// The advertised value is the accepted one: servers such as grpc-go fail a call whose metadata
/// exceeds the advertised value, so a lower value would refuse replies that are accepted here.
pub const MAX_HEADER_LIST: usize = 64 * 1024;

/// The largest header list that costs only its stream; a larger one closes the connection. A peer
/// that does not know the limit exceeds it by a little (octets, counted the same way).
pub const MAX_DECODED_HEADERS: usize = 4 * MAX_HEADER_LIST;

/// The maximum number of fields that are accepted in one header list: an empty field costs memory,
/// too.
pub const MAX_FIELDS: usize = 256;

/// The largest header block that is accepted, in all its frames and before it is decoded (octets).
pub const MAX_HEADER_BLOCK: usize = 64 * 1024;

/// The maximum number of CONTINUATION frames that are accepted in one header block. A block of
/// [`MAX_HEADER_BLOCK`] fits four frames of the initial size; empty frames would cost a peer
/// nothing.
pub const MAX_CONTINUATIONS: u32 = 8;

/// The dynamic table that a peer may use for its header blocks: the protocol's initial value,
/// because lowering it is poorly supported (octets).
pub const HEADER_TABLE: usize = 4096;

/// The largest header block that is sent: java and C-core refuse larger ones (octets).
pub const MAX_SENT_HEADER_BLOCK: usize = 8 * 1024;

/// The maximum number of 1xx responses before the final one: gRPC servers send none.
pub const MAX_INFORMATIONAL: u8 = 8;

/// The length of a `grpc-message` that is kept, and sent: enough for any honest reason, too little
/// to fill a log (octets).
pub const MAX_STATUS_MESSAGE: usize = 1024;

/// The largest status details that are kept, and sent, besides a message for humans. Larger details
/// are dropped, because a part of them would be meaningless (octets).
pub const MAX_STATUS_DETAILS: usize = 1024;

/// The maximum number of values in one SETTINGS frame: there are six, and extensions.
pub const MAX_SETTINGS: usize = 32;

/// The length of a GOAWAY's debug data that is kept: a sentence (octets).
pub const MAX_GOAWAY_DEBUG: usize = 256;

/// The maximum number of unsent frames that answer the peer, before reading stops until they are
/// written: about 1 KiB.
pub const MAX_UNSENT_ANSWERS: u32 = 64;

/// The number of unsent octets at which no further headers or data are queued: one frame of the
/// largest size, so that there is always enough for a writable socket.
pub const UNSENT_OCTETS: usize = 16 * 1024;

/// The maximum number of frames within [`FLOOD_WINDOW`] that advance none of the calls: PING,
/// SETTINGS, PRIORITY, `WINDOW_UPDATE`, `RST_STREAM`, frames on ended streams, extensions.
pub const MAX_FRAMES_WITHOUT_PROGRESS: u32 = 1000;

/// The maximum number of empty DATA frames in a row; honest peers send one only to end a stream.
pub const MAX_EMPTY_DATA: u32 = 100;

/// The time after which the flood counters are reset: a keepalive every second is rude, but not a
/// reason to close a connection that is open for days.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(60);
