//! Collects the warnings that are logged, by thread: each test has a thread of its own.

use std::cell::RefCell;

use log::{Level, LevelFilter, Log, Metadata, Record};

thread_local! {
    static WARNINGS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct Collector;

impl Log for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            WARNINGS.with_borrow_mut(|lines| lines.push(record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// Collects warnings from now on.
pub(crate) fn collect() {
    // Another test may have set the logger already.
    let _ = log::set_logger(&Collector);
    log::set_max_level(LevelFilter::Warn);
}

/// Returns the warnings that this thread has logged since the last call.
pub(crate) fn take() -> Vec<String> {
    WARNINGS.take()
}
