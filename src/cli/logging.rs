//! Which lines are logged. What a line looks like and where it goes is the daemon's part
//! ([`crate::daemon::Logger`]).

use env_logger::{Builder, Env};
use log::LevelFilter;

use crate::daemon::Logger;

/// Starts to log, from this verbosity on unless the environment variable `RUST_LOG` says otherwise.
///
/// Returns `None` if something else logs already.
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
