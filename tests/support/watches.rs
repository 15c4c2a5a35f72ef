//! Whether inotify has room for tests that rely on it to be quick.
//!
//! The kernel limits inotify per user, and all processes of the user share the limits. Without an
//! instance or a watch the daemon scans on a tick: it still works, but it is not quick, and it
//! wakes up. What inotify achieves can be shown only where there is enough of it.

use std::sync::OnceLock;
use std::{env, thread};

use inotify::{Inotify, WatchMask};
use tempfile::TempDir;

use super::skip::skip;

/// Returns whether tests that rely on inotify can run; reports the running test as skipped if not.
pub(crate) fn are_enough_or_skip() -> bool {
    // Where inotify is missing on purpose, such tests are listed, and must fail.
    let enough = env::var("TEST_WITHOUT").is_ok() || are_enough();
    if !enough {
        skip("inotify has too few instances or watches");
    }
    enough
}

/// Returns whether inotify has room for all tests that run at once.
///
/// The first call tries it, and the others wait for its result. Tests call this before they start
/// watching, so that the trial does not compete with them.
pub(crate) fn are_enough() -> bool {
    static ENOUGH: OnceLock<bool> = OnceLock::new();
    *ENOUGH.get_or_init(|| try_all().is_ok())
}

/// Takes as much as all tests that run at once may take together, and releases it.
fn try_all() -> std::io::Result<()> {
    let mut instances = Vec::new();
    for _ in 0..tests_at_once() * INSTANCES {
        instances.push(Inotify::init()?);
    }
    let dir = TempDir::new()?;
    for n in 0..tests_at_once() * WATCHES {
        let path = dir.path().join(n.to_string());
        std::fs::create_dir(&path)?;
        instances[0].watches().add(&path, WatchMask::CREATE)?;
    }
    Ok(())
}

/// Returns how many tests the test runner runs at once.
fn tests_at_once() -> usize {
    let named = env::var("RUST_TEST_THREADS").ok();
    let named = named.and_then(|count| count.parse().ok());
    named.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// The most inotify instances of one test: two daemons, and one that is just ending.
const INSTANCES: usize = 3;

/// The most watches of one test: those of a tree of depth three, and of the directories above.
const WATCHES: usize = 16;
