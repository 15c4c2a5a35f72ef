//! The limits and timeouts of everything but gRPC and HTTP/2, which `protocol.rs` has; one section
//! for each part of the daemon, after those that apply to several parts.

use std::time::Duration;

use super::MEBIBYTE;
use crate::backoff::Backoff;

// --- Several parts -------------------------------------------------------------------------------

/// The maximum number of similar pieces of work that are done before others have their turn:
/// messages of one call (a frame of 16 KiB may contain thousands, and a list of devices that
/// differs every time takes several microseconds), and links by name that are set. So many take
/// about a millisecond (kubelet: no limit; a thread for each stream).
pub const MAX_AT_ONCE: usize = 64;

/// The minimum time between two updates that follow changes of the plugins: of the status that the
/// service manager shows, of the links to plugins by name, and of what is known about mounts (a
/// starting pod mounts several times); also the time between a change and the write of the state
/// file. So a burst of registrations causes one write, no registration waits for it, and a plugin
/// that flaps causes one update per second (kubelet: has none of these, and does not notice
/// mounts).
pub const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before what the system has refused is tried again: a scan of a directory that cannot
/// be watched or read (kubelet: does not try again), or accepting clients when the process has run
/// out of file descriptors.
pub const SYSTEM_RETRY: Duration = Duration::from_secs(1);

/// The pause before files that could not be written are written again: the links to plugins by
/// name, all of which are compared with the registered plugins then, and the CDI files. The pause
/// does not grow: a repetition costs little, and only the first failure is logged.
pub const FILE_RETRY: Duration = Duration::from_secs(5);

/// The pause between attempts to write to a reader that does not read: the log's, or the service
/// manager, which serves all services of the machine, for a notification that must arrive. The
/// pause does not grow, so that the text arrives soon after the reader returns.
pub const READER_RETRY: Duration = Duration::from_millis(250);

/// The maximum length of a file name on most file systems (octets; Linux: `NAME_MAX`).
pub const MAX_FILE_NAME: usize = 255;

// --- The API -------------------------------------------------------------------------------------

/// The maximum number of clients of the API socket: several operators and a scraper, each of which
/// may follow changes. Half of them may connect through a socket for metrics, which may be open to
/// the network: the rest is for operators. Further clients get a response with status 503 (kubelet:
/// has no such socket).
pub const API_CLIENTS: usize = 16;

/// The part of [`API_CLIENTS`] that is reserved for root and the daemon's user, which may make
/// changes, so that readers cannot lock operators out.
pub const API_CLIENTS_KEPT: usize = 4;

/// The maximum number of clients that hold devices, or wait for some, in addition to
/// [`API_CLIENTS`]: more than a node has GPUs. If the process may have few descriptors, at most one
/// in eight is used for these clients. Further clients get a response with status 503.
pub const MAX_LEASES: usize = 128;

/// The maximum number of resources in one request for devices.
pub const MAX_LEASED_RESOURCES: usize = 8;

/// The maximum number of devices of one resource in a request.
pub const MAX_LEASED_DEVICES: usize = 256;

/// The maximum length of the head of a request (octets): many times what `curl` sends, and as much
/// as common HTTP servers accept.
pub const API_HEAD: usize = 8 * 1024;

/// The maximum number of header fields of a request: `curl` sends three, a browser about fifteen.
pub const API_FIELDS: usize = 64;

/// The time after which the connection of a client that reads nothing is closed. A command whose
/// pager pauses for longer loses the rest of its output.
pub const API_STALL: Duration = Duration::from_secs(30);

/// The maximum length of the body of a response to a client that does not follow changes (octets):
/// 8 KiB for each of [`MAX_SOCKETS`] records, which is many times the usual length.
pub const API_BODY: usize = 16 * 1024 * 1024;

/// The output for all clients after which rendering ends for this turn (octets): only the response
/// that exceeds this limit may be long, so plugins wait for one long list at most.
pub const API_TURN: usize = 32 * 1024;

/// The maximum number of NUMA nodes of a device in a list: as many as Linux supports on x86-64.
pub const API_DEVICE_NODES: usize = 1024;

