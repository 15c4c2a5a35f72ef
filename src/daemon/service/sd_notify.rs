//! The service manager, such as systemd, which is notified of the daemon's state (sd_notify(3)).
//!
//! A notification is one datagram, which is sent without blocking. If the service manager does not
//! read, notifications that must arrive are sent again later. Other failures are logged once, as a
//! warning.

use std::cell::Cell;
use std::collections::VecDeque;
use std::env;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, sendto, socket};
use nix::time::{ClockId, clock_gettime};

use crate::config::{READER_RETRY, UPDATE_INTERVAL};
use crate::daemon::PluginManager;
use crate::daemon::process::passed::number_in_env;
use crate::manager::{Generation, Manager};
use crate::time::{self, Time};

/// Notifies the service manager. Without a service manager, nothing is sent and nothing is due.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// The socket to send from, and the address to send to.
    to: Option<(OwnedFd, UnixAddr)>,
    /// Whether a failure was logged.
    has_failed: Cell<bool>,
    is_ready: bool,
    /// The notifications that must arrive and were not sent yet, in their order.
    unsent: VecDeque<String>,
    retry_at: Time,
    /// The last status, with the numbers of registered and of failed plugins.
    status: String,
    /// The generation at which these were counted.
    counted: Option<Generation>,
    status_at: Time,
    /// The pause between two watchdog notifications, if the service manager wants them.
    watchdog: Option<Duration>,
    watchdog_at: Time,
}

impl Service {
    /// Returns a value that notifies the service manager that the environment names, if it names
    /// one.
    pub(crate) fn from_environment() -> Self {
        let mut service = Self::default();
        if let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) {
            match open_socket(&name) {
                Ok(to) => service.to = Some(to),
                Err(errno) => service.warn(errno),
            }
        }
        service.watchdog = watchdog_pause(
            number_in_env("WATCHDOG_USEC"),
            number_in_env("WATCHDOG_PID"),
            process::id().into(),
        );
        service
    }

    /// Returns how long to wait at most before [`Service::send_due`], or `None` if nothing is due.
    pub(crate) fn poll_timeout(&self, plugins: &PluginManager) -> Option<Duration> {
        self.to.as_ref()?;
        let start_deadline = plugins.readiness.start_deadline();
        let start_deadline = start_deadline.filter(|_| !self.is_ready);
        let watchdog_at = self.watchdog.map(|_| self.watchdog_at);
        let retry_at = self.unsent.front().map(|_| self.retry_at);
        let is_changed = self.counted != Some(plugins.manager().generation());
        let status_at = is_changed.then_some(self.status_at);
        let times = [start_deadline, watchdog_at, retry_at, status_at];
        let next = times.into_iter().flatten().min();
        next.map(|at| at.saturating_since(plugins.clock.now()))
    }

    /// Sends what is due. Calling this early is harmless.
    pub(crate) fn send_due(&mut self, plugins: &mut PluginManager) {
        if self.to.is_none() {
            return;
        }
        let now = plugins.clock.now();
        if !self.is_ready && plugins.is_ready(now) {
            self.is_ready = true;
            self.queue_ready();
        }
        if let Some(pause) = self.watchdog.filter(|_| self.watchdog_at <= now) {
            let is_sent = self.send("WATCHDOG=1");
            let retry = pause.min(READER_RETRY);
            self.watchdog_at = now + if is_sent { pause } else { retry };
        }
        if self.retry_at <= now {
            self.send_unsent(now);
        }
        self.send_status(plugins.manager(), now);
    }

    /// Notifies that a reload has begun. [`Service::queue_ready`] notifies that it is over.
    pub(crate) fn notify_reloading(&mut self, now: Time) {
        // systemd compares this with its own reading of CLOCK_MONOTONIC, from before SIGHUP.
        if let Ok(time) = clock_gettime(ClockId::CLOCK_MONOTONIC) {
            let micros = time::micros(time.into());
            self.unsent.clear(); // Only the last of several reloads counts.
            let text = format!("RELOADING=1\nMONOTONIC_USEC={micros}");
            self.unsent.push_back(text);
            self.send_unsent(now);
        }
    }

    /// Queues the notification that the start or a reload is complete, which [`Service::send_due`]
    /// sends. A reload before the end of the start needs none of its own.
    pub(crate) fn queue_ready(&mut self) {
        if self.is_ready {
            self.unsent.push_back("READY=1".to_owned());
        }
    }

    /// Notifies that the daemon is about to end.
    pub(crate) fn notify_stopping(&mut self, now: Time) {
        self.unsent.push_back("STOPPING=1".to_owned());
        self.send_unsent(now);
    }

    /// Sends the pending notifications in their order, as long as the service manager reads them.
    fn send_unsent(&mut self, now: Time) {
        while let Some(text) = self.unsent.front() {
            if !self.send(text) {
                self.retry_at = now + READER_RETRY;
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// Sends the status if it has changed, but not more often than once in [`UPDATE_INTERVAL`].
    fn send_status(&mut self, manager: &Manager, now: Time) {
        let generation = Some(manager.generation());
        if self.counted == generation || now < self.status_at {
            return;
        }
        self.status_at = now + UPDATE_INTERVAL;
        let status = manager.records().status();
        let (registered, failed) = (status.registered, status.failed);
        let text = format!("STATUS={registered} registered, {failed} in backoff");
        if text == self.status || self.send(&text) {
            (self.status, self.counted) = (text, generation);
        }
    }

    /// Sends a notification. Returns `false` if it may be sent later, because the service manager
    /// does not read at present; logs any other failure, and returns `true`.
    fn send(&self, text: &str) -> bool {
        let Some((from, to)) = &self.to else {
            return true;
        };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match sendto(from.as_raw_fd(), text.as_bytes(), to, flags) {
            Ok(_) => true,
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => false,
            Err(errno) => {
                self.warn(errno);
                true
            }
        }
    }

    /// Logs a failure, unless an earlier one was logged.
    fn warn(&self, errno: Errno) {
        if !self.has_failed.replace(true) {
            let why = errno.desc();
            log::warn!("cannot notify the service manager (NOTIFY_SOCKET): {why}");
        }
    }
}

/// Opens a socket to send from, and returns it with the address to send to: a path, or an abstract
/// name after `@`.
fn open_socket(name: &OsStr) -> Result<(OwnedFd, UnixAddr), Errno> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => UnixAddr::new_abstract(name),
        [b'/', ..] => UnixAddr::new(Path::new(name)),
        _ => Err(Errno::EINVAL),
    };
    let (kind, flags) = (SockType::Datagram, SockFlag::SOCK_CLOEXEC);
    let from = socket(AddressFamily::Unix, kind, flags, None)?;
    Ok((from, address?))
}

