//! The sockets that exist: the desired state of the world.
//!
//! Pure. Contains no plugins: an operation finds out later which plugin listens on a socket.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::backoff::Backoff;
use super::by_path::ByPath;
use super::places::InLine;
use super::{Failure, Refusal};
use crate::config::FIRST_MINUTE;
use crate::handler::{DialError, Plugin};
use crate::time::Time;
use crate::watch::Identity;

/// Every socket that exists, by path.
#[derive(Debug, Default)]
pub struct Desired {
    sockets: ByPath<Socket>,
}

/// A socket that exists, and the progress of its plugin's registration.
#[derive(Clone, Debug)]
pub struct Socket {
    /// The identity of the socket: another one under the same path is another generation.
    pub identity: Identity,
    /// Whether the path is a symbolic link to the socket.
    pub(super) is_link: bool,
    /// The time at which this process first saw the socket.
    pub found: Time,
    /// The backoff after failed attempts.
    pub backoff: Backoff,
    /// The failure of the last attempt; `None` before the first attempt and after a success.
    pub last_failure: Option<Box<Failure>>,
    /// The last refusal that was sent to its plugin.
    pub(super) told: Option<Box<Told>>,
    /// The result of a dry run, once its plugin has been observed: it would be registered, or the
    /// reason why not.
    pub observed: Option<Box<Result<Arc<Plugin>, Refusal>>>,
    /// The number of attempts to register its plugin.
    pub attempts: u32,
    /// The plugin that was registered through it before a restart, until it is registered again.
    pub known: Option<Arc<Plugin>>,
    /// The plugin that was registered at its path before, and the user ID of that plugin's process.
    pub(super) predecessor: Option<(Arc<Plugin>, u32)>,
    /// The time reserved for its next dial, because it has refused the last connection.
    pub(super) redial_at: Option<Time>,
    /// Its position in line while it waits for a place among the operations.
    pub(super) in_line: Option<InLine>,
}

/// A refusal, and the plugin that was refused, as it described itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) plugin: Arc<Plugin>,
    pub(super) refusal: Refusal,
}

impl Socket {
    fn new(identity: Identity, found: Time) -> Self {
        Self {
            identity,
            is_link: false,
            found,
            backoff: Backoff::default(),
            last_failure: None,
            told: None,
            observed: None,
            attempts: 0,
            known: None,
            predecessor: None,
            redial_at: None,
            in_line: None,
        }
    }
}

impl Socket {
    /// Returns whether the result of a dry run is final.
    pub(super) fn is_observed(&self, now: Time) -> bool {
        let observed = self.observed.as_deref();
        observed.is_some_and(|found| found.is_ok() || self.found + FIRST_MINUTE <= now)
    }

    /// Returns whether the last attempt failed because nothing listened on the socket.
    pub(super) fn has_refused(&self) -> bool {
        self.last_failure.as_deref() == Some(&Failure::Dial(DialError::Refused))
    }
}

/// The change that adding a socket made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The path was not known.
    New,
    /// Another socket had that path: its state was dropped, including its backoff.
    Replaced,
    /// The same socket was known already: nothing changed.
    Same,
}

impl Desired {
    /// Adds the socket `identity` at `path`. A socket that replaces another keeps the other's
    /// position in line.
    pub fn add(
        &mut self,
        path: Arc<Path>,
        identity: Identity,
        now: Time,
    ) -> Result<Added, EmptyPath> {
        self.replace(path, identity, now).map(|(added, _)| added)
    }

    /// Adds a socket as [`Desired::add`] does, and also returns the socket that it replaces.
    pub(super) fn replace(
        &mut self,
        path: Arc<Path>,
        identity: Identity,
        now: Time,
    ) -> Result<(Added, Option<Socket>), EmptyPath> {
        if path.as_os_str().is_empty() {
            return Err(EmptyPath);
        }
        let socket = Socket::new(identity, now);
        let Some(known) = self.sockets.get_mut(&path) else {
            self.sockets.insert(path, socket);
            return Ok((Added::New, None));
        };
        if known.identity == identity {
            return Ok((Added::Same, None));
        }
        let in_line = known.in_line;
        let before = std::mem::replace(known, Socket { in_line, ..socket });
        Ok((Added::Replaced, Some(before)))
    }

    /// Removes the socket at `path` and returns its state.
    pub fn remove(&mut self, path: &Path) -> Option<Socket> {
        self.sockets.remove(path)
    }

    /// Returns the socket at `path`.
    pub fn get(&self, path: &Path) -> Option<&Socket> {
        self.sockets.get(path)
    }

    /// Returns the socket at `path`, with its path.
    pub(super) fn get_entry(&self, path: &Path) -> Option<(&Arc<Path>, &Socket)> {
        self.sockets.get_entry(path)
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut Socket> {
        self.sockets.get_mut(path)
    }

    /// Marks the path as a symbolic link.
    pub(super) fn set_link(&mut self, path: &Path) {
        if let Some(socket) = self.sockets.get_mut(path) {
            socket.is_link = true;
        }
    }

    /// Records that exactly this plugin was registered through the socket at `path` before a
    /// restart.
    pub(super) fn set_known(&mut self, path: &Path, known: Arc<Plugin>) {
        if let Some(socket) = self.sockets.get_mut(path) {
            socket.known = Some(known);
        }
    }

    /// Returns every socket and its path, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Path>, &Socket)> {
        self.sockets.iter()
    }

    /// Returns the number of sockets.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Returns whether no socket exists.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }
}

/// The error of adding a socket without a path to the desired or the actual state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyPath;

impl fmt::Display for EmptyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("socket path is empty")
    }
}

impl std::error::Error for EmptyPath {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::places::Places;
    use crate::time::Time;

    #[test]
    fn a_socket_that_takes_another_s_path_takes_its_place_in_line_and_nothing_else() {
        let identity = |inode| Identity {
            device: 1,
            inode,
            born: (0, 0),
        };
        let path: Arc<Path> = Path::new("/r/a.sock").into();
        let place = Places::default().line_up(path.clone(), false);
        let mut desired = Desired::default();
        let add =
            |desired: &mut Desired, inode| desired.add(path.clone(), identity(inode), Time::ZERO);
        assert_eq!(add(&mut desired, 1), Ok(Added::New));
        let socket = desired.get_mut(&path).unwrap();
        (socket.in_line, socket.attempts) = (Some(place), 7);
        assert_eq!(add(&mut desired, 2), Ok(Added::Replaced));
        let socket = desired.get(&path).unwrap();
        assert_eq!((socket.in_line, socket.attempts), (Some(place), 0));
    }
}
