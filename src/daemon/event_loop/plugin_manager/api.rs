//! The API of the plugin manager: what other processes see and may change, and the devices that are
//! granted to clients for as long as these are connected. It also reports whether the plugin
//! manager is ready.

use std::path::Path;

use serde_json::json;

use super::PluginManager;
use crate::api::metrics::{self, Sources};
use crate::api::{CLIENTS, Change, ClientId, Response, Selection, Status, View};
use crate::config::READY_GRACE;
use crate::daemon::clock::time_of_day;
use crate::daemon::process::usage;
use crate::escape;
use crate::handler::Inventory;
use crate::handler::device::{self, Holder, Refusal, Wish};
use crate::manager::{ForgetError, Manager, Record};
use crate::time::Time;
use crate::watch::{DirectoryState, Watch};

impl PluginManager {
    /// Returns the path of the API socket, if there is one, until [`PluginManager::stop`].
    pub fn api_socket(&self) -> Option<&Path> {
        self.api.socket_path(true)
    }

    /// Sets what the built-in handlers know about their plugins, the [`Inventory`] that was
    /// returned with the handlers ([`handlers`](crate::daemon::handlers)). The API shows it, and
    /// the CDI files are written from it.
    pub fn set_inventory(&mut self, inventory: Inventory) {
        if let Some(cdi_dir) = &mut self.cdi_dir {
            cdi_dir.set_leases(&inventory.leases);
        }
        self.api.inventory = Some(inventory);
    }

    /// Returns the metrics in the text format of Prometheus, version 0.0.4. `inventory` is that of
    /// the built-in handlers, if these are used.
    pub fn metrics(&self, inventory: Option<&Inventory>) -> Vec<u8> {
        metrics::render(&Sources {
            manager: &self.manager,
            watch: &self.watch,
            counters: &self.counters,
            inventory,
            process: usage::read_own(),
        })
    }

    /// Returns whether `/readyz` would report that the plugin manager is ready.
    pub(crate) fn is_ready(&mut self, now: Time) -> bool {
        self.readiness.record_first_scan(&self.watch, now);
        let problems = self.readiness.assess(&self.manager, &self.watch, now);
        problems.is_empty()
    }

    /// Accepts clients of the API, reads their requests and writes the responses, as far as the
    /// limits of one turn allow.
    pub(super) fn serve_api(&mut self, now: Time) {
        self.readiness.record_first_scan(&self.watch, now);
        if self.api.is_stopped() {
            return;
        }
        if let Some(rescanned) = self.watch.take_rescanned() {
            self.api.answer_rescan(rescanned, now);
        }
        for _ in 0..self.api.accept_and_read(self.poll.registry(), now) {
            self.counters.count_limit_hit(CLIENTS);
        }
        // One change per turn, because a change may examine all sockets.
        if let Some((client, change)) = self.api.poll_change() {
            self.apply_change(client, change, now);
        }
        self.answer_device_requests(now);
        let work_at = self.api.server.next_work_time(self.manager.generation());
        if work_at.is_some_and(|at| at <= now) {
            self.render_responses(now);
        }
        self.api.write_responses(now);
        if std::mem::take(&mut self.api.has_freed) {
            self.wake_device_handler(now);
        }
    }

    /// Renders the responses that are due.
    fn render_responses(&mut self, now: Time) {
        let not_ready = self.readiness.assess(&self.manager, &self.watch, now);
        let api = &mut self.api;
        api.server.render_responses(&View {
            manager: &self.manager,
            watch: &self.watch,
            inventory: api.inventory.as_ref(),
            events: &api.events,
            counters: &self.counters,
            process: usage::read_own,
            peer: usage::read_peer,
            daemon: &api.daemon,
            not_ready: &not_ready,
            longest_turn: self.longest_turn_ever,
            now,
            time_of_day: api.calendar.convert_time(now, time_of_day()),
        });
    }

    /// Makes a change that a client asks for, and responds to the client: at once, or when the
    /// change is made.
    fn apply_change(&mut self, client: ClientId, change: Change, now: Time) {
        let response = match change {
            Change::Allocate(wish) => return self.request_devices(client, wish, now),
            Change::Rescan => {
                let number = self.watch.request_rescan();
                return self.api.rescans.push((client, number));
            }
            Change::Reload => return self.api.request_reload(client, now),
            Change::Retry(selection) => self.retry_selected(&selection, now),
            Change::Forget { kind, name } => self.forget_plugin(&kind, &name, now),
            Change::Log(filter) => self.api.set_log_filter(&filter),
        };
        self.api.server.answer_change(client, &response, now);
    }

