//! A reader of the watched directory that locks everything it can open.

use std::ffi::OsString;
use std::fs::File;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use crate::daemon::Daemon;
use crate::row::Row;

#[test]
fn a_reader_that_locks_the_directory_keeps_no_daemon_from_it() {
    let row = Row::new("a reader locks the directory", "the next start fails");
    row.withstand(|attacker, _| {
        // Another daemon, on a directory of its own that is locked from the beginning.
        let root = tempfile::tempdir().unwrap();
        let locked = [root.path(), attacker, attacker.parent().unwrap()].map(|dir| {
            let dir = File::open(dir).unwrap();
            Flock::lock(dir, FlockArg::LockExclusiveNonblock).unwrap()
        });
        let option = |word: &str| OsString::from(word);
        let mut next = Daemon::start(&[option("--plugins-dir"), root.path().into()]);
        let (_, ended) = next.end_with(Signal::SIGTERM);
        assert!(ended < plugind::config::STOP_GRACE);
        drop(locked);
    });
}
