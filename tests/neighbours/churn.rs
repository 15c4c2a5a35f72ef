//! Directories that are renamed, exchanged and filled as fast as possible.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::row::Row;

#[test]
fn a_large_directory_that_is_renamed_again_and_again() {
    let before = "deaf for 95 s, SIGTERM unheard";
    Row::new("60,000 links, renamed", before).withstand(|dir, over| {
        let (mut here, mut there) = (dir.join("here"), dir.join("there"));
        fs::create_dir(&here).unwrap();
        for n in 0..60_000 {
            symlink("/dev/null", here.join(n.to_string())).unwrap();
        }
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
        until(over, || {
            Ok(renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE)?)
        });
    });
}

#[test]
fn thousands_of_directories_that_come_and_go_at_once() {
    Row::new("4,000 directories, moved", "").withstand(|dir, over| {
        let (mut here, mut there) = (dir.join("here"), dir.join("there"));
        fs::create_dir(&here).unwrap();
        for n in 0..4000 {
            fs::create_dir(here.join(n.to_string())).unwrap();
        }
        until(over, || {
            fs::rename(&here, &there)?;
            std::mem::swap(&mut here, &mut there);
            Ok(())
        });
    });
}

#[test]
fn names_that_come_and_go_as_fast_as_they_can() {
    Row::new("names made and removed", "").withstand(|dir, over| {
        let mut n = 0;
        until(over, || {
            let link = dir.join(n.to_string());
            symlink("/dev/null", &link)?;
            n += 1;
            fs::remove_file(&link)
        });
    });
}

/// Does something again and again until it is over, or the directory has gone with the daemon.
fn until(over: &AtomicBool, mut act: impl FnMut() -> io::Result<()>) {
    while !over.load(Ordering::Relaxed) && act().is_ok() {}
}
