//! The connections to plugins: whose each is, and the calls on it.
//!
//! Pure: a link is a name for a connection that the daemon holds, and the gRPC client that decides
//! what is written to it.

use std::fmt;

use super::ByLink;
use super::deadlines::Kept;
use super::execute::AttemptId;
use crate::grpc::Client;
use crate::handler::{Call, EffectId, HandlerId, Stream};
use crate::time::Time;

/// A connection, from the wish to dial it to its end. Never reused, so late news is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u64);

#[cfg(test)]
impl LinkId {
    /// A name that no connection of a manager has.
    pub(crate) const OUTSIDE: Self = Self(0);
}

/// The process at the other end of a connection: the one that began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its number; `None` if it is in a namespace that is not visible here.
    pub pid: Option<u32>,
    /// The user that it ran as when it began to listen.
    pub uid: u32,
}

impl Process {
    /// Whether both are known to be the same process.
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

/// For whom a connection is there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// For that attempt of an operation.
    Operation(AttemptId),
    /// For that attempt of an operation: to see whether an HTTP/2 server answers at the plugin's
    /// endpoint. Nothing is called on it.
    Endpoint(AttemptId),
    /// For nobody: its end tells that a registered plugin has gone.
    Guard,
    /// For a call or connection that a handler wants made.
    Effect(EffectCall),
}

/// What a connection is used for, as far as its descriptor is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// An operation's own calls.
    Operation,
    /// A handler's unary call, which ends soon.
    Call,
    /// A handler's stream or connection, which stays open for as long as its plugin is registered.
    Lasting,
    /// A registered plugin's source of liveness.
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

/// A call or connection that a handler wants made.
#[derive(Clone, Copy, Debug)]
pub(super) struct EffectCall {
    pub(super) id: EffectId,
    pub(super) handler: HandlerId,
    /// When it must have ended, or for a stream or connection: when it must have been made.
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

/// What a handler wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One reply.
    Call,
    /// Any number of replies.
    Stream,
    /// Whether there is a connection at all; and whether it was told that there is.
    Connection { is_told: bool },
}

/// What a handler wants to be called.
#[derive(Debug)]
pub(super) enum Request {
    Call(Call),
    Stream(Stream),
    /// Nothing: the connection is all that is wanted.
    Nothing,
}

/// What a connection is waiting for.
#[derive(Debug)]
pub(super) enum Phase {
    /// To be connected, and then to make this call if its owner is an effect.
    Dialing(Option<Request>),
    /// For bytes.
    Open(Box<Client>),
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) owner: Owner,
    pub(super) phase: Phase,
    /// Who is at the other end, once it is connected and if that can be seen from here.
    pub(super) process: Option<Process>,
    /// When it wants to be woken, as the index knows it.
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
    /// Each in a place of its own: the list stays as long as it ever was.
    by_id: ByLink<Box<Link>>,
    last: u64,
    /// How many there are of each [`Use`].
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

    /// Returns how many connections there are, or will be in a moment.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns how many of them are used for that.
    pub(super) fn used_for(&self, usage: Use) -> usize {
        self.used_for[usage as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.by_id.iter().map(|(id, link)| (id, &**link))
    }
}
