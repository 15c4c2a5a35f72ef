//! The daemon's log: lines on standard error, which peers cannot flood, and which are written
//! without waiting for a reader.
//!
//! ```text
//! 2026-01-31T12:00:00.250Z INFO  watching plugins directory path=/r
//!
//! log::info!() --> filter --> limiter --> buffer --> sink --> standard error
//!                                |           |
//!             lines suppressed <-+           +-> lines dropped
//! ```
//!
//! A line about a socket or a plugin begins with the path or the name and `": "`, and, unless
//! little is logged, counts against the share of that socket or plugin. Lines of the daemon about
//! itself ([`OWN`]) are always admitted.

mod buffer;
mod filter;
mod format;
mod limiter;
mod sink;

use std::fmt::{self, Write as _};
use std::io::{self, Stderr, Write as _};
use std::panic;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record};

use self::buffer::{Buffer, Origin};
use self::filter::Filter;
pub use self::filter::FilterError;
use self::limiter::{Limiter, Owners, Suppressed};
use self::sink::Sink;
use super::clock::Clock;
use crate::config::LogFormat;
use crate::time::Time;

/// The logger behind `log::info!()` and the other macros, once it is installed.
///
/// The owner calls [`Logger::handle_timeout`] when [`Logger::poll_timeout`] has passed, and
/// [`Logger::finish`] at the end.
#[derive(Debug)]
pub struct Logger {
    clock: Clock,
    sink: Sink<Stderr>,
    format: LogFormat,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    filter: Filter,
    format: LogFormat,
    limiter: Limiter,
    buffer: Buffer,
    /// The beginning of a line whose subject is not known yet.
    beginning: String,
}

impl Logger {
    /// Installs a logger for panics and for the records up to `level`. `directives`, as in the
    /// environment variable `RUST_LOG`, have priority over the level; those that are invalid are
    /// ignored, after a warning on standard error. Without a format, lines have that of the journal
    /// if standard error leads there.
    ///
    /// Returns `None` if a logger is already installed.
    pub fn install(
        level: LevelFilter,
        directives: &str,
        format: Option<LogFormat>,
    ) -> Option<&'static Self> {
        let format = format.unwrap_or_else(LogFormat::of_stderr);
        let filter = Filter::new(level, directives);
        let most = filter.most();
        let logger: &'static Self = Box::leak(Box::new(Self {
            clock: Clock::start(),
            sink: Sink::new(io::stderr()),
            format,
            state: Mutex::new(State {
                filter,
                format,
                limiter: Limiter::new(),
                buffer: Buffer::default(),
                beginning: String::new(),
            }),
        }));
        log::set_logger(logger).ok()?;
        log::set_max_level(most);
        panic::set_hook(Box::new(|panic| logger.print(&format!("plugind: {panic}"))));
        Some(logger)
    }

    /// Sets which records are logged from now on: as if the logger had been installed with these
    /// directives, such as `debug` or `plugind::watch=trace`. Empty directives restore those of
    /// [`Logger::install`].
    ///
    /// # Errors
    ///
    /// Nothing changes if a directive is neither a level nor names a module of this crate.
    pub fn set_filter(&self, directives: &str) -> Result<(), FilterError> {
        let mut state = self.state();
        state.filter.set(directives)?;
        log::set_max_level(state.filter.most());
        Ok(())
    }

    /// Sets the level of [`Logger::install`]; directives have priority over it.
    pub fn set_level(&self, level: LevelFilter) {
        let mut state = self.state();
        state.filter.set_level(level);
        log::set_max_level(state.filter.most());
    }

    /// Writes an error as it is, after the lines in the buffer.
    pub fn print(&self, line: &str) {
        match self.state.try_lock() {
            Ok(state) => self.print_in_turn(state, line),
            Err(TryLockError::Poisoned(state)) => self.print_in_turn(state.into_inner(), line),
            // A panic while a line is being formatted.
            Err(TryLockError::WouldBlock) => {
                let mut bytes = Vec::new();
                self.format.error(line, &mut bytes);
                let _ = self.sink.write(&bytes);
            }
        }
    }

    fn print_in_turn(&self, mut state: MutexGuard<'_, State>, line: &str) {
        let (bytes, start) = state.buffer.begin_line();
        self.format.error(line, bytes);
        let now = self.clock.now();
        state
            .buffer
            .end_line(start, Origin::Daemon, &self.sink, now);
    }

    /// Returns how long to wait at most before [`Logger::handle_timeout`], or `None` if nothing is
    /// due before the next record.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let state = self.state();
        let retry = state.buffer.poll_timeout();
        let next = state.limiter.poll_timeout().into_iter().chain(retry).min();
        next.map(|at| self.clock.until(at))
    }

    /// Writes what could not be written before, and reports suppressed and lost lines.
    pub fn handle_timeout(&self) {
        let mut state = self.state();
        if state.limiter.poll_timeout().is_none() && state.buffer.poll_timeout().is_none() {
            return;
        }
        let now = self.clock.now();
        while let Some(suppressed) = state.limiter.take_report(now) {
            state.report(&suppressed, &self.sink, now);
        }
        if state.buffer.poll_timeout().is_some_and(|at| at <= now) {
            state.buffer.flush(&self.sink, now);
        }
        state.report_lost(&self.sink, now);
    }

    /// Reports all suppressed and lost lines, due or not, and tries once more to write the buffer.
    pub fn finish(&self) {
        let mut state = self.state();
        let now = self.clock.now();
        while let Some(suppressed) = state.limiter.take_any() {
            state.report(&suppressed, &self.sink, now);
        }
        state.buffer.flush(&self.sink, now);
        state.report_lost(&self.sink, now);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.state().filter.admits(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        let mut state = self.state();
        if state.filter.admits(record.metadata()) {
            let now = self.clock.now();
            state.log(record, &self.sink, now);
        }
    }

    fn flush(&self) {
        let now = self.clock.now();
        self.state().buffer.flush(&self.sink, now);
    }
}

