//! The daemon's log: lines on standard error, which peers cannot flood, and which are written
//! without waiting for a reader.
//!
//! ```text
//! 2026-01-31T12:00:00.250Z INFO  watching the plugins directory path=/r
//!
//! log::info!() --> filter --> limiter --> buffer --> sink --> standard error
//!                                |           |
//!             lines suppressed <-+           +-> lines dropped
//! ```
//!
//! A line about a socket or a plugin begins with the path or the name and `": "`, and counts
//! against the share of that socket or plugin. Lines of the daemon about itself ([`OWN`]) have
//! limits of their own, so that peers cannot displace them.

mod filter;
mod format;
mod limiter;
mod sink;

use std::fmt::Write as _;
use std::io::{self, Stderr};
use std::mem;
use std::panic;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record};

use self::filter::Filter;
pub use self::filter::FilterError;
use self::format::Style;
pub use self::format::has_colours;
use self::limiter::Limiter;
use self::sink::{Buffer, Origin, Sink};
use crate::config::{LOG_SHARE_OF_DAEMON, LOG_SHARE_OF_PEERS, LogFormat};
use crate::daemon::api::server::Filtered;
use crate::daemon::clock::Clock;
use crate::time::Time;

/// The logger behind `log::info!()` and the other macros, once it is installed.
///
/// The owner calls [`Logger::handle_timeout`] when [`Logger::poll_timeout`] has passed, and
/// [`Logger::finish`] at the end.
#[derive(Debug)]
pub struct Logger {
    clock: Clock,
    sink: Sink<Stderr>,
    style: Style,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    filter: Filter,
    /// The limits on the lines that peers cause.
    peers: Limiter,
    /// The limits on the lines of the daemon about itself, and about security.
    own: Limiter,
    buffer: Buffer,
    /// The buffers in which a line and its message are formatted, kept for the next line.
    line: Vec<u8>,
    message: String,
}

impl Logger {
    /// Installs a logger for panics and for the records up to `level`. `directives`, as in the
    /// environment variable `RUST_LOG`, have priority over the level; those that are invalid are
    /// ignored, after a warning on standard error. Without a format, lines are in the format of the
    /// journal if standard error is connected to the journal, else text.
    ///
    /// Returns `None` if a logger is already installed.
    pub fn install(
        level: LevelFilter,
        directives: &str,
        format: Option<LogFormat>,
    ) -> Option<&'static Self> {
        let filter = Filter::new(level, directives);
        let most = filter.max_level();
        let logger: &'static Self = Box::leak(Box::new(Self {
            clock: Clock::start(),
            sink: Sink::new(io::stderr()),
            style: Style::new(format),
            state: Mutex::new(State {
                filter,
                peers: Limiter::new(LOG_SHARE_OF_PEERS),
                own: Limiter::new(LOG_SHARE_OF_DAEMON),
                buffer: Buffer::default(),
                line: Vec::with_capacity(USUAL),
                message: String::with_capacity(USUAL),
            }),
        }));
        log::set_logger(logger).ok()?;
        log::set_max_level(most);
        panic::set_hook(Box::new(|panic| {
            logger.print_error(&format!("plugind: {panic}"));
        }));
        Some(logger)
    }

    /// Sets which records are logged from now on: as if the logger had been installed with these
    /// directives, such as `debug` or `plugind::watch=trace`. Empty directives restore those of
    /// [`Logger::install`].
    ///
    /// # Errors
    ///
    /// Fails, without a change, if a directive is neither a level nor about a module of this crate.
    pub fn set_filter(&self, directives: &str) -> Result<(), FilterError> {
        let mut state = self.lock_state();
        state.filter.set_directives(directives)?;
        log::set_max_level(state.filter.max_level());
        Ok(())
    }

    /// Sets the level of [`Logger::install`], and restores the directives of that call, which have
    /// priority over the level.
    pub fn set_level(&self, level: LevelFilter) {
        let mut state = self.lock_state();
        state.filter.set_level(level);
        log::set_max_level(state.filter.max_level());
    }

    /// Writes an error after the lines in the buffer. In the text format, the line has neither a
    /// time nor a level.
    pub fn print_error(&self, line: &str) {
        let line = self.style.format_error(line);
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let _ = self.sink.write(&line); // A panic occurred while a line was formatted.
                return;
            }
        };
        let now = self.clock.now();
        state.buffer.add(&line, Origin::Daemon, &self.sink, now);
    }

    /// Returns how long to wait at most before [`Logger::handle_timeout`], or `None` if nothing is
    /// due before the next record.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let state = self.lock_state();
        let retry_at = state.buffer.retry_at;
        let next = state.report_due_at().into_iter().chain(retry_at).min()?;
        Some(next.saturating_since(self.clock.now()))
    }

    /// Writes what could not be written before, and reports suppressed and lost lines.
    pub fn handle_timeout(&self) {
        let mut state = self.lock_state();
        let now = self.clock.now();
        if state.report_due_at().is_some_and(|at| at <= now) {
            self.report_suppressed(&mut state, now);
        }
        if state.buffer.retry_at.is_some_and(|at| at <= now) {
            state.buffer.flush(&self.sink, now);
        }
        self.report_lost(&mut state, now);
    }

    /// Reports all suppressed and lost lines, due or not, and tries once more to write the buffer.
    pub fn finish(&self) {
        let mut state = self.lock_state();
        let now = self.clock.now();
        self.report_suppressed(&mut state, now);
        state.buffer.flush(&self.sink, now);
        self.report_lost(&mut state, now);
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.lock_state().filter.current.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        let mut state = self.lock_state();
        if !state.filter.current.enabled(record.metadata()) {
            return;
        }
        let now = self.clock.now();
        let (level, target) = (record.level(), record.target());
        let (mut line, mut message) = (mem::take(&mut state.line), mem::take(&mut state.message));
        let _ = message.write_fmt(*record.args());
        let fields = Some(record.key_values());
        self.style
            .write_line(level, target, &message, fields, &mut line);
        let State {
            peers, own, buffer, ..
        } = &mut *state;
        let (limiter, origin) = if OWN.contains(&target) {
            (own, Origin::Daemon)
        } else {
            (peers, Origin::Peer)
        };
        let is_detail = level >= Level::Debug;
        if limiter.admit(parse_subject(&message), line.len(), is_detail, now) {
            buffer.add(&line, origin, &self.sink, now);
            self.report_lost(&mut state, now);
        }
        line.clear();
        line.shrink_to(USUAL);
        message.clear();
        message.shrink_to(USUAL);
        (state.line, state.message) = (line, message);
    }

    fn flush(&self) {
        let now = self.clock.now();
        self.lock_state().buffer.flush(&self.sink, now);
    }
}

