//! Programs that are written here and executed, and processes that may have ended.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::binary::binary;

/// Writes a program through another process: while this process has it open, it cannot be run, nor
/// while a child that another test starts has inherited the descriptor.
#[track_caller]
pub(crate) fn install(path: &Path, content: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"]);
    command.arg(content).arg(path);
    assert!(command.status().unwrap().success());
}

/// Copies the binary to test, through another process for the same reason.
#[track_caller]
pub(crate) fn copy_binary(path: &Path) {
    let copied = Command::new("cp").arg(binary()).arg(path).status();
    assert!(copied.unwrap().success());
}

/// Returns whether the process does not exist, or has ended and was not waited for yet.
pub(crate) fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None) == Err(Errno::ESRCH) || stat.contains(") Z ")
}
