//! Where the log goes and what a line looks like: to standard error, one line per record.
//!
//! ```text
//! 2026-01-31T12:00:00.250Z INFO  watching /var/lib/kubelet/plugins_registry
//! ```

use std::io::Write as _;

use env_logger::{Builder, Env};
use log::LevelFilter;

use crate::daemon::TimeOfDay;

/// Starts to log, from this verbosity on unless the environment variable `RUST_LOG` says otherwise.
pub fn start(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    let mut builder = Builder::new();
    builder.filter_level(level).parse_env(Env::new());
    builder.format(|line, record| {
        let moment = TimeOfDay::now();
        writeln!(line, "{moment} {:<5} {}", record.level(), record.args())
    });
    builder.init();
}
