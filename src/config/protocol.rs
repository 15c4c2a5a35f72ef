//! The limits and timeouts of gRPC and HTTP/2, and those that apply to clients of the API, too.

use std::time::Duration;

/// The maximum size of a reply to `GetInfo` (octets): a hundred times the usual size (kubelet: 4
/// MiB, the default of its gRPC library).
pub const MAX_GET_INFO_REPLY: usize = 64 * 1024;

/// The maximum size of a message that is small by its nature (octets): a CSI driver's reply about
/// the node, which is kept, and a reply to `Allocate`, which is passed to a command in an
/// environment variable (Linux allows 128 KiB); a request to register a device plugin, and any
/// request to a simulated plugin; and a reply that is empty or nearly so, such as that to
/// `NotifyRegistrationStatus`. Many times the size of known ones (kubelet: 4 MiB, the default of
/// its gRPC library).
pub const MAX_SMALL_MESSAGE: usize = 16 * 1024;

/// The maximum size of a reply to any other call (octets): the default of most gRPC libraries, so
/// no plugin can rely on more (kubelet: the same).
pub const MAX_REPLY: usize = 4 * 1024 * 1024;

/// The maximum number of streams that may be open on a connection. A server of this crate
/// advertises it as SETTINGS_MAX_CONCURRENT_STREAMS: the minimum that RFC 9113 §6.5.2 recommends.
/// A client of this crate has at most as many calls, open or waiting for a stream: more than any
/// handler needs, and few enough to look at each in every turn.
///
/// Also the maximum number of requests that a client may cancel in excess of those that were
/// answered, because a client may cancel all open ones at once.
pub const MAX_STREAMS: u32 = 100;

/// The time that a client has to send its preface and SETTINGS after its connection is accepted:
/// usually it sends them with its first request. A server has what is left of
/// [`DIAL_TIMEOUT`](super::DIAL_TIMEOUT) for its SETTINGS.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that a peer has for what it would do at once if it were well-behaved, even on a busy
/// machine: to send a header block, from its first to its last frame, which blocks all other
/// streams; to send a gRPC request, which has only a few octets and occupies one of
/// [`MAX_STREAMS`]; to send a request to the API, from the time its connection was accepted; to
/// read a response once all of it is queued; and to read any of the octets that were written.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum size of a header list that is accepted, advertised as SETTINGS_MAX_HEADER_LIST_SIZE;
/// no more is kept of a larger one, so that the memory that a peer can take up is limited. Three
/// times the metadata that servers were seen to send (octets, plus 32 for each field, as RFC 9113
/// counts them; kubelet: 16 MiB, the default of its gRPC library).
///
/// The advertised value is the limit that is enforced: servers such as grpc-go fail a call whose
/// metadata exceeds the advertised value, so a lower value would refuse replies that are accepted
/// here.
///
/// Also the maximum size of a header block, in all its frames and before it is decoded: a block
/// that is longer than its list, which counts 32 octets more for each field, is encoded badly.
pub const MAX_HEADER_LIST: usize = 64 * 1024;

/// The maximum size of a header list for which only the stream fails; a larger one closes the
/// connection. A peer that does not respect [`MAX_HEADER_LIST`] usually exceeds it only slightly
/// (octets, counted in the same way).
pub const MAX_DECODED_HEADERS: usize = 4 * MAX_HEADER_LIST;

/// The maximum number of fields that are accepted in one header list: an empty field costs memory,
/// too.
pub const MAX_FIELDS: usize = 256;

/// The maximum number of CONTINUATION frames in a header block that is accepted. A block of
/// [`MAX_HEADER_LIST`] fits into four frames of the initial size; empty frames would cost a peer
/// nothing.
pub const MAX_CONTINUATIONS: u32 = 8;

/// The maximum size of a header block that is sent (octets): gRPC Java and gRPC C-core refuse
/// larger ones.
pub const MAX_SENT_HEADER_BLOCK: usize = 8 * 1024;

/// The maximum number of 1xx responses before the final one: gRPC servers send none.
pub const MAX_INFORMATIONAL: u8 = 8;

/// The maximum length of each part of a reason that is kept or sent (octets): a `grpc-message`, the
/// status details (`grpc-status-details-bin`), which are dropped if they are larger, because a part
/// of them would be meaningless, and a GOAWAY's debug data. Enough for any genuine reason, and too
/// little to fill a log.
pub const MAX_REASON: usize = 1024;

/// The maximum number of values in one SETTINGS frame: RFC 9113 defines six, and there may be
/// extensions.
pub const MAX_SETTINGS: usize = 32;

/// The maximum number of unsent control frames, such as acknowledgements; at this number, reading
/// stops until they are written. That many frames take about 1 KiB.
pub const MAX_UNSENT_ANSWERS: u32 = 64;

/// The number of unsent octets at which no further headers or data are queued on a connection, no
/// further message on a server's stream, and no further records are rendered for a client of the
/// API that follows changes: one frame of the initial maximum size, or about thirty records, so
/// that there is always enough to write when the socket becomes writable. The last message or
/// record may exceed this number: its size is not known in advance.
pub const MAX_UNSENT_OCTETS: usize = 16 * 1024;

/// The maximum number of frames within [`FLOOD_WINDOW`] that advance none of the calls: PING,
/// SETTINGS, PRIORITY, `WINDOW_UPDATE`, `RST_STREAM`, DATA without data that does not end its
/// stream, frames on ended streams, extensions.
pub const MAX_FRAMES_WITHOUT_PROGRESS: u32 = 1000;

/// The time after which the flood counters are reset: a peer that sends a keepalive every second is
/// not a reason to close a connection that is open for days.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(60);
