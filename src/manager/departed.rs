//! The processes of plugins whose sockets were removed.
//!
//! Pure. A plugin that stops removes its socket and ends a moment later. If the process still runs
//! after [`OUTLIVED_GRACE`], another process has removed the socket, such as a predecessor that
//! cleaned up late, and the plugin does not know. That is worth a warning, so the source of
//! liveness is kept for that long after the deregistration.

use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

use super::connections::Owner;
use super::context::Context;
use super::event::{EventKind, PluginEvent};
use super::ids::ConnectionId;
use super::messages::Output;
use super::process::Process;
use super::registered::{Liveness, Registered};
use super::timers::{Scheduled, Timer};
use crate::config::OUTLIVED_GRACE;
use crate::grpc::Client;
use crate::handler::Plugin;
use crate::http2::Endpoint as _;

/// The plugins that were deregistered recently because their sockets were removed.
#[derive(Debug, Default)]
pub(super) struct Departed {
    by_id: LiteMap<ConnectionId, DepartedPlugin>,
}

/// A plugin whose process may still run.
#[derive(Debug)]
struct DepartedPlugin {
    plugin: Arc<Plugin>,
    process: Option<Process>,
    liveness: Liveness,
    deadline: Scheduled,
}

impl Departed {
    /// Keeps the source of liveness of a plugin whose socket was removed. Returns false if there is
    /// none or if too many are kept already.
    pub(super) fn add(&mut self, left: &mut Registered, context: &mut Context) -> bool {
        if !context.connections.may_depart() {
            return false;
        }
        let Some(conn) = left.health.liveness.as_ref().map(|it| it.conn) else {
            return false;
        };
        if !context.connections.hand_over(conn, Owner::Departed) {
            return false; // It was given up a moment ago.
        }
        let Some(liveness) = left.health.liveness.take() else {
            return false;
        };
        let mut deadline = Scheduled::default();
        let until = context.now + OUTLIVED_GRACE;
        let timer = Timer::Departed(conn);
        context.timers.set(timer, &mut deadline, Some(until));
        let departed = DepartedPlugin {
            plugin: left.plugin.clone(),
            process: left.health.process,
            liveness,
            deadline,
        };
        self.by_id.insert(conn, departed);
        true
    }

    /// Returns the client of a connection that is held open.
    pub(super) fn client(&mut self, conn: ConnectionId) -> Option<&mut Client> {
        let departed = self.by_id.get_mut(&conn)?;
        departed.liveness.client.as_deref_mut()
    }

    /// Processes what a connection has received.
    pub(super) fn poll(&mut self, conn: ConnectionId, context: &mut Context) {
        let Some(client) = self.client(conn) else {
            return;
        };
        while client.poll_event(context.now).is_some() {}
        if client.is_closed() {
            self.ended(conn, context);
        } else if !client.transmit().is_empty() {
            context.outputs.push_back(Output::Transmit { conn });
        }
    }

    /// Closes the connection, because the process itself is watched.
    pub(super) fn process_watched(&mut self, conn: ConnectionId, context: &mut Context) {
        if let Some(departed) = self.by_id.get_mut(&conn) {
            departed.liveness.hang_up(context);
            context.connections.close(conn);
        }
    }

    /// Stops waiting for a process that has ended, as it should.
    pub(super) fn ended(&mut self, conn: ConnectionId, context: &mut Context) {
        if let Some(mut departed) = self.by_id.remove(&conn) {
            let timer = Timer::Departed(conn);
            context.timers.set(timer, &mut departed.deadline, None);
            departed.liveness.hang_up(context);
            context.connections.remove(conn);
        }
    }

    /// Stops waiting for the process of the plugin at a path where a socket exists again.
    pub(super) fn forgive_path(&mut self, path: &Path, context: &mut Context) {
        let is_it = |it: &DepartedPlugin| it.plugin.socket.as_os_str() == path.as_os_str();
        self.forgive(is_it, context);
    }

    /// Stops waiting for a process that serves a plugin again.
    pub(super) fn forgive_process(&mut self, process: Option<Process>, context: &mut Context) {
        let is_it = |it: &DepartedPlugin| Process::is_same(process, it.process);
        self.forgive(is_it, context);
    }

    fn forgive(&mut self, is_well: impl Fn(&DepartedPlugin) -> bool, context: &mut Context) {
        let well = self.by_id.iter().filter(|(_, it)| is_well(it));
        for conn in well.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.release(conn, context);
        }
    }

    /// Warns that a process still runs although its socket was removed, unless it serves one of the
    /// registered plugins: then it may have removed the socket itself.
    pub(super) fn timed_out<'a>(
        &mut self,
        conn: ConnectionId,
        mut registered: impl Iterator<Item = &'a Registered>,
        context: &mut Context,
    ) {
        let Some(DepartedPlugin {
            plugin, process, ..
        }) = self.release(conn, context)
        else {
            return;
        };
        if registered.any(|it| Process::is_same(process, it.health.process)) {
            return;
        }
        let pid = process.and_then(|process| process.pid);
        context.emit(PluginEvent::of_plugin(
            &plugin,
            EventKind::SocketOutlived { pid },
        ));
    }

    fn release(&mut self, conn: ConnectionId, context: &mut Context) -> Option<DepartedPlugin> {
        let mut departed = self.by_id.remove(&conn)?;
        let timer = Timer::Departed(conn);
        context.timers.set(timer, &mut departed.deadline, None);
        departed.liveness.give_up(context);
        Some(departed)
    }

    /// Stops waiting for all processes, because the daemon stops.
    pub(super) fn clear(&mut self, context: &mut Context) {
        while let Some(conn) = self.by_id.first().map(|(conn, _)| *conn) {
            self.release(conn, context);
        }
    }

    /// Returns the number of plugins.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}
