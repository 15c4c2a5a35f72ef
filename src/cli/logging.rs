//! The log level. The format and the destination of log lines belong to the daemon
//! ([`crate::daemon::Logger`]).

use std::env;

use log::LevelFilter;

use crate::daemon::Logger;

/// Starts logging at this verbosity; the environment variable `RUST_LOG` overrides it.
///
/// Returns `None` if another logger is already installed.
pub fn start(verbosity: u8) -> Option<&'static Logger> {
    let level = match verbosity {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    Logger::install(level, &env::var("RUST_LOG").unwrap_or_default())
}
