//! The poll loop around the core: waits for events and passes them to the core.
//!
//! - [`outputs`]: carries out the core's outputs (`drain_manager`), publishes events;
//! - [`watching`]: inotify and the outputs of the watch (`drain_watch`), directories at run time;
//! - [`serving`]: reads and writes connections (`serve_connections`);
//! - [`registrations`]: the directory of `kubelet.sock`;
//! - [`api`]: the requests of the API's clients, and whether the plugin manager is ready;
//! - [`settings`]: changes of settings at run time;
//! - [`trust`]: the directories and sockets that other users can change or serve.

mod api;
mod outputs;
mod registrations;
mod serving;
mod settings;
mod trust;
mod watching;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};

use super::connections::{Connections, PeerProcesses};
use super::device_plugins::{self, DevicePlugins};
use crate::api::{Counters, Event};
use crate::config::{Config, KEPT_EVENTS, LEAST_DESCRIPTORS, MAX_LEASES, Mode, Trust};
use crate::daemon::SetupError;
use crate::daemon::api::listener;
use crate::daemon::api::server::Api;
use crate::daemon::clock::Clock;
use crate::daemon::fs::by_name::{self, ByName};
use crate::daemon::fs::cdi_dir::CdiDir;
use crate::daemon::fs::dial::leads_to_socket;
use crate::daemon::fs::inotify::Inotify;
use crate::daemon::fs::lock::{self, Locks};
use crate::daemon::fs::mounts::Mounts;
use crate::daemon::fs::roots;
use crate::daemon::fs::state_file::StateFile;
use crate::daemon::process::passed::Passed;
use crate::daemon::process::programs::Programs;
use crate::daemon::source::Source;
use crate::handler::{HandlerId, HandlerTable, PluginHandler, Reason, Ticket};
use crate::manager::{self, ConnectionEvent, ConnectionId, Manager, Registered};
use crate::time::Time;
use crate::watch::{self, Report, Watch};

use self::api::Readiness;
use self::outputs::UnreadEvents;
use self::watching::{WATCH_TIME, WATCH_TIME_AT_START};

/// A plugin manager that can be embedded in another poll loop.
///
/// A caller with its own loop waits until the descriptor of the plugin manager is readable or
/// [`PluginManager::poll_timeout`] has passed, and then calls [`PluginManager::turn`] with a
/// timeout of zero. A caller without a loop calls `turn(None)` forever.
#[derive(Debug)]
pub struct PluginManager {
    /// The directories that are watched.
    dirs: Vec<PathBuf>,
    /// The run directory and the directory of the state file.
    own_dirs: Vec<PathBuf>,
    /// The users and the places that are trusted.
    trust: Trust,
    /// The time at which the directories were checked last.
    directories_checked: Time,
    poll: Poll,
    /// The events of the last wait.
    events: Events,
    /// Whether the descriptor of [`PluginManager::wake_on`] became readable in the last turn.
    pub(in crate::daemon) is_woken: bool,
    pub(in crate::daemon) clock: Clock,
    pub(in crate::daemon) watch: Watch,
    inotify: Inotify,
    mounts: Mounts,
    /// Whether inotify may have unread events.
    is_inotify_ready: bool,
    manager: Manager,
    connections: Connections,
    peer_processes: PeerProcesses,
    programs: Programs,
    /// The connections whose peer processes have ended, until the core is informed.
    ended: Vec<ConnectionId>,
    state_file: Option<StateFile>,
    /// The links to endpoints by plugin name, if this process maintains them.
    links: Option<ByName>,
    /// The directory of the CDI files, if one is configured.
    cdi_dir: Option<CdiDir>,
    pub(in crate::daemon) api: Api,
    /// The service for device plugins that announce themselves, if there is one.
    device_plugins: Option<DevicePlugins>,
    pub(in crate::daemon) readiness: Readiness,
    counters: Counters,
    /// The longest turn since the last call of [`PluginManager::take_longest_turn`].
    longest_turn: Duration,
    longest_turn_ever: Duration,
    unread_events: UnreadEvents,
    /// The locks that keep other daemons from using the same directories. `None` without a run
    /// directory, and in a dry run.
    locks: Option<Locks>,
}

