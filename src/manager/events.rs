//! Events of connections, timers, changed handlers, and the stop of the daemon.
//!
//! Pure.

use super::connections::Owner;
use super::context::Work;
use super::ids::{ConnectionId, SocketId};
use super::messages::LivenessSource;
use super::process::Process;
use super::registered::By;
use super::socket::Socket;
use super::timers::{Scheduled, Timer};
use super::{DialError, Manager};
use crate::config::{DEVICE_GRACE, OnDown, STOP_GRACE};

impl Manager {
    pub(super) fn connected(&mut self, conn: ConnectionId, process: Option<Process>) {
        match self.context.connections.owner(conn) {
            Some(Owner::Operation(id)) => self.turn(id, |turn| {
                turn.process(|socket, context| socket.connected(process, context));
            }),
            Some(Owner::Call(id) | Owner::Stream(id)) => {
                self.host.connected(id, &mut self.context);
            }
            Some(Owner::Liveness(_)) | None => {}
        }
    }

    pub(super) fn dial_failed(&mut self, conn: ConnectionId, error: DialError) {
        if error == DialError::NoDescriptors {
            self.context.used_up();
        }
        let owner = self.context.connections.owner(conn);
        self.context.connections.remove(conn);
        match owner {
            Some(Owner::Operation(id)) => self.turn(id, |turn| {
                turn.process(|socket, _| socket.dial_failed(error));
            }),
            Some(Owner::Call(id) | Owner::Stream(id)) => {
                self.host.dial_failed(id, error, &mut self.context);
            }
            Some(Owner::Liveness(_)) | None => {}
        }
    }

    pub(super) fn closed(&mut self, conn: ConnectionId) {
        // A connection that was closed because its process is watched may still report its end.
        if !self.context.connections.is_open(conn) {
            return;
        }
        match self.context.connections.owner(conn) {
            Some(Owner::Operation(id)) => self.turn(id, |turn| turn.process(Socket::closed)),
            Some(Owner::Call(id) | Owner::Stream(id)) => self.host.closed(id, &mut self.context),
            Some(Owner::Liveness(id)) => self.turn(id, |turn| {
                turn.liveness_lost();
            }),
            None => {}
        }
    }

    pub(super) fn process_ended(&mut self, conn: ConnectionId) {
        if let Some(Owner::Liveness(id)) = self.context.connections.owner(conn) {
            self.turn(id, |turn| {
                turn.liveness_lost();
            });
        }
    }

    pub(super) fn peer_watched(&mut self, conn: ConnectionId, by: LivenessSource) {
        if let Some(Owner::Liveness(id)) = self.context.connections.owner(conn) {
            self.turn(id, |turn| {
                turn.socket.peer_watched(by, &mut turn.manager.context);
            });
        }
    }

    /// Processes what a connection has received.
    pub(super) fn poll_connection(&mut self, conn: ConnectionId) {
        match self.context.connections.owner(conn) {
            Some(Owner::Operation(id)) => {
                self.turn(id, |turn| turn.process(Socket::poll_connection));
            }
            Some(Owner::Liveness(id)) => self.turn(id, |turn| {
                turn.poll_liveness();
            }),
            Some(Owner::Call(id) | Owner::Stream(id)) => self.host.poll(id, &mut self.context),
            None => {}
        }
    }

    // --- Time, and the end ---

    pub(super) fn socket_timeout(&mut self, id: SocketId) {
        self.turn(id, |turn| {
            turn.socket.applied.deadline = Scheduled::default();
            turn.handle_timeout();
        });
    }

    pub(super) fn resync(&mut self) {
        self.resync = Scheduled::default();
        self.sockets.mark_all_dirty(&mut self.context);
    }

    /// Has every plugin deregistered that another handler than that of its type has registered. Its
    /// socket exists, so it is registered with the handler of its type after that.
    pub(super) fn replace_handlers(&mut self) {
        let handlers = self.host.handlers();
        let mut replaced = Vec::new();
        for socket in self.sockets.iter_mut() {
            let Some(registered) = &mut socket.registered else {
                continue;
            };
            let plugin = &registered.plugin;
            let current = handlers.find(&plugin.kind).map(By::Handler);
            let is_ours = matches!(registered.by, By::Handler(_));
            if is_ours && current != Some(registered.by) {
                self.names.set_up(plugin, socket.id, false);
                registered.health.must_deregister = true;
                replaced.push(socket.id);
            }
        }
        for id in replaced {
            self.sockets.mark_dirty(id, &mut self.context);
        }
    }

    /// Has the policy for plugins that are down applied to those that are down already.
    pub(super) fn set_graces(&mut self) {
        let on_down = self.context.policy.on_down;
        let mut down = Vec::new();
        for socket in self.sockets.iter_mut() {
            let Some(registered) = &mut socket.registered else {
                continue;
            };
            let is_announced = registered.identity.is_of_announcement();
            let health = &mut registered.health;
            let Some(since) = health.down_since().filter(|_| !health.must_deregister) else {
                continue;
            };
            health.set_grace(match on_down {
                OnDown::Keep => is_announced.then(|| since + DEVICE_GRACE),
                OnDown::Deregister(grace) => Some(since + grace),
            });
            down.push(socket.id);
        }
        for id in down {
            self.sockets.mark_dirty(id, &mut self.context);
        }
    }

    /// Has everything retried that failed, because handlers or the configuration have changed.
    pub(super) fn reconsider(&mut self) {
        let failed = self.sockets.iter().filter(|socket| {
            let desired = socket.desired.as_ref();
            desired.is_some_and(|it| it.last_failure.is_some() || it.observed.is_some())
        });
        for id in failed.map(|socket| socket.id).collect::<Vec<_>>() {
            self.sockets.retry_now(id, &mut self.context);
        }
    }

    /// Starts no operation any more, and cancels those whose end neither a plugin nor a handler
    /// would notice.
    pub(super) fn stop(&mut self) {
        let context = &mut self.context;
        if std::mem::replace(&mut context.policy.is_stopping, true) {
            return;
        }
        let at = Some(context.now + STOP_GRACE);
        context.timers.set(Timer::Stop, &mut self.stop, at);
        for socket in self.sockets.iter_mut() {
            if !socket.is_committed() {
                socket.cancel(context);
            }
        }
        self.sockets.mark_all_dirty(&mut self.context); // Their deadlines may depend on it.
    }

    /// Drops everything that still runs, because [`STOP_GRACE`] is over.
    pub(super) fn stop_at_once(&mut self) {
        self.stop = Scheduled::default();
        let ids: Vec<_> = self.sockets.iter().map(|socket| socket.id).collect();
        for id in ids {
            self.turn(id, |turn| {
                turn.drop_operation();
            });
        }
        self.host.hang_up_all(&mut self.context);
        // What is left concerns operations and handlers that have nothing to do any more.
        self.context
            .work
            .retain(|work| matches!(work, Work::Examine(_)));
    }
}
