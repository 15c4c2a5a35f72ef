//! The events of sockets and plugins, as operators and other programs see them.
//!
//! Each event is emitted once, where it happens, as an
//! [`Output::Event`](super::Output::Event). Its log line is the same event as text (`Display`), so
//! that no line is written twice; `Context::emit` writes the line. A failed attempt to register is
//! [`EventKind::AttemptFailed`]: usually a warning, and logged at debug level if it is repeated.
//! What only helps to debug the daemon, such as the calls of an operation, is logged at debug level
//! and is not an event.
//!
//! A new kind needs a variant of [`EventKind`], its arms in `reason_and_level` and `Message`, which
//! the compiler requires, and an entry in `guide/log.rs`. If the kind stores words of a peer or a
//! handler, add it to `has_stored_text`; if it changes which plugin is current, add it to
//! `ByName::handle_event`.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::Level;
use log::kv::{Error, Source, Value, VisitSource};

use super::failure::{Failure, Refusal};
use super::ids::Process;
use crate::config::{Distrust, STALLED_AFTER};
use crate::escape;
use crate::handler::{DialError, EventType, Notice, Plugin};

/// The number of events and changes of records since the start of the daemon.
pub type Generation = u64;

/// An event of a socket, its plugin or the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEvent {
    /// The number of the event; 0 until it is emitted.
    pub generation: Generation,
    /// The registration socket; `None` if the event is about the daemon.
    pub socket: Option<Arc<Path>>,
    /// The plugin, if it is known.
    pub plugin: Option<Arc<Plugin>>,
    /// The number of the attempt to register the plugin; 0 if the event belongs to none.
    pub attempt: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A socket was found.
    SocketFound,
    /// The socket was replaced by another one.
    SocketReplaced,
    /// The socket was removed.
    SocketLost,
    /// The plugin has announced itself.
    Announced,
    /// The plugin announced itself before the restart and has not done so since: it is
    /// deregistered.
    NotAnnounced,
    /// The socket of a plugin that was registered before the restart does not exist: the plugin is
    /// deregistered.
    SocketMissing,
    /// The plugin is registered and was notified.
    Registered {
        /// The time since its socket was found or, if a plugin has left the actual state there,
        /// since the last one left it.
        took: Duration,
    },
    /// The plugin was deregistered, or a registration that was not completed was undone.
    Deregistered,
    /// The plugin was deregistered, but its handler has not undone the registration.
    NotUndone(Refusal),
    /// The registration failed, and the handler has not undone its part of the registration.
    FailureNotUndone(Refusal),
    /// In a dry run: the plugin would be registered. The text names what was not checked.
    WouldRegister(Option<&'static str>),
    /// In a dry run: the plugin would be refused.
    WouldRefuse(Refusal),
    /// The socket cannot be connected to yet.
    NotConnected {
        /// The reason.
        error: DialError,
        /// The time for which connecting is retried.
        retry_for: Duration,
        /// Whether this is the first such event of the attempt.
        is_first: bool,
    },
    /// An attempt to register the plugin has failed.
    AttemptFailed {
        /// The reason.
        failure: Box<Failure>,
        /// The time until the next attempt; `None` if the plugin has to announce itself again.
        retry_in: Option<Duration>,
        /// Whether the attempt before failed for the same reason.
        is_repeated: bool,
    },
    /// A handler has not answered for [`STALLED_AFTER`]: another socket of the same plugin name
    /// goes ahead.
    HandlerStalled,
    /// The operation was dropped in this state, because the daemon stops.
    OperationDropped(&'static str),
    /// A registered plugin does not answer, or its handler has given it up.
    Down {
        /// The process of the plugin, if it is known and did not answer; `None` if the driver or
        /// the handler is the reason.
        process: Option<Process>,
        /// The reason.
        failure: Box<Failure>,
        /// The time after which the plugin is deregistered if it is still down; `None` if it stays
        /// registered.
        grace: Option<Duration>,
    },
    /// A registered plugin that was down answers again.
    Up,
    /// Another plugin answers on the socket of a registered one.
    PluginChanged,
    /// The newer plugins of the name were deregistered: this one is current again.
    Promoted,
    /// The plugin was registered under the name of a plugin that runs, or ran, as another user.
    TakenOver {
        /// The user ID of the plugin's process.
        uid: u32,
        /// The user ID of the previous plugin's process.
        previous_uid: u32,
        /// The registration socket of the previous plugin.
        previous_socket: Arc<Path>,
    },
    /// The plugin would be refused in strict mode, or other users can change a directory that
    /// plugins or the daemon rely on.
    Untrusted(Distrust),
    /// A handler has reported this about the plugin.
    Reported(Box<Notice>),
    /// A deregistration that was owed before the restart is not carried out, because plugins of the
    /// type have no program now.
    DebtDropped,
    /// The configuration was read again and is in force; the text names what has changed.
    ConfigReloaded(String),
    /// The new configuration is not valid and changes nothing; the text names the problems.
    ConfigRejected(String),
    /// The process is low on file descriptors.
    DescriptorsShort(Shortage),
}

/// What lacks a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The plugins to register or to check.
    Plugins,
    /// A call to a plugin's endpoint.
    Call,
    /// A stream or connection to a registered plugin.
    Stream,
}

