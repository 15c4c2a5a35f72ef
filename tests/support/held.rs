//! System calls of a daemon's children that are held until the test lets them pass
//! (seccomp_unotify(2)): as on processors that are busy.

#![allow(unsafe_code, reason = "seccomp_unotify(2) has no safe form")]

use std::fmt::Debug;
use std::io;
use std::mem::{offset_of, zeroed};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::thread;
use std::time::Duration;

use nix::libc::{self, seccomp_data, seccomp_notif, seccomp_notif_resp, sock_filter};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::seccomp::{self, ALLOW, ARCHITECTURE, HOLD, jump_unless, load, number, start};

/// The end of a filter at which held system calls arrive.
pub(crate) struct Held(OwnedFd);

/// Starts a process whose calls of setpgid(2) are held, as those of its children. Fails with
/// the reason why this machine cannot.
pub(crate) fn hold<T: Send>(start: impl FnOnce() -> T + Send) -> Result<(Held, T), String> {
    if ARCHITECTURE == 0 {
        return Err("system calls of this architecture are not known".to_owned());
    }
    let filtered = || {
        let flag = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let installed = seccomp::install(&filter(), flag);
        let fd = installed.map_err(|error| format!("system calls cannot be held: {error}"))?;
        // SAFETY: the kernel has just opened this descriptor for this call.
        let held = Held(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok((held, start()))
    };
    // The filter is that of the thread, and of all that the thread starts.
    thread::scope(|scope| scope.spawn(filtered).join().unwrap())
}

impl Held {
    /// Waits until a system call is held, and returns its number.
    #[track_caller]
    pub(crate) fn until_held(&self) -> u64 {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(PATIENCE).unwrap();
        assert_eq!(poll(&mut polled, timeout), Ok(1), "no system call is held");
        // SAFETY: all its fields are integers.
        let mut call: seccomp_notif = unsafe { zeroed() };
        self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut call);
        call.id
    }

    /// Lets a system call pass.
    #[track_caller]
    pub(crate) fn release(&self, id: u64) {
        let mut response = seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE.try_into().unwrap(),
        };
        self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response);
    }

    #[track_caller]
    fn control<T: Debug>(&self, request: libc::Ioctl, argument: &mut T) {
        // SAFETY: the request reads and writes one `T`.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, &raw mut *argument) };
        assert_eq!(result, 0, "{argument:?}: {}", io::Error::last_os_error());
    }
}

/// Returns a program for the kernel that holds setpgid(2): a child makes itself the leader of a
/// process group before anything that another process can notice.
fn filter() -> Vec<sock_filter> {
    let mut program = start();
    let call = load(offset_of!(seccomp_data, nr));
    let is_not = jump_unless(number(libc::SYS_setpgid), 1);
    program.extend([call, is_not, HOLD, ALLOW]);
    program
}

/// The time limit for a system call, a hundred times what it takes.
const PATIENCE: Duration = Duration::from_secs(60);
