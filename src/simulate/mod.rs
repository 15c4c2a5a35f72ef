//! A simulated plugin: its description, its answers, and its faults.
//!
//! It is for testing a node and its handlers without a driver, and uses this crate's own gRPC
//! server. Nothing in this folder does I/O: the event loop (`daemon::service::simulate`) owns the
//! sockets and the clock. It names a connection by its [`ConnectionId`], reads and writes octets at
//! an [`Endpoint`], and takes requests as an [`Output`].
//!
//! ```text
//!   accept(socket) -> ConnectionId
//!   endpoint(), handle_io() -> Server -- Called --> Service: the answer
//!                                ^                     |
//!                                |      delay is over  v
//!                                +------------------- calls <-- toggle_health()
//!
//!   poll_output() -> Report(text) | Crash      poll_timeout() -> handle_timeout(now)
//!
//!   poll_output() -> Dial, Listen
//!   handle_connected() -> ConnectionId, handle_kubelet_missing(), handle_dial_failed(),
//!   handle_kubelet_created() -> Registration -- client(), handle_result() -> its Client
//! ```
//!
//! Read in this order: [`Profile`] (what can be configured), [`PluginKind`] (what depends on the
//! type), `service` (the answers), `devices`, `call` (the time of an answer), `registration`
//! (device plugins that call kubelet).

mod call;
mod devices;
mod kind;
mod profile;
mod registration;
mod service;

use std::collections::VecDeque;
use std::time::Duration;

use self::call::Call;
use self::devices::{Devices, NAMES};
pub use self::kind::PluginKind;
pub use self::profile::{Faults, Profile};
use self::registration::Registration;
use self::service::Service;
use crate::config;
use crate::grpc::{Code, Incoming, Server, Status};
use crate::http2::{Endpoint, StreamId};
use crate::proto::v1beta1::device_plugin;
use crate::time::Time;

/// The number of a connection to the plugin, or from it to kubelet; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u64);

/// A socket of the plugin, by what is served on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// The only socket: everything is served on it.
    Common,
    /// Only the registration is served on it.
    Registration,
    /// Only the plugin's own service is served on it.
    Service,
}

/// A request of the plugin to the event loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Show the user a line about an event.
    Report(String),
    /// Exit at once, without closing connections properly.
    Crash,
    /// Connect to `kubelet.sock`. The outcome is [`Plugin::handle_connected`],
    /// [`Plugin::handle_kubelet_missing`] or [`Plugin::handle_dial_failed`].
    Dial,
    /// Listen again, because the plugin's socket was removed or replaced.
    Listen,
}

/// A simulated plugin, and its connections.
#[derive(Debug)]
pub struct Plugin {
    kind: PluginKind,
    service: Service,
    devices: Devices,
    connections: Connections,
    last_id: ConnectionId,
    /// The calls that have not ended, in the order of arrival.
    calls: Vec<Call>,
    crash_at: Option<Time>,
    /// The time of the next automatic change of the devices, and the interval between changes.
    toggle: Option<(Time, Duration)>,
    /// The registration with kubelet, if the plugin registers itself.
    registration: Option<Registration>,
    outputs: VecDeque<Output>,
}

/// The connections to the plugin, which are few enough for a linear search.
type Connections = Vec<(ConnectionId, Server)>;

impl Plugin {
    /// Creates a plugin with that profile, which starts now. `origin` is the origin of [`Time`] as
    /// the time since the Unix epoch; some messages contain timestamps.
    pub fn new(profile: &Profile, origin: Duration, now: Time) -> Self {
        Self {
            kind: profile.kind(),
            service: Service::new(profile.clone()),
            devices: Devices::new(origin, now),
            connections: Vec::new(),
            last_id: ConnectionId(0),
            calls: Vec::new(),
            crash_at: profile.faults.crash_after.map(|after| now + after),
            toggle: profile.toggle_health.map(|every| (now + every, every)),
            registration: Registration::new(profile, now),
            outputs: VecDeque::new(),
        }
    }