/// Returns the pause between two watchdog notifications: half of the time that systemd waits for
/// one (`usec`, microseconds), but at least 10 ms. Returns `None` if systemd does not expect any,
/// or expects them from a process (`pid`) other than this one (`own`).
fn watchdog_pause(usec: Option<u64>, pid: Option<u64>, own: u64) -> Option<Duration> {
    let usec = usec.filter(|usec| *usec > 0 && pid.is_none_or(|pid| pid == own))?;
    // If systemd waited for less than 20 ms, it would also kill a daemon that is only busy.
    let least = Duration::from_millis(10);
    Some((Duration::from_micros(usec) / 2).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchdog_notifications_are_twice_as_frequent_as_expected() {
        let pause = |usec: u64| watchdog_pause(Some(usec), None, 7);
        assert_eq!(pause(30_000_000), Some(Duration::from_secs(15)));
        assert_eq!(pause(1), Some(Duration::from_millis(10)));
        let longest = Duration::from_micros(u64::MAX / 2);
        assert!(pause(u64::MAX).is_some_and(|pause| pause >= longest));
        assert_eq!(pause(0), None);
        assert_eq!(watchdog_pause(None, Some(7), 7), None);
    }

    #[test]
    fn watchdog_notifications_of_another_process_are_not_sent() {
        let pause = |pid: u64| watchdog_pause(Some(1_000_000), Some(pid), 7);
        assert!(pause(7).is_some() && pause(8).is_none());
    }

    #[test]
    fn an_address_is_a_path_or_an_abstract_name() {
        let open = |name: &str| open_socket(name.as_ref()).map(|(_, address)| address);
        assert_eq!(open("/run/a").unwrap().path(), Some("/run/a".as_ref()));
        assert_eq!(open("@a/b").unwrap().as_abstract(), Some(&b"a/b"[..]));
        assert_eq!(open("run/a"), Err(Errno::EINVAL));
        assert_eq!(open(""), Err(Errno::EINVAL));
        assert_eq!(open(&"/n".repeat(54)), Err(Errno::ENAMETOOLONG));
        assert_eq!(open(&"@n".repeat(55)), Err(Errno::ENAMETOOLONG));
    }
}
