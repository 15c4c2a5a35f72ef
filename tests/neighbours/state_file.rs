//! The state file: another file at `FILE.new`, and a full disk.

use std::ffi::OsString;
use std::fs::{self};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::row::Row;
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
