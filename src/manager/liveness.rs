//! Whether a registered plugin is still there, although nothing was heard of its socket.
//!
//! Pure. A plugin that is killed leaves its socket behind, so its directory tells nothing. Once it
//! is registered, the connection on which it was told becomes its guard: the daemon watches the
//! process behind it, or, where the system can't, the connection itself is held. When the guard is
//! lost, the plugin is asked once more who it is. An answer means that only the guard has gone;
//! none means that the plugin is down: it is asked again with backoff until it answers or its
//! socket goes.
//!
//! ```text
//!              guard lost             no answer
//!   guarded ---------------> checked -----------> down --+
//!      ^                        |                  |  ^  | backoff
//!      +------------------------+                  +--+--+
//!      |        answers                               |
//!      +----------------------------------------------+
//! ```
//!
//! The end of a held connection tells nothing if the server closes idle connections: after the
//! second time, the plugin is asked every [`IDLE_CHECK_INTERVAL`] at most.

use std::path::Path;
use std::sync::Arc;

use super::execute::Attempt;
use super::links::{LinkId, Process};
use super::operation::Operation;
use super::reconcile::Target;
use super::{Backoff, DialError, Failure, Manager, Output, Registered, Wake};
use crate::config::{BACKOFF_INITIAL, IDLE_CHECK_INTERVAL, OnDown};
use crate::escape;
use crate::handler::Plugin;
use crate::time::Time;

/// How a registered plugin is, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Since when it has not answered; none: it is up.
    pub down_since: Option<Time>,
    /// The connection that is its guard, or was it before the process behind it was watched.
    guard: Option<LinkId>,
    /// The process behind that connection, as far as it can be seen from here.
    pub(super) process: Option<Process>,
    /// How long it is left alone before it is asked again.
    checks: Backoff,
    /// How many of its held connections have ended although it was up.
    idle_ends: u8,
    /// Whether it is to be deregistered although its socket is there.
    pub(super) is_condemned: bool,
}

/// After how many ends of held connections a plugin is known to close them when they are idle.
const IDLE_ENDS: u8 = 2;

/// How the daemon watches over a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// By its process: the connection is not needed any more.
    Process,
    /// By its connection, which has to stay open.
    Connection,
}

impl Health {
    /// The plugin is watched no longer.
    pub(super) fn forget_guard(&mut self) {
        self.guard = None;
    }
}

impl Manager {
    /// What becomes of a registered plugin that is down, from now on.
    pub fn set_on_down(&mut self, on_down: OnDown) {
        self.on_down = on_down;
    }

    /// The connection of an attempt that has registered its plugin becomes the plugin's guard.
    pub(super) fn guard(&mut self, attempt: &mut Attempt, now: Time) {
        let Some(id) = attempt.take_link() else {
            return;
        };
        let may_guard = self.may_guard();
        let registered = self.actual.get_mut(&attempt.path);
        if let (Some(registered), Some(link)) = (registered, self.links.get(id)) {
            let process = link.process;
            registered.health.process = process;
            if !may_guard {
                self.drop_link(id, now);
                return self.check_slowly(attempt.path.clone(), now);
            }
            registered.health.guard = Some(id);
            self.links.become_guard(id);
            self.guards.insert(id, attempt.path.clone());
            self.outputs.push_back(Output::Guard { link: id });
            self.forgive_outlived(&attempt.path, process, now);
        } else {
            self.drop_link(id, now);
        }
    }

    pub(super) fn guarded(&mut self, link: LinkId, by: Guard, now: Time) {
        if by == Guard::Process {
            self.drop_link(link, now);
        }
    }

    /// The process or the connection that was watched has ended.
    pub(super) fn guard_lost(&mut self, link: LinkId, now: Time) {
        let was_held = self.links.get(link).is_some();
        self.drop_link(link, now);
        if self.outlived_ended(link) {
            return;
        }
        let Some(path) = self.guards.remove(&link) else {
            return;
        };
        let Some(registered) = self.actual.get_mut(&path) else {
            return;
        };
        let health = &mut registered.health;
        health.guard = None;
        if was_held {
            health.idle_ends = health.idle_ends.saturating_add(1);
        }
        if let Some(until) = health.checks.until().filter(|until| now < *until) {
            // It was guarded for a moment only: whoever answers closes idle connections.
            self.deadlines.set(Wake::Check(path), Some(until));
        } else {
            health.checks.succeed();
            self.check(path, now);
        }
    }

