//! The limits and timeouts of everything but gRPC and HTTP/2, one section per layer, from the
//! outermost to the innermost.

use std::time::Duration;

use crate::backoff::Backoff;

// --- The API -------------------------------------------------------------------------------------

/// The maximum number of clients of the API socket: several operators and a scraper, with a watch
/// each. Further ones are answered with 503 (kubelet has no such socket).
pub const API_CLIENTS: usize = 16;

/// The part of [`API_CLIENTS`] that is kept for root and the user of the daemon, who may change
/// something, so that readers cannot keep operators out.
pub const API_CLIENTS_KEPT: usize = 4;

/// The maximum number of clients that hold devices, or wait for some, in addition to
/// [`API_CLIENTS`]: more than a node has GPUs, and a small part of its descriptors. Further ones
/// are answered with 503.
pub const MAX_LEASES: usize = 128;

/// The maximum number of resources of which a client gets devices at once.
pub const MAX_LEASED_RESOURCES: usize = 8;

/// The maximum number of devices of a resource that a client gets at once.
pub const MAX_LEASED_DEVICES: usize = 256;

/// The maximum number of API clients that connect through a socket for metrics, which may be open
/// to the network: the others are left to operators.
pub const METRICS_CLIENTS: usize = API_CLIENTS / 2;

/// The longest head of a request (octets): many times what `curl` sends, and as much as the header
/// fields of common HTTP servers may have.
pub const API_HEAD: usize = 8 * 1024;

/// The maximum number of header fields of a request: `curl` sends three, a browser about fifteen.
pub const API_FIELDS: usize = 64;

/// The time limit for a request after its connection was accepted: more than a client on a busy
/// machine needs, and so little that silent clients do not keep others out for long.
pub const API_REQUEST_TIME: Duration = Duration::from_secs(10);

/// The time after which the connection of a client that reads nothing is closed: a command whose
/// pager is stopped for longer loses the rest of its output.
pub const API_STALL: Duration = Duration::from_secs(30);

/// The output that may wait for one client that follows changes (octets): nothing more is rendered
/// above it. About thirty records.
pub const API_OUTPUT: usize = 16 * 1024;

/// The longest body of another response (octets): 8 KiB for each of [`MAX_SOCKETS`] records, which
/// is many times the usual length.
pub const API_BODY: usize = 16 * 1024 * 1024;

/// The output that is rendered in one turn for all clients (octets): the response that exceeds it
/// is the last one, so plugins wait for one long list at most.
pub const API_TURN: usize = 32 * 1024;

/// The length above which the ID of a device is cut in a list (octets): a plugin may send one of 4
/// MiB, which would take several turns. UUIDs and paths are far shorter.
pub const API_DEVICE_ID: usize = 1024;

/// The maximum number of NUMA nodes of a device in a list: as many as Linux supports on x86-64.
pub const API_DEVICE_NODES: usize = 1024;

/// The time for which changes are gathered for a client that follows them, after it got the last
/// ones: a registration is several changes, and each piece of output wakes the client.
pub const API_FOLLOW_PAUSE: Duration = Duration::from_millis(10);

/// The number of clients of the API, and of `kubelet.sock`, that wait to be accepted: they are
/// accepted within a few turns. The kernel refuses a client beyond this number, or lets it wait
/// (kubelet: 4,096 as a rule).
pub const BACKLOG: i32 = 64;

/// The pause before clients are accepted again after the process has run out of descriptors.
pub const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// The time for which clients may read their last response when the daemon stops.
pub const API_STOP_GRACE: Duration = Duration::from_secs(1);

// --- The service manager -------------------------------------------------------------------------

/// The pause before a notification that must arrive is sent again: the service manager, which
/// serves all services of the machine, has not read the earlier ones yet.
pub const NOTIFY_RETRY: Duration = Duration::from_millis(250);

/// The minimum time between two notifications of the status: operators cannot follow more, and a
/// plugin may change its state many times in a second.
pub const STATUS_PAUSE: Duration = Duration::from_secs(1);

/// The shortest pause between two watchdog notifications: a service manager whose timeout is less
/// than twice this time would end a daemon that is only busy, too.
pub const WATCHDOG_MIN: Duration = Duration::from_millis(10);

