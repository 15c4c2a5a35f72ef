//! A simulated plugin as a process: its sockets, its loop and its signals.
//!
//! Moves octets between connections and the [`Plugin`], which makes all decisions.
//!
//! ```text
//!   signalfd -- SIGTERM, SIGINT --> the end      -- SIGUSR1 --> toggle_health()
//!   Listener -- accept() ---------> Plugin ------ Report ------> the user
//!   Connection  received, sent <--> Plugin ------ Crash -------> the end
//!   inotify --- kubelet.sock -----> Plugin ------ Dial, Listen -> Connection, Listener
//! ```

mod sockets;

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Duration;

use mio::net::UnixStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::signal::Signal;

use self::sockets::{KubeletSocket, Listener};
use crate::daemon::SetupError;
use crate::daemon::clock::{Clock, time_of_day};
use crate::daemon::connection::Connection;
use crate::daemon::fs::dial::dial;
use crate::daemon::process::signals::{self, Signals};
use crate::handler::DialError;
use crate::simulate::{ConnectionId, Output, Plugin, Profile};

/// A running simulated plugin.
#[derive(Debug)]
pub struct Simulation {
    plugin: Plugin,
    listeners: Vec<Listener>,
    /// The socket at which the plugin registers itself, if it does.
    kubelet: Option<KubeletSocket>,
    /// The connections to the plugin, and the one from it to kubelet.
    peers: Vec<(ConnectionId, Connection)>,
    /// Whether the sockets are left behind when the plugin is asked to end.
    is_stale: bool,
    signals: Signals,
    poll: Poll,
    clock: Clock,
}

/// The end of a simulated plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A signal asked the plugin to end.
    Asked,
    /// The plugin crashed, as if it were killed.
    Crashed,
}

/// A function that is called for each event, with a line of text.
pub type Reporter<'a> = &'a dyn Fn(&dyn fmt::Display);

impl Simulation {
    /// Starts a plugin with this profile, which listens on its sockets.
    pub fn new(profile: &Profile, report: Reporter<'_>) -> Result<Self, SetupError> {
        let wanted = [&signals::ENDING[..], &[Signal::SIGUSR1]].concat();
        let signals = Signals::block_and_open(&wanted).map_err(SetupError::Signals)?;
        let poll = Poll::new().map_err(SetupError::Loop)?;
        let clock = Clock::start();
        let sockets = profile.sockets().into_iter();
        let listeners = sockets.map(|(path, socket)| Listener::open(&path, socket));
        let mut simulation = Self {
            plugin: Plugin::new(profile, time_of_day(), clock.now()),
            listeners: listeners.collect::<Result<_, _>>()?,
            kubelet: None,
            peers: Vec::new(),
            is_stale: profile.faults.stale,
            signals,
            poll,
            clock,
        };
        let registered = simulation.register_sources(profile.kubelet_socket());
        registered.map_err(SetupError::Loop)?;
        for listener in &simulation.listeners {
            listener.report_listening(report);
        }
        Ok(simulation)
    }

    /// Runs the plugin until a signal or its profile ends it.
    pub fn run(mut self, report: Reporter<'_>) -> io::Result<Ending> {
        // If more events occur, the next wait returns the rest.
        let mut events = Events::with_capacity(64);
        let mut has_moved = false;
        loop {
            self.wait(&mut events, has_moved)?;
            if let Some(signal) = self.handle_signals()? {
                self.shut_down(signal, report);
                return Ok(Ending::Asked);
            }
            self.handle_kubelet_events()?;
            self.accept_pending()?;
            self.plugin.handle_timeout(self.clock.now());
            has_moved = self.serve();
            while let Some(output) = self.plugin.poll_output() {
                match output {
                    Output::Report(text) => report(&text),
                    Output::Crash => {
                        report(&"crashing, as requested by --crash-after");
                        for listener in self.listeners {
                            listener.acceptor.close_without_removal();
                        }
                        return Ok(Ending::Crashed);
                    }
                    Output::Dial => self.dial_kubelet()?,
                    Output::Listen => self.listen_again(report)?,
                }
            }
        }
    }

    /// Adds the signals, the sockets and the watch for `kubelet.sock` to the loop.
    fn register_sources(&mut self, kubelet: Option<PathBuf>) -> io::Result<()> {
        let registry = self.poll.registry();
        let watch = kubelet.map(|path| KubeletSocket::watch(path, registry, KUBELET));
        self.kubelet = watch.transpose()?;
        let fd = self.signals.as_fd().as_raw_fd();
        registry.register(&mut SourceFd(&fd), SIGNALS, Interest::READABLE)?;
        for (at, listener) in self.listeners.iter_mut().enumerate() {
            let token = Token(FIRST_LISTENER.0 + at);
            listener.acceptor.register(token, registry)?;
        }
        Ok(())
    }

    /// Waits until there is something to do. Does not wait if bytes have just been moved: there may
    /// be more to do that the loop does not report.
    fn wait(&mut self, events: &mut Events, has_moved: bool) -> io::Result<()> {
        let timeout = if has_moved {
            Some(Duration::ZERO)
        } else {
            let listeners = self.listeners.iter().filter(|_| self.plugin.has_room());
            let accepting = listeners.filter_map(|it| it.acceptor.ready_at);
            let deadline = accepting.chain(self.plugin.poll_timeout()).min();
            deadline.map(|at| at.saturating_since(self.clock.now()))
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            let token = event.token();
            let mut peers = self.peers.iter_mut();
            if let Some((_, connection)) = peers.find(|(id, _)| peer_token(*id) == token) {
                connection.record_event(event);
            } else if let Some(listener) = token.0.checked_sub(FIRST_LISTENER.0) {
                // The token of a connection that was closed is not that of a listener either.
                if let Some(listener) = self.listeners.get_mut(listener) {
                    listener.acceptor.record_readiness();
                }
            }
        }
        Ok(())
    }

