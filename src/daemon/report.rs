//! Log lines about how well directories can be watched.

use crate::escape;
use crate::watch::Report;

/// Logs a report.
pub(super) fn log(report: &Report) {
    match report {
        Report::Trouble { dir, problem } => {
            log::warn!("{}: {problem}; {}", escape::path(dir), problem.remedy());
        }
        Report::Recovered { dir } => {
            log::info!("{}: directory is being watched again", escape::path(dir));
        }
        Report::Undecided { dir, sockets } => log::warn!(
            "{}: cannot be listed as a whole; plugins that were registered below it before the \
             restart stay registered until it can be: count={sockets}",
            escape::path(dir)
        ),
    }
}
