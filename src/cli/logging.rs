//! Starts the log with a level. [`crate::daemon::Logger`] formats and writes the log lines.

use std::env;

use log::LevelFilter;

use crate::config::LogFormat;
use crate::daemon::Logger;

/// Starts logging at this verbosity, which the environment variable `RUST_LOG` overrides. Without a
/// format, uses that of the journal if standard error is connected to the journal, else text.
///
/// Returns `None` if another logger is already installed.
pub fn start_logging(verbosity: u8, format: Option<LogFormat>) -> Option<&'static Logger> {
    let directives = env::var("RUST_LOG").unwrap_or_default();
    Logger::install(level(verbosity), &directives, format)
}

/// Returns the level of this verbosity.
pub fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    }
}