/// The time for which changes gather for a client that follows them, from the first one: a
/// registration is several changes, each output wakes the client, and rendering the first change
/// would delay the registration.
pub const API_FOLLOW_PAUSE: Duration = Duration::from_millis(10);

/// The number of clients of the API, and of `kubelet.sock`, that may wait to be accepted: usually
/// none waits for more than a few turns of the event loop. Beyond this number, the kernel refuses a
/// client or makes its `connect` wait (kubelet: usually 4,096).
pub const BACKLOG: i32 = 64;

/// The time that clients have to read their last response when the daemon stops.
pub const API_STOP_GRACE: Duration = Duration::from_secs(1);

// --- The manager ---------------------------------------------------------------------------------

/// The time for which the daemon waits at its start for another daemon that uses the same
/// directory, because that daemon may be about to end (kubelet: has no lock).
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The equivalent of [`LOCK_TIMEOUT`] if no running process is known to hold the lock: the lock of
/// a killed daemon is held by its children until each has executed its program or ended, for which
/// they need a processor and perhaps a slow disk. If the start failed sooner, systemd would repeat
/// it, and give up after five attempts in 10 s.
pub const LEFT_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for connecting to a socket, from the first dial to the server's SETTINGS
/// (kubelet: `dialTimeoutDuration`, 10 s).
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for `GetInfo` once connected (kubelet: 1 s).
pub const GET_INFO_TIMEOUT: Duration = Duration::from_secs(1);

/// The time limit for `NotifyRegistrationStatus` (kubelet: `notifyTimeoutDuration`, 5 s).
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The pauses after a new socket has refused a connection: it is bound a moment before its plugin
/// listens, so one in two plugins is dialed in between, and most of those only wait for a
/// processor. A plugin that takes seconds to listen is dialed within the cap after that (kubelet:
/// gRPC's own backoff, from about 1 s).
pub const DIAL_RETRY: Backoff = Backoff {
    first: Duration::from_micros(5),
    cap: Duration::from_secs(1),
};

/// The first pause of [`DIAL_RETRY`] for a socket that existed when the daemon started: its plugin
/// listens or has ended, and those that listen are called first (kubelet: makes no difference).
pub const DIAL_RETRY_AT_START: Duration = Duration::from_millis(10);

/// The backoff of a socket that exists and refuses connections, for [`REDIAL_PERIOD`]: a plugin
/// that binds its socket and listens much later is dialed within the cap after that (kubelet:
/// [`BACKOFF`]).
pub const REDIAL: Backoff = Backoff {
    cap: Duration::from_secs(3),
    ..BACKOFF
};

/// The time for which [`REDIAL`] applies after a socket was first seen: a plugin that does not
/// listen by then has probably ended without removing its socket.
pub const REDIAL_PERIOD: Duration = Duration::from_secs(600);

/// The minimum pause between two dials of any sockets that have refused connections: thousands of
/// dead sockets cost 20 dials per second.
pub const REDIAL_INTERVAL: Duration = Duration::from_millis(50);

/// The backoff of a socket whose plugin could not be registered (kubelet:
/// `initialDurationBeforeRetry`, 500 ms, and `maxDurationBeforeRetry`, 2 m 2 s).
pub const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(500),
    cap: Duration::from_secs(122),
};

/// The time after a socket was first seen for which every failure of its plugin is retried with
/// backoff: many plugins are not ready yet when they begin to listen, and are called a millisecond
/// later. After this time, a failure that does not end by itself is retried after the cap of
/// [`BACKOFF`] (kubelet: the backoff for every failure at all times).
pub const FIRST_MINUTE: Duration = Duration::from_secs(60);

/// The time limit for a handler's answer: enough for the longest known work, a CSI plugin's
/// `NodeGetInfo` (2 min), with its dial (10 s) and a margin (kubelet: no limit).
pub const HANDLER_TIMEOUT: Duration = Duration::from_secs(150);

/// The time that a handler may take to answer before the next socket with the same plugin name
/// proceeds: longer than a plugin that answers needs, and short enough for a plugin that waits for
/// a stalled one (kubelet: keeps no order between sockets).
pub const STALLED_AFTER: Duration = Duration::from_secs(5);

