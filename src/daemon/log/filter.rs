//! The filter: which records are logged.

use env_logger::{Builder, Logger};
use log::LevelFilter;

use crate::escape;

/// The filter in force, and the initial one, which can be restored.
#[derive(Debug)]
pub(super) struct Filter {
    /// The level of records that no directive is about.
    level: LevelFilter,
    /// The valid directives that were passed to [`Filter::new`].
    initial: String,
    /// Used for its filter only, not for writing.
    pub(super) current: Logger,
}

/// The reason why directives are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// This part is neither a level nor a module with a level.
    #[error(
        "invalid log filter {:?}, expected a level or {CRATE}::MODULE=LEVEL",
        escape::text(.0)
    )]
    Invalid(String),
    /// This module is not one of this crate, so it never logs anything.
    #[error(
        "invalid log filter: {:?} is neither a level (off, error, warn, info, debug, trace) nor a \
         module of {CRATE}",
        escape::text(.0)
    )]
    UnknownModule(String),
}

impl Filter {
    /// Creates a filter for records up to `level`, unless a directive is about their module.
    /// Directives that are invalid are ignored, after a warning on standard error.
    pub(super) fn new(level: LevelFilter, directives: &str) -> Self {
        let directives = directives.split(',').map(str::trim);
        let mut valid: Vec<&str> = directives.filter(|it| !it.is_empty()).collect();
        valid.retain(|directive| match check_directive(directive) {
            Err(error @ FilterError::Invalid(_)) => {
                eprintln!("warning: {error}, ignoring it");
                false
            }
            // Harmless: only the modules of this crate log.
            Ok(()) | Err(FilterError::UnknownModule(_)) => true,
        });
        let initial = valid.join(",");
        Self {
            level,
            current: build_logger(level, &initial),
            initial,
        }
    }

    /// Sets the level of records that none of the initial directives is about, and restores these
    /// directives.
    pub(super) fn set_level(&mut self, level: LevelFilter) {
        self.level = level;
        self.current = build_logger(level, &self.initial);
    }

    /// Replaces the directives, or restores the initial ones if `directives` is empty.
    pub(super) fn set_directives(&mut self, directives: &str) -> Result<(), FilterError> {
        if directives.is_empty() {
            self.current = build_logger(self.level, &self.initial);
        } else {
            directives.split(',').try_for_each(check_directive)?;
            self.current = build_logger(self.level, directives);
        }
        Ok(())
    }

    /// Returns the most detailed level at which any record is logged.
    pub(super) fn max_level(&self) -> LevelFilter {
        self.current.filter()
    }
}

fn build_logger(level: LevelFilter, directives: &str) -> Logger {
    let mut builder = Builder::new();
    builder.filter_level(level).parse_filters(directives);
    builder.build()
}

/// Checks one directive: `debug`, `plugind::watch` or `plugind::watch=debug`.
fn check_directive(directive: &str) -> Result<(), FilterError> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let (module, level) = match directive.split_once('=') {
        None if is_level(directive) => return Ok(()),
        None => (directive, None),
        Some((module, level)) => (module, Some(level)),
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    if module.is_empty() || !module.chars().all(is_word) || !level.is_none_or(is_level) {
        return Err(FilterError::Invalid(directive.to_owned()));
    }
    let rest = module.strip_prefix(CRATE);
    if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::")) {
        return Err(FilterError::UnknownModule(module.to_owned()));
    }
    Ok(())
}

/// The first part of the names of all modules that log.
const CRATE: &str = env!("CARGO_PKG_NAME");

#[cfg(test)]
mod tests {
    use log::{Level, Log as _, Metadata};

    use super::*;

    /// Returns the most detailed level that the filter admits for each of two modules.
    fn levels(filter: &Filter) -> [Option<Level>; 2] {
        ["plugind::daemon", "plugind::watch"].map(|module| {
            let levels = Level::iter().filter(|level| {
                let metadata = Metadata::builder().target(module).level(*level).build();
                *level <= filter.max_level() && filter.current.enabled(&metadata)
            });
            levels.max()
        })
    }

    #[test]
    fn directives_are_about_a_module_or_about_all() {
        let mut filter = Filter::new(LevelFilter::Info, "plugind::watch=warn");
        let initial = [Some(Level::Info), Some(Level::Warn)];
        assert_eq!(levels(&filter), initial);
        for (directives, expected) in [
            ("debug", [Some(Level::Debug); 2]),
            ("off", [None, None]),
            ("plugind", [Some(Level::Trace); 2]),
            (
                "plugind::watch=TRACE",
                [Some(Level::Info), Some(Level::Trace)],
            ),
            (
                "error,plugind::daemon=debug",
                [Some(Level::Debug), Some(Level::Error)],
            ),
        ] {
            assert_eq!(filter.set_directives(directives), Ok(()));
            assert_eq!(levels(&filter), expected, "{directives}");
        }
        assert_eq!(filter.set_directives(""), Ok(()));
        assert_eq!(levels(&filter), initial);
    }

    #[test]
    fn a_new_level_is_for_modules_without_a_directive() {
        for directives in ["plugind::watch=warn", "plugind=loud,plugind::watch=warn"] {
            let mut filter = Filter::new(LevelFilter::Info, directives);
            assert_eq!(filter.initial, "plugind::watch=warn");
            filter.set_directives("error").unwrap();
            filter.set_level(LevelFilter::Trace);
            assert_eq!(levels(&filter), [Some(Level::Trace), Some(Level::Warn)]);
        }
    }

    #[test]
    fn a_filter_that_would_admit_nothing_by_mistake_is_refused() {
        let mut filter = Filter::new(LevelFilter::Info, "");
        filter.set_directives("debug").unwrap();
        for (directives, expected) in [
            ("debgu", "\"debgu\" is neither a level"),
            ("info,mio=trace", "\"mio\" is neither"),
            ("plugindx=info", "\"plugindx\" is neither"),
            ("plugind=loud", "invalid log filter \"plugind=loud\""),
            ("plugind=info=debug", "\"plugind=info=debug\""),
            ("=debug", "\"=debug\""),
            ("info,,debug", "\"\""),
            (",", "\"\""),
            ("debug/text", "\"debug/text\""),
            (" ", "\" \""),
            ("plugind::\u{1b}", "\\u{1b}"),
        ] {
            let error = filter.set_directives(directives).unwrap_err().to_string();
            assert!(error.contains(expected), "{directives:?}: {error}");
            assert_eq!(levels(&filter), [Some(Level::Debug); 2]);
        }
    }
}