    /// Returns whether another connection may be accepted.
    pub fn has_room(&self) -> bool {
        self.connections.len() < config::MAX_SIMULATED_CLIENTS
    }

    /// Adds a connection that was just accepted on that socket.
    pub fn accept(&mut self, socket: Socket, now: Time) -> ConnectionId {
        self.last_id.0 += 1;
        let methods = self.kind.methods(socket);
        let server = Server::new(methods, config::MAX_SMALL_MESSAGE, now);
        self.connections.push((self.last_id, server));
        self.last_id
    }

    /// Returns the plugin's end of a connection: a server, or the client of the connection to
    /// kubelet; `None` if the connection was removed. Call [`handle_io`](Self::handle_io) after
    /// octets were moved to or from that end.
    pub fn endpoint(&mut self, conn: ConnectionId) -> Option<&mut dyn Endpoint> {
        let registration = self.registration.as_mut();
        let client = registration.and_then(|it| it.client(conn));
        match client {
            Some(client) => Some(client),
            None => find_server(&mut self.connections, conn).map(|server| server as _),
        }
    }

    /// Returns whether a connection has ended or was removed. Its [`endpoint`](Self::endpoint), if
    /// any, may still have final bytes to write.
    pub fn is_closed(&self, conn: ConnectionId) -> bool {
        let mut connections = self.connections.iter();
        let is_served = connections.any(|(name, server)| *name == conn && !server.is_closed());
        let registration = self.registration.as_ref();
        !is_served && !registration.is_some_and(|registration| registration.is_open(conn))
    }

    /// Adds the connection to `kubelet.sock` that was just established.
    pub fn handle_connected(&mut self, now: Time) -> ConnectionId {
        self.last_id.0 += 1;
        if let Some(registration) = &mut self.registration {
            registration.handle_connected(self.last_id, now);
        }
        self.last_id
    }

    /// Records that `kubelet.sock` does not exist.
    pub fn handle_kubelet_missing(&mut self) {
        if let Some(registration) = &mut self.registration {
            registration.handle_kubelet_missing();
            self.report("kubelet.sock does not exist, waiting for it");
        }
    }

    /// Records that the connection to `kubelet.sock` failed, and schedules the next attempt.
    pub fn handle_dial_failed(&mut self, why: &str, now: Time) {
        if let Some(registration) = &mut self.registration {
            let pause = registration.schedule_retry(now);
            self.report(format!(
                "cannot connect to kubelet.sock: {why}; retrying in {pause:?}"
            ));
        }
    }

    /// Starts the registration again, because `kubelet.sock` was created. Unless
    /// `is_socket_in_place`, the plugin's own socket was removed or replaced: then also requests to
    /// listen again.
    pub fn handle_kubelet_created(&mut self, is_socket_in_place: bool, now: Time) {
        if let Some(registration) = &mut self.registration {
            let report = registration.handle_kubelet_created(now);
            self.report(report);
        }
        if !is_socket_in_place {
            self.report("its socket was removed, listening again");
            self.outputs.push_back(Output::Listen);
        }
    }

    /// Removes a connection that has ended, and its calls.
    pub fn remove_connection(&mut self, conn: ConnectionId) {
        if let Some(registration) = &mut self.registration {
            registration.remove_connection(conn);
        }
        self.connections.retain(|(name, _)| *name != conn);
        self.calls.retain(|call| call.conn != conn);
    }

    /// Makes the second device unhealthy, or healthy again, and sends the new state to the callers
    /// that watch it. If the plugin has no devices, only reports that.
    pub fn toggle_health(&mut self, now: Time) {
        if !self.kind.has_devices() {
            return self.report("ignored SIGUSR1: plugins of this type have no devices");
        }
        let how = if self.devices.toggle(now) {
            "healthy"
        } else {
            "unhealthy"
        };
        self.report(format!("{} is now {how}", NAMES[1]));
        for call in &mut self.calls {
            call.is_sent = false;
        }
        self.handle_io(now);
    }