impl State {
    fn log(&mut self, record: &Record<'_>, sink: &Sink<Stderr>, now: Time) {
        let level = record.level();
        if OWN.contains(&record.target()) {
            self.write(record.metadata(), record.args(), Origin::Daemon, sink, now);
            return;
        }
        let is_detail = level >= Level::Debug;
        if !self.limiter.admits_any(is_detail, now) {
            return;
        }
        if !self.limiter.tells_apart(now) {
            let length = self.write(record.metadata(), record.args(), Origin::Peer, sink, now);
            self.limiter.charge_any(length, now);
            return self.report_lost(sink, now);
        }
        self.beginning.clear();
        let (bytes, start) = self.buffer.begin_line();
        let mut line = Line {
            metadata: record.metadata(),
            format: self.format,
            message: 0,
            now,
            limiter: &mut self.limiter,
            beginning: &mut self.beginning,
            owners: None,
            bytes,
        };
        let Ok(owners) = line.write(record.args()) else {
            return self.buffer.take_back(start);
        };
        let length = line.bytes.len() - start;
        self.limiter.charge(owners, length, now);
        self.buffer.end_line(start, Origin::Peer, sink, now);
        self.report_lost(sink, now);
    }

    /// Writes a line without asking the limiter. Returns the length of the line in bytes.
    fn write(
        &mut self,
        metadata: &Metadata<'_>,
        args: &fmt::Arguments<'_>,
        origin: Origin,
        sink: &Sink<Stderr>,
        now: Time,
    ) -> usize {
        let (bytes, start) = self.buffer.begin_line();
        self.format
            .begin(metadata.level(), metadata.target(), bytes);
        let message = bytes.len();
        let _ = write!(bytes, "{args}");
        self.format.end(message, bytes);
        let length = bytes.len() - start;
        self.buffer.end_line(start, origin, sink, now);
        length
    }

    fn report(&mut self, suppressed: &Suppressed, sink: &Sink<Stderr>, now: Time) {
        let Suppressed { subject, count } = suppressed;
        let subject = subject.as_deref().unwrap_or("log");
        let length = self.write(
            &warning(),
            &format_args!(
                "{subject}: lines suppressed, because they exceed the rate limit count={count}"
            ),
            Origin::Peer,
            sink,
            now,
        );
        self.limiter.charge_any(length, now);
    }

    fn report_lost(&mut self, sink: &Sink<Stderr>, now: Time) {
        if let Some(count) = self.buffer.take_lost() {
            self.write(
                &warning(),
                &format_args!(
                    "log: lines dropped, because standard error could not be written count={count}"
                ),
                Origin::Daemon,
                sink,
                now,
            );
        }
    }
}

/// A line that is being formatted. Formatting fails as soon as the line's subject is known and has
/// used up its share, so that suppressed lines cost little.
struct Line<'a> {
    metadata: &'a Metadata<'a>,
    format: LogFormat,
    /// The position of the message, once the line is begun.
    message: usize,
    now: Time,
    limiter: &'a mut Limiter,
    beginning: &'a mut String,
    /// The buckets to charge, once the subject of the line is known.
    owners: Option<Owners>,
    bytes: &'a mut Vec<u8>,
}

