//! The core in a poll loop: waits, and carries out what the core wants done.

mod watching;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};

use super::SetupError;
use super::clock::Clock;
use super::connection::{self, Moved};
use super::connections::{Connections, Ready};
use super::dial::dial_foreign;
use super::guards::Guards;
use super::inotify::Inotify;
use super::listings::Listings;
use super::lock::{self, Locks};
use super::mounts::Mounts;
use super::programs::Programs;
use super::report;
use super::roots;
use super::source::Source;
use super::state_file::StateFile;
use crate::config::{Config, Mode};
use crate::escape;
use crate::handler::{DialError, HandlerTable, Reason, Ticket};
use crate::manager::{self, LinkId, Manager, Process};
use crate::time::Time;
use crate::watch::{self, Report, Watch};

use self::watching::{START_BUDGET, WATCH_BUDGET};

/// A plugin manager that is a part of somebody's loop.
///
/// Whoever embeds it waits until its descriptor is readable or [`PluginManager::poll_timeout`] has
/// passed, and then calls [`PluginManager::turn`] with a timeout of zero. Whoever has no loop calls
/// `turn(None)` for ever.
#[derive(Debug)]
pub struct PluginManager {
    /// The directories that are watched.
    dirs: Vec<PathBuf>,
    poll: Poll,
    /// What the last wait brought.
    events: Events,
    clock: Clock,
    watch: Watch,
    inotify: Inotify,
    mounts: Mounts,
    listings: Listings,
    /// Whether inotify has more reports than were read.
    is_inotify_ready: bool,
    manager: Manager,
    connections: Connections,
    guards: Guards,
    programs: Programs,
    /// The connections whose processes have ended, which the core has not been told yet.
    ended: Vec<LinkId>,
    state_file: Option<StateFile>,
    longest_turn: Duration,
    /// What keeps other daemons from the same directories.
    _locks: Locks,
}

impl PluginManager {
    /// Starts to watch the directories of `config`, which are created if they are missing, and
    /// gives the plugins that are found there to the handlers. If another plugin manager works on
    /// one of them, waits up to [`LOCK_TIMEOUT`](crate::config::LOCK_TIMEOUT) for its end.
    pub fn new(config: &Config, handlers: HandlerTable) -> Result<Self, SetupError> {
        let poll = Poll::new().map_err(SetupError::Loop)?;
        let registry = poll.registry().try_clone().map_err(SetupError::Loop)?;
        let dirs = roots::resolve(&config.plugins_dirs);
        let locks = match config.mode {
            Mode::Register => lock::take(&dirs, config.run_dir.as_deref())?,
            Mode::Observe => Locks::default(),
        };
        let watch = Watch::new(dirs.iter().cloned());
        let clock = Clock::start();
        let polled = poll.registry().try_clone().map_err(SetupError::Loop)?;
        let mounts = Mounts::new(&dirs, config.path_map.targets(), polled, clock.now());
        let mut plugins = Self {
            dirs,
            poll,
            events: Events::with_capacity(EVENTS),
            clock,
            watch,
            inotify: Inotify::new(registry, Source::Inotify.token()),
            mounts,
            listings: Listings::default(),
            is_inotify_ready: false,
            manager: Manager::new(handlers),
            connections: Connections::default(),
            guards: Guards::default(),
            programs: Programs::default(),
            ended: Vec::new(),
            // What is only observed is nothing to remember, and nothing to deregister.
            state_file: config
                .state_file
                .as_deref()
                .filter(|_| config.mode == Mode::Register)
                .map(|file| StateFile::new(roots::absolute(file))),
            longest_turn: Duration::ZERO,
            _locks: locks,
        };
        plugins.manager.set_mode(config.mode);
        plugins.manager.set_on_down(config.on_down);
        plugins.manager.set_path_map(config.path_map.clone());
        if let Some(file) = &mut plugins.state_file {
            file.check()?;
            file.restore(&mut plugins.manager);
            plugins.watch.expect(plugins.manager.restored());
        }
        let now = plugins.clock.now();
        plugins.manager.handle_timeout(now);
        for report in plugins.follow_watch(START_BUDGET, now) {
            match report {
                Report::Trouble { dir, problem }
                    if problem.prevents_start() && plugins.dirs.iter().any(|it| **it == *dir) =>
                {
                    return Err(SetupError::Directory { dir, problem });
                }
                other => report::log(&other, &plugins.dirs),
            }
        }
        plugins.follow_manager(now);
        Ok(plugins)
    }

