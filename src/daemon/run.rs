//! The daemon: a plugin manager, and the signals that end it.

use std::ffi::c_ulong;
use std::io;
use std::path::PathBuf;
use std::process;

use nix::sys::prctl;
use nix::sys::signal::Signal;

use super::{Logger, PluginManager, SetupError, Signals, child, descriptors, signals, trust};
use crate::config::{DaemonConfig, Exec, HandlerConfig};
use crate::escape;
use crate::handler::{ExecHandler, HandlerTable, Inventory, built_in};

/// The plugin manager as a process of its own.
#[derive(Debug)]
pub struct Daemon {
    plugins: PluginManager,
    signals: Signals,
    log: Option<&'static Logger>,
}

impl Daemon {
    /// Sets everything up; nothing that can fail at a start is left for later.
    pub fn new(config: &DaemonConfig) -> Result<Self, SetupError> {
        log_start(config);
        let handled = [signals::ENDING, signals::ASKING].concat();
        let signals = Signals::block(&handled).map_err(SetupError::Signals)?;
        let (handlers, _) = handlers(&config.handlers)?;
        let limit = descriptors::raise_limit();
        let mut plugins = PluginManager::new(&config.manager, handlers)?;
        plugins.set_descriptor_limit(limit);
        // `run` takes the turns on the thread that it is called on: in `plugind`, the only one.
        plugins.kill_programs_with_thread();
        let woken = plugins.wake_on(signals.as_raw_fd());
        woken.map_err(SetupError::Loop)?;
        log_ready(config, plugins.directories());
        Ok(Self {
            plugins,
            signals,
            log: None,
        })
    }

    /// Looks after this logger, too: what it cannot write at once is written later.
    #[must_use]
    pub fn with_log(self, log: &'static Logger) -> Self {
        Self {
            log: Some(log),
            ..self
        }
    }

    /// Works until a signal asks for the end.
    ///
    /// The first signal lets running operations end; a second one ends at once.
    pub fn run(mut self) -> io::Result<()> {
        wake_on_time();
        let mut asked = 0;
        while asked < AT_ONCE && !self.plugins.is_stopped() {
            self.plugins.turn(self.log.and_then(Logger::poll_timeout))?;
            if let Some(log) = self.log {
                log.handle_timeout();
            }
            if self.plugins.is_woken() {
                asked += self.read_signals()?;
            }
        }
        self.plugins.save();
        log::info!("ended");
        Ok(())
    }

    /// Does what the signals that came ask for. Returns how many asked for the end.
    fn read_signals(&mut self) -> io::Result<usize> {
        let mut count = 0;
        while let Some(signal) = self.signals.read()? {
            match signal {
                Signal::SIGUSR1 => self.log_status(),
                Signal::SIGHUP => {
                    log::info!(
                        "SIGHUP: ignored, because plugind does not read a configuration file"
                    );
                }
                _ => {
                    log::info!("{signal}: ending");
                    self.plugins.stop();
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    /// Logs what there is, and how long the loop was busy at most since the last status.
    fn log_status(&mut self) {
        let longest = self.plugins.take_longest_turn().as_micros();
        let status = self.plugins.manager().status();
        log::info!("status {status} longest_turn_us={longest}");
    }
}

/// Has this thread woken when it wants to be.
///
/// PR_SET_TIMERSLACK(2const): a wait may take longer by as much, 50 µs by default, so that several
/// may end together. This one has nothing to wake for at rest, and a plugin that is about to listen
/// needs a tenth of that. Where it can't be had, such plugins wait a little longer.
fn wake_on_time() {
    if let Err(errno) = prctl::set_timerslack(LEAST_SLACK) {
        log::debug!(
            "waits take a little longer than they should: {}",
            errno.desc()
        );
    }
}

/// Logs which program this is, and how it was started.
fn log_start(config: &DaemonConfig) {
    let version = env!("CARGO_PKG_VERSION");
    log::info!("plugind {version} starting pid={} {config}", process::id());
}

/// Logs what is done from now on.
fn log_ready(config: &DaemonConfig, dirs: &[PathBuf]) {
    for dir in dirs {
        log::info!("{} {}", config.manager.mode, escape::path(dir));
    }
    for Exec { kind, program } in &config.handlers.exec {
        let (kind, program) = (escape::text(kind), escape::path(program));
        log::info!("plugins of type \"{kind}\" are given to {program}");
    }
}

/// Makes the handlers that come with this crate, and returns what the built-in ones know, too.
///
/// Fails if a program is not one that only root and this process's user can change, or the kernel
/// cannot watch programs (before Linux 5.3).
pub fn handlers(config: &HandlerConfig) -> Result<(HandlerTable, Inventory), SetupError> {
    let (mut handlers, inventory) = built_in(&config.types, config.unknown_types);
    add_programs(&config.exec, &mut handlers)?;
    Ok((handlers, inventory))
}

/// Gives the plugins of some types to programs, which must be trustworthy.
fn add_programs(programs: &[Exec], handlers: &mut HandlerTable) -> Result<(), SetupError> {
    for Exec { kind, program } in programs {
        child::pidfd(process::id()).map_err(SetupError::ProgramsUnwatched)?;
        let path = trust::trusted(program).map_err(|problem| SetupError::Program {
            program: program.clone(),
            problem,
        })?;
        handlers.add([kind.clone()], ExecHandler::new(path));
    }
    Ok(())
}

/// The least slack there is (nanoseconds): none at all would ask for the default.
const LEAST_SLACK: c_ulong = 1;

/// How many times the end is asked for by somebody who does not want to wait for it.
const AT_ONCE: usize = 2;
