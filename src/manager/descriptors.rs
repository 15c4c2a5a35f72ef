//! The limit on file descriptors, and what is given up when they run short.
//!
//! Pure: the limit is passed in as a number, and open descriptors are counted here. A plugin that
//! wants to register comes first: the source of liveness of a registered plugin is given up for it,
//! and that plugin is checked after [`SLOW_CHECK`] or more instead. A slow check takes a descriptor
//! for a moment only. The streams and connections that handlers keep open for registered plugins
//! are never given up, so they get fewer than half of the descriptors.

use std::path::Path;
use std::sync::Arc;

use super::links::Use;
use super::{Manager, Output, Wake};
use crate::config::{DESCRIPTOR_RESERVE, MAX_OUTLIVED, SLOW_CHECK, SLOW_CHECK_SHARE};
use crate::escape;
use crate::time::Time;

/// The number of descriptors that may be used for plugins. Unlimited at first.
#[derive(Clone, Copy, Debug)]
pub(super) struct DescriptorLimit(usize);

impl Default for DescriptorLimit {
    fn default() -> Self {
        Self(usize::MAX)
    }
}

impl DescriptorLimit {
    /// Returns the number of operations that may have a connection at the same time.
    ///
    /// Half of all descriptors: the others are for handlers' connections and for liveness.
    fn of_operations(self) -> usize {
        self.0 / 2
    }

    /// Returns the number of streams and connections that handlers may keep open.
    ///
    /// Fewer than half of all descriptors: that leaves one for an operation, and one for the call
    /// that a handler makes for it.
    fn of_lasting(self) -> usize {
        self.0.saturating_sub(1) / 2
    }

    /// Returns the number of descriptors in use below which another may be used for liveness: the
    /// rest is for what cannot do without one.
    fn of_liveness(self) -> usize {
        self.0 - self.0 / 4
    }
}

impl Manager {
    /// Sets the number of descriptors that the process may have.
    pub fn set_descriptor_limit(&mut self, limit: usize) {
        self.descriptors = DescriptorLimit(limit.saturating_sub(DESCRIPTOR_RESERVE));
    }

    /// Returns the maximum number of descriptors in use for plugins. A program counts twice, and so
    /// does a source of liveness that is a connection.
    pub(super) fn descriptors_in_use(&self) -> usize {
        let programs = 2 * self.programs.running();
        self.links.len() + self.guards.len() + self.outlived.len() + programs
    }

    /// Returns the number of operations that may begin now, each with a call that a handler makes
    /// for it.
    pub(super) fn room_for_operations(&self) -> usize {
        let operations = self.links.used_for(Use::Operation);
        let by_operations = self.descriptors.of_operations();
        let by_operations = by_operations.saturating_sub(operations);
        let given_up = self.descriptors_in_use() - self.guards.len();
        let calls_to_come = operations.saturating_sub(self.links.used_for(Use::Call));
        let free = self.descriptors.0.saturating_sub(given_up + calls_to_come);
        by_operations.min(free / 2)
    }

    /// Makes a descriptor available for what a handler wants to dial. Returns false if that fails.
    pub(super) fn make_room_for(&mut self, usage: Use, now: Time) -> bool {
        let is_capped = usage == Use::Lasting
            && self.links.used_for(Use::Lasting) >= self.descriptors.of_lasting();
        !is_capped && self.make_room(now)
    }

    /// Makes a descriptor available for one more connection. Returns false if that fails.
    pub(super) fn make_room(&mut self, now: Time) -> bool {
        while self.descriptors_in_use() >= self.descriptors.0 {
            if !self.give_up_guard(now) {
                return false;
            }
        }
        true
    }

    /// Returns whether there is a descriptor for the liveness of a plugin whose connection is open.
    pub(super) fn may_guard(&self) -> bool {
        self.descriptors_in_use() < self.descriptors.of_liveness()
    }

    /// Returns whether the process of another plugin whose socket was removed may be watched: at
    /// most an eighth of all descriptors is used for that.
    pub(super) fn may_outlive(&self) -> bool {
        self.outlived.len() < MAX_OUTLIVED.min(self.descriptors.0 / 8)
    }

    /// Gives up sources of liveness for the next attempts, because the kernel has refused a
    /// descriptor.
    pub(super) fn descriptors_used_up(&mut self, now: Time) {
        for _ in 0..GIVEN_UP_AT_ONCE {
            self.give_up_guard(now);
        }
    }

    /// Gives up the oldest source of liveness. Returns false if there is none.
    fn give_up_guard(&mut self, now: Time) -> bool {
        let Some(link) = self.guards.first().map(|(link, _)| *link) else {
            return false;
        };
        if let Some(path) = self.guards.remove(&link) {
            log::debug!(
                "{}: its process is not watched any more: descriptors run short",
                escape::path(&path)
            );
            if let Some(registered) = self.actual.get_mut(&path) {
                registered.health.forget_guard();
            }
            self.drop_link(link, now);
            self.outputs.push_back(Output::Unguard { link });
            self.check_slowly(path, now);
        }
        true
    }

    /// Schedules a slow check of a registered plugin that is not watched.
    pub(super) fn check_slowly(&mut self, path: Arc<Path>, now: Time) {
        let unwatched = self.actual.len().saturating_sub(self.guards.len());
        let unwatched = u32::try_from(unwatched).unwrap_or(u32::MAX);
        let at = now + SLOW_CHECK + SLOW_CHECK_SHARE.saturating_mul(unwatched);
        self.deadlines.set(Wake::Check(path), Some(at));
    }
}

/// The number of sources of liveness that are given up when the kernel refuses a descriptor: enough
/// for an operation and a handler's connections.
const GIVEN_UP_AT_ONCE: usize = 4;
