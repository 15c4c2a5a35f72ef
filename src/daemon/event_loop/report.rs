//! Log lines about directories that cannot be watched or listed as they should be.
//!
//! Lines about the directories that the user named count as the daemon's own, so that a flood of
//! lines about plugins cannot hide that nothing is watched. Any plugin may create subdirectories
//! that cannot be read, so lines about those count against the share of plugins.

use std::path::{Path, PathBuf};

use log::Level;

use crate::watch::Report;

/// Logs a report. `roots` are the directories that the user named.
pub(crate) fn log(report: &Report, roots: &[PathBuf]) {
    let level = if report.is_warning() {
        Level::Warn
    } else {
        Level::Info
    };
    log::log!(target: target(report, roots), level, "{report}");
}

/// Returns the target of a report's log line, by which the logger decides which limit applies to
/// the line.
fn target(report: &Report, roots: &[PathBuf]) -> &'static str {
    let dir = report.dir();
    let is_root = |root: &PathBuf| Path::new(root) == &**dir;
    if roots.iter().any(is_root) {
        ABOUT_ROOTS
    } else {
        module_path!()
    }
}

/// The target of lines about directories that the user named.
pub(crate) const ABOUT_ROOTS: &str = "plugind::daemon::fs::roots";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::log;
    use crate::watch::Problem;

    #[test]
    fn only_reports_about_named_directories_count_as_own() {
        let roots = ["/r".into(), "/other".into()];
        for (dir, is_admitted) in [
            ("/r", true),
            ("/other", true),
            ("/r/a", false),
            ("/", false),
        ] {
            let dir: std::sync::Arc<Path> = Path::new(dir).into();
            let problem = Problem::TooManyNames;
            for report in [
                Report::Trouble {
                    dir: dir.clone(),
                    problem,
                },
                Report::Recovered { dir },
            ] {
                let is_own = log::OWN.contains(&target(&report, &roots));
                assert_eq!(is_own, is_admitted, "{report:?}");
            }
        }
    }
}
