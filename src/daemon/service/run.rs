//! The daemon: a plugin manager that is controlled by signals.

use std::ffi::c_ulong;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process;

use log::LevelFilter;
use nix::sys::prctl;
use nix::sys::signal::Signal;

use super::handlers::{create_handlers, resolve_programs};
use super::reload::Load;
use super::sandbox::{self, Sandbox};
use super::sd_notify::Service;
use crate::config::{Config, DaemonConfig, Exec, HandlerConfig, LEAST_DESCRIPTORS, Mode};
use crate::daemon::fs::run_dir;
use crate::daemon::process::signals::{self, Signals};
use crate::daemon::process::{descriptors, passed};
use crate::daemon::{Logger, PluginManager, SetupError};
use crate::escape;
use crate::handler::Inventory;
use crate::time;

/// A plugin manager that runs as a process of its own.
pub struct Daemon {
    /// Boxed, because each function that passes the value on would reserve room for it on the
    /// stack.
    pub(crate) plugins: Box<PluginManager>,
    signals: Signals,
    pub(crate) service: Service,
    pub(crate) log: Option<&'static Logger>,
    /// The configuration in force.
    pub(crate) config: DaemonConfig,
    pub(super) sandbox: Option<Sandbox>,
    pub(crate) inventory: Inventory,
    pub(super) load: Load,
    /// The level of the log.
    pub(super) level: LevelFilter,
    pub(super) needs_restart: NeedsRestart,
    /// The number of signals that have asked the daemon to end.
    stops: usize,
}

/// A function that returns the keys of the settings that differ and are read only at the start.
type NeedsRestart = fn(&DaemonConfig, &DaemonConfig) -> Vec<String>;

impl Daemon {
    /// Sets up the daemon and enters the sandbox. A problem that prevents the start is returned
    /// here, not by [`Daemon::run`], which also writes the lines that `log` cannot write at once.
    /// The configuration is read again with `load` on SIGHUP, and when a client of the API requests
    /// that; `level` is that of the log.
    #[inline(never)]
    pub fn new(
        config: &DaemonConfig,
        log: Option<&'static Logger>,
        level: LevelFilter,
        load: Load,
        needs_restart: NeedsRestart,
    ) -> Result<Self, SetupError> {
        log_start(config);
        let handled = [signals::ENDING, signals::ASKING].concat();
        let signals = Signals::block_and_open(&handled).map_err(SetupError::Signals)?;
        let passed = passed::take_sockets()?;
        let mut config = config.clone();
        resolve_programs(&mut config.handlers, config.manager.trust.is_strict())?;
        let (handlers, inventory) = create_handlers(&config.handlers);
        let limit = descriptors::raise_limit();
        if limit < LEAST_DESCRIPTORS {
            return Err(SetupError::Descriptors(limit));
        }
        let manager = with_run_dir(&config.manager)?;
        let mut plugins = PluginManager::open(&manager, handlers, passed)?;
        let (sandbox, text) = sandbox::enter(&config, &manager, &plugins);
        plugins.api.daemon.sandbox = text;
        plugins.keep_events(0); // The log shows them.
        plugins.restore_and_scan(&manager)?;
        plugins.set_inventory(inventory.clone());
        plugins.set_descriptor_limit(limit);
        plugins.api.log = log.map(|log| log as _);
        plugins.api.reloads = Some(Vec::new());
        // `run` takes all turns on the thread that calls it, which is the only one in `plugind`.
        plugins.kill_programs_with_thread();
        let woken = plugins.wake_on(signals.as_fd().as_raw_fd());
        woken.map_err(SetupError::Loop)?;
        log_ready(&config, &plugins);
        Ok(Self {
            plugins,
            signals,
            service: Service::from_environment(),
            log,
            config,
            sandbox,
            inventory,
            load,
            level,
            needs_restart,
            stops: 0,
        })
    }

    /// Runs until a signal requests termination, and then saves the state. The process must end
    /// afterwards, because the memory and the pidfds of plugins are left to that end.
    ///
    /// After the first such signal, running operations have a short time to finish; a second one
    /// ends the daemon at once.
    pub fn run(mut self) -> io::Result<()> {
        minimize_timer_slack();
        while self.stops < 2 && !self.plugins.is_stopped() {
            self.service.send_due(&mut self.plugins);
            let service = self.service.poll_timeout(&self.plugins);
            let log = self.log.and_then(Logger::poll_timeout);
            self.plugins.turn(service.into_iter().chain(log).min())?;
            if let Some(log) = self.log {
                log.handle_timeout();
            }
            let is_asked = self.plugins.is_woken && self.handle_signals()?;
            let reloads = &self.plugins.api.reloads;
            if is_asked || matches!(reloads, Some(clients) if !clients.is_empty()) {
                self.reload_and_answer();
            }
        }
        self.plugins.save();
        log::info!("stopped");
        self.plugins.end_with_process();
        Ok(())
    }

