//! Pipes, empty ones and full ones.

use std::fs::File;
use std::io::Write as _;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;

/// Returns both ends of a pipe, the one to read from first, that no child inherits.
pub(crate) fn pipe() -> (File, File) {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    (reader.into(), writer.into())
}

/// Returns both ends of a pipe that is full, so that writes to it block.
pub(crate) fn full_pipe() -> (File, File) {
    let (reader, mut writer) = pipe();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while writer.write(FILLER.as_bytes()).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

/// The line that fills the pipe, whose length divides the size of any pipe.
pub(crate) const FILLER: &str = "filler of a pipe: sixteen bytes\n";