impl PluginEvent {
    /// Creates an event of a socket.
    pub(super) fn of_socket(socket: &Arc<Path>, kind: EventKind) -> Self {
        Self {
            generation: 0,
            socket: Some(socket.clone()),
            plugin: None,
            attempt: 0,
            kind,
        }
    }

    /// Creates an event of a plugin.
    pub(super) fn of_plugin(plugin: &Arc<Plugin>, kind: EventKind) -> Self {
        Self {
            plugin: Some(plugin.clone()),
            ..Self::of_socket(&plugin.socket, kind)
        }
    }

    /// Creates an event of the daemon.
    pub(super) fn of_daemon(kind: EventKind) -> Self {
        Self {
            generation: 0,
            socket: None,
            plugin: None,
            attempt: 0,
            kind,
        }
    }

    /// Writes the event to the log.
    pub(super) fn log(&self) {
        let (_, level) = self.kind.reason_and_level();
        if level > log::max_level() {
            return;
        }
        let target = match self.socket {
            _ if self.is_security() => ABOUT_SECURITY,
            Some(_) => module_path!(),
            None => ABOUT_DAEMON,
        };
        let mut record = log::Record::builder();
        let record = record.level(level).target(target).key_values(self);
        log::logger().log(&record.args(format_args!("{self}")).build());
    }

    /// Returns whether the event is about security: a plugin or directory that is not trusted, or a
    /// name that was taken over by another user. The daemon keeps such events longer than others.
    pub fn is_security(&self) -> bool {
        match &self.kind {
            EventKind::TakenOver { .. }
            | EventKind::Untrusted(_)
            | EventKind::WouldRefuse(Refusal::Untrusted(_)) => true,
            EventKind::AttemptFailed { failure, .. } => {
                matches!(**failure, Failure::Refused(Refusal::Untrusted(_)))
            }
            _ => false,
        }
    }

    /// Returns the reason in CamelCase, as in Kubernetes events.
    pub fn reason(&self) -> &'static str {
        self.kind.reason_and_level().0
    }

    /// Returns the level at which the event is logged. A repeated failure is logged at debug level:
    /// the first one usually had a higher level.
    pub fn level(&self) -> Level {
        self.kind.reason_and_level().1
    }

    /// Returns whether the type of the event is `Warning`; otherwise it is `Normal`.
    pub fn is_warning(&self) -> bool {
        match &self.kind {
            EventKind::AttemptFailed {
                failure, retry_in, ..
            } => failure.level(retry_in.is_some()) == Level::Warn,
            _ => self.level() == Level::Warn,
        }
    }

    /// Returns whether the message contains text that the event itself stores, such as the words of
    /// a peer or a handler.
    pub fn has_stored_text(&self) -> bool {
        matches!(
            self.kind,
            EventKind::NotUndone(_)
                | EventKind::FailureNotUndone(_)
                | EventKind::WouldRefuse(_)
                | EventKind::AttemptFailed { .. }
                | EventKind::Down { .. }
                | EventKind::Reported(_)
                | EventKind::Untrusted(_)
                | EventKind::ConfigReloaded(_)
                | EventKind::ConfigRejected(_)
        )
    }

    /// Returns whether `other` is the same event again: only the generation, the attempt, the time
    /// for which or after which it is retried, `is_first` and `is_repeated` may differ.
    pub fn is_repeated_by(&self, other: &Self) -> bool {
        use EventKind::{AttemptFailed, NotConnected};
        let is_same_kind = match (&self.kind, &other.kind) {
            (AttemptFailed { failure: one, .. }, AttemptFailed { failure: other, .. }) => {
                one == other
            }
            (NotConnected { error: one, .. }, NotConnected { error: other, .. }) => one == other,
            (one, other) => one == other,
        };
        is_same_kind && self.socket == other.socket && self.plugin == other.plugin
    }

    /// Returns the line of the log, followed by everything that is known about the plugin, like
    /// kubelet's `GenerateMsgDetailed`.
    pub fn detail(&self) -> String {
        let Some(plugin) = &self.plugin else {
            return self.to_string();
        };
        let endpoint = escape::path(&plugin.endpoint);
        let versions = plugin.versions.join(",");
        let versions = escape::text(&versions);
        format!("{self}; plugin={plugin} endpoint={endpoint} versions={versions}")
    }

    /// Returns the event as one sentence, without its socket and attempt.
    pub fn message(&self) -> impl fmt::Display + '_ {
        Message(self)
    }
}

