//! A pipe that nothing fits into.

use std::fs::File;
use std::io::Write as _;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Returns both ends of a pipe, the one to read from first.
pub(crate) fn pipe() -> (File, File) {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    (reader.into(), writer.into())
}

/// Returns both ends of a pipe that has been filled, and of which writes wait.
pub(crate) fn full_pipe() -> (File, File) {
    let (reader, mut writer) = pipe();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while writer.write(FILLER.as_bytes()).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

/// What the pipe is filled with: a line whose length divides any pipe's.
pub(crate) const FILLER: &str = "filler of a pipe: sixteen bytes\n";
