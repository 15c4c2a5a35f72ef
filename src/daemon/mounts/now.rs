//! The mounts of this moment, for a path that leads onto another mount.
//!
//! The table may be a second old, and the mount younger. So the line of mountinfo is looked up by
//! the mount's id, which the kernel does not reuse while a file on the mount is open.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;

use super::table::{self, Root};
use super::{BUFFER, MOUNTINFO};

/// Returns the type of the file system of an open file, if that file system may not answer and no
/// root lies on it: the place of a root is the user's decision.
///
/// The file system itself is not accessed. Fails with `EAGAIN` if its type cannot be found out.
pub(super) fn remote(file: impl AsFd, roots: &[Root]) -> io::Result<Option<String>> {
    let id = mount_id(file)?;
    let mut lines = BufReader::with_capacity(BUFFER, File::open(MOUNTINFO)?);
    let mut line = Vec::new();
    for _ in 0..MAX_LINES {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break; // The mount was removed meanwhile.
        }
        if table::is_line_of(&line, id) {
            return Ok(table::remote_of(line.trim_ascii_end(), roots));
        }
    }
    Err(Errno::AGAIN.into())
}

/// Returns the id of the mount that an open file is on.
///
/// statx(2): AT_STATX_DONT_SYNC "may mean that the information returned is approximate", and it
/// keeps a remote file system from being asked. The id is known to the kernel itself.
fn mount_id(file: impl AsFd) -> io::Result<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    match statx(&file, c"", flags, StatxFlags::MNT_ID) {
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => Ok(found.stx_mnt_id),
        _ => mount_id_from_proc(file), // Before Linux 5.8.
    }
}

/// Returns the same from proc_pid_fdinfo(5), which has "the ID of the mount containing this file"
/// since Linux 3.15.
fn mount_id_from_proc(file: impl AsFd) -> io::Result<u64> {
    let fd = file.as_fd().as_raw_fd();
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let id = id.and_then(|id| id.trim().parse().ok());
    id.ok_or_else(|| Errno::AGAIN.into())
}

/// The largest number of lines that are read for one path: some milliseconds at most. A node has
/// tens, and some for each pod.
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
