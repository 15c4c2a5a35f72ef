//! Every timeout, limit and path of `plugind`, each with its reason.
//!
//! Pure: constants, and what a user may choose. Where kubelet has the same thing under another
//! value, the doc line says so. A section per layer, from the outermost to the innermost.

mod path_map;
mod protocol;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use path_map::PathMap;
pub use protocol::*;

use crate::escape;

/// The configuration of a plugin manager: where it works, and how. Which handlers it has is not
/// part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The directories that are watched for plugin sockets.
    pub plugins_dirs: Vec<PathBuf>,
    /// The file in which the registered plugins are kept over a restart; none: they are not.
    pub state_file: Option<PathBuf>,
    /// The directory with the locks that keep two plugin managers from one directory; none: the
    /// default of the process's user (`/run/plugind` for root).
    pub run_dir: Option<PathBuf>,
    /// What is done with the plugins that are found.
    pub mode: Mode,
    /// What becomes of a registered plugin that is down.
    pub on_down: OnDown,
    /// Where the endpoints are that plugins name by paths that mean something else here.
    pub path_map: PathMap,
}

/// The configuration of the handlers that come with this crate
/// ([`handlers`](crate::daemon::handlers)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerConfig {
    /// The plugin types that are accepted.
    pub types: Vec<String>,
    /// What becomes of plugins of other types.
    pub unknown_types: UnknownTypes,
    /// The programs that do the work for plugins of a type.
    pub exec: Vec<Exec>,
}

/// The configuration of the daemon: a plugin manager with the handlers that come with this crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonConfig {
    /// Its plugin manager.
    pub manager: Config,
    /// Its handlers.
    pub handlers: HandlerConfig,
}

/// What is done with the plugins that are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are registered.
    #[default]
    Register,
    /// They are asked who they are, and what would become of them is shown. They are told nothing,
    /// and no handler is asked to do anything: for a directory that somebody else works on.
    Observe,
}

/// What becomes of plugins of a type that is not among those that are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownTypes {
    /// They are refused, and told so (kubelet: the same).
    #[default]
    Reject,
    /// They are registered.
    Accept,
    /// They are told nothing.
    Ignore,
}

/// A program that does the work for plugins of a type, instead of what is built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// The plugin type.
    pub kind: String,
    /// The program's absolute path.
    pub program: PathBuf,
}

/// What becomes of a registered plugin that does not answer any more, although its socket is there.
/// kubelet does not notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDown {
    /// It stays registered, and is shown as down.
    #[default]
    Keep,
    /// It is deregistered when it has been down for that long.
    Deregister(Duration),
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Register => "watching",
            Self::Observe => "only watching",
        })
    }
}

/// As the option `--on-down` has it: `keep`, `deregister=30s`.
impl fmt::Display for OnDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Deregister(grace) => write!(f, "deregister={grace:?}"),
        }
    }
}

/// As the option `--unknown-types` has it.
impl fmt::Display for UnknownTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reject => "reject",
            Self::Accept => "accept",
            Self::Ignore => "ignore",
        })
    }
}

/// The options in force, except for directories and programs: `types=CSIPlugin unknown-types=reject
/// on-down=keep`.
impl fmt::Display for DaemonConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.handlers.types.join(",");
        let (types, unknown) = (escape::text(&types), self.handlers.unknown_types);
        let on_down = self.manager.on_down;
        write!(f, "types={types} unknown-types={unknown} on-down={on_down}")?;
        if let Some(file) = &self.manager.state_file {
            write!(f, " state-file={}", escape::path(file))?;
        }
        if let Some(dir) = &self.manager.run_dir {
            write!(f, " run-dir={}", escape::path(dir))?;
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            plugins_dirs: vec![PathBuf::from(DEFAULT_PLUGINS_DIR)],
            state_file: None,
            run_dir: None,
            mode: Mode::default(),
            on_down: OnDown::default(),
            path_map: PathMap::default(),
        }
    }
}

impl Default for HandlerConfig {
    fn default() -> Self {
        Self {
            types: DEFAULT_TYPES.map(str::to_owned).to_vec(),
            unknown_types: UnknownTypes::default(),
            exec: Vec::new(),
        }
    }
}

