//! Carries out the outputs of the manager: connects to sockets, watches the peer processes, runs
//! the programs of handlers, and publishes the events, together with the reports of the watch: an
//! embedder and clients of the API read them later. Also adds a socket and tries an endpoint for
//! `probe`.
//!
//! A program is started only after the plugin that it may set up is saved.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use nix::sys::stat::SFlag;

use super::PluginManager;
use crate::api::Event;
use crate::config::{Distrust, TrustMode};
use crate::daemon::connection;
use crate::daemon::event_loop::report;
use crate::daemon::fs::dial::{connect, open_foreign, open_within};
use crate::daemon::fs::permissions;
use crate::daemon::fs::stat::Stat;
use crate::escape;
use crate::handler::{DialError, EffectId, ProgramEnd, ProgramOutcome};
use crate::manager::event::EventKind;
use crate::manager::{self, ConnectionEvent, ConnectionId, Generation, Process};
use crate::time::Time;
use crate::watch::{self, Identity, Report};

impl PluginManager {
    /// Carries out the outputs of the manager, until none is left.
    pub(super) fn drain_manager(&mut self, now: Time) {
        while let Some(output) = self.manager.poll_output() {
            match output {
                manager::Output::Dial {
                    conn,
                    path,
                    identity,
                } => {
                    let dialed = self.dial(conn, &path, identity);
                    let event = match dialed {
                        Ok((process, found)) => {
                            for why in found {
                                let distrusted = manager::Input::Distrusted(conn, why);
                                self.manager.handle_input(distrusted, now);
                            }
                            ConnectionEvent::Connected(process)
                        }
                        Err(error) => ConnectionEvent::DialFailed(error),
                    };
                    let input = manager::Input::Connection(conn, event);
                    self.manager.handle_input(input, now);
                }
                manager::Output::Transmit(conn) => self.write_connection(conn, now),
                manager::Output::Resume(conn) => self.connections.queue_unhandled(conn),
                manager::Output::WatchPeer(conn) => {
                    if self.watch_peer(conn) {
                        let watched = manager::Input::Connection(conn, ConnectionEvent::Watched);
                        self.manager.handle_input(watched, now);
                    }
                }
                manager::Output::UnwatchPeer(conn) => self.peer_processes.remove(conn),
                manager::Output::Examine { path } => {
                    self.watch.handle_input(watch::Input::Doubted { path }, now);
                }
                manager::Output::AnnouncementAnswered { id, result } => {
                    if let Some(device_plugins) = &mut self.device_plugins {
                        device_plugins.answer(id, result, now);
                    }
                }
                manager::Output::Event(event) => {
                    if let Some(links) = &mut self.links {
                        links.handle_event(&event);
                    }
                    if let (EventKind::WouldRegister(_), Some(plugin)) =
                        (&event.kind, &event.plugin)
                    {
                        self.report_untrusted_endpoint(plugin, now);
                    }
                    self.publish_event(event.generation, Event::Plugin(event), now);
                }
                manager::Output::Measured(measurement) => {
                    self.counters
                        .record_measurement(&measurement, &self.manager);
                }
                manager::Output::Spawn {
                    id,
                    program,
                    is_add,
                } => {
                    self.programs.waiting.push_back((id, program, is_add));
                }
                manager::Output::Kill(id) => self.kill_program(id, now),
                manager::Output::Hangup { conn, final_bytes } => {
                    if let Some(connection) = self.connections.remove(conn) {
                        connection.hang_up(&final_bytes);
                    }
                }
            }
        }
    }

    /// Dials a socket, as the manager has requested, and adds the connection to the loop.
    /// `identity` is `None` for an endpoint. Returns the peer process, and the reasons why the
    /// socket is not trusted. In strict mode, an endpoint that is not trusted is refused: for its
    /// file before it is dialed, for its peer process afterwards. A registration socket is dialed
    /// nevertheless, so that its plugin can be notified.
    fn dial(
        &mut self,
        conn: ConnectionId,
        path: &Path,
        identity: Option<Identity>,
    ) -> Result<(Option<Process>, Vec<Distrust>), DialError> {
        let is_refused = identity.is_none() && self.trust.is_strict();
        let socket = match self.device_plugins_dir() {
            Some(dir) if identity.is_none() && path.parent() == Some(dir) => {
                Some(open_within(dir, path, &self.mounts)?)
            }
            _ => open_foreign(path, identity, &self.mounts)?,
        };
        let mut found = self.distrust_reasons(socket.as_ref());
        if let Some(why) = found.first().filter(|_| is_refused) {
            return Err(DialError::Untrusted(why.clone()));
        }
        // In strict mode the sandbox may have dropped CAP_DAC_OVERRIDE, so the kernel refuses to
        // connect to another user's socket with EACCES. The reason to report is that the socket is
        // not trusted.
        let stream = connect(socket.as_ref(), path).map_err(|error| match found.first() {
            Some(why) if error == DialError::Denied && self.trust.is_strict() => {
                DialError::Untrusted(why.clone())
            }
            _ => error,
        })?;
        let process = connection::peer_process(&stream);
        let uid = process.map_or(u32::MAX, |process| process.uid);
        if let Err(why) = self.trust.check_user(uid) {
            if is_refused {
                return Err(DialError::Untrusted(why));
            }
            found.push(why);
        }
        if let Some(process) = &process {
            let pid = process.pid.unwrap_or_default();
            log::debug!(
                "{}: connected to the peer process pid={pid} uid={uid}",
                escape::path(path)
            );
        }
        let added = self.connections.add(conn, stream, self.poll.registry());
        added.map_err(|error| DialError::Other(error.to_string()))?;
        Ok((process, found))
    }