impl PluginManager {
    /// Starts to watch the directories of `config`, and hands the plugins that are found there to
    /// `handlers`. Missing directories are created. With a run directory, the directories are
    /// locked, except in a dry run: if another plugin manager holds a lock, waits up to
    /// [`LOCK_TIMEOUT`](crate::config::LOCK_TIMEOUT) for that plugin manager to end, and longer if
    /// no running process is known to hold the lock.
    pub fn new(config: &Config, handlers: HandlerTable) -> Result<Self, SetupError> {
        let mut plugins = Self::open(config, handlers, Passed::default())?;
        plugins.restore_and_scan(config)?;
        Ok(*plugins)
    }

    /// Opens what [`PluginManager::new`] needs before the first scan, with sockets that were passed
    /// to the process. The caller may restrict the process to the files that the configuration
    /// needs, and must then call [`PluginManager::restore_and_scan`]. Not inlined, and returns a
    /// box, so that the large variables are off the stack before the scan.
    #[inline(never)]
    pub(crate) fn open(
        config: &Config,
        handlers: HandlerTable,
        passed: Passed,
    ) -> Result<Box<Self>, SetupError> {
        let poll = Poll::new().map_err(SetupError::Loop)?;
        let registry = poll.registry().try_clone().map_err(SetupError::Loop)?;
        Self::require_trusted_directories(config)?;
        let dirs = roots::resolve(&config.plugins_dirs)?;
        let device_plugins_dir = registrations::resolve_dir(config, &dirs)?;
        let path_map =
            registrations::map_to_itself(&config.path_map, device_plugins_dir.as_deref());
        let run_dir = config.run_dir.as_deref();
        let locks = run_dir.filter(|_| config.mode == Mode::Register);
        let locks = locks.map(|run_dir| {
            let dirs = dirs.iter().chain(&device_plugins_dir).cloned();
            lock::acquire_all(&dirs.collect::<Vec<_>>(), run_dir)
        });
        let locks = locks.transpose()?;
        let device_plugins = device_plugins_dir.map(|dir| {
            DevicePlugins::open(&dir, poll.registry())
                .map_err(|problem| SetupError::DevicePlugins { dir, problem })
        });
        let device_plugins = device_plugins.transpose()?;
        let cdi_dir = config.cdi_dir.as_deref();
        let cdi_dir = cdi_dir.filter(|_| config.mode == Mode::Register);
        let cdi_dir = cdi_dir.map(CdiDir::open).transpose()?;
        let clock = Clock::start();
        let listeners = listener::open_all(config, passed)?;
        let api = Api::new(listeners, config, poll.registry(), clock.now());
        let api = api.map_err(SetupError::Loop)?;
        let watch = Watch::new(dirs.iter().cloned());
        let polled = poll.registry().try_clone().map_err(SetupError::Loop)?;
        let mounts = Mounts::new(&dirs, &path_map, polled, clock.now());
        let mut plugins = Box::new(Self {
            dirs,
            own_dirs: trust::resolve_own_dirs(config),
            trust: Trust::default(),
            directories_checked: Time::ZERO,
            poll,
            events: Events::with_capacity(256), // If there are more, the next wait returns the rest.
            is_woken: false,
            clock,
            watch,
            inotify: Inotify::new(registry, Source::Inotify.token()),
            mounts,
            is_inotify_ready: false,
            manager: Manager::new(handlers),
            connections: Connections::default(),
            peer_processes: PeerProcesses::default(),
            programs: Programs::default(),
            ended: Vec::new(),
            // In observe mode nothing is registered, so there is nothing to save or to deregister.
            state_file: config
                .state_file
                .as_deref()
                .filter(|_| config.mode == Mode::Register)
                .map(|file| StateFile::new(roots::absolute(file))),
            links: None,
            cdi_dir,
            api,
            device_plugins,
            readiness: Readiness::default(),
            counters: Counters::default(),
            longest_turn: Duration::ZERO,
            longest_turn_ever: Duration::ZERO,
            unread_events: UnreadEvents::new(KEPT_EVENTS.count),
            locks,
        });
        plugins.manager.set_path_map(path_map);
        Ok(plugins)
    }

