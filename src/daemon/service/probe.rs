//! A probe: the daemon in a dry run, until each socket has an outcome.
//!
//! A [`PluginManager`] in observe mode is given one socket, or watches one directory; its events
//! are the steps of the probe. The manager calls GetInfo and validates the reply. It never notifies
//! the plugin, so a plugin in service can be probed. The probe adds one step: it connects to the
//! endpoint of a plugin that would be registered.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::handlers::handlers;
use crate::config::{ApiSocket, Config, DaemonConfig, Mode};
use crate::daemon::process::passed::Passed;
use crate::daemon::{Event, PluginManager, SetupError};
use crate::escape;
use crate::grpc::{CallError, Code};
use crate::handler::{DialError, Plugin};
use crate::http2::{ConnectionError, OtherProtocol};
use crate::manager::event::EventKind;
use crate::manager::{Failure, PluginEvent, Socket};
use crate::time::Time;
use crate::watch;

/// The path to probe, and the options of `run` to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The socket, or the directory.
    pub path: PathBuf,
    /// The daemon's configuration. Its directories, its API socket and its mode are not used.
    pub config: DaemonConfig,
    /// The time limit for the whole probe, besides the daemon's own limits; `None`: only those.
    pub timeout: Option<Duration>,
}

/// The findings of a probe.
#[derive(Debug, Default)]
pub struct Report {
    /// The findings about each socket.
    pub sockets: BTreeMap<Arc<Path>, Probed>,
    /// The reports about directories that could not be watched or read completely, or can be again.
    pub problems: Vec<watch::Report>,
}

/// The findings about a socket.
#[derive(Debug, Default)]
pub struct Probed {
    /// The plugin as its reply to GetInfo describes it, if there is one.
    pub plugin: Option<Arc<Plugin>>,
    /// The error that a refused plugin would be notified of, in kubelet's words.
    pub notification: Option<String>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The conclusion; [`Outcome::Unreachable`] until there is another one.
    pub outcome: Outcome,
    is_over: bool,
}

/// A step: what was observed at a moment.
#[derive(Clone, Debug)]
pub struct Step {
    /// The time since the beginning of the probe.
    pub after: Duration,
    /// The reason in CamelCase, like that of an event.
    pub reason: &'static str,
    /// The observation as a sentence.
    pub message: String,
}

/// The conclusion about a socket.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The daemon would register the plugin.
    WouldRegister,
    /// The daemon would refuse the plugin.
    WouldRefuse,
    /// The file is not a socket, or the peer is not a registration service.
    NotARegistrationService,
    /// The socket cannot be connected to, or the peer does not answer in time or ends the
    /// connection before it answers.
    #[default]
    Unreachable,
    /// The connection was accepted and closed before any data was received.
    ClosedAtOnce,
    /// The plugin is acceptable, but its endpoint cannot be connected to.
    EndpointUnavailable,
}

impl Outcome {
    /// Returns the exit status for the outcome, its name, its text, and what may help.
    pub fn describe(self) -> (u8, &'static str, &'static str, &'static str) {
        match self {
            Self::WouldRegister => (0, "WouldRegister", "the plugin would be registered", ""),
            Self::WouldRefuse => (
                5,
                "WouldRefuse",
                "the plugin would be refused",
                "correct what the plugin reports, or give plugind run --type or --exec for its type",
            ),
            Self::NotARegistrationService => (
                6,
                "NotARegistrationService",
                "this is not a plugin registration service",
                "probe the socket in the plugins directory",
            ),
            Self::Unreachable => (
                7,
                "Unreachable",
                "the plugin does not answer",
                "check that it is running and listens on this socket",
            ),
            Self::ClosedAtOnce => (
                8,
                "ClosedAtOnce",
                "the connection was closed before any data was received",
                "configure the plugin to serve this socket without TLS",
            ),
            Self::EndpointUnavailable => (
                9,
                "EndpointUnavailable",
                "nothing listens at the plugin's endpoint",
                "check that it listens there, and --map-path",
            ),
        }
    }
}

/// Probes a socket, or the sockets in a directory. Each step is passed to `show` with the path of
/// its socket as soon as it is taken. Fails, for example, if a program of the configuration is not
/// trusted, or if the directory cannot be used.
pub fn probe(options: &Options, show: &mut dyn FnMut(&Path, &Step)) -> Result<Report, SetupError> {
    let (handlers, _) = handlers(&options.config.handlers)?;
    let is_directory = options.path.is_dir();
    let config = Config {
        plugins_dirs: Vec::from_iter(is_directory.then(|| options.path.clone())),
        device_plugins_dir: None,
        api_socket: ApiSocket::None,
        mode: Mode::Observe,
        ..options.config.manager.clone()
    };
    let mut plugins = PluginManager::open(&config, handlers, Passed::default())?;
    // The first scan of a directory may emit more events than are kept by default.
    plugins.keep_events(usize::MAX);
    plugins.restore_and_scan(&config)?;
    let mut probe = Probe {
        began: plugins.clock.now(),
        plugins,
        show,
        report: Report::default(),
    };
    if !is_directory {
        probe.add_socket(&options.path);
    }
    probe.run(options.timeout).map_err(SetupError::Loop)?;
    Ok(probe.report)
}

/// A probe that is in progress.
struct Probe<'a> {
    plugins: Box<PluginManager>,
    show: &'a mut dyn FnMut(&Path, &Step),
    began: Time,
    report: Report,
}

