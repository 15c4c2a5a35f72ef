//! The liveness of registered plugins whose sockets still exist.
//!
//! Pure. A plugin that is killed leaves its socket behind, so its directory does not show that it
//! has gone. Once the plugin is registered, the connection on which it was notified becomes its
//! guard: the daemon watches the peer process or, if the system cannot do that, holds the
//! connection open. When the guard is lost, the plugin is asked for its description once more. If
//! it answers, only the guard has gone. If it does not, the plugin is down: it is asked again with
//! backoff until it answers or its socket is removed.
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
//! The end of a connection that is held open means nothing if the server closes idle connections:
//! after the second time, the plugin is asked every [`IDLE_CHECK_INTERVAL`] at most.

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

/// The state of a registered plugin, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The time since which it has not answered; `None` if it is up.
    pub down_since: Option<Time>,
    /// The connection that is its guard, or was until the peer process was watched.
    guard: Option<LinkId>,
    /// The peer process of that connection, if the daemon can see it.
    pub(super) process: Option<Process>,
    /// The pause before the next check.
    checks: Backoff,
    /// The number of held connections that have ended although it was up.
    idle_ends: u8,
    /// Whether it is to be deregistered although its socket exists.
    pub(super) is_condemned: bool,
}

/// The number of ends of held connections after which a server is taken to close idle connections.
const IDLE_ENDS: u8 = 2;

/// The means by which the daemon watches a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The process is watched: the connection is not needed any more.
    Process,
    /// The connection is watched, and has to stay open.
    Connection,
}

impl Health {
    /// Records that the plugin is not watched any more.
    pub(super) fn forget_guard(&mut self) {
        self.guard = None;
    }
}

impl Manager {
    /// Sets what is done with registered plugins that are down, from now on.
    pub fn set_on_down(&mut self, on_down: OnDown) {
        self.on_down = on_down;
    }

    /// Makes the connection of an attempt that has registered its plugin the guard of that plugin.
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

    /// Checks the plugin whose process or connection was watched and has ended.
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
            // It was guarded for a moment only: the server closes idle connections.
            self.deadlines.set(Wake::Check(path), Some(until));
        } else {
            health.checks.succeed();
            self.check(path, now);
        }
    }

    /// Drops the guard of a plugin that has left the actual state, unless its process is expected
    /// to end now.
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

    /// Starts to check whether a registered plugin answers, unless it is being deregistered.
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

    /// Records that the plugin answered. If its guard is lost again at once, the next check waits.
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

    /// Records that the plugin did not answer, and schedules the next check.
    pub(super) fn check_failed(&mut self, path: &Arc<Path>, failure: &Failure, now: Time) {
        self.examine_replaced(path, failure);
        if *failure == Failure::Dial(DialError::NoDescriptors) {
            return self.check_slowly(path.clone(), now); // The plugin may well be up.
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

    /// Marks a registered plugin for deregistration although its socket exists.
    pub(super) fn condemn(&mut self, path: Arc<Path>) {
        if let Some(registered) = self.actual.get_mut(&path) {
            registered.health.is_condemned = true;
            self.touch(path);
        }
    }
}