/// The longest pause between two watchdog notifications, however long the timeout of the service
/// manager is.
pub const WATCHDOG_MAX: Duration = Duration::from_secs(60 * 60);

// --- The manager ---------------------------------------------------------------------------------

/// The time for which a start waits for another daemon that uses the same directory: that daemon
/// may be about to end (kubelet: has no lock).
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The same time if no running process is known to hold the lock: the lock of a killed daemon is
/// held by its children until each has executed its program or ended, for which they need a
/// processor and perhaps a slow disk. A start that fails earlier is repeated, and systemd gives up
/// after five in 10 s.
pub const LEFT_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for connecting to a socket, from the first dial to the server's SETTINGS
/// (kubelet: `dialTimeoutDuration`, 10 s).
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for `GetInfo` once connected (kubelet: 1 s).
pub const GET_INFO_TIMEOUT: Duration = Duration::from_secs(1);

/// The time limit for `NotifyRegistrationStatus` (kubelet: `notifyTimeoutDuration`, 5 s).
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The pauses after a new socket has refused a connection: it is bound a moment before its plugin
/// listens, so one in two plugins is dialed in between, and most of them only have to be scheduled
/// again. A plugin that takes seconds to listen is dialed at most the cap later (kubelet: gRPC's
/// own backoff, from about 1 s).
pub const DIAL_RETRY: Backoff = Backoff {
    first: Duration::from_micros(5),
    cap: Duration::from_secs(1),
};

/// The backoff of a socket that exists and refuses connections, for [`REDIAL_PERIOD`]: a plugin
/// that binds its socket and listens much later is dialed within the cap (kubelet: [`BACKOFF`]).
pub const REDIAL: Backoff = Backoff {
    cap: Duration::from_secs(3),
    ..BACKOFF
};

/// The time after a socket was first seen for which [`REDIAL`] applies: a plugin that does not
/// listen by then has ended without removing its socket.
pub const REDIAL_PERIOD: Duration = Duration::from_secs(600);

/// The least pause between two dials of sockets that have refused connections, all sockets
/// together: thousands of dead sockets cost 20 dials a second.
pub const REDIAL_INTERVAL: Duration = Duration::from_millis(50);

/// The backoff of a socket (kubelet: `initialDurationBeforeRetry`, 500 ms, and
/// `maxDurationBeforeRetry`, 2 m 2 s).
pub const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(500),
    cap: Duration::from_secs(122),
};

/// The time after a socket was first seen for which every failure of its plugin is retried with
/// backoff: many plugins begin to listen before they are ready, and are called within a millisecond
/// of that. Later, a failure that cannot end by itself is retried after the cap of [`BACKOFF`]
/// (kubelet: the backoff for every failure at all times).
pub const FIRST_MINUTE: Duration = Duration::from_secs(60);

/// The time limit for a handler's answer: the longest known work, a CSI plugin's `NodeGetInfo` (2
/// min) with its dial (10 s), and some room (kubelet: no limit).
pub const HANDLER_TIMEOUT: Duration = Duration::from_secs(150);

/// The time that a question to a handler may stay open before the next socket of the same plugin
/// name proceeds: more than a plugin that answers needs, and about what a plugin that waits behind
/// a stalled one can bear (kubelet: keeps no order between sockets).
pub const STALLED_AFTER: Duration = Duration::from_secs(5);

/// The time limit for a program that does a handler's work, several times the need of a program
/// that waits for a device: well below [`HANDLER_TIMEOUT`], so that one program may wait for
/// another (kubelet: has no such programs).
pub const EXEC_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of attempts to start a program for `del`, with the pauses of [`BACKOFF`]: 16 minutes
/// in all, which is longer than the replacement of a package takes.
pub const MAX_DEL_TRIES: u32 = 16;

/// The maximum number of such programs remembered for one type: each holds all that its plugin
/// reported.
pub const MAX_OWED: usize = 1024;

/// The maximum number of programs that run at once; others wait. Each is a process, on a node with
/// few cores.
pub const MAX_PROGRAMS: usize = 16;

/// The maximum number of programs that run at once for one plugin type: programs that hang do not
/// delay other types.
pub const MAX_PROGRAMS_OF_TYPE: usize = MAX_PROGRAMS / 2;

/// The length of a program's standard error that is kept (bytes): its first line is the reason that
/// is shown.
pub const MAX_PROGRAM_ERRORS: usize = 4 * 1024;