/// The time limit for a program that does a handler's work: several times what a program that waits
/// for a device needs, and well below [`HANDLER_TIMEOUT`], so that one program may wait for another
/// (kubelet: has no such programs).
pub const EXEC_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of attempts to start a program for `del`, with the pauses of [`BACKOFF`]: 16 minutes
/// in total, which is longer than an upgrade of a package takes.
pub const MAX_DEL_TRIES: u32 = 16;

/// The maximum number of `del` programs of one plugin type that wait for another attempt: each
/// holds everything that its plugin reported.
pub const MAX_OWED: usize = 1024;

/// The maximum number of programs that run at once; the others wait. Each is a process, and a node
/// may have few cores. Half of them may be for one plugin type, so that programs that hang do not
/// delay other types.
pub const MAX_PROGRAMS: usize = 16;

/// The amount of a program's standard error that is kept (bytes): its first line that is not blank
/// is shown as the reason of a failure, and a long one with the number of bytes that are left out.
pub const MAX_PROGRAM_ERRORS: usize = 4 * 1024;

/// The number of operations that wait at once for plugins to answer, above which new attempts are
/// queued (kubelet: no limit): more would not be faster, and the process does not give back the
/// memory that simultaneous operations have needed.
pub const SOFT_OPERATION_LIMIT: usize = 16;

/// The time after which an operation passes its permit on if other sockets wait, and does not
/// count towards [`SOFT_OPERATION_LIMIT`]: longer than a plugin that answers needs, and so short
/// that hundreds of silent plugins delay the others only for a moment.
pub const PERMIT_TIME: Duration = Duration::from_millis(5);

/// The number of descriptors that are not used for plugins: for the event loop, the watches, the
/// log, files, the start of a program, and [`API_CLIENTS`] (kubelet: no such reserve).
pub const DESCRIPTOR_RESERVE: usize = 32 + API_CLIENTS;

/// The minimum limit of file descriptors with which the daemon starts: with little more than
/// [`DESCRIPTOR_RESERVE`], it would start, but register plugins slowly or not at all.
pub const LEAST_DESCRIPTORS: usize = DESCRIPTOR_RESERVE + 16;

/// The minimum time between two warnings about a shortage of descriptors, which may last for days
/// (kubelet: no such warning).
pub const SHORTAGE_WARNING_INTERVAL: Duration = Duration::from_secs(600);

/// The pause between two checks of a registered plugin that is not watched for lack of a
/// descriptor, or whose process cannot be watched and which closes idle connections: a closed
/// connection does not mean that such a plugin is down (kubelet: does not notice a plugin that is
/// down).
pub const SLOW_CHECK: Duration = Duration::from_secs(30);

/// The addition to [`SLOW_CHECK`] for each plugin that is not watched, so that there are at most a
/// hundred checks per second, however many plugins there are.
pub const SLOW_CHECK_SHARE: Duration = Duration::from_millis(10);

/// The interval at which every socket is examined even without an event: a safety net that should
/// never find anything (kubelet: every second).
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(300);

/// The time that a plugin may be down before it is deregistered, if the user wants that without
/// specifying a time: a container that is restarted in place is up well before.
pub const DOWN_GRACE: Duration = Duration::from_secs(30);

/// The time that running operations have to end when the daemon stops.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// The maximum length of a plugin type or name (bytes), about four times the 253 of the longest
/// names in Kubernetes (kubelet: limited by the size of a reply); and the length above which a
/// device ID is cut in a list: UUIDs and paths are far shorter, but a plugin may send 4 MiB.
pub const MAX_NAME_LEN: usize = 1024;

/// The maximum length of a plugin's endpoint (bytes): Linux's limit for a path (kubelet: limited by
/// the size of a reply).
pub const MAX_ENDPOINT: usize = 4096;

/// The maximum number of versions that a plugin may report: a CSI driver reports one, a DRA driver
/// a few (kubelet: limited by the size of a reply).
pub const MAX_VERSIONS: usize = 256;

/// The maximum length of a plugin's version (octets): the longest known ones are service names such
/// as `v1beta1.DRAPlugin` (kubelet: limited by the size of a reply).
pub const MAX_VERSION: usize = 128;