    fn retry_selected(&mut self, selection: &Selection, now: Time) -> Response {
        let is_selected = |record: &Record<'_>| match selection {
            Selection::All => true,
            Selection::Socket(path) => **record.socket == **path,
            Selection::Plugin { kind, name } => record
                .plugin
                .is_some_and(|plugin| plugin.kind == *kind && plugin.name == *name),
        };
        let retried = self.manager.retry(&is_selected, now);
        self.drain_manager(now);
        match retried {
            None if *selection != Selection::All => {
                Response::error(Status::NOT_FOUND, "no such socket or plugin")
            }
            retried => Response::json(&json!({ "retried": retried.unwrap_or_default() })),
        }
    }

    fn forget_plugin(&mut self, kind: &str, name: &str, now: Time) -> Response {
        let forgotten = self.manager.forget(kind, name, now);
        self.drain_manager(now);
        let error = match forgotten {
            Ok(count) => return Response::json(&json!({ "forgotten": count })),
            Err(error) => error,
        };
        let status = match error {
            ForgetError::NotFound => Status::NOT_FOUND,
            ForgetError::NotDown => Status::CONFLICT,
        };
        Response::error(status, &error.to_string())
    }

    /// Passes a client's request for devices on to the built-in handler of device plugins, or
    /// refuses the request if that handler is not in use.
    fn request_devices(&mut self, client: ClientId, wish: Wish, now: Time) {
        let (pid, uid) = self.api.peer(client).unwrap_or_default();
        if let Some(inventory) = &self.api.inventory {
            let leases = inventory.leases.clone();
            leases.add_request(client.0, Holder { pid, uid }, wish, now);
            if self.wake_device_handler(now) {
                return;
            }
            leases.remove_client(client.0);
        }
        let why = "the plugin manager has no devices to grant";
        let refused = Response::error(Status::NOT_FOUND, why);
        self.api.server.answer_change(client, &refused, now);
    }

    /// Responds to the clients that were granted or refused devices. A client whose CDI file could
    /// not be written is refused, because it would pass on the name of a missing device.
    fn answer_device_requests(&mut self, now: Time) {
        let Some(inventory) = &self.api.inventory else {
            return;
        };
        for (id, outcome) in inventory.leases.take_outcomes() {
            let client = ClientId(id);
            let cdi_dir = self.cdi_dir.as_ref();
            let (status, why) = match outcome {
                Ok(devices) => {
                    let Some(why) = cdi_dir.and_then(|dir| dir.lease_failure(id)) else {
                        self.api.server.answer_allocation(client, &devices, now);
                        continue;
                    };
                    self.api.has_freed |= inventory.leases.remove_client(id);
                    (Status::INTERNAL_SERVER_ERROR, why)
                }
                Err(Refusal::Missing(why)) => (Status::NOT_FOUND, why),
                Err(Refusal::Busy(why)) => (Status::CONFLICT, why),
                Err(Refusal::Failed(why)) => (Status::BAD_GATEWAY, why),
            };
            let refused = Response::error(status, &why);
            self.api.server.answer_change(client, &refused, now);
        }
    }

    /// Makes the handler of device plugins grant the devices that are requested and free. Returns
    /// `false` if that handler does not exist.
    fn wake_device_handler(&mut self, now: Time) -> bool {
        let is_awake = self.manager.wake_handler(device::TYPE, now);
        self.drain_manager(now);
        is_awake
    }
}

/// The progress of the start, and whether the daemon is ready: its start is complete, and it
/// notices the changes in every plugins directory.
///
/// `/readyz` and the notification of the service manager both use this type, so they always agree.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Readiness {
    /// The time at which the first scan was seen to be over.
    scanned: Option<Time>,
    /// Whether, since the first scan, there was a moment at which all sockets had been dialed, or
    /// [`READY_GRACE`] has passed.
    is_started: bool,
}

impl Readiness {
    /// Records the time at which the first scan is seen to be over.
    fn record_first_scan(&mut self, watch: &Watch, now: Time) {
        if self.scanned.is_none() && watch.is_scanned() {
            self.scanned = Some(now);
        }
    }

    /// Returns the time at which the start counts as complete even if sockets are not dialed yet;
    /// `None` before the end of the first scan, and once the start is complete.
    pub(in crate::daemon) fn start_deadline(&self) -> Option<Time> {
        let scanned = self.scanned.filter(|_| !self.is_started);
        scanned.map(|scanned| scanned + READY_GRACE)
    }

    /// Returns why the daemon is not ready at `now`, a sentence for each reason. Records that the
    /// start is complete, if it is.
    fn assess(&mut self, manager: &Manager, watch: &Watch, now: Time) -> Vec<String> {
        let mut problems = Vec::new();
        match self.start_deadline() {
            None if self.is_started => {}
            None => problems.push("the first scan of the directories is not complete".to_owned()),
            Some(at) if at <= now => self.is_started = true,
            Some(_) => match manager.records().undialed_count() {
                0 => self.is_started = true,
                count => problems.push(format!("sockets not dialed yet: {count}")),
            },
        }
        let roots = watch.directories().take_while(|it| it.is_root);
        for root in roots.filter(|it| it.state == DirectoryState::Lost) {
            if let Some(problem) = root.problem {
                problems.push(format!("{}: {problem}", escape::path(root.path)));
            }
        }
        problems
    }
}
