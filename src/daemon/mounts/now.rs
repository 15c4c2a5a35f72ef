//! What is mounted at this moment: asked when a path leads onto another mount.
//!
//! The table may be a second old, and the mount younger. So the kernel is asked for its line of
//! mountinfo by its id, which is not given out again while the mount is held open.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;

use super::table::{self, Root};
use super::{BUFFER, MOUNTINFO};

/// Returns the type of the file system that an open file is on, if that may not answer. `roots` lie
/// where the user wants them to.
///
/// Asks nothing of the file system itself. Fails with `EAGAIN` if nothing can be found out.
pub(super) fn remote(file: impl AsFd, roots: &[Root]) -> io::Result<Option<String>> {
    let id = mount_id(file)?;
    let mut lines = BufReader::with_capacity(BUFFER, File::open(MOUNTINFO)?);
    let mut line = Vec::new();
    for _ in 0..MAX_LINES {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break; // It was unmounted meanwhile.
        }
        if table::is_line_of(&line, id) {
            return Ok(table::remote_of(line.trim_ascii_end(), roots));
        }
    }
    Err(Errno::AGAIN.into())
}

/// Returns the id of the mount that an open file is on.
///
/// statx(2): AT_STATX_DONT_SYNC "may mean that the information returned is approximate", and it is
/// what keeps a remote file system from being asked. The id is known to the kernel itself.
fn mount_id(file: impl AsFd) -> io::Result<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    match statx(&file, c"", flags, StatxFlags::MNT_ID) {
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => Ok(found.stx_mnt_id),
        _ => mount_id_from_proc(file), // Before Linux 5.8.
    }
}

/// The same from proc_pid_fdinfo(5), which has "the ID of the mount containing this file" since
/// Linux 3.15.
fn mount_id_from_proc(file: impl AsFd) -> io::Result<u64> {
    let fd = file.as_fd().as_raw_fd();
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let id = id.and_then(|id| id.trim().parse().ok());
    id.ok_or_else(|| Errno::AGAIN.into())
}

/// How many lines are read for one path: some milliseconds at most. A node has tens, and some for
/// each pod.
const MAX_LINES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_has_the_same_id() {
        for path in ["/", "/proc", "/dev", "/tmp"] {
            let flags = rustix::fs::OFlags::PATH;
            let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
            assert_eq!(mount_id(&file).unwrap(), mount_id_from_proc(&file).unwrap());
        }
    }
}