// --- The manager ---------------------------------------------------------------------------------

/// Where plugins put their registration sockets unless told otherwise: [`PLUGINS_DIR`] in kubelet's
/// default root directory.
pub const DEFAULT_PLUGINS_DIR: &str = "/var/lib/kubelet/plugins_registry";

/// The directory with the registration sockets, in kubelet's root directory.
pub const PLUGINS_DIR: &str = "plugins_registry";

/// How long a start waits for another daemon that works on the same directory: one that is about to
/// end, or has ended while a child of it has not begun its own program (kubelet: has no lock).
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The plugin types that are accepted unless the user names others (kubelet: exactly these three).
pub const DEFAULT_TYPES: [&str; 3] = ["CSIPlugin", "DevicePlugin", "DRAPlugin"];

/// How long connecting to a socket may take, from the first dial to the server's SETTINGS (kubelet:
/// `dialTimeoutDuration`, 10 s).
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long `GetInfo` may take once connected (kubelet: 1 s).
pub const GET_INFO_TIMEOUT: Duration = Duration::from_secs(1);

/// How long `NotifyRegistrationStatus` may take (kubelet: `notifyTimeoutDuration`, 5 s).
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The first pause when nobody listens on a new socket: it is bound a moment before it listens, so
/// one in two plugins is met in between, and all that most of them need is that the processor is
/// theirs again (kubelet: gRPC's own backoff, about 1 s).
pub const LADDER_INITIAL: Duration = Duration::from_micros(5);

/// The longest pause on that ladder, which doubles: a plugin that takes seconds to listen waits at
/// most this long for us.
pub const LADDER_MAX: Duration = Duration::from_secs(1);

/// The longest that a socket that exists and refuses connections is left alone for
/// [`REDIAL_PATIENCE`]: a plugin that binds its socket and listens much later is met within this
/// time (kubelet: [`BACKOFF_CAP`]).
pub const REDIAL_MAX: Duration = Duration::from_secs(3);

/// For how long after a socket was first seen [`REDIAL_MAX`] holds: a plugin that does not listen
/// after that has ended without removing its socket.
pub const REDIAL_PATIENCE: Duration = Duration::from_secs(600);

