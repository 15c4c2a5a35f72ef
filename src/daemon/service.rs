//! The service manager, such as systemd, which is notified of the daemon's state (sd_notify(3)).
//!
//! A notification is one datagram, and is sent without waiting. What has to arrive in any case is
//! sent again while the service manager does not read. A service manager that cannot be reached is
//! a warning, once.

use std::env;
use std::ffi::OsStr;
use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, sendto, socket};
use nix::time::{ClockId, clock_gettime};

use super::PluginManager;
use crate::config::{NOTIFY_RETRY, STATUS_PAUSE, WATCHDOG_MAX, WATCHDOG_MIN};
use crate::escape;
use crate::manager::{Generation, Manager};
use crate::time::Time;

/// The notifications of the service manager. Without one, nothing is sent and nothing is due.
#[derive(Debug)]
pub(super) struct Service {
    /// The socket to send from, and the address to send to.
    to: Option<(OwnedFd, UnixAddr)>,
    /// Whether a failure was logged.
    has_failed: bool,
    is_ready: bool,
    /// What was not sent yet: [`RELOADING`], [`READY`], [`STOPPING`]. Each replaces an earlier one.
    unsent: [Option<String>; 3],
    retry_at: Time,
    /// The last status, and the generation that it was made of.
    status: (String, Option<Generation>),
    status_at: Time,
    /// The pause between two signs of life, if they are wanted.
    watchdog: Option<Duration>,
    watchdog_at: Time,
}

impl Service {
    /// Returns the service manager that the environment names.
    pub(super) fn from_environment() -> Self {
        let mut service = Self {
            to: None,
            has_failed: false,
            is_ready: false,
            unsent: [None, None, None],
            retry_at: Time::ZERO,
            status: (String::new(), None),
            status_at: Time::ZERO,
            watchdog: None,
            watchdog_at: Time::ZERO,
        };
        let text = |name| env::var(name).ok();
        if let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) {
            match open(&name) {
                Ok(to) => service.to = Some(to),
                Err(errno) => service.warn(errno),
            }
        }
        service.watchdog = watchdog(text("WATCHDOG_USEC"), text("WATCHDOG_PID"), process::id());
        service
    }

    /// Returns how long to wait at most before [`Service::advance`].
    pub(super) fn poll_timeout(&self, plugins: &PluginManager) -> Option<Duration> {
        self.to.as_ref()?;
        let starts_at = plugins.starts_at().filter(|_| !self.is_ready);
        let watchdog_at = self.watchdog.map(|_| self.watchdog_at);
        let is_unsent = self.unsent.iter().any(Option::is_some);
        let retry_at = is_unsent.then_some(self.retry_at);
        let is_changed = self.status.1 != Some(plugins.manager().generation());
        let status_at = is_changed.then_some(self.status_at);
        let times = [starts_at, watchdog_at, retry_at, status_at];
        let next = times.into_iter().flatten().min();
        next.map(|at| at.saturating_since(plugins.now()))
    }

    /// Sends what is due. Calling this early is harmless.
    pub(super) fn advance(&mut self, plugins: &mut PluginManager) {
        if self.to.is_none() {
            return;
        }
        let now = plugins.now();
        if !self.is_ready && plugins.is_ready(now) {
            self.is_ready = true;
            self.ready();
        }
        if let Some(pause) = self.watchdog.filter(|_| self.watchdog_at <= now) {
            let is_sent = self.send("WATCHDOG=1");
            self.watchdog_at = now
                + if is_sent {
                    pause
                } else {
                    pause.min(NOTIFY_RETRY)
                };
        }
        if self.retry_at <= now {
            self.send_unsent(now);
        }
        self.send_status(plugins.manager(), now);
    }

    /// Notifies that the configuration is read again. [`Service::ready`] ends that.
    pub(super) fn reloading(&mut self, now: Time) {
        // systemd compares this with its own reading of CLOCK_MONOTONIC, from before SIGHUP.
        let Ok(time) = clock_gettime(ClockId::CLOCK_MONOTONIC) else {
            return;
        };
        let micros = Duration::from(time).as_micros();
        let text = format!("RELOADING=1\nMONOTONIC_USEC={micros}");
        self.unsent[RELOADING] = Some(text);
        self.send_unsent(now);
    }

    /// Notifies with the next [`Service::advance`] that a reload is over. Before the start is over,
    /// the notification of that suffices.
    pub(super) fn ready(&mut self) {
        if self.is_ready {
            self.unsent[READY] = Some("READY=1".to_owned());
        }
    }

    /// Notifies that the daemon is about to end.
    pub(super) fn stopping(&mut self, now: Time) {
        self.unsent[STOPPING] = Some("STOPPING=1".to_owned());
        self.send_unsent(now);
    }

    /// Sends what was not sent, in this order, as far as the service manager reads.
    fn send_unsent(&mut self, now: Time) {
        let mut unsent = mem::take(&mut self.unsent);
        for text in &mut unsent {
            if text.as_ref().is_some_and(|text| !self.send(text)) {
                self.retry_at = now + NOTIFY_RETRY;
                break;
            }
            *text = None;
        }
        self.unsent = unsent;
    }

    /// Sends the status if it has changed, but not more often than once in [`STATUS_PAUSE`].
    fn send_status(&mut self, manager: &Manager, now: Time) {
        let generation = Some(manager.generation());
        if self.status.1 == generation || now < self.status_at {
            return;
        }
        self.status_at = now + STATUS_PAUSE;
        let status = manager.status();
        let (registered, failed) = (status.registered, status.failed);
        let text = format!("STATUS={registered} registered, {failed} in backoff");
        if text == self.status.0 || self.send(&text) {
            self.status = (text, generation);
        }
    }

    /// Sends a notification. Returns false if the service manager does not read at present.
    fn send(&mut self, text: &str) -> bool {
        let Some((from, to)) = &self.to else {
            return true;
        };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match sendto(from.as_raw_fd(), text.as_bytes(), to, flags) {
            Ok(_) => true,
            Err(errno) => {
                self.warn(errno);
                !matches!(errno, Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS)
            }
        }
    }

    /// Logs a failure, unless an earlier one was logged.
    fn warn(&mut self, errno: Errno) {
        if !mem::replace(&mut self.has_failed, true) {
            let name = env::var("NOTIFY_SOCKET").unwrap_or_default();
            log::warn!(
                "cannot notify the service manager: {} socket={}",
                errno.desc(),
                escape::text(&name).at_most(108)
            );
        }
    }
}