/// The pauses between attempts to write the state file after a failure: the disk may be full for
/// days.
pub const STATE_FILE_RETRY: Backoff = Backoff {
    first: UPDATE_INTERVAL,
    cap: Duration::from_secs(60),
};

/// The maximum length of the configuration file (octets): about a thousand lines.
pub const MAX_CONFIG_FILE: usize = 64 * 1024;

/// The maximum number of problems of a configuration that are listed: as many as fit on a screen.
/// The others are counted.
pub const MAX_CONFIG_PROBLEMS: usize = 20;

/// The maximum length of the state file (octets): 4 KiB for each of [`MAX_SOCKETS`] plugins, which
/// is several times the usual need. If the file would be longer, the longest entries are left out.
pub const MAX_STATE_FILE: usize = 8 * 1024 * 1024;

/// The time for which the daemon waits at its start for a lock that another running daemon may hold
/// permanently: if that daemon was killed a moment ago, the kernel is about to release the lock.
pub const BRIEF_LOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// The time limit for `Allocate` and the calls around it (kubelet: none), and for the registration
/// of a simulated device plugin at `kubelet.sock`, during which kubelet calls the plugin (NVIDIA's
/// plugin: none).
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The pauses before `Allocate` is called again for the devices without a valid answer: the call
/// failed, the reply is not valid, or the memory budget has no room for it.
pub const ALLOCATE_RETRY: Backoff = Backoff {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(300),
};

// --- Memory --------------------------------------------------------------------------------------

/// The default memory budget, in octets, for all plugins together: enough for a hundred device
/// plugins with a thousand devices each (kubelet: no limit).
pub const MEMORY_BUDGET: usize = 16 * MEBIBYTE;

/// The minimum memory budget that can be configured: what a hundred ordinary plugins need.
pub const LEAST_MEMORY_BUDGET: usize = MEBIBYTE;

/// The number of octets that are not counted for each holder, such as a connection or a list of
/// devices: several times what a connection and a list of a few hundred devices take.
pub const SMALL_SHARE: usize = 16 * 1024;

// --- The handlers --------------------------------------------------------------------------------

/// The time that plugins have to be ready. For this time after its registration socket was first
/// seen, a plugin's endpoint may not be ready yet: many plugins serve the endpoint a few hundred
/// milliseconds later, or from another process (kubelet: no such time, but it begins to register
/// plugins only once per second). And after this time from the first scan, the daemon counts as
/// ready even if it has not dialed all sockets that were found.
pub const READY_GRACE: Duration = Duration::from_secs(2);

/// The pauses before an endpoint that was not ready is called again.
pub const READY_RETRY: Backoff = Backoff {
    first: Duration::from_millis(50),
    cap: READY_GRACE,
};

/// The time limit for a handler's first call to a plugin, within [`HANDLER_TIMEOUT`]: a CSI
/// driver's `NodeGetInfo` (kubelet: 2 min), and `GetDevicePluginOptions` with the dial, because
/// many device plugins set up their devices first (kubelet: 10 s for the dial, then no limit).
pub const HANDLER_CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The minimum period at which a registered CSI driver is asked again for the node's information
/// (kubelet: the same, 10 s).
pub const LEAST_CSI_NODE_INFO: Duration = Duration::from_secs(10);

/// The time for which the devices of a plugin are kept, marked as unhealthy, after its stream has
/// ended (kubelet: `endpointStopGracePeriod`, 5 min). Also the time after which a plugin that
/// registered by calling `kubelet.sock` is deregistered: if it is down and the user has not set
/// another time, or if it has not called again since a restart of the daemon.
pub const DEVICE_GRACE: Duration = Duration::from_secs(300);

/// The maximum number of plugins that have registered by calling `kubelet.sock`, except for those
/// that call again: a node has a few device plugins (kubelet: no limit).
pub const MAX_ANNOUNCED: usize = 1024;

/// The part of [`MAX_ANNOUNCED`] that one process may use, so that no process can use up all of it
/// (kubelet: no limit).
pub const MAX_ANNOUNCED_OF_PROCESS: usize = 64;