/// How long after a dial of one socket that has refused connections another may be dialled again,
/// so that thousands of dead sockets cost 20 dials a second.
pub const REDIAL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a socket is left alone after its first failure (kubelet: `initialDurationBeforeRetry`,
/// 500 ms).
pub const BACKOFF_INITIAL: Duration = Duration::from_millis(500);

/// The longest that a socket is left alone after a failure (kubelet: `maxDurationBeforeRetry`,
/// 2 m 2 s).
pub const BACKOFF_CAP: Duration = Duration::from_secs(122);

/// For how long after a socket was first seen every failure of its plugin is tried again with
/// backoff: many plugins begin to listen before they are ready, and plugins are asked within a
/// millisecond of that. Later, what cannot change by itself is tried again after [`BACKOFF_CAP`]
/// (kubelet: the backoff for every failure at all times).
pub const FIRST_MINUTE: Duration = Duration::from_secs(60);

/// How long a handler may take to answer: the longest work that is known, a CSI plugin's
/// `NodeGetInfo` (2 min) with its dial (10 s), and some room (kubelet: no limit).
pub const HANDLER_TIMEOUT: Duration = Duration::from_secs(150);

/// How long a question to a handler may stay open before the next socket of the same plugin name
/// goes ahead: more than a plugin needs that answers, and about what a plugin that waits behind one
/// that never does can bear (kubelet: keeps no order between sockets).
pub const STALLED_AFTER: Duration = Duration::from_secs(5);

/// How long a program may take that does a handler's work, several times what one needs that waits
/// for a device: well below [`HANDLER_TIMEOUT`], so that one may wait for another (kubelet: has no
/// such programs).
pub const EXEC_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a `del` is tried that cannot be started, with pauses from [`BACKOFF_INITIAL`] to
/// [`BACKOFF_CAP`]: for 16 minutes, which is longer than a package takes to be replaced.
pub const MAX_DEL_TRIES: u32 = 16;

/// How many such programs are kept in mind for one type: each keeps what its plugin said of itself.
pub const MAX_OWED: usize = 1024;

/// How many programs run at once; more wait in line. Each is a process, on a node with few cores.
pub const MAX_PROGRAMS: usize = 16;

/// How much is kept of what a program writes to its standard error (bytes): its first line is the
/// reason that is shown.
pub const MAX_PROGRAM_ERRORS: usize = 4 * 1024;

/// How many operations wait at once for plugins that are expected to answer (kubelet: no limit): no
/// more are needed to keep this process at work, and the memory that each needs stays with it.
pub const BRISK_OPERATIONS: usize = 16;

/// How long an operation counts among these while other sockets wait: longer than a plugin needs
/// that answers, and so short that hundreds that do not answer hold up the others for a moment.
pub const BRISK_TIME: Duration = Duration::from_millis(5);

/// How long it is remembered that a path was renewed: its socket was removed or replaced. A second
/// time within this period, the path is one that restarts all the time.
pub const RENEWAL_PERIOD: Duration = Duration::from_secs(60);

/// How many renewed paths are remembered: far more than plugins restart within a minute.
pub const MAX_RENEWALS: usize = 1024;

/// How many descriptors of the process's limit are kept for what is not a plugin's: the loop, the
/// watches, the log, files, and the start of a program (kubelet: no such limit).
pub const DESCRIPTOR_RESERVE: usize = 32;

/// How soon a shortage of descriptors is warned about again: it may last for days (kubelet: no such
/// warning).
pub const SHORTAGE_WARNING_INTERVAL: Duration = Duration::from_secs(600);

/// How often a registered plugin is asked whether it is there that has no descriptor to watch it by
/// (kubelet: does not notice).
pub const SLOW_CHECK: Duration = Duration::from_secs(30);

/// How much longer than [`SLOW_CHECK`] it takes for each plugin that has none: a hundred checks per
/// second at most, however many there are.
pub const SLOW_CHECK_SHARE: Duration = Duration::from_millis(10);

/// How often every socket is looked at again although nothing happened: a safety net that should
/// never catch anything (kubelet: every second).
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(300);

/// How long a plugin may be down before it is deregistered, where that is wanted and no time is
/// named: a container that is restarted in place is back well before.
pub const DOWN_GRACE: Duration = Duration::from_secs(30);

/// How often a plugin is asked whether it is up that has closed its idle connection twice, if its
/// process cannot be watched: the end of such a connection tells nothing (kubelet: does not ask).
pub const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// How long a process may run on after its plugin's socket was removed before that is worth a
/// warning: well above the time that a plugin takes to end (kubelet: does not notice).
pub const OUTLIVED_GRACE: Duration = Duration::from_secs(5);

/// How many such processes are watched at once: each costs a descriptor, for a warning only.
pub const MAX_OUTLIVED: usize = 16;

/// How long running operations may take to end when the daemon stops.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long a plugin's type and name may be (bytes): four times the 253 of the longest names that
/// Kubernetes has (kubelet: as much as fits a reply).
pub const MAX_PLUGIN_NAME: usize = 1024;

/// How long a plugin's endpoint may be (bytes): what Linux takes as a path (kubelet: as much as
/// fits a reply).
pub const MAX_ENDPOINT: usize = 4096;

/// How many versions a plugin may report: a CSI driver reports one, a DRA driver a few (kubelet: as
/// many as fit a reply).
pub const MAX_VERSIONS: usize = 64;

/// How long one of a plugin's versions may be (octets): the longest known are service names such as
/// `v1beta1.DRAPlugin` (kubelet: as much as fits a reply).
pub const MAX_VERSION: usize = 256;

/// How long after a change the state file is written: a burst of registrations is one write, and
/// none of them waits for it (kubelet: keeps no such file).
pub const STATE_FILE_DELAY: Duration = Duration::from_secs(1);

/// The longest pause between two tries to write a state file that cannot be written: the disk may
/// be full for days.
pub const STATE_FILE_RETRY: Duration = Duration::from_secs(60);

/// How long a state file is at most (octets): 4 KiB for each of [`MAX_SOCKETS`] plugins, which is
/// several times what one needs. One that describes itself at greater length is left out when the
/// file is full.
pub const MAX_STATE_FILE: usize = 64 * 1024 * 1024;

/// How much of a state file is written in one turn (octets): a matter of a millisecond.
pub const STATE_FILE_PIECE: usize = 64 * 1024;

/// The largest reply to `NotifyRegistrationStatus` (bytes): an empty message, with room for fields
/// that are not known yet.
pub const MAX_NOTIFY_REPLY: usize = 4 * 1024;

// --- The handlers --------------------------------------------------------------------------------

/// For how long after a plugin's registration socket was first seen its endpoint may not be ready:
/// many plugins serve the endpoint a few hundred milliseconds later, or from another process
/// (kubelet: no such time, but it looks once a second).
pub const READY_GRACE: Duration = Duration::from_secs(2);

/// The first pause before an endpoint is called again that was not ready; it doubles.
pub const READY_RETRY_INITIAL: Duration = Duration::from_millis(50);

/// How long a CSI driver may take to say what it calls the node (kubelet: 2 min).
pub const CSI_NODE_INFO_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a CSI driver may take to describe itself once it is registered: nothing waits for it
/// (kubelet: does not ask).
pub const CSI_DESCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest reply of a CSI driver about itself or the node (octets): a hundred times what is
/// known, because all of it is kept (kubelet: 4 MiB, the default of its gRPC library).
pub const MAX_CSI_REPLY: usize = 64 * 1024;

/// How long a device plugin may take to state its options, dialling included: many set up their
/// devices first. As long as a CSI driver may take for the node, and within [`HANDLER_TIMEOUT`]
/// (kubelet: no limit after the dial, which has 10 s).
pub const DEVICE_OPTIONS_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a device plugin's devices are kept, all unhealthy, after its stream has ended
/// (kubelet: `endpointStopGracePeriod`, 5 min).
pub const DEVICE_GRACE: Duration = Duration::from_secs(300);

/// How many devices one plugin may have: what a message of [`MAX_REPLY`] octets holds at 64 octets
/// each (kubelet: no other limit than that of the message).
pub const MAX_DEVICES: usize = 65_536;

// --- Queues --------------------------------------------------------------------------------------

/// How many entries an empty queue keeps room for: what a burst took beyond that is given back.
pub const KEPT_QUEUE: usize = 16;

// --- The log -------------------------------------------------------------------------------------

/// How much one party may log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShare {
    /// How much at once, after a silence (bytes).
    pub burst: u32,
    /// How much per second in the long run (bytes).
    pub rate: u32,
}