    /// Restores the plugins from before a restart, and scans the directories. Fails if the state
    /// file cannot be trusted or written, or if a named directory has a problem that prevents the
    /// start.
    pub(crate) fn restore_and_scan(&mut self, config: &Config) -> Result<(), SetupError> {
        if let Some(file) = &mut self.state_file {
            file.resolve_and_check()?;
        }
        self.manager.set_mode(config.mode);
        self.manager.set_on_down(config.on_down);
        self.manager.set_memory_budget(config.memory_budget);
        self.set_trust(&config.trust);
        if let Some(file) = &mut self.state_file {
            file.restore(&mut self.manager);
            let awaited = self
                .manager
                .registered()
                .filter_map(Registered::awaited_socket);
            self.watch.expect(awaited.cloned().collect());
        }
        if config.links_by_name && config.mode == Mode::Register {
            self.links = ByName::new(config.run_dir.as_deref());
        }
        let now = self.clock.now();
        self.manager.handle_timeout(now);
        self.manager.set_starting(true);
        for report in self.drain_watch(WATCH_TIME_AT_START, now) {
            match report {
                Report::Trouble { dir, problem }
                    if problem.prevents_start() && self.dirs.iter().any(|it| **it == *dir) =>
                {
                    return Err(SetupError::Directory { dir, problem });
                }
                other => self.emit_report(other, now),
            }
        }
        self.drain_manager(now);
        self.manager.set_starting(false);
        Ok(())
    }

    /// Returns the watched directories: absolute, and without duplicates.
    pub fn directories(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Returns the directory in which device plugins register, if they can.
    fn device_plugins_dir(&self) -> Option<&Path> {
        Some(&self.device_plugins.as_ref()?.dir)
    }

    /// Returns how long to wait at most before the next [`PluginManager::turn`], or `None` to wait
    /// until the descriptor is readable.
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.connections.is_any_ready()
            || self.programs.is_any_running_ready
            || !self.programs.waiting.is_empty()
            || self.is_inotify_ready
            || self.watch.backlog() > 0
            // If the last wait returned as many events as one can, there may be more.
            || self.events.iter().count() == self.events.capacity()
        {
            return Some(Duration::ZERO);
        }
        let (manager, _) = self.manager.poll_timeout().unzip();
        let watch = self.watch.poll_timeout();
        let file = self.state_file.as_ref().and_then(StateFile::poll_timeout);
        let links = self.links.as_ref().and_then(ByName::poll_timeout);
        let api = self.api.poll_timeout(&self.manager);
        let mounts = self.mounts.poll_timeout();
        let device_plugins = self.device_plugins.as_ref();
        let device_plugins = device_plugins.and_then(DevicePlugins::poll_timeout);
        let cdi_dir = self.cdi_dir.as_ref().and_then(CdiDir::poll_timeout);
        let own = [manager, watch, file, links, cdi_dir];
        let next = own.into_iter().chain([mounts, api, device_plugins]);
        let next = next.flatten().min()?;
        Some(next.saturating_since(self.clock.now()))
    }

