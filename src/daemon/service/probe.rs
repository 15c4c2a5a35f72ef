//! One probe of a socket: what is at the path, which process serves it, and how the daemon would
//! answer the plugin.
//!
//! Shell. Takes the daemon's own steps with the daemon's own limits, and stops at the first step
//! that fails. A probe makes one connection with one `GetInfo` call, and a connection without a
//! call to the plugin's endpoint. The plugin is never notified, so a plugin in service can be
//! probed. Blocks until the outcome is known.
//!
//! ```text
//! file -> connect -> HTTP/2 -> GetInfo -> verdict -> endpoint
//!                                                    (one of its own that the handler uses)
//! ```

mod call;
mod directory;
mod report;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

use self::call::Call;
pub(crate) use self::directory::sockets_below;
pub use self::directory::{Sockets, sockets_in};
pub use self::report::{
    EndpointFailure, File, FileKind, Found, NoInfo, NoSettings, Outcome, Peer, Report, Step,
};
use super::run;
use crate::config::{DaemonConfig, PathMap};
use crate::daemon::SetupError;
use crate::daemon::clock::Clock;
use crate::grpc::{CallError, Code};
use crate::handler::{CallFailure, EndpointUse, HandlerTable, Plugin};
use crate::http2::{ConnectionError, OtherProtocol};
use crate::manager::{Verdict, verdict};
use crate::proto::pluginregistration::PluginInfo;
use crate::time::Time;

/// Probes sockets as a daemon with the same configuration would.
#[derive(Debug)]
pub struct Prober {
    handlers: HandlerTable,
    path_map: PathMap,
    /// The time limit for the whole probe of a socket, beside the daemon's own limits.
    timeout: Option<Duration>,
}

impl Prober {
    /// Creates a prober with the daemon's handlers. Programs are checked as the daemon checks them,
    /// and not run.
    pub fn new(config: &DaemonConfig, timeout: Option<Duration>) -> Result<Self, SetupError> {
        let (handlers, _) = run::handlers(&config.handlers)?;
        Ok(Self {
            handlers,
            path_map: config.manager.path_map.clone(),
            timeout,
        })
    }

    /// Probes the registration socket at that path. Each step is passed to `show` as soon as it is
    /// known.
    pub fn probe(&mut self, socket: &Path, show: &mut dyn FnMut(&Step)) -> Report {
        let clock = Clock::start();
        let now = clock.now();
        let mut probe = Probe {
            prober: self,
            show,
            steps: Vec::new(),
            not_checked: Vec::new(),
            clock,
            since: now,
            until: None,
        };
        probe.until = probe.prober.timeout.map(|timeout| now + timeout);
        let outcome = probe.run(socket).unwrap_or_else(|end| end);
        Report {
            socket: socket.to_owned(),
            steps: probe.steps,
            not_checked: probe.not_checked,
            outcome,
        }
    }
}

/// A probe that is in progress. A step that fails ends the probe.
struct Probe<'a> {
    prober: &'a mut Prober,
    show: &'a mut dyn FnMut(&Step),
    steps: Vec<Step>,
    not_checked: Vec<&'static str>,
    clock: Clock,
    /// The time at which the current step began.
    since: Time,
    /// The deadline that the user set.
    until: Option<Time>,
}