/// The maximum number of clients of `kubelet.sock` without a call in progress. Together with
/// clients that have one, there may be twice as many; further clients wait to be accepted (kubelet:
/// no limit).
pub const MAX_REGISTRATIONS: usize = 64;

/// The time that a process's only client of `kubelet.sock` has to call `Register` before it may be
/// closed to make room for another one: a gRPC client calls a few milliseconds after it has
/// connected (kubelet: no such time).
pub const REGISTRATION_PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of calls in progress of one client of `kubelet.sock`: plugins usually use a
/// connection for each call (kubelet: no limit).
pub const MAX_CLIENT_REGISTRATIONS: usize = 16;

/// The pauses between attempts to create `kubelet.sock`; after its removal, the first attempt is
/// made at once.
pub const REGISTRATION_RETRY: Backoff = Backoff {
    first: Duration::from_millis(100),
    cap: Duration::from_secs(10),
};

/// The maximum number of devices of one plugin: a hundred times what known plugins list. A list of
/// that length takes a few milliseconds (kubelet: limited by the size of a message).
pub const MAX_DEVICES: usize = 16_384;

/// The time after which the health of a DRA driver's device is unknown unless the driver reports it
/// again, if the driver does not specify a time (kubelet: `defaultHealthTimeout`, 30 s).
pub const DRA_HEALTH_TIMEOUT: Duration = Duration::from_secs(30);

/// The minimum time between two lists of one plugin that are applied. Of the lists that arrive
/// sooner, the newest is applied when this time is over (kubelet: applies every list).
pub const LIST_INTERVAL: Duration = Duration::from_millis(100);

// --- Queues --------------------------------------------------------------------------------------

/// The capacity that an empty queue keeps (entries): the memory that a burst has needed beyond it
/// is freed.
pub const IDLE_QUEUE_CAPACITY: usize = 16;

// --- The log -------------------------------------------------------------------------------------

/// The log volume allowed for one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShare {
    /// The volume allowed at once, after a silence (bytes).
    pub burst: u32,
    /// The volume allowed per second in the long run (bytes).
    pub rate: u32,
}

/// The share of all lines that peers cause: a hundred plugins that register at once fit into the
/// burst, and in any two seconds, these lines and those of [`LOG_SHARE_OF_DAEMON`] together stay
/// below 64 KiB/s (kubelet: no limit).
pub const LOG_SHARE_OF_PEERS: LogShare = LogShare {
    burst: 56 * 1024,
    rate: 16 * 1024,
};

/// The share of the daemon's own lines, such as those of a reload.
pub const LOG_SHARE_OF_DAEMON: LogShare = LogShare {
    burst: 24 * 1024,
    rate: 4 * 1024,
};

/// The share of one socket or plugin: a hundred lines at once, and two lines per second in the long
/// run.
pub const LOG_SHARE_OF_PLUGIN: LogShare = LogShare {
    burst: 16 * 1024,
    rate: 256,
};

/// The time for which suppressed lines are counted before their number is logged.
pub const LOG_REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// The maximum number of shares that are remembered: beyond that, the fullest one is dropped, and
/// its subject has a full share again. Few plugins log much at the same time.
pub const MAX_LOG_SHARES: usize = 32;

/// The size of the buffer for log lines while standard error cannot be written (bytes). Lines that
/// do not fit are counted and dropped.
pub const LOG_BUFFER: usize = 64 * 1024;

/// The part of [`LOG_BUFFER`] for lines that peers cause: the rest is for the daemon's own lines.
pub const LOG_BUFFER_OF_PEERS: usize = 48 * 1024;

// --- The watch -----------------------------------------------------------------------------------

/// The pauses between scans of a directory that changes continually: a plugin in a directory that
/// is renamed repeatedly may wait for the longest pause (kubelet: no pause; it scans a directory at
/// each creation).
pub const SCAN_PAUSES: Backoff = Backoff {
    first: Duration::from_millis(10),
    cap: Duration::from_secs(5),
};

