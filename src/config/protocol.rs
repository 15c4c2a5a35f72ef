//! Limits and times of gRPC and HTTP/2.

use std::time::Duration;

/// The largest reply to `GetInfo` that is accepted: a hundred times what any plugin says of itself
/// (octets; kubelet: 4 MiB, the default of its gRPC library).
pub const MAX_GET_INFO_REPLY: usize = 64 * 1024;

/// The largest reply to any other call: the default of most gRPC libraries, so that no plugin can
/// have relied on more (octets; kubelet: the same).
pub const MAX_REPLY: usize = 4 * 1024 * 1024;

/// How many messages of one connection are handled at once, before other connections have their
/// turn: a frame of 16 KiB may hold thousands, and a list of devices that is different every time
/// takes several microseconds (kubelet: no limit; a thread for each stream).
pub const MAX_EVENTS_AT_ONCE: usize = 64;

/// How many calls one connection may have at a time, under way or waiting for a stream: more than
/// any handler needs, few enough to look at each on every turn.
pub const MAX_CALLS: usize = 100;

/// How many streams a client may have open on one of our connections, and what we tell it of that:
/// the least that RFC 9113 §6.5.2 recommends.
pub const MAX_STREAMS: u32 = 100;

/// How many requests a client may take back, in excess of those that were answered: as many as it
/// may have open, for a client that gives up all at once.
pub const MAX_CANCELLED: u32 = 100;

/// How long a client of ours has from the headers of a request to its end: it is a message of a few
/// octets, and a client that drips it holds one of [`MAX_STREAMS`].
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client of ours has to take an answer that is complete: as long as it may leave
/// everything unread.
pub const ANSWER_TIMEOUT: Duration = WRITE_STALL_TIMEOUT;

/// With how much unsent no further message of a stream is taken from its server (octets). One
/// message may exceed it: its size is not known before it has come.
pub const UNSENT_MESSAGES: usize = 64 * 1024;

/// How long a client has for its preface and SETTINGS after its connection is accepted: a client
/// sends them with its first request. A server has what is left of its caller's dial budget,
/// [`DIAL_TIMEOUT`](super::DIAL_TIMEOUT).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a peer has from the first to the last frame of a header block, which holds up all
/// other streams: honest ones send it in one go.
pub const HEADER_BLOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a peer may leave unread what we write.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest header list that is accepted, advertised as SETTINGS_MAX_HEADER_LIST_SIZE, and the
/// most that is kept of a larger one: three times the metadata that servers were seen to send
/// (octets, with RFC 9113's 32 for each field; kubelet: 16 MiB, the default of its gRPC library).
///
/// What is advertised is what is accepted: servers such as grpc-go fail a call whose metadata
/// exceeds the advertised value, so a lower one would refuse replies that are accepted here.
pub const MAX_HEADER_LIST: usize = 64 * 1024;

/// The largest header list that costs only its stream; a larger one closes the connection. A peer
/// that does not know the limit exceeds it by a little (octets, counted the same way).
pub const MAX_DECODED_HEADERS: usize = 4 * MAX_HEADER_LIST;

/// The most fields that are accepted in one header list: an empty field costs memory, too.
pub const MAX_FIELDS: usize = 256;

/// The largest header block that is accepted, in all its frames and before it is decoded (octets).
pub const MAX_HEADER_BLOCK: usize = 64 * 1024;

/// The most CONTINUATION frames that are accepted in one header block. A block of
/// [`MAX_HEADER_BLOCK`] needs four at the initial frame size; empty ones would cost a peer nothing.
pub const MAX_CONTINUATIONS: u32 = 8;

/// The dynamic table that a peer may use for its header blocks: the protocol's initial value,
/// because lowering it is poorly supported (octets).
pub const HEADER_TABLE: usize = 4096;

/// The largest header block that we send: java and C-core refuse larger ones (octets).
pub const MAX_SENT_HEADER_BLOCK: usize = 8 * 1024;

/// How many 1xx answers may precede the final one: nothing that serves gRPC sends any.
pub const MAX_INFORMATIONAL: u8 = 8;

/// How much of a `grpc-message` is kept, and sent: enough for any honest reason, too little to fill
/// a log (octets).
pub const MAX_STATUS_MESSAGE: usize = 1024;

/// How large the details of a status may be that are kept, and sent, as they stand beside a message
/// for humans: of larger ones there is nothing, because half of them would mean nothing (octets).
pub const MAX_STATUS_DETAILS: usize = 1024;

/// How many values one SETTINGS frame may have: there are six, and extensions.
pub const MAX_SETTINGS: usize = 32;

/// How much of a GOAWAY's debug data is kept: a sentence (octets).
pub const MAX_GOAWAY_DEBUG: usize = 256;

/// How many frames that answer the peer may be unsent before reading stops until they are written:
/// about 1 KiB of them.
pub const MAX_UNSENT_ANSWERS: u32 = 64;

/// With how much unsent no further headers or data are queued: one frame of the largest size, so
/// that a writable socket always finds enough (octets).
pub const UNSENT_OCTETS: usize = 16 * 1024;

/// How many frames in a row may bring no call forward: PING, SETTINGS, PRIORITY,
/// `WINDOW_UPDATE`, `RST_STREAM`, frames on ended streams, extensions.
pub const MAX_IDLING_FRAMES: u32 = 1000;

/// How many DATA frames in a row may have no data; honest ones have none but to end a stream.
pub const MAX_EMPTY_DATA: u32 = 100;

/// After which time frames that brought nothing forward are forgiven: a keepalive every second is
/// rude, and no reason to end a connection that is open for days.
pub const IDLING_FORGIVEN: Duration = Duration::from_secs(60);
