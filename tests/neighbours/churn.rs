//! Directories that are renamed, exchanged and filled thousands of times in a second.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::row::Row;
use crate::support::ticks::ticks;

#[test]
fn a_large_directory_that_is_renamed_again_and_again() {
    let before = "deaf for 95 s, SIGTERM unheard";
    let row = Row::new("60,000 links, renamed", before).prepared(|dir| {
        fs::create_dir(dir.join("here")).unwrap();
        for n in 0..60_000 {
            symlink("/dev/null", dir.join("here").join(n.to_string())).unwrap();
        }
    });
    row.withstand(|dir, over| {
        let (mut here, mut there) = (dir.join("here"), dir.join("there"));
        until(over, || {
            fs::rename(&here, &there)?;
            std::mem::swap(&mut here, &mut there);
            Ok(())
        });
    });
}

#[test]
fn two_directories_that_change_places_all_the_time() {
    let before = "plugins in them deregistered for 300 s";
    Row::new("RENAME_EXCHANGE", before).withstand(|dir, over| {
        let (a, b) = (dir.join("a"), dir.join("b"));
        for place in [&a, &b] {
            fs::create_dir(place).unwrap();
            for n in 0..100 {
                symlink("/dev/null", place.join(n.to_string())).unwrap();
            }
        }
        let exchange = RenameFlags::RENAME_EXCHANGE;
        until(over, || {
            Ok(renameat2(AT_FDCWD, &a, AT_FDCWD, &b, exchange)?)
        });
    });
}

#[test]
fn names_that_come_and_go_as_fast_as_the_machine_allows() {
    let row = Row::new("the same without a pause, on all processors", "");
    row.greedy().withstand(|dir, over| {
        let threads = thread::available_parallelism().unwrap().get();
        thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    for n in 0_u64.. {
                        let link = dir.join(format!("{thread}-{n}"));
                        let made = symlink("/dev/null", &link);
                        let removed = made.and_then(|()| fs::remove_file(&link));
                        if over.load(Ordering::Relaxed) || removed.is_err() {
                            assert!(n >= LEAST_ACTS as u64, "too few acts: {n}, {removed:?}");
                            return;
                        }
                    }
                });
            }
        });
    });
}

/// Calls `act` every [`INTERVAL`] until the attack is over, or the directory was removed with the
/// daemon. Asserts that there were at least [`LEAST_ACTS`] calls, without which it was not an
/// attack.
pub(crate) fn until(over: &AtomicBool, mut act: impl FnMut() -> io::Result<()>) {
    let clock = ticks(INTERVAL);
    let mut acts = 0;
    let mut failure = None;
    while failure.is_none() && !over.load(Ordering::Relaxed) {
        match act() {
            Ok(()) => {
                acts += 1;
                clock.wait().unwrap();
            }
            Err(error) => failure = Some(error),
        }
    }
    assert!(acts >= LEAST_ACTS, "too few acts: {acts}, {failure:?}");
}

/// The least number of an attacker's acts: a small part of what [`INTERVAL`] allows while a row is
/// measured, because the attacker leaves the processor to others.
const LEAST_ACTS: usize = 20;

/// The time from one change to the next. Without a pause, the attacker would hold the kernel's lock
/// of the directory nearly all the time, and the row would measure how long a look waits for that
/// lock.
const INTERVAL: Duration = Duration::from_micros(200);
