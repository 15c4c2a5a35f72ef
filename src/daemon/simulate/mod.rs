//! A simulated plugin as a process: its sockets, its loop and its signals.
//!
//! Shell. Moves octets between connections and the [`Plugin`], and decides nothing.
//!
//! ```text
//!   signalfd -- SIGTERM, SIGINT --> the end      -- SIGUSR1 --> toggle_health()
//!   Door ------ accept() ---------> Plugin ------ Say ---------> who looks on
//!   Connection  received, sent <--> Plugin ------ Crash -------> the end
//! ```

mod door;
mod guest;

use std::fmt;
use std::io;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};

use self::door::Door;
use self::guest::Guest;
use super::clock::Clock;
use super::signals::{self, Signals};
use super::{SetupError, TimeOfDay};
use crate::escape;
use crate::simulate::{Output, Plugin, Profile};

/// A running simulated plugin.
#[derive(Debug)]
pub struct Simulation {
    plugin: Plugin,
    doors: Vec<Door>,
    guests: Vec<Guest>,
    last_token: Token,
    /// Whether the sockets are left behind when the plugin is asked to end.
    is_stale: bool,
    signals: Signals,
    poll: Poll,
    clock: Clock,
}

/// How a simulated plugin ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A signal asked the plugin to end.
    Asked,
    /// The plugin crashed, as if it were killed.
    Crashed,
}

/// A function that is called for each event, with a line of text.
pub type Say<'a> = &'a dyn Fn(&dyn fmt::Display);

impl Simulation {
    /// Starts a plugin with this profile, which listens on its sockets.
    pub fn new(profile: &Profile, say: Say<'_>) -> Result<Self, SetupError> {
        // The sockets are for this user only, from the moment that they exist.
        umask(Mode::S_IRWXG | Mode::S_IRWXO);
        let wanted = [&signals::ENDING[..], &[Signal::SIGUSR1]].concat();
        let signals = Signals::block(&wanted).map_err(SetupError::Signals)?;
        let poll = Poll::new().map_err(SetupError::Loop)?;
        let clock = Clock::start();
        let mut simulation = Self {
            plugin: Plugin::new(profile, TimeOfDay::now().since_1970(), clock.now()),
            doors: open_doors(profile)?,
            guests: Vec::new(),
            last_token: SIGNALS,
            is_stale: profile.faults.stale,
            signals,
            poll,
            clock,
        };
        simulation.register().map_err(SetupError::Loop)?;
        for door in &simulation.doors {
            say(&format_args!("listening on {}", escape::path(door.path())));
        }
        Ok(simulation)
    }

    /// Runs the plugin until a signal or its profile ends it.
    pub fn run(mut self, say: Say<'_>) -> io::Result<Ending> {
        let mut events = Events::with_capacity(EVENTS);
        let mut has_moved = false;
        loop {
            self.wait(&mut events, has_moved)?;
            if let Some(signal) = self.read_signals()? {
                self.end(signal, say);
                return Ok(Ending::Asked);
            }
            self.let_in()?;
            self.plugin.handle_timeout(self.clock.now());
            has_moved = self.serve();
            while let Some(output) = self.plugin.poll_output() {
                match output {
                    Output::Say(news) => say(&news),
                    Output::Crash => {
                        say(&"crashing, as requested by --crash-after");
                        return Ok(Ending::Crashed);
                    }
                }
            }
        }
    }

    /// Adds the signals and the sockets to the loop.
    fn register(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        let fd = self.signals.as_raw_fd();
        registry.register(&mut SourceFd(&fd), SIGNALS, Interest::READABLE)?;
        for door in &mut self.doors {
            self.last_token.0 += 1;
            registry.register(door.listener(), self.last_token, Interest::READABLE)?;
        }
        Ok(())
    }

    /// Waits until there is something to do. Does not wait if bytes have just been moved: there may
    /// be more to do that the loop does not report.
    fn wait(&mut self, events: &mut Events, has_moved: bool) -> io::Result<()> {
        let timeout = if has_moved {
            Some(Duration::ZERO)
        } else {
            let deadline = self.plugin.poll_timeout();
            deadline.map(|at| self.clock.until(at))
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            let token = event.token();
            let mut guests = self.guests.iter_mut();
            if let Some(guest) = guests.find(|guest| guest.token() == token) {
                guest.report(event);
            } else if let Some(door) = token.0.checked_sub(FIRST_DOOR.0) {
                // The token of a closed connection is not that of a socket either.
                if let Some(door) = self.doors.get_mut(door) {
                    door.set_ready();
                }
            }
        }
        Ok(())
    }

    /// Handles the pending signals. Returns the first one that asks for the end.
    fn read_signals(&mut self) -> io::Result<Option<Signal>> {
        while let Some(signal) = self.signals.read()? {
            if signal != Signal::SIGUSR1 {
                return Ok(Some(signal));
            }
            self.plugin.toggle_health(self.clock.now());
        }
        Ok(None)
    }

    /// Accepts the connections that are waiting, as long as there is room.
    fn let_in(&mut self) -> io::Result<()> {
        for door in &mut self.doors {
            while self.plugin.has_room() {
                let Some(mut stream) = door.accept()? else {
                    break;
                };
                self.last_token.0 += 1;
                let interest = Interest::READABLE | Interest::WRITABLE;
                let registry = self.poll.registry();
                registry.register(&mut stream, self.last_token, interest)?;
                let link = self.plugin.accept(door.socket(), self.clock.now());
                self.guests.push(Guest::new(self.last_token, link, stream));
            }
        }
        Ok(())
    }

    /// Moves the bytes that can be moved, a piece for each connection, and closes the connections
    /// that are over. Returns whether anything was moved or closed.
    fn serve(&mut self) -> bool {
        let mut has_moved = false;
        for at in (0..self.guests.len()).rev() {
            has_moved |= self.guests[at].serve(&mut self.plugin, self.clock);
            if self.guests[at].is_leaving(&self.plugin) {
                self.guests.remove(at).leave(&mut self.plugin);
                has_moved = true; // There may be room for another connection.
            }
        }
        has_moved
    }

    /// Ends the plugin as a signal has asked: removes its sockets, unless they are to be left
    /// behind, and closes its connections after their final bytes.
    fn end(mut self, signal: Signal, say: Say<'_>) {
        if !self.is_stale {
            self.doors.iter().for_each(Door::remove);
        }
        self.plugin.stop(self.clock.now());
        for guest in std::mem::take(&mut self.guests) {
            guest.leave(&mut self.plugin);
        }
        let sockets = match self.doors.len() {
            1 => "socket",
            _ => "sockets",
        };
        let left = if self.is_stale {
            "left behind"
        } else {
            "removed"
        };
        say(&format_args!(
            "received {signal}, stopped; {sockets} {left}"
        ));
    }
}

/// Opens the sockets of a plugin: all of them or none.
fn open_doors(profile: &Profile) -> Result<Vec<Door>, SetupError> {
    let mut doors: Vec<Door> = Vec::new();
    for (path, socket) in profile.sockets() {
        match Door::open(&path, socket) {
            Ok(door) => doors.push(door),
            Err(error) => {
                doors.iter().for_each(Door::remove);
                return Err(error);
            }
        }
    }
    Ok(doors)
}

/// The token of the signals' descriptor.
const SIGNALS: Token = Token(0);

/// The token of the first socket that is listened on; connections come after the last.
const FIRST_DOOR: Token = Token(1);

/// The largest number of events that one wait returns. The next wait returns the rest.
const EVENTS: usize = 64;