impl EventKind {
    /// Returns the reason and the level.
    fn reason_and_level(&self) -> (&'static str, Level) {
        use Level::{Debug, Info, Warn};
        match self {
            Self::SocketFound => ("SocketFound", Debug),
            Self::SocketReplaced => ("SocketReplaced", Debug),
            Self::SocketLost => ("SocketLost", Debug),
            Self::SocketMissing => ("SocketMissing", Info),
            Self::Announced => ("Announced", Debug),
            Self::NotAnnounced => ("NotAnnounced", Info),
            Self::Registered { .. } => ("Registered", Info),
            Self::Deregistered => ("Deregistered", Info),
            Self::NotUndone(_) | Self::FailureNotUndone(_) => ("DeregistrationFailed", Warn),
            Self::WouldRegister(_) => ("WouldRegister", Info),
            Self::WouldRefuse(_) => ("WouldRefuse", Info),
            Self::NotConnected { is_first: true, .. } => ("NotConnected", Debug),
            Self::NotConnected { .. } => ("NotConnected", Info),
            Self::AttemptFailed {
                failure,
                retry_in,
                is_repeated,
            } => {
                let level = failure.level(retry_in.is_some());
                (failure.reason(), if *is_repeated { Debug } else { level })
            }
            Self::HandlerStalled => ("HandlerStalled", Info),
            Self::OperationDropped(_) => ("OperationDropped", Warn),
            Self::Down { .. } => ("Down", Warn),
            Self::Up => ("Up", Info),
            Self::PluginChanged => ("PluginChanged", Warn),
            Self::Promoted => ("Promoted", Info),
            Self::TakenOver { .. } => ("TakenOver", Warn),
            Self::Untrusted(_) => ("Untrusted", Warn),
            Self::Reported(notice) => match notice.kind {
                EventType::Normal => (notice.reason, Info),
                EventType::Warning => (notice.reason, Warn),
            },
            Self::DebtDropped => ("DebtDropped", Warn),
            Self::ConfigReloaded(_) => ("ConfigReloaded", Info),
            Self::ConfigRejected(_) => ("ConfigRejected", Warn),
            Self::DescriptorsShort(_) => ("DescriptorsShort", Warn),
        }
    }
}

/// The fields of the event, for loggers that support structured fields.
impl Source for PluginEvent {
    fn visit<'kvs>(&'kvs self, fields: &mut dyn VisitSource<'kvs>) -> Result<(), Error> {
        if let Some(socket) = &self.socket {
            let text = socket.to_str();
            let value = text.map_or_else(|| Value::from_debug(socket), Value::from);
            fields.visit_pair("socket".into(), value)?;
        }
        if let Some(plugin) = &self.plugin {
            fields.visit_pair("type".into(), (&*plugin.kind).into())?;
            fields.visit_pair("name".into(), (&*plugin.name).into())?;
        }
        if self.attempt > 0 {
            fields.visit_pair("attempt".into(), self.attempt.into())?;
        }
        fields.visit_pair("reason".into(), self.reason().into())
    }
}

/// Shows the event as a line of the log: `/r/a.sock: attempt 3: registered ...`.
impl fmt::Display for PluginEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(socket) = &self.socket {
            escape::path(socket).fmt(f)?;
            f.write_str(": ")?;
        }
        if self.attempt > 0 {
            write!(f, "attempt {}: ", self.attempt)?;
        }
        Message(self).fmt(f)
    }
}

/// The target of events about security, which share the log volume of lines about the daemon.
const ABOUT_SECURITY: &str = "plugind::manager::trust";

/// The target of lines about the daemon, which lines about plugins cannot displace.
const ABOUT_DAEMON: &str = "plugind::manager::connections";

/// The message about a socket that was removed while the daemon was not running.
const MISSING: &str = "not found below the watched directories after the restart; deregistering";

/// The plugin in a message about one that is not known.
const UNKNOWN: &str = "the plugin";

