//! The sockets that are there: the desired state of the world.
//!
//! Pure. Says nothing about plugins: who listens on a socket is found out later, by an operation.

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

/// Every socket that is there, by path.
#[derive(Debug, Default)]
pub struct Desired {
    sockets: ByPath<Socket>,
}

/// A socket that is there, and how its plugin's registration has been going.
#[derive(Clone, Debug)]
pub struct Socket {
    /// Which socket it is: another one under the same path is another generation.
    pub identity: Identity,
    /// Whether the path is a symbolic link to it.
    pub(super) is_link: bool,
    /// When this process first saw it.
    pub found: Time,
    /// How long it is left alone after failures.
    pub backoff: Backoff,
    /// How the last attempt failed; none before the first, and after a success.
    pub last_failure: Option<Box<Failure>>,
    /// What its plugin was told last, if that was a refusal.
    pub(super) told: Option<Box<Told>>,
    /// What would become of its plugin, once that has been observed: that it would be registered,
    /// or why not.
    pub observed: Option<Box<Result<Arc<Plugin>, Refusal>>>,
    /// How many attempts to register its plugin have been made.
    pub attempts: u32,
    /// The plugin that was registered through it before a restart, until it is registered again.
    pub known: Option<Arc<Plugin>>,
    /// The plugin that was registered at its path before, and that plugin's user.
    pub(super) predecessor: Option<(Arc<Plugin>, u32)>,
    /// When it may be dialled again: reserved for it, because it has refused the last connection.
    pub(super) redial_at: Option<Time>,
    /// Its place in line while it waits for one among the operations.
    pub(super) in_line: Option<InLine>,
}

/// A refusal, and the plugin that was refused as it described itself.
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
    /// Whether it is known for good what would become of its plugin.
    pub(super) fn is_observed(&self, now: Time) -> bool {
        let observed = self.observed.as_deref();
        observed.is_some_and(|found| found.is_ok() || self.found + FIRST_MINUTE <= now)
    }

    /// Whether the last attempt failed because nothing listened on it.
    pub(super) fn has_refused(&self) -> bool {
        self.last_failure.as_deref() == Some(&Failure::Dial(DialError::Refused))
    }
}

/// What adding a socket changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The path was not known.
    New,
    /// Another socket had that path: what was known of it is gone, its backoff too.
    Replaced,
    /// The same socket was there already: nothing changed.
    Same,
}

impl Desired {
    /// The socket `identity` is at `path`. One that takes another's path takes its place in line.
    pub fn add(
        &mut self,
        path: Arc<Path>,
        identity: Identity,
        now: Time,
    ) -> Result<Added, EmptyPath> {
        self.replace(path, identity, now).map(|(added, _)| added)
    }

    /// Adds a socket, as [`Desired::add`] does. Returns the one whose path it takes, too.
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

    /// No socket is at `path` any more. Returns what was known of it.
    pub fn remove(&mut self, path: &Path) -> Option<Socket> {
        self.sockets.remove(path)
    }

    /// The socket at `path`.
    pub fn get(&self, path: &Path) -> Option<&Socket> {
        self.sockets.get(path)
    }

    /// The socket at `path`, with its path.
    pub(super) fn get_entry(&self, path: &Path) -> Option<(&Arc<Path>, &Socket)> {
        self.sockets.get_entry(path)
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut Socket> {
        self.sockets.get_mut(path)
    }

    /// The path is a symbolic link.
    pub(super) fn set_link(&mut self, path: &Path) {
        if let Some(socket) = self.sockets.get_mut(path) {
            socket.is_link = true;
        }
    }

    /// Exactly this plugin was registered through the socket at `path` before a restart.
    pub(super) fn set_known(&mut self, path: &Path, known: Arc<Plugin>) {
        if let Some(socket) = self.sockets.get_mut(path) {
            socket.known = Some(known);
        }
    }

    /// Every socket and its path, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Path>, &Socket)> {
        self.sockets.iter()
    }

    /// How many sockets there are.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }
}

/// A socket without a path was to be added, to the desired or the actual state.
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
