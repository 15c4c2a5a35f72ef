//! The connections to plugins: their owners, and the calls on them.
//!
//! Pure: a link is a name for a connection that the daemon holds, together with the gRPC client
//! that decides what is written to it.

use std::fmt;

use super::ByLink;
use super::deadlines::Kept;
use super::execute::AttemptId;
use crate::grpc::Client;
use crate::handler::{Call, EffectId, HandlerId, Stream};
use crate::time::Time;

/// The number of a connection, from the request to dial it to its end. Never reused, so late events
/// are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u64);

#[cfg(test)]
impl LinkId {
    /// A number that no connection of a manager has.
    pub(crate) const OUTSIDE: Self = Self(0);
}

/// The process at the other end of a connection: the one that called `listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// The process ID; `None` if the process is in a PID namespace that is not visible here.
    pub pid: Option<u32>,
    /// The user ID of the process when it called `listen`.
    pub uid: u32,
}

impl Process {
    /// Returns whether both are known to be the same process.
    pub(super) fn is_same(a: Option<Self>, b: Option<Self>) -> bool {
        a == b && a.is_some_and(|process| process.pid.is_some())
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => write!(f, "a process of user {}", self.uid),
        }
    }
}

/// The owner of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// An attempt of an operation, for its calls to the plugin.
    Operation(AttemptId),
    /// An attempt of an operation, to check that an HTTP/2 server answers at the plugin's endpoint.
    /// No calls are made on the connection.
    Endpoint(AttemptId),
    /// A registered plugin: the end of the connection means that the plugin may have gone.
    Guard,
    /// A call, stream or connection that a handler asked for.
    Effect(EffectCall),
}

/// The use of a connection, for the limits on descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The calls of an operation itself.
    Operation,
    /// A handler's unary call, which ends soon.
    Call,
    /// A handler's stream or connection, which stays open for as long as its plugin is registered.
    Lasting,
    /// The source of liveness of a registered plugin.
    Guard,
}

impl Owner {
    fn usage(&self) -> Use {
        match self {
            Self::Operation(_) | Self::Endpoint(_) => Use::Operation,
            Self::Effect(call) => call.usage(),
            Self::Guard => Use::Guard,
        }
    }
}

/// A call, stream or connection that a handler asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct EffectCall {
    pub(super) id: EffectId,
    pub(super) handler: HandlerId,
    /// The time by which a call must have ended, or a stream or connection must be established.
    pub(super) deadline: Time,
    pub(super) shape: Shape,
}

impl EffectCall {
    pub(super) fn usage(&self) -> Use {
        match self.shape {
            Shape::Call => Use::Call,
            Shape::Stream | Shape::Connection { .. } => Use::Lasting,
        }
    }
}

/// The events that a handler expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One reply.
    Call,
    /// Any number of replies.
    Stream,
    /// That the connection is established, and that it is lost. `is_told` once the handler was told
    /// of the first.
    Connection { is_told: bool },
}

/// The request that a handler makes.
#[derive(Debug)]
pub(super) enum Request {
    Call(Call),
    Stream(Stream),
    /// Only the connection itself is wanted.
    Nothing,
}

/// The state of a connection.
#[derive(Debug)]
pub(super) enum Phase {
    /// The connection is not established yet. If its owner is an effect, this request is made then.
    Dialing(Option<Request>),
    /// The connection is established.
    Open(Box<Client>),
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) owner: Owner,
    pub(super) phase: Phase,
    /// The peer process, once the connection is established and if the daemon can see the process.
    pub(super) process: Option<Process>,
    /// The deadline of the connection, as the index knows it.
    pub(super) deadline: Kept,
}

impl Link {
    pub(super) fn client(&mut self) -> Option<&mut Client> {
        match &mut self.phase {
            Phase::Open(client) => Some(client),
            Phase::Dialing(_) => None,
        }
    }
}

/// Every connection.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Boxed, because the vector never shrinks.
    by_id: ByLink<Box<Link>>,
    last: u64,
    /// The number of connections for each [`Use`].
    used_for: [usize; 4],
}

impl Links {
    pub(super) fn add(&mut self, owner: Owner, request: Option<Request>) -> LinkId {
        self.last += 1;
        self.used_for[owner.usage() as usize] += 1;
        let id = LinkId(self.last);
        let link = Link {
            owner,
            phase: Phase::Dialing(request),
            process: None,
            deadline: Kept::default(),
        };
        self.by_id.insert(id, Box::new(link));
        id
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&Link> {
        self.by_id.get(id).map(|link| &**link)
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.by_id.get_mut(id).map(|link| &mut **link)
    }

    pub(super) fn client(&mut self, id: LinkId) -> Option<&mut Client> {
        self.get_mut(id)?.client()
    }

    pub(super) fn remove(&mut self, id: LinkId) -> Option<Link> {
        let link = self.by_id.remove(id)?;
        self.used_for[link.owner.usage() as usize] -= 1;
        Some(*link)
    }

    /// Makes a connection a plugin's source of liveness.
    pub(super) fn become_guard(&mut self, id: LinkId) {
        if let Some(link) = self.by_id.get_mut(id) {
            let before = std::mem::replace(&mut link.owner, Owner::Guard);
            self.used_for[before.usage() as usize] -= 1;
            self.used_for[Use::Guard as usize] += 1;
        }
    }

    /// Returns the number of connections, including those that are still being dialled.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the number of connections with that use.
    pub(super) fn used_for(&self, usage: Use) -> usize {
        self.used_for[usage as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.by_id.iter().map(|(id, link)| (id, &**link))
    }
}