impl Line<'_> {
    /// Formats the line. Returns the buckets to charge, or an error if the line is suppressed.
    fn write(&mut self, args: &fmt::Arguments<'_>) -> Result<Owners, fmt::Error> {
        self.write_fmt(*args)?;
        let owners = match self.owners {
            Some(owners) => owners,
            None => self.begin(0)?,
        };
        self.format.end(self.message, self.bytes);
        Ok(owners)
    }

    /// Starts the line, whose subject is the first `subject` bytes of the beginning. Fails if the
    /// line is suppressed.
    fn begin(&mut self, subject: usize) -> Result<Owners, fmt::Error> {
        let level = self.metadata.level();
        let is_detail = level >= Level::Debug;
        let name = &self.beginning[..subject];
        let admitted = self.limiter.admits(name, is_detail, self.now);
        let owners = *self.owners.insert(admitted.ok_or(fmt::Error)?);
        self.format.begin(level, self.metadata.target(), self.bytes);
        self.message = self.bytes.len();
        self.bytes.extend_from_slice(self.beginning.as_bytes());
        Ok(owners)
    }
}

impl fmt::Write for Line<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.owners.is_some() {
            self.bytes.extend_from_slice(part.as_bytes());
            return Ok(());
        }
        let mut rest = self.beginning.len() - usize::from(self.beginning.ends_with(':'));
        self.beginning.push_str(part);
        while let Some(at) = self.beginning[rest..].find(':') {
            let colon = rest + at;
            rest = colon + 1;
            if self.beginning.as_bytes().get(rest) == Some(&b' ') {
                return self.begin(colon).map(drop);
            }
        }
        Ok(())
    }
}

/// Returns what a warning of the logger itself has in common with records.
fn warning() -> Metadata<'static> {
    Metadata::builder()
        .level(Level::Warn)
        .target(module_path!())
        .build()
}

/// The modules whose lines are about the daemon itself: its start, its end, its signals, its files,
/// its limits and the directories that the user named. Plugins can cause such lines only rarely.
pub(super) const OWN: [&str; 9] = [
    "plugind::daemon::api::listener",
    "plugind::daemon::by_name",
    "plugind::daemon::file_lock",
    "plugind::daemon::lock",
    "plugind::daemon::roots",
    "plugind::daemon::run",
    "plugind::daemon::service",
    "plugind::daemon::state_file",
    "plugind::manager::connections",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Formats a line. Returns the buckets to charge, or `None` if the line is suppressed.
    fn owners(limiter: &mut Limiter, args: &fmt::Arguments<'_>) -> Option<Owners> {
        let (mut beginning, mut bytes) = (String::new(), Vec::new());
        let metadata = Metadata::builder().level(Level::Info).build();
        let mut line = Line {
            metadata: &metadata,
            format: LogFormat::Text,
            message: 0,
            now: Time::ZERO,
            limiter,
            beginning: &mut beginning,
            owners: None,
            bytes: &mut bytes,
        };
        let owners = line.write(args).ok()?;
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with(&format!(" INFO  {args}\n")), "{text}");
        Some(owners)
    }

    #[test]
    fn the_subject_is_what_comes_before_the_first_colon_however_the_line_is_put_together() {
        let mut limiter = Limiter::new();
        let mut check = |args: fmt::Arguments<'_>, subject: &str| {
            let expected = limiter.admits(subject, false, Time::ZERO);
            assert_eq!(owners(&mut limiter, &args), expected, "{args}");
        };
        let path = "/r/a.sock";
        check(format_args!("{path}: attempt {}: done", 3), path);
        check(format_args!("{path}{}{}done: x", ':', ' '), path);
        check(format_args!("{path}:{}:{}: done", 1, ':'), "/r/a.sock:1::");
        check(format_args!("é{path}ü: done"), "é/r/a.sockü");
        check(format_args!("no subject at {path}:"), "");
        check(format_args!(""), "");
    }

    #[test]
    fn the_rest_of_a_suppressed_line_is_not_even_formatted() {
        struct Costly;
        impl fmt::Display for Costly {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("it is formatted");
            }
        }
        let mut limiter = Limiter::new();
        let plugin = limiter.admits("/r/a.sock", false, Time::ZERO).unwrap();
        limiter.charge(plugin, 20_000, Time::ZERO);
        let suppressed = owners(&mut limiter, &format_args!("/r/a.sock: {Costly}"));
        assert_eq!(suppressed, None);
    }

    #[test]
    fn the_modules_whose_lines_are_always_admitted_exist() {
        for module in OWN {
            let path = module.replace("plugind::", "src/").replace("::", "/") + ".rs";
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            assert!(path.exists(), "{}", path.display());
        }
        assert!(module_path!().starts_with("plugind::daemon::logger"));
    }
}
