//! The processes of plugins whose sockets were removed.
//!
//! Pure. A plugin that stops removes its socket and ends a moment later. If the process still runs
//! after [`OUTLIVED_GRACE`], another process has removed the socket, such as a predecessor that
//! cleaned up late, and the plugin does not know. That is worth a warning, so the source of
//! liveness is kept for that long after the deregistration.

use std::path::Path;
use std::sync::Arc;

use super::links::{LinkId, Process};
use super::{Manager, Output, Wake};
use crate::config::OUTLIVED_GRACE;
use crate::escape;
use crate::handler::Plugin;
use crate::time::Time;

/// A plugin that was deregistered because its socket was removed, and whose process may still run.
#[derive(Debug)]
pub(super) struct Outlived {
    plugin: Arc<Plugin>,
    process: Option<Process>,
}

impl Manager {
    /// Keeps the source of liveness of a plugin whose socket was removed. Returns false if a socket
    /// is at its path again, the daemon stops, or too many are kept already.
    pub(super) fn outlive(
        &mut self,
        link: LinkId,
        plugin: Arc<Plugin>,
        process: Option<Process>,
        now: Time,
    ) -> bool {
        let is_removed = self.desired.get(&plugin.socket).is_none();
        if self.is_stopping || !is_removed || !self.may_outlive() {
            return false;
        }
        self.outlived.insert(link, Outlived { plugin, process });
        let until = now + OUTLIVED_GRACE;
        self.deadlines.set(Wake::Outlived(link), Some(until));
        true
    }

    /// Stops waiting for a process that has ended, as it should. Returns whether it was one of
    /// these.
    pub(super) fn outlived_ended(&mut self, link: LinkId) -> bool {
        self.deadlines.set(Wake::Outlived(link), None);
        self.outlived.remove(&link).is_some()
    }

    /// Stops waiting for the process if a socket is at the path again or it serves a plugin again.
    pub(super) fn forgive_outlived(&mut self, path: &Path, process: Option<Process>, now: Time) {
        let is_well = |outlived: &Outlived| {
            Process::is_same(process, outlived.process)
                || outlived.plugin.socket.as_os_str() == path.as_os_str()
        };
        let well = self.outlived.iter().filter(|(_, it)| is_well(it));
        for link in well.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.drop_outlived(link, now);
        }
    }

    /// Warns that a process still runs although its socket was removed.
    pub(super) fn outlived_for_long(&mut self, link: LinkId, now: Time) {
        if let Some(Outlived { plugin, process }) = self.drop_outlived(link, now) {
            let mut registered = self.actual.iter().map(|(_, registered)| registered);
            if registered.any(|it| Process::is_same(process, it.health.process)) {
                return; // It serves another socket, and may have removed this one itself.
            }
            let pid = process.and_then(|process| process.pid);
            let pid = pid.map(|pid| format!("; pid={pid}"));
            log::warn!(
                "{}: the socket of {plugin} was removed while the process is still running; \
                 restart the plugin to recreate the socket{}",
                escape::path(&plugin.socket),
                pid.unwrap_or_default()
            );
        }
    }

    fn drop_outlived(&mut self, link: LinkId, now: Time) -> Option<Outlived> {
        let outlived = self.outlived.remove(&link);
        self.deadlines.set(Wake::Outlived(link), None);
        self.drop_link(link, now);
        self.outputs.push_back(Output::Unguard { link });
        outlived
    }
}