impl State {
    /// Returns when to report suppressed lines, or `None` if there are none.
    fn report_due_at(&self) -> Option<Time> {
        let times = [self.peers.report_at, self.own.report_at];
        times.into_iter().flatten().min()
    }
}

impl Logger {
    fn report_suppressed(&self, state: &mut State, now: Time) {
        let State {
            peers, own, buffer, ..
        } = state;
        for (limiter, origin) in [(peers, Origin::Peer), (own, Origin::Daemon)] {
            for (subject, count) in limiter.take_suppressed() {
                let line = self.format_warning(&format!(
                    "{subject}: lines suppressed, because they exceed the rate limit count={count}"
                ));
                limiter.charge(line.len(), now);
                buffer.add(&line, origin, &self.sink, now);
            }
        }
    }

    fn report_lost(&self, state: &mut State, now: Time) {
        if let Some(count) = state.buffer.take_lost() {
            let line = self.format_warning(&format!(
                "log: lines dropped, because standard error could not be written count={count}"
            ));
            state.buffer.add(&line, Origin::Daemon, &self.sink, now);
        }
    }

    /// Returns the line of a warning of the logger itself.
    fn format_warning(&self, message: &str) -> Vec<u8> {
        self.style.format_line(Level::Warn, module_path!(), message)
    }
}

impl Filtered for Logger {
    fn set_filter(&self, directives: &str) -> Result<(), String> {
        Self::set_filter(self, directives).map_err(|error| error.to_string())
    }
}

/// Returns what precedes the first `": "` of a line: in a line about a socket or a plugin, its path
/// or name. Returns `None` if the line does not contain `": "`.
fn parse_subject(message: &str) -> Option<&str> {
    for (at, _) in message.match_indices(':') {
        if message[at + 1..].starts_with(' ') {
            return Some(&message[..at]);
        }
    }
    None
}

/// The capacity in octets that the buffers for formatting keep: more than a usual line takes.
const USUAL: usize = 256;

/// The modules whose lines are about the daemon itself: its start, its end, its signals, its files,
/// its limits, the directories that the user named, and security. Peers cannot displace them.
pub(crate) const OWN: [&str; 10] = [
    "plugind::manager::trust",
    "plugind::daemon::api::listener",
    "plugind::daemon::fs::by_name",
    "plugind::daemon::fs::own_file",
    "plugind::daemon::fs::lock",
    "plugind::daemon::fs::roots",
    "plugind::daemon::service::run",
    "plugind::daemon::service::sd_notify",
    "plugind::daemon::fs::state_file",
    "plugind::manager::connections",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_subject_precedes_the_first_colon_and_space() {
        assert_eq!(
            parse_subject("/r/a.sock: attempt 3: done"),
            Some("/r/a.sock")
        );
        assert_eq!(parse_subject("/r/a:b.sock: done"), Some("/r/a:b.sock"));
        assert_eq!(parse_subject("no subject at /r/a.sock:"), None);
    }

    #[test]
    fn the_modules_whose_lines_have_a_share_of_their_own_exist() {
        for module in OWN {
            let path = module.replace("plugind::", "src/").replace("::", "/") + ".rs";
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            assert!(path.exists(), "{}", path.display());
        }
        assert!(module_path!().starts_with("plugind::daemon::log"));
    }
}
