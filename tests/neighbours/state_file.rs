//! The state file: another file at `FILE.new`, and a full disk.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::row::{Row, alone};
use crate::support::inside::{inside, is_inside};
use crate::until::Steps;

#[test]
fn a_pipe_or_a_link_in_place_of_the_state_file_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (file, beside) = (
        scratch.path().join("state"),
        scratch.path().join("state.new"),
    );
    let (other, aside) = (scratch.path().join("other"), scratch.path().join("aside"));
    fs::write(&other, "of another program").unwrap();
    let mut option = OsString::from("--state-file=");
    option.push(&file);
    let row = Row::new("a pipe or a link at FILE.new", "hangs; overwrites the file");
    row.options([option]).withstand(|_, over| {
        let steps = Steps::new(over);
        for n in 0.. {
            match n % 3 {
                0 => mkfifo(&aside, Mode::S_IRWXU).unwrap(),
                1 => fs::hard_link(&other, &aside).unwrap(),
                _ => std::os::unix::fs::symlink(&other, &aside).unwrap(),
            }
            fs::rename(&aside, &beside).unwrap();
            if !steps.next() {
                return;
            }
        }
    });
    assert_eq!(fs::read_to_string(other).unwrap(), "of another program");
    let saved = fs::read_to_string(file).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert!(saved["plugins"].is_array(), "{saved}");
}

#[test]
fn a_disk_that_is_full_and_has_room_again_is_withstood() {
    let name = "state_file::a_disk_that_is_full_and_has_room_again_is_withstood";
    let _alone = (!is_inside(name)).then(alone);
    inside(
        name,
        "mount -t tmpfs -o size=256k,mode=755 none /mnt",
        || {
            let row = Row::new("the disk is full", "the state file is not written again");
            row.options(["--state-file=/mnt/state"])
                .withstand(|_, over| {
                    let steps = Steps::new(over);
                    for n in 0.. {
                        if n % 20 == 0 {
                            let mut filler = File::create("/mnt/filler").unwrap();
                            while filler.write_all(&[0; 4096]).is_ok() {}
                        } else if n % 20 == 15 {
                            fs::remove_file("/mnt/filler").unwrap();
                        }
                        if !steps.next() {
                            return;
                        }
                    }
                });
            let _ = fs::remove_file("/mnt/filler");
            // The file does not exist if the disk was full whenever it was written.
            if let Ok(saved) = fs::read_to_string("/mnt/state") {
                let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
                assert!(saved["plugins"].is_array(), "{saved}");
            }
        },
    );
}