/// The maximum number of operations that wait at once for plugins that are expected to answer
/// (kubelet: no limit): more would not keep this process busier, and the memory for each is never
/// returned to the system.
pub const SOFT_OPERATION_LIMIT: usize = 16;

/// The time after which an operation passes its permit on if other sockets wait, and does not count
/// towards [`SOFT_OPERATION_LIMIT`]: longer than a plugin that answers needs, and so short that
/// hundreds of silent plugins delay the others only for a moment.
pub const PERMIT_TIME: Duration = Duration::from_millis(5);

/// The part of the process's descriptor limit that is not used for plugins: for the loop, the
/// watches, the log, files, the start of a program, and [`API_CLIENTS`] (kubelet: no such limit).
pub const DESCRIPTOR_RESERVE: usize = 32 + API_CLIENTS;

/// The minimum number of descriptors with which the daemon starts: with fewer, it would be ready
/// and register nothing.
pub const LEAST_DESCRIPTORS: usize = DESCRIPTOR_RESERVE + 16;

/// The pause between two warnings about a shortage of descriptors, which may last for days
/// (kubelet: no such warning).
pub const SHORTAGE_WARNING_INTERVAL: Duration = Duration::from_secs(600);

/// The pause between two checks of a registered plugin without a descriptor to watch it by
/// (kubelet: does not notice).
pub const SLOW_CHECK: Duration = Duration::from_secs(30);

/// The addition to [`SLOW_CHECK`] for each plugin without a descriptor: at most a hundred checks
/// per second, however many plugins there are.
pub const SLOW_CHECK_SHARE: Duration = Duration::from_millis(10);

/// The pause between two examinations of every socket without an event: a safety net that should
/// never catch anything (kubelet: every second).
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(300);

/// The time that a plugin may be down before it is deregistered, if the user wants that and names
/// no time: a container that is restarted in place is up well before.
pub const DOWN_GRACE: Duration = Duration::from_secs(30);

/// The pause between two checks of a plugin that has closed its idle connection twice, if its
/// process cannot be watched: the end of such a connection is not a sign that the plugin is down
/// (kubelet: does not ask).
pub const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The time limit for running operations when the daemon stops.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// The maximum number of events that are kept until an embedder reads them; the oldest are dropped
/// first (kubelet: keeps none, and sends them to the API server).
pub const MAX_UNREAD_EVENTS: usize = 256;

/// The longest type or name of a plugin (bytes): four times the 253 of the longest names in
/// Kubernetes (kubelet: as much as fits a reply).
pub const MAX_PLUGIN_NAME: usize = 1024;

/// The longest endpoint of a plugin (bytes): Linux's limit for a path (kubelet: as much as fits a
/// reply).
pub const MAX_ENDPOINT: usize = 4096;

/// The maximum number of versions that a plugin may report: a CSI driver reports one, a DRA driver
/// a few (kubelet: as many as fit a reply).
pub const MAX_VERSIONS: usize = 256;

/// The longest version of a plugin (octets): the longest known ones are service names such as
/// `v1beta1.DRAPlugin` (kubelet: as much as fits a reply).
pub const MAX_VERSION: usize = 128;

/// The pause between a change and the writing of the state file: a burst of registrations is one
/// write, and none of them waits for it (kubelet: keeps no such file).
pub const STATE_FILE_DELAY: Duration = Duration::from_secs(1);

/// The pauses between tries to write a state file that cannot be written: the disk may be full for
/// days.
pub const STATE_FILE_RETRY: Backoff = Backoff {
    first: STATE_FILE_DELAY,
    cap: Duration::from_secs(60),
};

/// The longest configuration file (octets): a thousand lines, and a small part of what a plugin may
/// hold.
pub const MAX_CONFIG_FILE: usize = 64 * 1024;

/// The maximum number of problems of a configuration that are listed: a screen. The others are
/// counted.
pub const MAX_CONFIG_PROBLEMS: usize = 20;

/// The longest state file (octets): 4 KiB for each of [`MAX_SOCKETS`] plugins, which is several
/// times the usual need. A plugin with a longer entry is left out if the file is full.
pub const MAX_STATE_FILE: usize = 8 * 1024 * 1024;