impl Probe<'_> {
    fn run(&mut self, socket: &Path) -> Result<Outcome, Outcome> {
        self.examine(socket)?;
        let mut call = self.connect(socket)?;
        let info = self.get_info(&mut call);
        call.hang_up();
        let plugin = self.validate(info?, socket)?;
        self.check_endpoint(&plugin)?;
        Ok(Outcome::WouldRegister)
    }

    /// Examines the file at the path.
    fn examine(&mut self, socket: &Path) -> Result<(), Outcome> {
        let file = File::at(socket);
        let end = match &file {
            Ok(file) if file.kind == FileKind::Socket => Ok(()),
            Ok(_) => Err(Outcome::NotARegistrationService),
            Err(_) => Err(Outcome::Unreachable),
        };
        self.record(Found::File(file));
        end
    }

    /// Connects to the socket.
    fn connect(&mut self, socket: &Path) -> Result<Call, Outcome> {
        let (call, peer) = Call::dial(socket, self.clock, self.until).map_err(|error| {
            self.record(Found::Peer(Err(error)));
            Outcome::Unreachable
        })?;
        self.record(Found::Peer(Ok(peer)));
        Ok(call)
    }

    /// Calls GetInfo. Records the SETTINGS of the peer, and then the reply.
    fn get_info(&mut self, call: &mut Call) -> Result<PluginInfo, Outcome> {
        call.get_info();
        let settings = call.settings().map_err(NoSettings);
        let spoke = settings.as_ref().map(|_| ()).map_err(|error| {
            if error.is_closed_at_once() {
                Outcome::ClosedAtOnce
            } else {
                outcome_of(&error.0)
            }
        });
        self.record(Found::Settings(settings));
        spoke?;

        let info = call
            .reply()
            .map_err(NoInfo::Call)
            .and_then(|reply| PluginInfo::decode(&*reply).map_err(NoInfo::Undecodable));
        let result = match &info {
            Ok(info) => Ok(info.clone()),
            Err(NoInfo::Call(error)) => Err(outcome_of(error)),
            Err(NoInfo::Undecodable(_)) => Err(Outcome::NotARegistrationService),
        };
        self.record(Found::Info(info));
        result
    }

    /// Determines the verdict of the daemon and of its handlers.
    fn validate(&mut self, info: PluginInfo, socket: &Path) -> Result<Arc<Plugin>, Outcome> {
        let handlers = &mut self.prober.handlers;
        let verdict = verdict(handlers, info, Arc::from(socket), self.clock.now());
        let plugin = match &verdict {
            Verdict::Accepted(plugin) | Verdict::Undecided(plugin) => Ok(plugin.clone()),
            Verdict::Refused(_) => Err(Outcome::WouldRefuse),
        };
        self.record(Found::Verdict(verdict));
        plugin
    }

    /// Connects to the plugin's endpoint, if the handler would, and waits for the server's
    /// SETTINGS.
    fn check_endpoint(&mut self, plugin: &Plugin) -> Result<(), Outcome> {
        let wanted = self.prober.handlers.endpoint_use(&plugin.kind);
        let has_endpoint = plugin.endpoint.as_os_str() != plugin.socket.as_os_str();
        let connects = has_endpoint && wanted != EndpointUse::None;
        if connects {
            self.dial_endpoint(plugin, wanted)?;
        }
        let left_out = self.prober.handlers.not_checked(plugin, connects);
        self.not_checked.extend(left_out);
        Ok(())
    }

    fn dial_endpoint(&mut self, plugin: &Plugin, wanted: EndpointUse) -> Result<(), Outcome> {
        let path: Arc<Path> = self.prober.path_map.find(&plugin.endpoint).into();
        let is_registered = wanted != EndpointUse::Registering;
        let answer = self.await_settings(&path).map_err(|error| EndpointFailure {
            is_registered,
            endpoint: plugin.endpoint.clone(),
            path: path.clone(),
            error,
        });
        let is_overdue = self.until.is_some_and(|until| until <= self.clock.now());
        let end = match &answer {
            Ok(()) => Ok(()),
            Err(_) if is_overdue => Err(Outcome::Unreachable),
            Err(_) if is_registered => Err(Outcome::EndpointUnavailable),
            Err(_) => Err(Outcome::WouldRefuse),
        };
        self.record(Found::Endpoint { path, answer });
        end
    }

    /// Waits until the server on that socket has sent its SETTINGS.
    fn await_settings(&self, path: &Path) -> Result<(), CallFailure> {
        let dialled = Call::dial(path, self.clock, self.until);
        let (mut call, _) = dialled.map_err(CallFailure::Dial)?;
        let settings = call.settings();
        call.hang_up();
        settings.map(drop).map_err(CallFailure::Call)
    }

    /// Records and shows the finding of a step.
    fn record(&mut self, found: Found) {
        let now = self.clock.now();
        let took = now.saturating_since(self.since);
        self.since = now;
        let step = Step { found, took };
        (self.show)(&step);
        self.steps.push(step);
    }
}

/// Returns the outcome for a failed call: [`Outcome::Unreachable`] if the call may succeed later,
/// otherwise [`Outcome::NotARegistrationService`].
fn outcome_of(error: &CallError) -> Outcome {
    if is_foreign(error) {
        return Outcome::NotARegistrationService;
    }
    match error.code() {
        Code::Unavailable | Code::DeadlineExceeded => Outcome::Unreachable,
        _ => Outcome::NotARegistrationService,
    }
}

/// Returns whether the peer speaks another protocol than HTTP/2, or violates HTTP/2.
fn is_foreign(error: &CallError) -> bool {
    let CallError::Connection { error, .. } = error else {
        return false;
    };
    match error {
        ConnectionError::NotHttp2(instead) => *instead != OtherProtocol::Nothing,
        ConnectionError::Violation(_) => true,
        _ => false,
    }
}