/// The share of all lines that peers cause: a hundred plugins that register at once fit into the
/// burst, and any two seconds with it stay below 64 KiB/s (kubelet: no limit).
pub const LOG_SHARE: LogShare = LogShare {
    burst: 80 * 1024,
    rate: 16 * 1024,
};

/// The share of the sockets in one directory: a plugin that may create sockets in its own directory
/// leaves most of [`LOG_SHARE`] to the others.
pub const LOG_SHARE_OF_DIRECTORY: LogShare = LogShare {
    burst: 64 * 1024,
    rate: 4 * 1024,
};

/// The share of one socket or plugin: a hundred lines at once, two lines per second in the long
/// run.
pub const LOG_SHARE_OF_PLUGIN: LogShare = LogShare {
    burst: 16 * 1024,
    rate: 256,
};

/// How long suppressed lines are counted before their number is logged.
pub const LOG_REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// How many shares are remembered at a time: a share that nothing is missing from need not be.
pub const MAX_LOG_SHARES: usize = 64;

/// How much of the log is kept while standard error cannot be written (bytes). What does not fit is
/// counted and dropped.
pub const LOG_BUFFER: usize = 64 * 1024;

/// How much of [`LOG_BUFFER`] lines that peers cause may fill: the rest is for the daemon's own.
pub const LOG_BUFFER_OF_PEERS: usize = 48 * 1024;

/// The first pause before standard error is tried again; the pause doubles up to
/// [`LOG_RETRY_MAX`].
pub const LOG_RETRY_INITIAL: Duration = Duration::from_millis(10);

/// The longest pause before standard error is tried again: a reader may be away for days.
pub const LOG_RETRY_MAX: Duration = Duration::from_secs(1);