    /// A plugin that has left the actual state needs no guard, unless its process is to end now.
    pub(super) fn unguard(&mut self, left: &Registered, now: Time) {
        let (path, health) = (&left.plugin.socket, &left.health);
        self.deadlines.set(Wake::Check(path.clone()), None);
        self.deadlines.set(Wake::Grace(path.clone()), None);
        if let Some(link) = health.guard {
            self.guards.remove(&link);
            let is_up = health.down_since.is_none();
            if is_up && self.outlive(link, left.plugin.clone(), health.process, now) {
                return;
            }
            self.drop_link(link, now);
            self.outputs.push_back(Output::Unguard { link });
        }
    }

    /// Asks a registered plugin whether it is there, unless it is being deregistered.
    pub(super) fn check(&mut self, path: Arc<Path>, now: Time) {
        if self.is_stopping || self.operations.is_any_at(&path) {
            return;
        }
        let Some(registered) = self.actual.get(&path) else {
            return;
        };
        let identity = registered.identity;
        let operation = Operation::check(registered.plugin.clone(), now, &mut self.commands);
        self.start(path, operation, Target::Checked(identity), identity, 0, now);
    }

    /// The plugin answered. Should its guard be lost at once, it is left alone for a while first.
    pub(super) fn alive(&mut self, attempt: &Attempt, plugin: &Plugin, now: Time) {
        let Some(registered) = self.actual.get_mut(&plugin.socket) else {
            return;
        };
        let health = &mut registered.health;
        health.is_condemned = false;
        if health.down_since.take().is_some() {
            log::info!("{attempt}: {plugin} is up again");
        }
        if health.guard.is_none() {
            health.checks.succeed(); // It is checked slowly anyway.
        } else if health.idle_ends < IDLE_ENDS {
            health.checks.fail(now);
        } else {
            health.checks.pause(now, IDLE_CHECK_INTERVAL);
        }
        let grace = Wake::Grace(plugin.socket.clone());
        self.deadlines.set(grace, None);
    }

    /// The plugin did not answer.
    pub(super) fn check_failed(&mut self, path: &Arc<Path>, failure: &Failure, now: Time) {
        self.examine_replaced(path, failure);
        if *failure == Failure::Dial(DialError::NoDescriptors) {
            return self.check_slowly(path.clone(), now); // That says nothing about the plugin.
        }
        let identity = self.actual.get(path).map(|registered| registered.identity);
        let is_removed = identity.is_some_and(|identity| self.is_key_removed(identity));
        let Some(registered) = self.actual.get_mut(path) else {
            return;
        };
        let health = &mut registered.health;
        if std::mem::take(&mut health.idle_ends) >= IDLE_ENDS {
            health.checks.succeed();
        }
        health.checks.fail(now);
        let retry = health.checks.until();
        self.deadlines.set(Wake::Check(path.clone()), retry);
        let is_first = health.checks.delay() == Some(BACKOFF_INITIAL);
        if health.down_since.is_some() || (is_first && failure.is_overtaken()) {
            return;
        }
        health.down_since = Some(now);
        let next = match self.on_down {
            _ if is_removed => "its socket was removed, and it is deregistered".to_owned(),
            OnDown::Keep => "it stays registered".to_owned(),
            OnDown::Deregister(grace) if grace.is_zero() => {
                health.is_condemned = true;
                "it is deregistered".to_owned()
            }
            OnDown::Deregister(grace) => {
                let at = Some(now + grace);
                self.deadlines.set(Wake::Grace(path.clone()), at);
                format!("it is deregistered in {grace:?}")
            }
        };
        let (socket, plugin) = (escape::path(path), &registered.plugin);
        let who = health.process.map(|process| format!(" ({process})"));
        let who = who.unwrap_or_default();
        log::warn!("{socket}: {plugin}{who} is down: {failure}; {next}");
        for socket in self.instances.unblocked(path) {
            self.retry_now(socket);
        }
        if let Some(identity) = identity.filter(|_| is_removed) {
            self.give_up_key(path, identity, now);
        }
    }

    /// What is registered is not to stay so, although its socket is there.
    pub(super) fn condemn(&mut self, path: Arc<Path>) {
        if let Some(registered) = self.actual.get_mut(&path) {
            registered.health.is_condemned = true;
            self.touch(path);
        }
    }
}