struct Message<'a>(&'a PluginEvent);

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plugin, endpoint): (&dyn fmt::Display, &Path) = match &self.0.plugin {
            Some(plugin) => (plugin, &plugin.endpoint),
            None => (&UNKNOWN, Path::new("")),
        };
        let endpoint = escape::path(endpoint);
        match &self.0.kind {
            EventKind::SocketFound => f.write_str("found a socket"),
            EventKind::SocketReplaced => f.write_str("the socket was replaced"),
            EventKind::SocketLost => f.write_str("the socket was removed"),
            EventKind::Announced => write!(f, "{plugin} has announced itself"),
            EventKind::NotAnnounced => {
                write!(f, "{plugin} did not announce itself again; deregistering")
            }
            EventKind::SocketMissing => f.write_str(MISSING),
            EventKind::Registered { .. } => write!(f, "registered {plugin} at {endpoint}"),
            EventKind::Deregistered => write!(f, "deregistered {plugin}"),
            EventKind::NotUndone(refusal) => write!(
                f,
                "deregistered {plugin}, but its handler did not clean up: {}; endpoint={endpoint}",
                refusal.why_not_undone()
            ),
            EventKind::FailureNotUndone(refusal) => write!(
                f,
                "did not register {plugin}, and its handler did not clean up: {}",
                refusal.why_not_undone()
            ),
            EventKind::WouldRegister(left_out) => {
                write!(f, "would register {plugin} at {endpoint}")?;
                left_out.iter().try_for_each(|what| write!(f, "; {what}"))
            }
            EventKind::WouldRefuse(refusal) => write!(f, "would refuse the plugin: {refusal}"),
            EventKind::NotConnected {
                error, retry_for, ..
            } => {
                let is_refused = *error == DialError::Refused;
                let yet = if is_refused { " yet" } else { "" };
                write!(f, "{error}{yet}; retrying for {} s", retry_for.as_secs())
            }
            EventKind::AttemptFailed {
                failure,
                retry_in: Some(pause),
                ..
            } => write!(f, "{failure}; next try in {pause:?}"),
            EventKind::AttemptFailed { failure, .. } => {
                write!(f, "{failure}; the plugin has to announce itself again")
            }
            EventKind::HandlerStalled => write!(
                f,
                "the handler has not answered for {STALLED_AFTER:?}; another socket of the same \
                 plugin name goes ahead"
            ),
            EventKind::OperationDropped(state) => {
                write!(f, "dropped while {state}: the daemon is stopping")
            }
            EventKind::Down {
                process,
                failure,
                grace,
            } => {
                let then = consequence_of_down(*grace);
                match process {
                    Some(process) => write!(f, "{plugin} ({process}) is down: {failure}; {then}"),
                    None => write!(f, "{plugin} is down: {failure}; {then}"),
                }
            }
            EventKind::Up => write!(f, "{plugin} is up again"),
            EventKind::PluginChanged => {
                write!(f, "another plugin answers on the socket of {plugin}")
            }
            EventKind::Promoted => write!(f, "{plugin} is in use again"),
            EventKind::TakenOver {
                uid,
                previous_uid,
                previous_socket,
            } => write!(
                f,
                "{plugin} takes the place of a plugin of another user; uid={uid} \
                 previous_uid={previous_uid} previous_socket={}",
                escape::path(previous_socket)
            ),
            EventKind::Untrusted(Distrust::Directory(problem)) => {
                write!(f, "other users can change a directory: {problem}")
            }
            EventKind::Untrusted(why) => {
                write!(f, "{plugin} would be refused with --trust strict: {why}")
            }
            EventKind::Reported(notice) => write!(f, "{plugin}: {}", notice.message),
            EventKind::DebtDropped => write!(
                f,
                "cannot clean up after {plugin}, which was registered before the restart: plugins of \
                 its type have no program any more"
            ),
            EventKind::ConfigReloaded(text) | EventKind::ConfigRejected(text) => f.write_str(text),
            EventKind::DescriptorsShort(shortage) => write!(
                f,
                "low on file descriptors: {shortage}; raise the hard limit on open files (ulimit -Hn)"
            ),
        }
    }
}

/// Returns what becomes of a plugin that is down, which is deregistered after the grace period.
fn consequence_of_down(grace: Option<Duration>) -> Cow<'static, str> {
    match grace {
        None => "it stays registered".into(),
        Some(Duration::ZERO) => "deregistering it".into(),
        Some(grace) => format!("it will be deregistered in {grace:?}").into(),
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plugins => "plugins wait to be registered or checked",
            Self::Call => "a call to a plugin waits or fails",
            Self::Stream => "a stream or connection to a registered plugin is retried later",
        })
    }
}