/// The time that passes before links to plugins by name are changed again: a plugin that flaps
/// costs one change per second.
pub const LINK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of plugin names that are remembered because their links have to be changed:
/// more are left to a comparison of all links.
pub const MAX_CHANGED_LINKS: usize = 2048;

/// The number of links that are set in one turn, which takes some milliseconds.
pub const LINKS_AT_ONCE: usize = 256;

/// The pause before links are compared after a failure: the disk may be full for days.
pub const LINK_RETRY: Duration = Duration::from_secs(5);

/// The time after the first scan at which the daemon counts as ready although sockets that were
/// found by it were not dialed yet: no plugin can delay the readiness of the daemon.
pub const READY_TIME: Duration = Duration::from_secs(2);

/// The time for which a start waits for a lock that another daemon usually keeps: that daemon may
/// have been killed a moment ago, so that the kernel is about to release its locks.
pub const BRIEF_LOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// The time limit for `Allocate` and the calls around it (kubelet: none).
pub const ALLOCATE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pauses before a plugin is asked again about devices that it has refused to allocate, or for
/// which there was no memory.
pub const ALLOCATE_RETRY: Backoff = Backoff {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(300),
};

/// The largest reply to `Allocate` (octets): it is passed to a command in an environment variable,
/// for which Linux allows 128 KiB (kubelet: [`MAX_REPLY`](super::MAX_REPLY)).
pub const MAX_ALLOCATE_REPLY: usize = 16 * 1024;

/// The pause before a file for container runtimes is written again after a failure.
pub const CDI_RETRY: Duration = Duration::from_secs(5);

/// The largest reply to `NotifyRegistrationStatus` (bytes): an empty message, with room for fields
/// that are not known yet.
pub const MAX_NOTIFY_REPLY: usize = 4 * 1024;

// --- Memory --------------------------------------------------------------------------------------

/// The octets that may be held of all plugins together: a hundred device plugins with a thousand
/// devices each (kubelet: no limit).
pub const MEMORY_BUDGET: usize = 16 * MEBIBYTE;

/// The smallest budget that can be chosen: what a hundred usual plugins need.
pub const LEAST_MEMORY_BUDGET: usize = MEBIBYTE;

/// The octets of one holder, a connection or a list of devices, that are not counted: several times
/// what a connection and a list of a few hundred devices take.
pub const SMALL_SHARE: usize = 16 * 1024;

/// A mebibyte (octets).
const MEBIBYTE: usize = 1024 * 1024;

// --- The handlers --------------------------------------------------------------------------------

/// The time after a plugin's registration socket was first seen for which its endpoint may not be
/// ready: many plugins serve the endpoint a few hundred milliseconds later, or from another process
/// (kubelet: no such time, but it looks once a second).
pub const READY_GRACE: Duration = Duration::from_secs(2);

/// The pauses before an endpoint that was not ready is called again.
pub const READY_RETRY: Backoff = Backoff {
    first: Duration::from_millis(50),
    cap: READY_GRACE,
};

/// The time limit for a CSI driver's `NodeGetInfo` (kubelet: 2 min).
pub const CSI_NODE_INFO_TIMEOUT: Duration = Duration::from_secs(120);

/// The shortest period in which a registered CSI driver is asked for the node's information again
/// (kubelet: the same, 10 s).
pub const LEAST_CSI_NODE_INFO: Duration = Duration::from_secs(10);

/// The largest reply of a CSI driver about the node (octets): many times the known ones, because
/// all of it is kept (kubelet: 4 MiB, the default of its gRPC library).
pub const MAX_CSI_REPLY: usize = 16 * 1024;

/// The time limit for a device plugin to report its options, dialing included: many set up their
/// devices first. As long as for a CSI driver's `NodeGetInfo`, and within [`HANDLER_TIMEOUT`]
/// (kubelet: no limit after the dial, which has 10 s).
pub const DEVICE_OPTIONS_TIMEOUT: Duration = Duration::from_secs(120);

/// The time for which the devices of a plugin are kept, all unhealthy, after its stream has ended
/// (kubelet: `endpointStopGracePeriod`, 5 min).
pub const DEVICE_GRACE: Duration = Duration::from_secs(300);

/// The maximum number of plugins that have announced themselves: a node has a few device plugins
/// (kubelet: no limit).
pub const MAX_ANNOUNCED: usize = 1024;