impl Probe<'_> {
    /// Reports a socket to the plugin manager, as the watch does.
    fn add_socket(&mut self, path: &Path) {
        let path: Arc<Path> = path.into();
        match self.plugins.add_socket(&path) {
            Ok(true) => {}
            Ok(false) => {
                self.record_step("NotASocket", "the file is not a socket".to_owned(), &path);
                self.record_outcome(&path, Outcome::NotARegistrationService);
            }
            Err(error) => {
                let message = format!("cannot examine the file: {error}");
                self.record_step("NotFound", message, &path);
                self.record_outcome(&path, Outcome::Unreachable);
            }
        }
    }

    /// Takes turns until each socket has an outcome, or until `timeout` has passed since the
    /// beginning of the probe.
    fn run(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let until = timeout.map(|timeout| self.began + timeout);
        loop {
            while let Some(event) = self.plugins.poll_event() {
                match event {
                    Event::Plugin(event) => self.record_event(&event),
                    Event::Directory(report) => self.report.problems.push(*report),
                }
            }
            let sockets = self.plugins.manager().sockets().map(Socket::path);
            let open = sockets.filter(|path| !self.is_over(path)).cloned();
            let open: Vec<Arc<Path>> = open.collect();
            let left = until.map(|until| until.saturating_since(self.plugins.clock.now()));
            if left == Some(Duration::ZERO) {
                for path in open {
                    let message = "no outcome within the time limit".to_owned();
                    self.record_step("TimedOut", message, &path);
                }
                return Ok(());
            }
            if open.is_empty() && self.plugins.watch.is_scanned() {
                return Ok(());
            }
            self.plugins.turn(left)?;
        }
    }

    /// Records an event of a socket that has no outcome yet, and the outcome if the event decides
    /// it. Later, only the event that the socket is not trusted is recorded.
    fn record_event(&mut self, event: &PluginEvent) {
        // The endpoint is examined after the event that the plugin would be registered.
        let is_late = matches!(event.kind, EventKind::Untrusted(_));
        let path = event.socket.as_ref();
        let Some(path) = path.filter(|path| is_late || !self.is_over(path)) else {
            return;
        };
        self.record_step(event.reason(), event.message().to_string(), path);
        let (outcome, notification) = match &event.kind {
            EventKind::WouldRegister(_) => (self.probe_endpoint(event.plugin.as_deref()), None),
            EventKind::WouldRefuse(refusal) => (Outcome::WouldRefuse, refusal.status_error(path)),
            EventKind::AttemptFailed { failure, .. } => (outcome_of(failure), None),
            EventKind::NotConnected { .. } => (Outcome::Unreachable, None),
            EventKind::SocketLost => {
                self.report.sockets.remove(path);
                return;
            }
            _ => return,
        };
        let probed = self.socket_entry(path);
        probed.plugin.clone_from(&event.plugin);
        probed.notification = notification;
        self.record_outcome(path, outcome);
    }

    /// Connects to the endpoint of a plugin, unless that is the registration socket. Returns the
    /// outcome for the plugin.
    fn probe_endpoint(&mut self, plugin: Option<&Plugin>) -> Outcome {
        let Some(plugin) = plugin.filter(|it| it.endpoint.as_os_str() != it.socket.as_os_str())
        else {
            return Outcome::WouldRegister;
        };
        let endpoint = self
            .plugins
            .manager()
            .path_map()
            .translate(&plugin.endpoint);
        let shown = escape::path(&endpoint);
        if let Err(error) = self.plugins.try_endpoint(&endpoint) {
            let message = format!("cannot connect to its endpoint {shown}: {error}");
            self.record_step("EndpointUnavailable", message, &plugin.socket);
            return Outcome::EndpointUnavailable;
        }
        let message = format!("connected to its endpoint {shown}");
        self.record_step("EndpointConnected", message, &plugin.socket);
        Outcome::WouldRegister
    }

    /// Records and shows a step.
    fn record_step(&mut self, reason: &'static str, message: String, path: &Arc<Path>) {
        let step = Step {
            after: self.plugins.clock.now().saturating_since(self.began),
            reason,
            message,
        };
        (self.show)(path, &step);
        self.socket_entry(path).steps.push(step);
    }

    fn record_outcome(&mut self, path: &Arc<Path>, outcome: Outcome) {
        let probed = self.socket_entry(path);
        (probed.outcome, probed.is_over) = (outcome, true);
    }

    fn is_over(&self, path: &Path) -> bool {
        self.report.sockets.get(path).is_some_and(|it| it.is_over)
    }

    /// Returns the findings about a socket; adds empty ones if there are none.
    fn socket_entry(&mut self, path: &Arc<Path>) -> &mut Probed {
        self.report.sockets.entry(path.clone()).or_default()
    }
}

/// Returns the outcome for a failed attempt: [`Outcome::Unreachable`] if a later attempt may
/// succeed.
fn outcome_of(failure: &Failure) -> Outcome {
    match failure {
        Failure::Refused(_) => Outcome::WouldRefuse,
        Failure::Dial(DialError::NotASocket) | Failure::UndecodableInfo(_) => {
            Outcome::NotARegistrationService
        }
        Failure::GetInfo(CallError::Connection { error, .. }) => match error {
            ConnectionError::NotHttp2(OtherProtocol::Nothing) => Outcome::ClosedAtOnce,
            ConnectionError::NotHttp2(_) | ConnectionError::Violation(_) => {
                Outcome::NotARegistrationService
            }
            _ => Outcome::Unreachable,
        },
        Failure::GetInfo(error) => match error.code() {
            Code::Unavailable | Code::DeadlineExceeded => Outcome::Unreachable,
            _ => Outcome::NotARegistrationService,
        },
        _ => Outcome::Unreachable,
    }
}
