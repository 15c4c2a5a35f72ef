//! The daemon: a plugin manager that is controlled by signals.

use std::ffi::c_ulong;
use std::io;
use std::process;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::service::Service;
use super::{
    Logger, PluginManager, SetupError, Signals, child, descriptors, passed, permissions, signals,
};
use crate::config::{DaemonConfig, Exec, HandlerConfig};
use crate::escape;
use crate::handler::{ExecHandler, HandlerTable, Inventory, built_in};

/// A plugin manager that runs as a process of its own.
#[derive(Debug)]
pub struct Daemon {
    /// Boxed, because each function that passes it on would have room for it on the stack.
    plugins: Box<PluginManager>,
    signals: Signals,
    service: Service,
    log: Option<&'static Logger>,
}

impl Daemon {
    /// Sets up the daemon. Whatever can prevent a start fails here, not later.
    #[inline(never)]
    pub fn new(config: &DaemonConfig) -> Result<Self, SetupError> {
        log_start(config);
        let handled = [signals::ENDING, signals::ASKING].concat();
        let signals = Signals::block(&handled).map_err(SetupError::Signals)?;
        let passed = passed::take()?;
        let (handlers, inventory) = handlers(&config.handlers)?;
        let limit = descriptors::raise_limit();
        let plugins = PluginManager::with_passed(&config.manager, handlers, passed)?;
        let mut plugins = Box::new(plugins);
        plugins.keep_events(0); // The log shows them.
        plugins.set_inventory(inventory);
        plugins.set_descriptor_limit(limit);
        // `run` takes all turns on the thread that calls it, which is the only one in `plugind`.
        plugins.kill_programs_with_thread();
        let woken = plugins.wake_on(signals.as_raw_fd());
        woken.map_err(SetupError::Loop)?;
        log_ready(config, &plugins);
        Ok(Self {
            plugins,
            signals,
            service: Service::from_environment(),
            log: None,
        })
    }

    /// Adds a logger that [`Daemon::run`] services: lines that cannot be written at once are
    /// written later.
    #[must_use]
    pub fn with_log(mut self, log: &'static Logger) -> Self {
        self.plugins.set_log(log);
        Self {
            log: Some(log),
            ..self
        }
    }

    /// Runs until a signal asks for the end.
    ///
    /// The first such signal lets running operations finish; a second one ends the daemon at once.
    pub fn run(mut self) -> io::Result<()> {
        wake_on_time();
        let mut asked = 0;
        while asked < AT_ONCE && !self.plugins.is_stopped() {
            self.service.advance(&mut self.plugins);
            let service = self.service.poll_timeout(&self.plugins);
            let log = self.log.and_then(Logger::poll_timeout);
            self.plugins.turn(service.into_iter().chain(log).min())?;
            if let Some(log) = self.log {
                log.handle_timeout();
            }
            if self.plugins.is_woken() {
                asked += self.read_signals()?;
            }
        }
        self.plugins.save();
        log::info!("stopped");
        Ok(())
    }

    /// Handles the pending signals. Returns how many of them asked for the end.
    fn read_signals(&mut self) -> io::Result<usize> {
        let mut count = 0;
        while let Some(signal) = self.signals.read()? {
            match signal {
                Signal::SIGUSR1 => self.log_status(),
                Signal::SIGHUP => {
                    self.service.reloading(self.plugins.now());
                    log::info!(
                        "received SIGHUP, ignored: plugind has no configuration file to reload"
                    );
                    self.service.ready();
                }
                _ => {
                    log::info!("received {signal}, stopping");
                    self.service.stopping(self.plugins.now());
                    self.plugins.stop();
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    /// Logs the status, and the duration of the longest turn since the last status.
    fn log_status(&mut self) {
        let longest = self.plugins.take_longest_turn().as_micros();
        let status = self.plugins.manager().status();
        log::info!("status {status} longest_turn_us={longest}");
    }
}

/// Sets the timer slack of this thread to the minimum, so that waits end on time.
///
/// PR_SET_TIMERSLACK(2const): the kernel may prolong a wait by the slack, 50 µs by default, so that
/// several waits end together. An idle daemon has nothing to wake up for, and the first retry for a
/// plugin that is about to listen is due after a tenth of the default. If the slack cannot be set,
/// such a plugin waits a little longer.
fn wake_on_time() {
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

/// Logs the API socket, the plugins directories, and the types whose plugins programs handle.
fn log_ready(config: &DaemonConfig, plugins: &PluginManager) {
    if let Some(socket) = plugins.api_socket() {
        log::info!("serving the API socket={}", escape::path(socket));
    }
    if let Some(socket) = plugins.metrics_socket() {
        log::info!("serving metrics socket={}", escape::path(socket));
    }
    for dir in plugins.directories() {
        log::info!(
            "{} plugins directory path={}",
            config.manager.mode,
            escape::path(dir)
        );
    }
    for Exec { kind, program } in &config.handlers.exec {
        let (kind, program) = (escape::text(kind), escape::path(program));
        log::info!("using a program as handler type={kind} program={program}");
    }
}

/// Returns the handlers that this crate provides, and the [`Inventory`] of the built-in ones.
///
/// Fails if users other than root and this process's user can change a program, or if the kernel
/// cannot watch programs (before Linux 5.3).
pub fn handlers(config: &HandlerConfig) -> Result<(HandlerTable, Inventory), SetupError> {
    let (mut handlers, inventory) = built_in(&config.types, config.unknown_types);
    add_programs(&config.exec, &mut handlers)?;
    Ok((handlers, inventory))
}

/// Adds the handlers that run programs. Fails if a program cannot be trusted.
fn add_programs(programs: &[Exec], handlers: &mut HandlerTable) -> Result<(), SetupError> {
    for Exec { kind, program } in programs {
        child::pidfd(Pid::this()).map_err(SetupError::ProgramsUnwatched)?;
        let path =
            permissions::trusted_program(program).map_err(|problem| SetupError::Program {
                program: program.clone(),
                problem,
            })?;
        handlers.add([kind.clone()], ExecHandler::new(path));
    }
    Ok(())
}

/// The smallest slack (nanoseconds): zero would select the default.
const LEAST_SLACK: c_ulong = 1;

/// The number of signals after which the daemon ends without waiting for operations.
const AT_ONCE: usize = 2;