/// The pause after a scan of all directories because events were lost. The pause does not grow:
/// plugins in all directories wait for it if one directory floods the event queue (kubelet: only
/// logs that events were lost).
pub const ROUND_PAUSE: Duration = Duration::from_millis(20);

/// The pauses between examinations of a known name that changes continually (kubelet: no pause; it
/// examines a name at each creation). A plugin that restarts takes longer than the first pause to
/// bind its socket.
pub const EXAMINE_PAUSES: Backoff = Backoff {
    first: Duration::from_millis(1),
    cap: Duration::from_secs(1),
};

/// The time without a change, counted from the end of the last pause, after which a directory or a
/// name starts with the first pause again.
pub const PAUSE_CALM: Duration = Duration::from_secs(10);

/// The maximum number of levels of subdirectories that are watched (kubelet: no limit). Plugins use
/// one.
pub const MAX_TREE_DEPTH: usize = 16;

/// The maximum number of plugin sockets that are remembered (kubelet: no limit). A node has tens;
/// any process that may write to the directory can create more.
pub const MAX_SOCKETS: usize = 2048;

/// The pauses between scans of a directory that exceeds a limit, or is already watched under
/// another path: either may last for a long time.
pub const LIMITED_RETRY: Backoff = Backoff {
    first: SYSTEM_RETRY,
    cap: Duration::from_secs(60),
};

/// The maximum number of directories that are watched, each with its own inotify watch (kubelet: no
/// limit). The kernel's own limit per user is at least 8,192 by default.
pub const MAX_DIRECTORIES: usize = 1024;

/// The maximum number of names in one directory that are read, which takes a few milliseconds
/// (kubelet: no limit).
pub const MAX_NAMES: usize = 16_384;

/// The maximum number of names in one directory that are examined because they may be plugin
/// sockets; the name of a symbolic link counts twice (kubelet: no limit). It leaves room for other
/// directories, and a directory is read in one turn of the event loop: 768 links take 10 ms.
pub const MAX_EXAMINED_NAMES: usize = MAX_SOCKETS / 4 * 3;

// --- Readers of the state ------------------------------------------------------------------------

/// The limits of a list that is kept for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The maximum number of entries.
    pub count: usize,
    /// The maximum memory for all entries together, approximately (octets).
    pub octets: usize,
}

impl Capacity {
    /// Returns whether so many entries, or so many octets of them, exceed the limits.
    pub fn is_exceeded_by(self, count: usize, octets: usize) -> bool {
        count > self.count || octets > self.octets
    }
}

/// The capacity for events: an operator looks at the last minutes. Its count is also the default
/// limit on the number of events that are kept until an embedder reads them, which
/// [`PluginManager::keep_events`](crate::daemon::PluginManager::keep_events) overrides; the oldest
/// are dropped first (kubelet: keeps none).
pub const KEPT_EVENTS: Capacity = Capacity {
    count: 256,
    octets: 64 * 1024,
};

/// The number of the newest events about security that are not displaced by events of other
/// sockets.
pub const KEPT_SECURITY_EVENTS: usize = 64;

/// The capacity for events of one socket or directory, so that one that flaps does not displace the
/// events of others. One event is always kept: its size is bounded by the limits of its parts.
pub const KEPT_EVENTS_OF_ONE: Capacity = Capacity {
    count: 8,
    octets: 8 * 1024,
};

/// The capacity for the paths of removed records, which are remembered for readers that follow
/// changes: a reader that has missed more reads everything again.
pub const REMOVED_RECORDS: Capacity = Capacity {
    count: 256,
    octets: 16 * 1024,
};

// --- The simulated plugin ------------------------------------------------------------------------

/// The maximum number of connections to a simulated plugin: several times what a node agent needs.
/// Further ones wait to be accepted, and the kernel limits their number.
pub const MAX_SIMULATED_CLIENTS: usize = 32;

/// The pauses of a simulated device plugin after its registration at `kubelet.sock` has failed: a
/// socket refuses connections between `bind` and `listen`. The longest equals kubelet's first pause
/// before it restarts a container, because most device plugins exit when they are refused.
pub const REGISTER_RETRY: Backoff = Backoff {
    first: Duration::from_millis(100),
    cap: Duration::from_secs(10),
};
