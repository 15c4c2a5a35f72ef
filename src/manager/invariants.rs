//! The invariants of the manager at rest.
//!
//! Pure. Checked in debug builds only.

use std::collections::BTreeMap;

use super::Manager;
use super::context::Context;
use super::socket::{Permit, Socket};
use super::timers::Timer;

impl Manager {
    /// Asserts that every claim, deadline and connection has one owner.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Context {
            timers,
            connections,
            plugins,
            ..
        } = &self.context;
        assert!(self.context.work.is_empty(), "something is left to do");
        let mut deadlines = self.host.deadlines();
        let singles = [self.limiter.deadline(), self.resync, self.stop];
        deadlines += singles.iter().filter(|it| it.at().is_some()).count();
        let (mut held, mut queued, mut names, mut registered) = (0, 0, 0, 0);
        let mut handlers = BTreeMap::new();
        for socket in self.sockets.iter() {
            let (id, applied) = (socket.id, &socket.applied);
            assert!(!socket.is_empty(), "{:?}", socket.path);
            assert_eq!(applied.permit == Permit::Held, socket.claims_permit());
            held += usize::from(self.limiter.is_held(id));
            assert!(!self.limiter.is_held(id) || applied.permit == Permit::Held);
            let is_queued = socket.desired.as_ref().is_some_and(|it| it.is_queued);
            assert_eq!(applied.permit == Permit::Queued, is_queued);
            queued += usize::from(is_queued);
            assert_eq!(applied.name.as_ref(), socket.claims_name());
            names += usize::from(applied.name.is_some());
            if let Some(plugin) = socket.plugin_in_question() {
                assert!(self.names.is_held(plugin, id), "{plugin}");
            }
            assert_eq!(applied.handler, socket.claims_handler());
            if let Some(handler) = applied.handler {
                handlers.insert(id.owner(), handler);
            }
            registered += usize::from(socket.registered.is_some());
            let deadline = applied.deadline;
            let is_in_time = match (deadline.at(), socket.deadline(&self.context)) {
                (Some(at), Some(derived)) => {
                    at == derived || at < derived && socket.active.is_some()
                }
                (None, None) => true,
                _ => false,
            };
            assert!(is_in_time, "{:?}: {deadline:?}", socket.path);
            if deadline.at().is_some() {
                assert!(timers.has(Timer::Socket(id), deadline));
                deadlines += 1;
            }
        }
        assert_eq!(held, self.limiter.held());
        assert_eq!(queued, self.limiter.queued());
        assert_eq!(names, self.names.queued());
        assert_eq!(registered, *plugins);
        assert_eq!(deadlines, timers.len(), "a deadline has no owner");
        let owned = self.sockets.iter().map(Socket::connections).sum::<usize>();
        let owned = owned + self.host.connections();
        assert_eq!(owned, connections.len(), "a connection has no owner");
        self.host.check_owners(&handlers);
    }
}