// --- The watch -----------------------------------------------------------------------------------

/// How long a directory that cannot be watched or read is left alone (kubelet gives up on it; its
/// tick is 1 s).
pub const WATCH_RETRY: Duration = Duration::from_secs(1);

/// The shortest pause between two looks at a path whose identity is doubted; the pause doubles up
/// to [`RESYNC_INTERVAL`] (kubelet: looks at no path twice).
pub const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// How long after that pause a path must be left alone for its next doubt to be the first again.
pub const DOUBT_FORGOTTEN: Duration = Duration::from_secs(60);

/// The shortest pause between two scans of a directory to which something happens all the time; the
/// pause doubles up to [`MAX_SCAN_PAUSE`] (kubelet: scans no directory twice).
pub const SCAN_PAUSE: Duration = Duration::from_millis(10);

/// The longest such pause: a plugin in a directory that is moved to and fro may wait as long.
pub const MAX_SCAN_PAUSE: Duration = Duration::from_secs(5);

/// The pause after a round in which all directories are scanned because events were lost. It does
/// not grow: plugins in all directories wait for it when one directory floods the queue (kubelet:
/// does not notice lost events).
pub const ROUND_PAUSE: Duration = Duration::from_millis(20);

/// How long after its pause nothing must happen to a directory for the next pause to be the first
/// again.
pub const SCAN_CALM: Duration = Duration::from_secs(60);

/// The shortest pause between two looks at a known name to which something happens all the time;
/// the pause doubles up to [`MAX_LOOK_PAUSE`] (kubelet: looks at no name twice). A plugin that
/// starts again takes longer to bind its socket.
pub const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// The longest such pause.
pub const MAX_LOOK_PAUSE: Duration = Duration::from_secs(1);

/// How long after its pause nothing must happen to a name for the next pause to be the first again.
pub const LOOK_CALM: Duration = Duration::from_secs(10);

/// How long a further path must have led to a socket for the socket's plugin to stay registered
/// when the first path is removed: what is seen at two paths for less was renamed (kubelet: every
/// path is a plugin).
pub const RENAME_TIME: Duration = Duration::from_secs(1);

/// How many names of a directory are listed at once, so that a large directory does not keep
/// plugins waiting: what takes a fraction of a millisecond.
pub const LISTED_AT_ONCE: usize = 64;

/// How many directories with more names than that are listed at a time: a descriptor each, or two
/// while a mount may not answer.
pub const MAX_OPEN_LISTINGS: usize = 4;

/// How many levels of sub directories are watched (kubelet: no limit). Plugins use one.
pub const MAX_TREE_DEPTH: usize = 16;

/// How many plugin sockets are kept in mind (kubelet: no limit). A node has tens; whoever may write
/// to the directory can make more.
pub const MAX_SOCKETS: usize = 16_384;

/// How many links to one socket are followed in a root, without its directories, and in each
/// directory right below it (kubelet: no limit): a plugin has one, or a few for several versions of
/// its name. Those of a neighbour do not count against the plugin's own.
pub const MAX_LINKS: usize = 16;

/// The longest pause between two scans of a directory that holds more than a limit allows; the
/// first is [`WATCH_RETRY`], and it doubles.
pub const MAX_WATCH_RETRY: Duration = Duration::from_secs(60);

/// How many directories are watched, a watch each (kubelet: no limit). The kernel's own limit per
/// user is often 8,192.
pub const MAX_DIRECTORIES: usize = 4_096;

/// How many names of one directory are looked at (kubelet: no limit).
pub const MAX_NAMES: usize = 65_536;

/// The shortest pause between two reads of the mount table: a pod that starts mounts several times
/// (kubelet: does not notice).
pub const MOUNTS_INTERVAL: Duration = Duration::from_secs(1);

// --- The simulated plugin ------------------------------------------------------------------------

/// How many connections a simulated plugin has at a time: several times what a node agent holds.
/// More wait to be accepted, which the kernel limits.
pub const MAX_CLIENTS: usize = 32;

/// The largest request that a simulated plugin takes (octets): four times the longest reason for a
/// refusal, which names a path.
pub const MAX_SIMULATED_REQUEST: usize = 16 * 1024;