    /// Returns the directories that are watched: absolute, and each once.
    pub fn directories(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// How long to wait at most before the next [`PluginManager::turn`]; `None`: until the
    /// descriptor is readable.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let is_any_ready = self.connections.count_ready() > 0 || self.programs.is_any_ready();
        let is_any_ready = is_any_ready || self.watch.has_output();
        if self.is_crowded() || self.is_inotify_ready || is_any_ready {
            return Some(Duration::ZERO);
        }
        let manager = self.manager.poll_timeout().map(|(at, _)| at);
        let watch = self.watch.poll_timeout();
        let file = self.state_file.as_ref().and_then(StateFile::poll_timeout);
        let mounts = self.mounts.poll_timeout();
        let next = [manager, watch, file, mounts].into_iter().flatten().min();
        next.map(|at| self.clock.until(at))
    }

    /// Waits until there is something to do, at most for `timeout`, and does it.
    ///
    /// Never takes long: a busy plugin and a busy directory have a budget, and what is left over
    /// waits for the next turn.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.wait(timeout)?;
        let now = self.clock.now();
        self.watch.handle_timeout(now);
        self.manager.handle_timeout(now);
        for dir in self.mounts.advance(now) {
            self.watch
                .handle_input(watch::Input::Remounted { dir }, now);
        }
        self.read_inotify(now)?;
        for report in self.follow_watch(WATCH_BUDGET, now) {
            report::log(&report, &self.dirs);
        }
        self.serve_ready(now);
        for link in std::mem::take(&mut self.ended) {
            self.guards.remove(link);
            let ended = manager::Input::ProcessEnded { link };
            self.manager.handle_input(ended, now);
        }
        for (id, outcome) in self.programs.advance(self.poll.registry()) {
            let ended = manager::Input::ProgramEnded { id, outcome };
            self.manager.handle_input(ended, now);
        }
        self.follow_manager(now);
        if let Some(file) = &mut self.state_file {
            file.notice(&self.manager, now);
            file.handle_timeout(&self.manager, now);
        }
        let time = self.clock.now().saturating_since(now);
        self.longest_turn = self.longest_turn.max(time);
        Ok(())
    }

    /// Returns how long the longest turn took since the last call, without its wait.
    pub fn take_longest_turn(&mut self) -> Duration {
        std::mem::take(&mut self.longest_turn)
    }

    /// Has programs killed when the thread that takes turns ends, even if it is killed itself. Only
    /// for a thread that does not end before its process: it is the one that starts them.
    pub fn kill_programs_with_thread(&mut self) {
        self.programs.set_die_with_thread();
    }

    /// Ends a wait, too, whenever this descriptor becomes readable: for whoever has no other loop.
    ///
    /// That is reported once, so what there is to read must be read to its end.
    pub(super) fn wake_on(&mut self, fd: RawFd) -> io::Result<()> {
        let registry = self.poll.registry();
        let token = Source::Wake.token();
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)
    }

    /// Whether that descriptor had become readable in the last turn.
    pub(super) fn is_woken(&self) -> bool {
        let token = Source::Wake.token();
        self.events.iter().any(|event| event.token() == token)
    }

    /// Answers a question that a handler left [`crate::handler::Answer::Pending`].
    pub fn answer(&mut self, ticket: Ticket, result: Result<(), Reason>) {
        self.tell(manager::Input::Answered { ticket, result });
    }

    /// Ends the work: nothing new is begun, and what runs gets a moment to end.
    pub fn stop(&mut self) {
        self.tell(manager::Input::Stop);
    }

    /// Writes down what is registered, for the next start, if there is a file for it.
    pub fn save(&mut self) {
        if let Some(file) = &mut self.state_file {
            file.save(&self.manager, self.clock.now());
        }
    }

    /// Sets how many descriptors the process may have: what is open because of plugins stays some
    /// below that. Until then, the limit is only met when the system refuses one more.
    pub fn set_descriptor_limit(&mut self, limit: usize) {
        self.manager.set_descriptor_limit(limit);
    }

    /// Whether [`PluginManager::stop`] has been followed to its end.
    pub fn is_stopped(&self) -> bool {
        self.manager.is_stopped()
    }

    /// What is known of sockets and plugins.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    fn tell(&mut self, input: manager::Input) {
        let now = self.clock.now();
        self.manager.handle_input(input, now);
        self.follow_manager(now);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let longest = self.poll_timeout().into_iter().chain(timeout).min();
        let longest = self.wait_briefly(longest)?;
        self.events.clear();
        match self.poll.poll(&mut self.events, longest) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        for event in &self.events {
            match Source::of(event.token()) {
                Source::Inotify => self.is_inotify_ready = true,
                Source::Wake => {} // Whoever it is for asks by `is_woken`.
                Source::Connection(link) => self.connections.report(link, event),
                Source::Guard(link) if self.guards.contains(link) => self.ended.push(link),
                Source::Guard(_) => {}
                Source::Program(id) => self.programs.report(id),
                Source::Mounts => self.mounts.report(),
            }
        }
        Ok(())
    }

    /// Waits if that is to be for less than a millisecond, and returns how long is left to wait.
    ///
    /// The loop itself waits for whole milliseconds: an age for a plugin that is about to listen.
    fn wait_briefly(&self, longest: Option<Duration>) -> io::Result<Option<Duration>> {
        let Some(brief) = longest.filter(|it| !it.is_zero() && *it < MILLISECOND) else {
            return Ok(longest);
        };
        let mut polled = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut polled, Some(brief.into()), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(Some(Duration::ZERO)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the last wait brought as many events as it could: there may be more.
    fn is_crowded(&self) -> bool {
        self.events.iter().count() == EVENTS
    }

    /// Does what the manager wants done.
    fn follow_manager(&mut self, now: Time) {
        while let Some(output) = self.manager.poll_output() {
            match output {
                manager::Output::Dial {
                    link,
                    path,
                    identity,
                } => {
                    let dialled = self.dial(link, &path, identity);
                    self.note_refusal(&path, dialled.as_ref().err(), now);
                    let input = match dialled {
                        Ok(process) => manager::Input::Connected { link, process },
                        Err(error) => manager::Input::DialFailed { link, error },
                    };
                    self.manager.handle_input(input, now);
                }
                manager::Output::Transmit { link } => self.write(link, now),
                manager::Output::Resume { link } => self.connections.set_busy(link),
                manager::Output::Guard { link } => {
                    let by = self.guard(link);
                    let guarded = manager::Input::Guarded { link, by };
                    self.manager.handle_input(guarded, now);
                }
                manager::Output::Unguard { link } => self.guards.remove(link),
                manager::Output::Examine { path } => {
                    self.watch.handle_input(watch::Input::Doubted { path }, now);
                }
                manager::Output::Spawn { id, program } => self.programs.start(id, program),
                manager::Output::Kill { id } => self.programs.kill(id),
                manager::Output::Hangup { link, final_bytes } => {
                    if let Some(connection) = self.connections.remove(link) {
                        connection.hang_up(&final_bytes);
                    }
                }
            }
        }
    }

    fn dial(
        &mut self,
        link: LinkId,
        path: &Path,
        identity: Option<watch::Identity>,
    ) -> Result<Option<Process>, DialError> {
        let stream = dial_foreign(path, identity, &self.mounts)?;
        let peer = connection::peer(&stream);
        if let Some(peer) = peer {
            let (pid, uid) = (peer.pid(), peer.uid());
            log::debug!(
                "{}: connected to process {pid} of user {uid}",
                escape::path(path)
            );
        }
        let added = self.connections.add(link, stream, self.poll.registry());
        added.map_err(|error| DialError::Other(error.to_string()))?;
        Ok(peer.map(|peer| Process {
            pid: pid(peer.pid()),
            uid: peer.uid(),
        }))
    }

    /// Watches the process behind a connection if that is possible, else the connection.
    fn guard(&mut self, link: LinkId) -> manager::Guard {
        let Some(connection) = self.connections.get_mut(link) else {
            return manager::Guard::Connection;
        };
        match self.guards.add(link, connection, self.poll.registry()) {
            Ok(()) => manager::Guard::Process,
            Err(error) => {
                log::debug!("{link:?}: its process cannot be watched: {error}");
                manager::Guard::Connection
            }
        }
    }

    /// Serves the connections that have work to do, each once, and leaves to the next turn those
    /// that the time is not enough for.
    fn serve_ready(&mut self, now: Time) {
        let count = self.connections.count_ready();
        let until = (now + SERVE_TIME).max(self.clock.now() + LEAST_SERVE_TIME);
        let mut is_any_busy_served = false;
        for served in 1..=count {
            let Some(ready) = self.connections.next_ready() else {
                return;
            };
            self.serve(ready, now);
            is_any_busy_served |= ready.is_busy;
            if served < count && self.clock.now() >= until {
                self.connections.set_busy_first(!is_any_busy_served);
                return;
            }
        }
    }

    /// Writes what is left to write, and reads what is there, within the budget.
    fn serve(&mut self, Ready { link, is_busy }: Ready, now: Time) {
        self.write(link, now);
        self.read(link, is_busy, now);
    }

    /// Writes once. The core asks again for what is left then.
    fn write(&mut self, link: LinkId, now: Time) {
        let Some(connection) = self.connections.get_mut(link) else {
            return;
        };
        let Some(end) = self.manager.endpoint(link) else {
            return;
        };
        match connection.write_from(end, now) {
            Moved::Bytes(_) => {
                // Reading may have waited for room to answer.
                if connection.is_readable() {
                    self.connections.set_ready(link, true);
                }
                self.manager.moved(link, now);
            }
            Moved::Nothing => {}
            Moved::NotNow => {
                let registry = self.poll.registry();
                if let Err(error) = self.connections.await_room(link, registry) {
                    self.close(link, Some(&error), now);
                }
            }
            Moved::Ended(error) => {
                log::trace!("{link:?}: cannot write: {error:?}");
                self.connections.set_ready(link, true);
            }
        }
    }

    /// Reads a piece; of a busy connection, as many as its time is enough for. A connection with
    /// more to read after that is busy.
    fn read(&mut self, link: LinkId, is_busy: bool, now: Time) {
        let until = is_busy.then(|| self.clock.now() + READ_TIME);
        if is_busy {
            // Messages may be left of what was read before.
            self.manager.moved(link, now);
            self.follow_manager(now);
        }
        let mut budget = READ_PIECE;
        while let Some(connection) = self.connections.get_mut(link) {
            if !connection.is_readable() {
                self.connections.set_idle(link);
                return;
            }
            let Some(end) = self.manager.endpoint(link) else {
                return;
            };
            match connection.read_into(end, budget, now) {
                Moved::Bytes(n) => {
                    self.manager.moved(link, now);
                    self.follow_manager(now);
                    budget -= n;
                    if budget == 0 {
                        if until.is_none_or(|until| until <= self.clock.now()) {
                            self.connections.set_busy(link);
                            return;
                        }
                        budget = READ_PIECE;
                    }
                }
                Moved::Nothing => return, // The core has to write first.
                Moved::NotNow => {}
                Moved::Ended(error) => {
                    self.close(link, error.as_ref(), now);
                    return;
                }
            }
        }
    }

    fn close(&mut self, link: LinkId, error: Option<&io::Error>, now: Time) {
        log::trace!("{link:?}: ended: {error:?}");
        self.connections.remove(link);
        self.manager
            .handle_input(manager::Input::Closed { link }, now);
    }
}

/// Readable when there is something to do.
impl AsFd for PluginManager {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.registry().as_fd()
    }
}

impl AsRawFd for PluginManager {
    fn as_raw_fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }
}

/// Returns the number of a process. unix(7) has zero for one in a namespace that is not visible
/// here.
fn pid(pid: i32) -> Option<u32> {
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// The shortest that the loop itself can wait.
const MILLISECOND: Duration = Duration::from_millis(1);

/// How many events one wait may bring: more come with the next one.
const EVENTS: usize = 256;

/// How long after the beginning of a turn the connections that were not served yet are left to the
/// next one.
const SERVE_TIME: Duration = Duration::from_millis(2);

/// How much of that connections have in any case, after what the watch has used.
const LEAST_SERVE_TIME: Duration = Duration::from_millis(1);

/// For how long one connection is read in one turn, so that a busy plugin does not keep the others
/// waiting.
const READ_TIME: Duration = Duration::from_millis(1);

/// How much is read at once (bytes). A list of one device takes 20 bytes, and several microseconds
/// if it is different every time.
const READ_PIECE: usize = 2 * 1024;