    /// Waits for events, at most for `timeout` (`None`: without a limit), and handles them.
    ///
    /// A turn is short: busy plugins and busy directories have a budget, and work beyond the budget
    /// is left to the next turn.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.wait(timeout)?;
        self.counters.turns += 1;
        let now = self.clock.now();
        self.watch.handle_timeout(now);
        if self.mounts.handle_timeout(now) {
            for dir in self.dirs.clone() {
                let remounted = watch::Input::Remounted { dir };
                self.watch.handle_input(remounted, now);
            }
            if let Some(device_plugins) = &mut self.device_plugins {
                device_plugins.is_check_due = true; // A mount may be on its directory.
            }
        }
        self.update_distrusted_directories_if_due(now);
        self.read_inotify(now)?;
        for report in self.drain_watch(WATCH_TIME, now) {
            self.emit_report(report, now);
        }
        self.serve_connections(now);
        self.serve_registrations(now);
        for conn in std::mem::take(&mut self.ended) {
            self.peer_processes.remove(conn);
            let ended = manager::Input::Connection(conn, ConnectionEvent::ProcessEnded);
            self.manager.handle_input(ended, now);
        }
        self.start_and_reap_programs(now);
        // After the inputs: a reply that arrived in time is accepted, even if the turn is late.
        self.manager.handle_timeout(now);
        // Carries out the outputs that the inputs above have left, such as dials and writes.
        self.drain_manager(now);
        if let Some(cdi_dir) = &mut self.cdi_dir {
            cdi_dir.handle_timeout(now);
        }
        self.serve_api(now);
        if let Some(file) = &mut self.state_file {
            file.handle_timeout(&self.manager, now);
        }
        if let Some(links) = &mut self.links {
            let world = by_name::World {
                manager: &self.manager,
                is_socket: &|path| leads_to_socket(path, &self.mounts),
            };
            links.handle_timeout(&world, self.watch.is_scanned(), now);
        }
        self.mounts.end_turn();
        let time = self.clock.now().saturating_since(now);
        self.longest_turn = self.longest_turn.max(time);
        self.longest_turn_ever = self.longest_turn_ever.max(time);
        Ok(())
    }

    /// Returns the duration of the longest turn since the last call of this method, without the
    /// time spent waiting.
    pub fn take_longest_turn(&mut self) -> Duration {
        std::mem::take(&mut self.longest_turn)
    }

    /// Makes the kernel kill the programs of handlers when the thread that takes turns ends. Must
    /// be called only if that thread lives as long as the process.
    pub fn kill_programs_with_thread(&mut self) {
        self.programs.die_with_thread = true;
    }

    /// Adds a descriptor that ends waits when it becomes readable, for a caller without a loop of
    /// its own.
    ///
    /// Readiness is reported once per change, so the caller must read until nothing is left.
    pub(crate) fn wake_on(&mut self, fd: RawFd) -> io::Result<()> {
        let registry = self.poll.registry();
        let token = Source::Wake.token();
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)
    }

    /// Answers a question that a handler left [`crate::handler::Answer::Pending`].
    pub fn answer(&mut self, ticket: Ticket, result: Result<(), Reason>) {
        self.handle_input(manager::Input::Answered { ticket, result });
    }

    /// Starts the shutdown: new operations are not started, and running ones have a short time to
    /// finish.
    pub fn stop(&mut self) {
        self.handle_input(manager::Input::Stop);
        if let Some(device_plugins) = &mut self.device_plugins {
            device_plugins.stop();
        }
        self.api.stop(self.clock.now());
    }

    /// Assigns plugins of these types to `handler` from now on, as
    /// [`Manager::add_handler`](crate::manager::Manager::add_handler) does.
    pub fn add_handler<T: Into<String>>(
        &mut self,
        types: impl IntoIterator<Item = T>,
        handler: impl PluginHandler + 'static,
    ) -> HandlerId {
        let now = self.clock.now();
        let id = self.manager.add_handler(types, handler, now);
        self.drain_manager(now);
        id
    }

    /// Saves the registered plugins for the next start, if a state file is configured, and makes
    /// the pending changes to the links to endpoints and to the CDI files. Must be called last: the
    /// connections to the API are closed, and the files of their devices are removed. If the state
    /// file cannot be written, logs what that means for the next start.
    pub fn save(&mut self) {
        self.api.close_all();
        if let Some(cdi_dir) = &mut self.cdi_dir {
            cdi_dir.handle_timeout(self.clock.now());
        }
        if let Some(links) = &mut self.links {
            let world = by_name::World {
                manager: &self.manager,
                is_socket: &|path| leads_to_socket(path, &self.mounts),
            };
            links.finish(&world, self.clock.now());
        }
        if let Some(file) = &mut self.state_file {
            file.finish(&self.manager, self.clock.now());
        }
    }

    /// Ends what would outlive the process: its programs, and the files of its sockets and locks.
    /// What is known of plugins, and the pidfds of their processes, are left to the kernel, which
    /// frees them faster than one by one.
    pub(crate) fn end_with_process(self: Box<Self>) {
        let Self {
            manager,
            watch,
            peer_processes,
            ..
        } = *self;
        std::mem::forget((manager, watch, peer_processes));
    }

    /// Sets how many descriptors the process may have open; those for plugins stay somewhat below
    /// that number. Without this call, the limit is noticed only when the system refuses a
    /// descriptor.
    pub fn set_descriptor_limit(&mut self, limit: usize) {
        let leases = MAX_LEASES.min(limit / 8);
        self.api.server.lease_limit = Some(leases);
        let reserved = match self.device_plugins {
            Some(_) => device_plugins::DESCRIPTORS,
            None => 0,
        };
        // If the limit is low, fewer descriptors are left for clients of `kubelet.sock` and for
        // leases, so that plugins can be registered at all.
        let for_plugins = limit.saturating_sub(reserved + leases);
        let limit = for_plugins.max(limit.min(LEAST_DESCRIPTORS));
        self.manager.set_descriptor_limit(limit);
    }

    /// Returns whether the shutdown that [`PluginManager::stop`] started is complete.
    pub fn is_stopped(&self) -> bool {
        self.manager.is_stopped() && self.api.is_stopped()
    }

    /// Returns the core, with the state of all sockets and plugins.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Keeps up to `limit` events for [`PluginManager::poll_event`] from now on, instead of as many
    /// as [`KEPT_EVENTS`] counts: the oldest are dropped first.
    pub fn keep_events(&mut self, limit: usize) {
        self.unread_events.set_limit(limit);
    }

    /// Removes and returns the oldest event that was not read yet.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.unread_events.queue.pop_front()
    }

    /// Returns the number of events that were dropped because they were not read in time.
    pub fn dropped_events(&self) -> u64 {
        self.unread_events.dropped
    }

    fn handle_input(&mut self, input: manager::Input) {
        let now = self.clock.now();
        self.manager.handle_input(input, now);
        self.drain_manager(now);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let longest = self.poll_timeout().into_iter().chain(timeout).min();
        let longest = self.wait_briefly(longest)?;
        match self.poll.poll(&mut self.events, longest) {
            // A signal has interrupted the wait: no events were received.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            polled => polled?,
        }
        self.is_woken = false;
        for event in &self.events {
            match Source::of(event.token()) {
                Source::Inotify => self.is_inotify_ready = true,
                Source::Wake => self.is_woken = true,
                Source::Connection(conn) => self.connections.record_event(conn, event),
                Source::PeerProcess(conn) => self.ended.push(conn),
                Source::Program => self.programs.is_any_running_ready = true,
                Source::Mounts => self.mounts.record_change(),
                Source::RegistrationListener
                | Source::DevicePluginsDir
                | Source::RegistrationClient(_) => {
                    if let Some(device_plugins) = &mut self.device_plugins {
                        device_plugins.record_event(event);
                    }
                }
                Source::ApiListener | Source::ApiClient(_) => self.api.record_event(event),
            }
        }
        Ok(())
    }

    /// Waits with ppoll(2) if the wait is shorter than a millisecond. Returns how long mio still
    /// has to wait.
    ///
    /// mio waits for whole milliseconds, which is too long before the next dial of a plugin that is
    /// about to listen.
    fn wait_briefly(&self, longest: Option<Duration>) -> io::Result<Option<Duration>> {
        let brief = match longest {
            Some(brief) if !brief.is_zero() && brief < Duration::from_millis(1) => brief,
            _ => return Ok(longest),
        };
        let mut polled = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut polled, Some(brief.into()), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(Some(Duration::ZERO)),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The descriptor is readable when events wait for the next turn, but not when a deadline has
/// passed: see [`PluginManager::poll_timeout`].
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

#[cfg(test)]
mod tests;