    /// Handles the pending signals. Returns the first one that requests termination.
    fn handle_signals(&mut self) -> io::Result<Option<Signal>> {
        while let Some((signal, _)) = self.signals.read()? {
            if signal != Signal::SIGUSR1 {
                return Ok(Some(signal));
            }
            self.plugin.toggle_health(self.clock.now());
        }
        Ok(None)
    }

    /// Accepts the connections that are waiting, as long as there is room.
    fn accept_pending(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        for at in 0..self.listeners.len() {
            while self.plugin.has_room() {
                let listener = &mut self.listeners[at];
                let Some(stream) = listener.acceptor.accept(now) else {
                    break;
                };
                let conn = self.plugin.accept(listener.socket, now);
                self.add_peer(conn, stream)?;
            }
        }
        Ok(())
    }

    /// Adds a connection to the loop.
    fn add_peer(&mut self, id: ConnectionId, mut stream: UnixStream) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(&mut stream, peer_token(id), interest)?;
        self.peers.push((id, Connection::new(stream)));
        Ok(())
    }

    /// Reads the events of the directory of `kubelet.sock`, and informs the plugin if the socket
    /// may have been created.
    fn handle_kubelet_events(&mut self) -> io::Result<()> {
        if let Some(kubelet) = &mut self.kubelet {
            if kubelet.was_created()? {
                let has_socket = self.listeners.iter().all(|it| it.acceptor.is_in_place());
                self.plugin
                    .handle_kubelet_created(has_socket, self.clock.now());
            }
        }
        Ok(())
    }

    /// Connects to `kubelet.sock`, and informs the plugin of the outcome.
    fn dial_kubelet(&mut self) -> io::Result<()> {
        let Some(kubelet) = &self.kubelet else {
            return Ok(());
        };
        let now = self.clock.now();
        match dial(&kubelet.path) {
            Ok(stream) => {
                let conn = self.plugin.handle_connected(now);
                self.add_peer(conn, stream)?;
            }
            Err(DialError::Gone) => self.plugin.handle_kubelet_missing(),
            Err(error) => self.plugin.handle_dial_failed(&error.to_string(), now),
        }
        Ok(())
    }

    /// Listens again on each socket that was removed or replaced.
    fn listen_again(&mut self, report: Reporter<'_>) -> io::Result<()> {
        let registry = self.poll.registry();
        for (at, listener) in self.listeners.iter_mut().enumerate() {
            if !listener.acceptor.is_in_place() {
                let opened = Listener::open(&listener.path, listener.socket);
                *listener = opened.map_err(io::Error::other)?;
                let token = Token(FIRST_LISTENER.0 + at);
                listener.acceptor.register(token, registry)?;
                listener.report_listening(report);
            }
        }
        Ok(())
    }

    /// Moves the bytes that can be moved, a piece for each connection, and closes the connections
    /// that are over. Returns whether anything was moved or closed.
    fn serve(&mut self) -> bool {
        let now = self.clock.now();
        let mut has_moved = false;
        for at in (0..self.peers.len()).rev() {
            let (id, connection) = &mut self.peers[at];
            let end = self.plugin.endpoint(*id);
            if end.is_some_and(|end| connection.pump(end, now)) {
                self.plugin.handle_io(now);
                has_moved = true;
            }
            if self.plugin.is_closed(*id) {
                self.close_peer(at);
                has_moved = true; // There may be room for another connection.
            }
        }
        has_moved
    }

    /// Writes the final bytes of a connection and closes it.
    fn close_peer(&mut self, at: usize) {
        let (id, connection) = self.peers.remove(at);
        let end = self.plugin.endpoint(id);
        connection.hang_up(end.map_or(&[][..], |end| end.transmit()));
        self.plugin.remove_connection(id);
    }

    /// Ends the plugin as a signal has asked: removes its sockets, unless they are to be left
    /// behind, and closes its connections after their final bytes.
    fn shut_down(mut self, signal: Signal, report: Reporter<'_>) {
        let sockets = match self.listeners.len() {
            1 => "socket",
            _ => "sockets",
        };
        for listener in mem::take(&mut self.listeners) {
            if self.is_stale {
                listener.acceptor.close_without_removal();
            }
        }
        let left = if self.is_stale {
            "left behind"
        } else {
            "removed"
        };
        self.plugin.stop(self.clock.now());
        while !self.peers.is_empty() {
            self.close_peer(0);
        }
        report(&format_args!(
            "received {signal}, stopped; {sockets} {left}"
        ));
    }
}

/// Returns the token of a connection.
fn peer_token(ConnectionId(id): ConnectionId) -> Token {
    Token(FIRST_PEER.0 + usize::try_from(id).unwrap_or_default())
}

/// The token of the watch for `kubelet.sock`, which no connection has.
const KUBELET: Token = Token(usize::MAX);

/// The token of the signals' descriptor.
const SIGNALS: Token = Token(0);

/// The token of the first listener.
const FIRST_LISTENER: Token = Token(1);

/// The lower limit of the tokens of connections: a plugin has fewer listeners.
const FIRST_PEER: Token = Token(16);
