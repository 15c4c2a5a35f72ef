//! The groups of the peer process of a socket.

#![allow(unsafe_code, reason = "no crate in use has SO_PEERGROUPS")]

use std::os::fd::{AsFd, AsRawFd as _};

use nix::libc::{self, gid_t, socklen_t};

/// Returns whether the process that connected to a socket was in `group`: by its primary group,
/// `gid`, or by a supplementary one (`SO_PEERGROUPS`). If the process had more than [`MOST_GROUPS`]
/// supplementary groups, none of these is examined.
pub(crate) fn is_in_group(stream: &impl AsFd, gid: gid_t, group: gid_t) -> bool {
    let mut groups: [gid_t; MOST_GROUPS] = [0; MOST_GROUPS];
    let size = size_of_val(&groups);
    let mut len = socklen_t::try_from(size).unwrap_or(0);
    // SAFETY: the buffer is writable for `len` octets, and any bit pattern is a valid `gid_t`; the
    // descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let mut found = groups.iter().take(len as usize / size_of::<gid_t>());
    gid == group || result == 0 && found.any(|it| *it == group)
}

/// The maximum number of supplementary groups that are examined: most users have fewer than 32.
const MOST_GROUPS: usize = 256;

/// The option, which has this number on all processors that plugind is built for.
const SO_PEERGROUPS: libc::c_int = 59;