    /// Ends all calls with the status UNAVAILABLE, and shuts down every connection.
    pub fn stop(&mut self, now: Time) {
        for call in std::mem::take(&mut self.calls) {
            if let Some(server) = find_server(&mut self.connections, call.conn) {
                let status = Status::new(Code::Unavailable, "the plugin is stopping");
                server.finish(call.stream, status, now);
            }
        }
        for (_, server) in &mut self.connections {
            server.shutdown(now);
        }
        if let Some(registration) = &mut self.registration {
            registration.stop(now);
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let toggle = self.toggle.map(|(at, _)| at);
        let registration = self
            .registration
            .as_ref()
            .and_then(Registration::poll_timeout);
        let own = [toggle, self.crash_at, registration].into_iter().flatten();
        let calls = self.calls.iter().filter_map(|call| call.due);
        let connections = self.connections.iter();
        let servers = connections.filter_map(|(_, server)| server.poll_timeout());
        own.chain(calls).chain(servers).min()
    }

    /// Does what is due by `now`. Calling this early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.crash_at.take_if(|at| *at <= now).is_some() {
            self.outputs.push_back(Output::Crash);
        }
        for (_, server) in &mut self.connections {
            server.handle_timeout(now);
        }
        if let Some(registration) = &mut self.registration {
            if registration.handle_timeout(now) {
                self.outputs.push_back(Output::Dial);
            }
        }
        match self.toggle {
            Some((at, every)) if at <= now => {
                self.toggle = Some((now + every, every));
                self.toggle_health(now);
            }
            _ => self.handle_io(now),
        }
    }

    /// Removes and returns the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Handles new and cancelled calls and the end of the call to kubelet, and sends the answers
    /// that are due. Call this after octets were read or written at an
    /// [`endpoint`](Self::endpoint).
    pub fn handle_io(&mut self, now: Time) {
        for at in 0..self.connections.len() {
            let conn = self.connections[at].0;
            while let Some(incoming) = self.connections[at].1.poll_event(now) {
                match incoming {
                    Incoming::Called {
                        call,
                        method,
                        message,
                    } => {
                        let (report, answer) = self.service.answer(method, &message);
                        let faults = &self.service.profile.faults;
                        let mut due = now + faults.delay;
                        if method == device_plugin::ALLOCATE {
                            due += faults.delay_allocate;
                        }
                        self.calls.push(Call::new(conn, call, method, answer, due));
                        self.report(report);
                    }
                    Incoming::Ended { call: stream } => self.handle_call_end(conn, stream),
                    Incoming::Closed(_) => {}
                }
            }
        }
        let registration = self.registration.as_mut();
        if let Some(report) = registration.and_then(|registration| registration.handle_result(now))
        {
            self.report(report);
        }
        let (connections, devices) = (&mut self.connections, &self.devices);
        self.calls.retain_mut(|call| {
            let server = find_server(connections, call.conn);
            server.is_some_and(|server| !call.send_due_answer(server, devices, now))
        });
    }

    /// Removes and reports a call that ended before its answer was complete.
    fn handle_call_end(&mut self, conn: ConnectionId, stream: StreamId) {
        let has_ended = |call: &Call| call.conn == conn && call.stream == stream;
        if let Some(at) = self.calls.iter().position(has_ended) {
            let report = self.calls.remove(at).end_report();
            self.report(report);
        }
    }

    fn report(&mut self, text: impl Into<String>) {
        self.outputs.push_back(Output::Report(text.into()));
    }
}

/// Returns the server of a connection.
fn find_server(connections: &mut Connections, conn: ConnectionId) -> Option<&mut Server> {
    let mut connections = connections.iter_mut();
    let found = connections.find(|(name, _)| *name == conn);
    found.map(|(_, server)| server)
}

#[cfg(test)]
mod tests;