/// The maximum number of those that one process has announced, so that none takes all the names
/// (kubelet: no limit).
pub const MAX_ANNOUNCED_OF_PROCESS: usize = 64;

/// The maximum number of clients of `kubelet.sock` without a call in progress; together with those
/// that have one, there may be twice as many. Further ones wait to be accepted (kubelet: no limit).
pub const MAX_REGISTRATIONS: usize = 64;

/// The maximum number of connections to `kubelet.sock` that are accepted in one turn: the accepted
/// ones are served before the next ones.
pub const ACCEPTS_AT_ONCE: usize = 16;

/// The time that the only client of a process has to call before it is closed for one that waits: a
/// gRPC client calls some milliseconds after it has connected (kubelet: no such time).
pub const REGISTRATION_PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of calls of one client in progress: plugins usually have a client for each
/// call (kubelet: 100, gRPC's limit on streams).
pub const MAX_CLIENT_REGISTRATIONS: usize = 16;

/// The pauses before `kubelet.sock` is created again, except for the first time, which is at once.
pub const REGISTRATION_RETRY: Backoff = Backoff {
    first: Duration::from_millis(100),
    cap: Duration::from_secs(10),
};

/// The longest request of `Register` (octets): many times what two names need (kubelet: 4 MiB).
pub const MAX_REGISTER_REQUEST: usize = 16 * 1024;

/// The maximum number of devices of one plugin: a hundred times what known ones list. A list takes
/// a few milliseconds (kubelet: no other limit than that of the message).
pub const MAX_DEVICES: usize = 16_384;

/// The time after which the health of a device of a DRA driver is unknown unless the driver reports
/// it again, if the driver names none (kubelet: `defaultHealthTimeout`, 30 s).
pub const DRA_HEALTH_TIMEOUT: Duration = Duration::from_secs(30);

/// The minimum time between two lists of one plugin that are applied. Of the lists that arrive
/// sooner, the newest is applied when this time is over (kubelet: applies every list).
pub const LIST_INTERVAL: Duration = Duration::from_millis(100);

// --- Queues --------------------------------------------------------------------------------------

/// The capacity that an empty queue keeps (entries): the rest of a burst's memory is freed.
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
/// burst, and any two seconds with it and [`LOG_SHARE_OF_DAEMON`] stay below 64 KiB/s (kubelet: no
/// limit).
pub const LOG_SHARE_OF_PEERS: LogShare = LogShare {
    burst: 56 * 1024,
    rate: 16 * 1024,
};

/// The share of the daemon's own lines, such as those of a reload.
pub const LOG_SHARE_OF_DAEMON: LogShare = LogShare {
    burst: 24 * 1024,
    rate: 4 * 1024,
};

/// The share of one socket or plugin: a hundred lines at once, two lines per second in the long
/// run.
pub const LOG_SHARE_OF_PLUGIN: LogShare = LogShare {
    burst: 16 * 1024,
    rate: 256,
};

/// The time for which suppressed lines are counted before their number is logged.
pub const LOG_REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// The maximum number of shares that are remembered: beyond that, the one of which least is used is
/// dropped.
pub const MAX_LOG_SHARES: usize = 64;

/// The part of the log that is kept while standard error cannot be written (bytes). Lines that do
/// not fit are counted and dropped.
pub const LOG_BUFFER: usize = 64 * 1024;

/// The part of [`LOG_BUFFER`] for lines that peers cause: the rest is for the daemon's own lines.
pub const LOG_BUFFER_OF_PEERS: usize = 48 * 1024;

/// The pause before standard error is tried again: its reader may be absent for days.
pub const LOG_RETRY: Duration = Duration::from_millis(250);

// --- The watch -----------------------------------------------------------------------------------

/// The pause before a directory that cannot be watched or read is tried again (kubelet gives up on
/// it; its tick is 1 s).
pub const WATCH_RETRY: Duration = Duration::from_secs(1);

/// The pauses between scans of a directory that changes all the time: a plugin in a directory that
/// is renamed repeatedly may wait for the longest pause (kubelet: scans no directory twice).
pub const SCAN_PAUSES: Backoff = Backoff {
    first: Duration::from_millis(10),
    cap: Duration::from_secs(5),
};