    /// Watches the peer process of a connection. Returns whether the process is watched.
    fn watch_peer(&mut self, conn: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(conn) else {
            return false;
        };
        let registry = self.poll.registry();
        let watched = self.peer_processes.add(conn, connection, registry);
        if let Err(error) = &watched {
            log::debug!(
                "{conn}: cannot watch the peer process, watching the connection instead: {error}"
            );
        }
        watched.is_ok()
    }

    /// Starts the next program, and reports the programs that have ended or cannot be started.
    ///
    /// A run of `add` may set up a plugin, so it is not started if the plugin cannot be saved. It
    /// is started without a state file, or if the boot is unknown, because nothing can be saved
    /// then. Any other run is about a plugin that is saved already, and is repeated after a
    /// restart. In strict mode, a program that other users can change is not started.
    pub(super) fn start_and_reap_programs(&mut self, now: Time) {
        while let Some(&(id, ref program, is_add)) = self.programs.waiting.front() {
            let problem = match self.trust.mode {
                TrustMode::Warn => None,
                TrustMode::Strict => {
                    permissions::resolve_trusted_program(&program.path, false).err()
                }
            };
            let file = self.state_file.as_mut();
            let saved = file.map_or(Ok(()), |file| file.save(&self.manager, now));
            let reason = match (problem, saved) {
                (Some(problem), _) => problem.to_string(),
                (None, Err(reason)) if is_add => reason,
                _ => break,
            };
            self.programs.waiting.pop_front();
            let end = ProgramEnd::NotStarted(reason);
            self.report_program_end(id, ProgramOutcome::silent(end), now);
        }
        for (id, outcome) in self.programs.start_and_reap(self.poll.registry()) {
            self.report_program_end(id, outcome, now);
        }
    }

    /// Kills a program, and reports its end before the kernel does: a program that waits for a disk
    /// that does not answer cannot end.
    fn kill_program(&mut self, id: EffectId, now: Time) {
        let outcome = ProgramOutcome::silent(self.programs.kill(id));
        self.report_program_end(id, outcome, now);
    }

    fn report_program_end(&mut self, id: EffectId, outcome: ProgramOutcome, now: Time) {
        let ended = manager::Input::ProgramEnded { id, outcome };
        self.manager.handle_input(ended, now);
    }

    pub(super) fn emit_report(&mut self, report: Report, now: Time) {
        report::log(&report, &self.dirs);
        let generation = self.manager.advance_generation();
        self.publish_event(generation, Event::Directory(Box::new(report)), now);
    }

    /// Counts an event, and keeps it for [`PluginManager::poll_event`] and for clients of the API.
    fn publish_event(&mut self, generation: Generation, event: Event, now: Time) {
        self.counters.record_event(&event, &self.manager);
        if !self.api.is_stopped() {
            self.api.events.add(generation, event.clone(), now);
        }
        self.unread_events.push(event);
    }

    /// Hands the socket at a path to the manager, as if it had been found in a watched directory.
    /// Returns whether the file is a socket.
    pub(crate) fn add_socket(&mut self, path: &Arc<Path>) -> io::Result<bool> {
        let found = Stat::of_path(path)?;
        let is_socket = found.file_type == SFlag::S_IFSOCK;
        if is_socket {
            let above = path.parent().map(Path::to_owned);
            self.mounts
                .set_named_dirs(above.as_slice(), self.manager.path_map());
            self.handle_input(manager::Input::Found {
                path: path.clone(),
                identity: found.identity,
            });
        }
        Ok(is_socket)
    }

    /// Connects to an endpoint, whether or not it is trusted, and closes the connection.
    pub(crate) fn try_endpoint(&self, path: &Path) -> Result<(), DialError> {
        let socket = open_foreign(path, None, &self.mounts)?;
        connect(socket.as_ref(), path).map(drop)
    }
}

/// The events that an embedder has not read yet, up to a limit.
#[derive(Debug, Default)]
pub(super) struct UnreadEvents {
    pub(super) queue: VecDeque<Event>,
    limit: usize,
    /// The number of events that were dropped before they were read.
    pub(super) dropped: u64,
}

impl UnreadEvents {
    /// Creates a queue with this limit.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Sets the maximum number of events to keep, and drops the oldest events beyond that number.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.drop_oldest_beyond(limit);
        self.queue.shrink_to(limit);
    }

    /// Adds an event; drops the oldest one if there are as many as the limit. If the limit is 0,
    /// the event is not kept, and does not count as dropped.
    fn push(&mut self, event: Event) {
        if self.limit == 0 {
            return;
        }
        self.drop_oldest_beyond(self.limit - 1);
        self.queue.push_back(event);
    }

    fn drop_oldest_beyond(&mut self, limit: usize) {
        let excess = self.queue.len().saturating_sub(limit);
        self.dropped += excess as u64;
        self.queue.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(dir: &str) -> Event {
        let dir = Path::new(dir).into();
        Event::Directory(Box::new(Report::Recovered { dir }))
    }

    #[test]
    fn the_newest_events_are_kept_up_to_the_limit() {
        let mut events = UnreadEvents::default();
        events.push(event("/0"));
        assert_eq!((events.queue.pop_front(), events.dropped), (None, 0));
        events.set_limit(2);
        for dir in ["/1", "/2", "/3"] {
            events.push(event(dir));
        }
        assert_eq!(events.dropped, 1);
        assert_eq!(events.queue.pop_front(), Some(event("/2")));
        events.push(event("/4"));
        events.set_limit(1);
        assert_eq!(
            (events.queue.pop_front(), events.dropped),
            (Some(event("/4")), 2)
        );
        assert_eq!(events.queue.pop_front(), None);
    }
}