    /// Returns whether a signal has requested termination.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stops > 0
    }

    /// Handles the pending signals. Returns whether any of them asked for a reload.
    fn handle_signals(&mut self) -> io::Result<bool> {
        let mut is_reload_wanted = false;
        while let Some((signal, _)) = self.signals.read()? {
            match signal {
                Signal::SIGUSR1 => self.log_status(),
                Signal::SIGHUP => is_reload_wanted = true,
                _ => {
                    log::info!("received {signal}, stopping");
                    self.service.notify_stopping(self.plugins.clock.now());
                    self.plugins.stop();
                    self.stops += 1;
                }
            }
        }
        if is_reload_wanted && self.is_stopping() {
            log::info!("ignoring SIGHUP: the daemon is stopping");
        } else if is_reload_wanted {
            log::info!("received SIGHUP, reloading the configuration");
        }
        Ok(is_reload_wanted)
    }

    /// Logs the status, and the duration of the longest turn since the last status.
    fn log_status(&mut self) {
        let longest = time::micros(self.plugins.take_longest_turn());
        let status = self.plugins.manager().records().status();
        log::info!("status {status} longest_turn_us={longest}");
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").finish_non_exhaustive()
    }
}

/// Returns the configuration with the default run directory, if the mode needs one and none is
/// named.
fn with_run_dir(config: &Config) -> Result<Config, SetupError> {
    let mut config = config.clone();
    if config.mode == Mode::Register && config.run_dir.is_none() {
        let unusable = |(dir, problem)| SetupError::RunDir { dir, problem };
        config.run_dir = Some(run_dir::open(None).map_err(unusable)?);
    }
    Ok(config)
}

/// Sets the timer slack of this thread to the minimum, so that waits end on time.
///
/// PR_SET_TIMERSLACK(2const): the kernel may prolong a wait by the slack, 50 µs by default, so that
/// several waits end together. An idle daemon has nothing to wake up for, and the first retry for a
/// plugin that is about to listen is due after a tenth of the default. If the slack cannot be set,
/// such a plugin waits a little longer.
fn minimize_timer_slack() {
    if let Err(errno) = prctl::set_timerslack(LEAST_SLACK) {
        log::debug!(
            "cannot reduce the timer slack, so timers fire up to 50 microseconds late: {}",
            errno.desc()
        );
    }
}

/// Logs the version, the process id and the configuration.
fn log_start(config: &DaemonConfig) {
    let version = env!("CARGO_PKG_VERSION");
    log::info!("plugind {version} starting pid={} {config}", process::id());
}

/// Logs the sandbox, the sockets for the API and the metrics, the plugins directories, and the
/// types of plugins that are handled by programs.
fn log_ready(config: &DaemonConfig, plugins: &PluginManager) {
    log::info!("the sandbox is {}", plugins.api.daemon.sandbox);
    for (what, serves_api) in [("the API", true), ("metrics", false)] {
        if let Some(socket) = plugins.api.socket_path(serves_api) {
            log::info!("serving {what} socket={}", escape::path(socket));
        }
    }
    for dir in plugins.directories() {
        let (mode, dir) = (config.manager.mode, escape::path(dir));
        log::info!("{mode} the plugins directory path={dir}");
    }
    for Exec { kind, program } in &config.handlers.exec {
        let (kind, program) = (escape::text(kind), escape::path(program));
        log::info!("using a program as the handler type={kind} program={program}");
    }
}

/// Returns a line for each program that a configuration names and that cannot be used or trusted,
/// and for a state file whose directory does not exist and is not created at the start.
pub fn path_problems(config: &DaemonConfig) -> Vec<String> {
    let mut problems = Vec::new();
    for exec in &config.handlers.exec {
        let mut alone = HandlerConfig::default();
        alone.exec.push(exec.clone());
        let resolved = resolve_programs(&mut alone, config.manager.trust.is_strict());
        problems.extend(resolved.err().map(|it| it.to_string()));
    }
    let exists = |dir: &Path| dir.is_dir() || run_dir::is_run_dir(dir, &config.manager);
    let file = config.manager.state_file.as_deref();
    if let Some(file) = file.filter(|it| !it.parent().is_some_and(exists)) {
        let file = escape::path(file);
        problems.push(format!(
            "cannot write the state file {file}: its directory does not exist; name a file in a \
             directory that exists and is writable"
        ));
    }
    problems
}

/// The smallest slack (nanoseconds): zero would select the default.
const LEAST_SLACK: c_ulong = 1;
