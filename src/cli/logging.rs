//! The log level. The format and the destination of log lines belong to the daemon
//! ([`crate::daemon::Logger`]).

use env_logger::{Builder, Env};
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
    let mut builder = Builder::new();
    let filter = builder.filter_level(level).parse_env(Env::new()).build();
    let most = filter.filter();
    let logger = Logger::install(filter)?;
    log::set_max_level(most);
    Some(logger)
}