/// Opens a socket to send from, and returns it with the address to send to: a path, or an abstract
/// name behind `@`.
fn open(name: &OsStr) -> Result<(OwnedFd, UnixAddr), Errno> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => UnixAddr::new_abstract(name),
        [b'/', ..] => UnixAddr::new(name),
        _ => Err(Errno::EINVAL),
    };
    let from = socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    );
    Ok((from?, address?))
}

/// Returns the pause between two signs of life: half of what systemd waits for one (microseconds),
/// if it waits for those of this process.
fn watchdog(usec: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let usec = usec?.parse().ok().filter(|usec| is_ours && *usec > 0)?;
    Some((Duration::from_micros(usec) / 2).clamp(WATCHDOG_MIN, WATCHDOG_MAX))
}

/// The places of notifications in [`Service::unsent`], which are sent in this order.
const RELOADING: usize = 0;
const READY: usize = 1;
const STOPPING: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_follow_twice_as_often_as_they_are_waited_for_within_limits() {
        let pause = |usec: &str| watchdog(Some(usec.to_owned()), None, 7);
        assert_eq!(pause("30000000"), Some(Duration::from_secs(15)));
        assert_eq!(pause("1"), Some(WATCHDOG_MIN));
        assert_eq!(pause("31536000000000"), Some(WATCHDOG_MAX), "a year");
        assert_eq!(pause("18446744073709551615"), Some(WATCHDOG_MAX));
        for unusable in ["0", "", "-1", "1s", "18446744073709551616"] {
            assert_eq!(pause(unusable), None, "{unusable}");
        }
        assert_eq!(watchdog(None, Some("7".to_owned()), 7), None);
    }

    #[test]
    fn signs_of_life_of_another_process_are_not_sent() {
        let pause = |pid: &str| watchdog(Some("1000000".to_owned()), Some(pid.to_owned()), 7);
        assert!(pause("7").is_some());
        assert!(pause("8").is_none() && pause("").is_none());
    }

    #[test]
    fn an_address_is_a_path_or_an_abstract_name_of_at_most_the_length_that_the_kernel_has() {
        let open = |name: &str| open(name.as_ref()).map(|(_, address)| address);
        assert_eq!(open("/run/a").unwrap().path(), Some("/run/a".as_ref()));
        assert_eq!(open("@a/b").unwrap().as_abstract(), Some(&b"a/b"[..]));
        assert_eq!(open("run/a"), Err(Errno::EINVAL));
        assert_eq!(open(""), Err(Errno::EINVAL));
        assert_eq!(open(&"/n".repeat(54)), Err(Errno::ENAMETOOLONG));
        assert_eq!(open(&"@n".repeat(55)), Err(Errno::ENAMETOOLONG));
    }
}
