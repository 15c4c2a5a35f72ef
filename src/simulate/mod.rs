//! A simulated plugin: its description, its answers, and its faults.
//!
//! Pure. Built on this crate's own server, to try a node and its handlers without a driver. The
//! shell owns the sockets and the clock: connections are named by a [`LinkId`], octets are read and
//! written at an [`Endpoint`], and requests to the shell are returned as an [`Output`].
//!
//! ```text
//!   accept(socket) -> LinkId
//!   endpoint(), advance() -> Server -- Called --> Service: what to answer
//!                              ^                     |
//!                              |      delay is over  v
//!                              +------------------- calls <-- toggle_health()
//!
//!   poll_output() -> Say(News) | Crash          poll_timeout() -> handle_timeout(now)
//! ```
//!
//! Read in this order: [`Profile`] (what can be configured), [`Kind`] (what depends on the type),
//! `service` (the answers), `devices`, `call` (the time of an answer), [`News`].

mod call;
mod devices;
mod kind;
mod news;
mod profile;
mod service;

use std::collections::VecDeque;
use std::time::Duration;

use self::call::Call;
use self::devices::Devices;
pub use self::kind::Kind;
pub use self::news::News;
pub use self::profile::{Faults, Profile};
use self::service::Service;
use crate::config;
use crate::grpc::{Code, Incoming, Server, Status};
use crate::http2::{Endpoint, StreamId};
use crate::time::Time;

/// The number of a connection to the plugin; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

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

/// A request of the plugin to the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Show the user what has happened.
    Say(News),
    /// Exit at once, without closing connections properly.
    Crash,
}

/// A plugin, and the connections of its callers.
#[derive(Debug)]
pub struct Plugin {
    kind: Kind,
    service: Service,
    devices: Devices,
    links: Links,
    last_link: LinkId,
    delay: Duration,
    /// The calls that have not ended, in the order of arrival.
    calls: Vec<Call>,
    crash_at: Option<Time>,
    /// The time of the next automatic change of the devices, and the interval between changes.
    toggle: Option<(Time, Duration)>,
    outputs: VecDeque<Output>,
}

/// The connections: few enough for a linear search.
type Links = Vec<(LinkId, Server)>;

impl Plugin {
    /// Creates a plugin with that profile, which starts now. `origin` is the time of day at the
    /// origin of [`Time`], counted from 1970, which some messages contain.
    pub fn new(profile: &Profile, origin: Duration, now: Time) -> Self {
        Self {
            kind: profile.kind(),
            service: Service::new(profile),
            devices: Devices::new(origin, now),
            links: Vec::new(),
            last_link: LinkId(0),
            delay: profile.faults.delay,
            calls: Vec::new(),
            crash_at: profile.faults.crash_after.map(|after| now + after),
            toggle: profile.toggle_health.map(|every| (now + every, every)),
            outputs: VecDeque::new(),
        }
    }

    /// Returns whether another connection may be accepted.
    pub fn has_room(&self) -> bool {
        self.links.len() < config::MAX_CLIENTS
    }

    /// Adds a connection that was just accepted on that socket.
    pub fn accept(&mut self, socket: Socket, now: Time) -> LinkId {
        self.last_link.0 += 1;
        let methods = self.kind.methods(socket);
        let server = Server::new(methods, config::MAX_SIMULATED_REQUEST, now);
        self.links.push((self.last_link, server));
        self.last_link
    }

    /// Returns the server's end of a connection. After reading into it or writing from it, call
    /// [`advance`](Self::advance).
    pub fn endpoint(&mut self, link: LinkId) -> Option<&mut impl Endpoint> {
        find(&mut self.links, link)
    }

    /// Returns whether a connection has ended. What its [`endpoint`](Self::endpoint) still has to
    /// write are the final bytes.
    pub fn is_closed(&self, link: LinkId) -> bool {
        let mut links = self.links.iter();
        !links.any(|(name, server)| *name == link && !server.is_closed())
    }

    /// Removes a connection that has ended.
    pub fn forget(&mut self, link: LinkId) {
        self.links.retain(|(name, _)| *name != link);
        self.calls.retain(|call| !call.is_on(link));
    }

    /// Breaks or repairs a device.
    pub fn toggle_health(&mut self, now: Time) {
        if !self.kind.has_devices() {
            return self.say(News::NoDevices);
        }
        let is_healthy = self.devices.toggle(now);
        self.say(News::Changed { is_healthy });
        for call in &mut self.calls {
            call.devices_changed();
        }
        self.advance(now);
    }

    /// Ends all calls with an error, and shuts down every connection.
    pub fn stop(&mut self, now: Time) {
        for call in std::mem::take(&mut self.calls) {
            if let Some(server) = find(&mut self.links, call.link) {
                let status = Status::new(Code::Unavailable, "the plugin is stopping");
                server.finish(call.stream, status, now);
            }
        }
        for (_, server) in &mut self.links {
            server.shutdown(now);
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let toggle = self.toggle.map(|(at, _)| at);
        let own = [toggle, self.crash_at].into_iter().flatten();
        let calls = self.calls.iter().filter_map(Call::due);
        let links = self.links.iter();
        let servers = links.filter_map(|(_, server)| server.poll_timeout());
        own.chain(calls).chain(servers).min()
    }

    /// Does what is due by `now`. Calling this early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.crash_at.take_if(|at| *at <= now).is_some() {
            self.outputs.push_back(Output::Crash);
        }
        for (_, server) in &mut self.links {
            server.handle_timeout(now);
        }
        match self.toggle {
            Some((at, every)) if at <= now => {
                self.toggle = Some((now + every, every));
                self.toggle_health(now);
            }
            _ => self.advance(now),
        }
    }

    /// Removes and returns the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Accepts calls that have arrived, and sends the answers that are due. To be called after
    /// octets were read or written at an [`endpoint`](Self::endpoint).
    pub fn advance(&mut self, now: Time) {
        for at in 0..self.links.len() {
            let link = self.links[at].0;
            while let Some(incoming) = self.links[at].1.poll_event(now) {
                match incoming {
                    Incoming::Called {
                        call,
                        method,
                        message,
                    } => {
                        let (news, answer) = self.service.answer(method, &message);
                        let due = now + self.delay;
                        self.calls.push(Call::new(link, call, method, answer, due));
                        self.say(news);
                    }
                    Incoming::Ended { call: stream } => self.ended(link, stream),
                    Incoming::Closed(_) => {}
                }
            }
        }
        let (links, devices) = (&mut self.links, &self.devices);
        self.calls.retain_mut(|call| {
            let server = find(links, call.link);
            server.is_some_and(|server| !call.answer(server, devices, now))
        });
    }

    /// Removes a call that its caller has ended.
    fn ended(&mut self, link: LinkId, stream: StreamId) {
        let is_it = |call: &Call| call.is_on(link) && call.stream == stream;
        if let Some(at) = self.calls.iter().position(is_it) {
            let news = self.calls.remove(at).news_of_end();
            self.say(news);
        }
    }

    fn say(&mut self, news: News) {
        self.outputs.push_back(Output::Say(news));
    }
}

/// Returns the server's end of a connection.
fn find(links: &mut Links, link: LinkId) -> Option<&mut Server> {
    let mut links = links.iter_mut();
    let found = links.find(|(name, _)| *name == link);
    found.map(|(_, server)| server)
}

#[cfg(test)]
mod tests;