/// The pause after a round in which all directories are scanned because events were lost. The pause
/// does not grow: plugins in all directories wait for it if one directory floods the queue
/// (kubelet: does not notice lost events).
pub const ROUND_PAUSE: Duration = Duration::from_millis(20);

/// The pauses between examinations of a known name that changes all the time (kubelet: examines no
/// name twice). A plugin that restarts takes longer than the first pause to bind its socket.
pub const EXAMINE_PAUSES: Backoff = Backoff {
    first: Duration::from_millis(1),
    cap: Duration::from_secs(1),
};

/// The time without a change after a pause, after which a directory or a name starts with the first
/// pause again.
pub const PAUSE_CALM: Duration = Duration::from_secs(10);

/// The number of levels of subdirectories that are watched (kubelet: no limit). Plugins use one.
pub const MAX_TREE_DEPTH: usize = 16;

/// The maximum number of plugin sockets that are remembered (kubelet: no limit). A node has tens;
/// any process that may write to the directory can create more.
pub const MAX_SOCKETS: usize = 2048;

/// The pauses between scans of a directory that exceeds a limit: it may exceed the limit for a long
/// time.
pub const LIMITED_RETRY: Backoff = Backoff {
    first: WATCH_RETRY,
    cap: Duration::from_secs(60),
};

/// The maximum number of directories that are watched, each with a watch of its own (kubelet: no
/// limit). The kernel's own limit per user is often 8,192.
pub const MAX_DIRECTORIES: usize = 1024;

/// The maximum number of names of one directory that are read, which takes some milliseconds
/// (kubelet: no limit).
pub const MAX_NAMES: usize = 16_384;

/// The maximum number of names of one directory that are examined, because they may be plugin
/// sockets: those of sockets and of symbolic links, which count twice (kubelet: no limit). One
/// directory leaves room for others, and is read in one turn of the loop: 768 links take 10 ms.
pub const MAX_EXAMINED_NAMES: usize = MAX_SOCKETS / 4 * 3;

/// The shortest pause between two reads of the mount table: a pod that starts mounts several times
/// (kubelet: does not notice).
pub const MOUNTS_INTERVAL: Duration = Duration::from_secs(1);

// --- Readers of the state ------------------------------------------------------------------------

/// The maximum number of events that are kept for readers: an operator looks at the last minutes.
pub const KEPT_EVENTS: usize = 256;

/// The number of events about security that other events do not displace.
pub const KEPT_SECURITY_EVENTS: usize = 64;

/// The maximum memory that the kept events take, approximately (octets).
pub const KEPT_EVENTS_LEN: usize = 64 * 1024;

/// The maximum number of events of one socket or directory that are kept: one that flaps does not
/// displace the events of others.
pub const KEPT_EVENTS_OF_ONE: usize = 8;

/// The maximum memory that the events of one socket or directory take, approximately (octets). One
/// event is always kept: its size is bounded by the limits of its parts.
pub const KEPT_EVENTS_OF_ONE_LEN: usize = 8 * 1024;

/// The maximum number of removed records that are remembered for readers that follow the changes: a
/// reader that has missed more reads everything again.
pub const MAX_REMOVED_RECORDS: usize = 256;

/// The maximum number of octets of the paths of those records.
pub const MAX_REMOVED_RECORDS_LEN: usize = 16 * 1024;

// --- The simulated plugin ------------------------------------------------------------------------

/// The maximum number of connections of a simulated plugin: several times the need of a node agent.
/// Further ones wait to be accepted, which the kernel limits.
pub const MAX_CLIENTS: usize = 32;

/// The largest request that a simulated plugin accepts (octets): four times the longest reason for
/// a refusal, which names a path.
pub const MAX_SIMULATED_REQUEST: usize = 16 * 1024;

/// The pauses of a simulated device plugin after its registration at `kubelet.sock` has failed: a
/// socket refuses connections between the moment that it is bound and the moment that its owner
/// listens. The longest equals kubelet's first pause before it restarts a container, because most
/// device plugins exit when they are refused.
pub const REGISTER_RETRY: Backoff = Backoff {
    first: Duration::from_millis(100),
    cap: Duration::from_secs(10),
};

/// The time limit for that registration, in which kubelet calls the plugin: NVIDIA's plugin has
/// none.
pub const REGISTER_TIMEOUT: Duration = Duration::from_secs(10);
