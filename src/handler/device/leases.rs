//! Devices that clients hold exclusively, and the clients that wait for some.
//!
//! ```text
//!   request          enough are free           all calls have succeeded
//!  ---------> Waiting ----------------> Calling -----------------------> Held
//!                |  its time is up, or    |  a call has failed             |
//!                |  it does not wait      |                                | the client
//!                +-----> refused <--------+                                v has gone
//! ```
//!
//! Clients are served in the order of their arrival: no client gets devices of a resource for which
//! an earlier one waits. Chosen devices count as held before the first call, so that no two clients
//! can have the same ones. They stay held until the client is refused or has gone, even if their
//! plugin is deregistered earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message as _;
use serde_json::{Value, json};

use super::allocation::{self, Allocation};
use super::cdi::{self, CdiFiles};
use super::changes::SHOWN_ID;
use super::devices::Device;
use super::inventory::DevicePlugin;
use crate::config::{CALL_TIMEOUT, MAX_LEASED_DEVICES, MAX_LEASED_RESOURCES};
use crate::escape;
use crate::grpc::Code;
use crate::handler::{Call, CallFailure, Context, EffectId, EventType, Plugin, Store};
use crate::proto::v1beta1::{
    ContainerPreferredAllocationRequest, PreStartContainerRequest, PreferredAllocationRequest,
    PreferredAllocationResponse, device_plugin,
};
use crate::time::Time;

/// The devices that clients hold, and the files that describe devices to container runtimes. Clones
/// share the same data.
#[derive(Clone, Debug, Default)]
pub struct Leases(Arc<Mutex<Table>>);

/// The devices that a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The resources, and the number of devices of each.
    pub resources: Vec<(String, usize)>,
    /// The IDs of devices that have to be among the granted ones; none if there are several
    /// resources.
    pub devices: Vec<String>,
    /// The time for which the client waits; `None`: the client does not wait.
    pub wait: Option<Duration>,
}

/// The process that holds devices: its ID, and that of its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The process ID.
    pub pid: i32,
    /// The user ID.
    pub uid: u32,
}

/// The reason why a client gets no devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A resource has no registered plugin, or its devices were removed because the plugin has not
    /// listed any for a long time.
    Missing(String),
    /// Not enough devices are free, or the plugin is not available: a later request may succeed.
    Busy(String),
    /// The plugin refuses, or its reply is not valid.
    Failed(String),
}

/// The description of the devices that a client gets, as JSON, or the reason why it gets none.
pub type Outcome = Result<Value, Refusal>;

#[derive(Debug, Default)]
pub(super) struct Table {
    /// In the order of arrival.
    leases: Vec<Lease>,
    outcomes: Vec<(u64, Outcome)>,
    /// The timer for the waiting client whose time is up first.
    timer: Option<EffectId>,
    /// The open calls of clients that have gone, which are to be cancelled.
    abandoned: Vec<EffectId>,
    /// The files to replace or remove; `None`: no directory is configured for them.
    pub(super) files: Option<CdiFiles>,
}

#[derive(Debug)]
struct Lease {
    id: u64,
    holder: Holder,
    wish: Wish,
    /// The time until which the client waits for devices.
    until: Time,
    /// The held devices, one part for each resource; empty while the client waits.
    parts: Vec<Part>,
    /// The open call: the next one of the first part that has any left.
    call: Option<EffectId>,
}

/// The devices of one resource that a client holds.
#[derive(Debug)]
struct Part {
    plugin: Arc<Plugin>,
    /// The ID of each device, and whether an event has reported that the device cannot be used now.
    devices: Vec<(Box<str>, bool)>,
    /// The IDs among which the plugin may choose; empty if it is not asked.
    choice: Vec<String>,
    /// The methods that have yet to be called for the part or to return, the next one last.
    calls: Vec<&'static str>,
    allocation: Allocation,
}

impl Wish {
    /// Creates a wish for resources, each of which is `RESOURCE` or `RESOURCE=N`. The error is the
    /// problem with them or with the devices.
    pub(crate) fn parse(
        resources: &[String],
        devices: Vec<String>,
        wait: Option<Duration>,
    ) -> Result<Self, &'static str> {
        let mut parsed = Vec::<(String, usize)>::new();
        for resource in resources {
            let (name, count) = resource.rsplit_once('=').unwrap_or((resource, "1"));
            let count: usize = count.parse().unwrap_or(0);
            let is_repeated = parsed.iter().any(|(other, _)| other == name);
            if name.is_empty() || is_repeated || !(1..=MAX_LEASED_DEVICES).contains(&count) {
                return Err(
                    "resource must be a name, or a name, = and a number from 1 to 256, and no \
                     name twice",
                );
            }
            parsed.push((name.to_owned(), count));
        }
        if !(1..=MAX_LEASED_RESOURCES).contains(&parsed.len()) {
            return Err("resource must be given 1 to 8 times");
        }
        let is_sole = parsed.len() == 1 && devices.len() <= parsed[0].1;
        if !devices.is_empty() && !is_sole {
            return Err("device needs exactly one resource, with at least as many devices");
        }
        Ok(Self {
            resources: parsed,
            devices,
            wait,
        })
    }
}

impl Leases {
    /// Adds a client that wants devices. After this, wake the handler; [`Leases::take_outcomes`]
    /// returns the outcome when it is known.
    pub(crate) fn add_request(&self, id: u64, holder: Holder, wish: Wish, now: Time) {
        self.lock().leases.push(Lease {
            id,
            holder,
            until: now + wish.wait.unwrap_or_default(),
            wish,
            parts: Vec::new(),
            call: None,
        });
    }

    /// Removes a client that has gone, which frees its devices. Returns whether the client was
    /// known: then wake the handler, which cancels the client's call and grants the devices.
    pub(crate) fn remove_client(&self, id: u64) -> bool {
        let Table {
            leases,
            abandoned,
            files,
            ..
        } = &mut *self.lock();
        let Some(at) = leases.iter().position(|lease| lease.id == id) else {
            return false;
        };
        let lease = leases.remove(at);
        abandoned.extend(lease.call);
        let parts = lease.parts.into_iter();
        let ended = parts.map(|part| (cdi::lease_file_name(&part.plugin.name, id), None));
        if let Some(files) = files {
            files.extend(ended);
        }
        true
    }

    /// Enables the files: a directory is configured for them.
    pub(crate) fn enable_files(&self) {
        self.lock().files.get_or_insert_default();
    }

    /// Removes and returns the files that have changed since the last call.
    pub(crate) fn take_files(&self) -> CdiFiles {
        let mut table = self.lock();
        table.files.as_mut().map(mem::take).unwrap_or_default()
    }

    /// Returns whether any file has changed since [`Leases::take_files`].
    pub(crate) fn has_files(&self) -> bool {
        self.lock().files.as_ref().is_some_and(|it| !it.is_empty())
    }

    /// Removes and returns the outcomes since the last call.
    pub(crate) fn take_outcomes(&self) -> Vec<(u64, Outcome)> {
        mem::take(&mut self.lock().outcomes)
    }

    /// Returns the devices of a resource that are held, by ID.
    pub fn held_devices(&self, resource: &str) -> BTreeMap<Box<str>, Holder> {
        held_devices(&self.lock().leases, resource)
    }

    /// Grants free devices, refuses clients whose wait is over, and reports held devices that
    /// cannot be used any more.
    pub(super) fn serve_clients(&self, plugins: &Store<DevicePlugin>, context: &mut Context<'_>) {
        let Table {
            leases,
            outcomes,
            timer,
            abandoned,
            ..
        } = &mut *self.lock();
        for call in abandoned.drain(..) {
            context.cancel(call);
        }
        let (mut awaited, now) = (Vec::new(), context.now());
        for at in 0..leases.len() {
            leases[at].report_lost_devices(plugins, context);
            let lease = &leases[at];
            if !lease.is_waiting() {
                continue;
            }
            let names = lease.wish.resources.iter().map(|(name, _)| name);
            let is_over = lease.until <= now;
            // An earlier client is served first, even if this one wants fewer devices.
            let is_behind = names.clone().any(|name| awaited.contains(name));
            let chosen =
                (is_over || !is_behind).then(|| lease.choose_devices(&awaited, leases, plugins));
            match chosen {
                Some(Err(refusal)) if is_over => outcomes.push((lease.id, Err(refusal))),
                Some(Err(_)) | None => awaited.extend(names.cloned()),
                Some(Ok(parts)) => {
                    leases[at].parts = parts;
                    leases[at].start_next_call(context);
                }
            }
        }
        leases.retain(|it| it.until > now || !it.is_waiting());
        let waiting = leases.iter().filter(|it| it.is_waiting());
        let next = waiting.map(|it| it.until).min();
        if let Some(old) = timer.take() {
            context.cancel(old);
        }
        *timer = next.map(|at| context.set_timer(at.saturating_since(now)));
    }

    /// Handles the end of a call.
    pub(super) fn handle_reply(
        &self,
        call: EffectId,
        result: Result<Vec<u8>, CallFailure>,
        context: &mut Context<'_>,
    ) {
        let Table {
            leases,
            outcomes,
            files,
            ..
        } = &mut *self.lock();
        let Some(at) = leases.iter().position(|it| it.call == Some(call)) else {
            return;
        };
        let mut lease = leases.remove(at);
        match lease.apply_reply(result, leases, context) {
            Ok(()) => {
                lease.start_next_call(context);
                if lease.call.is_none() {
                    outcomes.push((lease.id, Ok(lease.describe_and_add_files(files.as_mut()))));
                }
                leases.insert(at, lease);
            }
            Err(refusal) => outcomes.push((lease.id, Err(refusal))),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    fn is_waiting(&self) -> bool {
        self.parts.is_empty()
    }

    /// Chooses devices of each resource, if enough are free and no earlier client waits for
    /// devices of that resource.
    fn choose_devices(
        &self,
        awaited: &[String],
        leases: &[Self],
        plugins: &Store<DevicePlugin>,
    ) -> Result<Vec<Part>, Refusal> {
        let required = &self.wish.devices;
        let parts = self.wish.resources.iter().map(|(name, count)| {
            let known = plugins.get(name).ok_or_else(|| {
                Refusal::Missing(format!("no such resource: {}", escape::text(name)))
            })?;
            let held = held_devices(leases, name);
            let devices = known.devices.iter();
            let free = devices.filter(|it| it.is_healthy && !held.contains_key(&it.id));
            let free: Vec<&Device> = free.collect();
            let is_lacking = |id: &&String| free.binary_search_by(|it| (*it.id).cmp(id)).is_err();
            let obstacle = if awaited.contains(name) {
                Some("an earlier command waits".to_owned())
            } else {
                let lacking = required.iter().find(is_lacking);
                lacking.map(|id| format!("{} is not free", escape::text(id).at_most(SHOWN_ID)))
            };
            if free.len() < *count || obstacle.is_some() {
                return Err(busy_refusal(&known, (*count, free.len()), obstacle, &held));
            }
            Ok(Part::new(&known, free, *count, required))
        });
        parts.collect()
    }

    /// Makes the next call. If none is left, the devices are held.
    fn start_next_call(&mut self, context: &mut Context<'_>) {
        let mut parts = self.parts.iter();
        let next = parts.find_map(|part| Some((part, *part.calls.last()?)));
        self.call = next.map(|(part, method)| {
            let devices_ids = part.ids().map(str::to_owned).collect();
            let request = match method {
                device_plugin::ALLOCATE => allocation::encode_request(devices_ids),
                device_plugin::PRE_START_CONTAINER => {
                    PreStartContainerRequest { devices_ids }.encode_to_vec()
                }
                _ => {
                    let request = ContainerPreferredAllocationRequest {
                        available_device_i_ds: part.choice.clone(),
                        must_include_device_i_ds: self.wish.devices.clone(),
                        allocation_size: i32::try_from(devices_ids.len()).unwrap_or(i32::MAX),
                    };
                    let container_requests = vec![request];
                    PreferredAllocationRequest { container_requests }.encode_to_vec()
                }
            };
            context.call(Call {
                endpoint: part.plugin.endpoint.clone(),
                method,
                request,
                timeout: CALL_TIMEOUT,
                wait_for_ready: false,
            })
        });
    }

    /// Applies the reply to the open call. Also emits an event if the call has failed.
    fn apply_reply(
        &mut self,
        result: Result<Vec<u8>, CallFailure>,
        others: &[Self],
        context: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let mut parts = self.parts.iter_mut();
        let called = parts.find_map(|part| part.calls.pop().map(|method| (part, method)));
        let Some((part, method)) = called else {
            return Ok(());
        };
        let applied = match (result, method) {
            (Err(failure), _) => {
                // The plugin may answer a later call.
                let code = failure.code();
                let is_passing = matches!(code, Code::DeadlineExceeded | Code::Unavailable);
                Err((failure.to_string(), is_passing))
            }
            (Ok(reply), device_plugin::ALLOCATE) => {
                let read = Allocation::from_reply(&reply).map_err(|why| (why, false));
                read.map(|allocation| part.allocation = allocation)
            }
            (Ok(reply), device_plugin::GET_PREFERRED_ALLOCATION) => {
                part.apply_preference(&reply, &self.wish.devices, others);
                Ok(())
            }
            (Ok(_), _) => Ok(()),
        };
        let Err((why, is_passing)) = applied else {
            return Ok(());
        };
        let method = method.rsplit('/').next().unwrap_or(method);
        let why = format!("{}: {method}: {why}", escape::text(&part.plugin.name));
        let (shown, pid) = (escape::composed_text(why.as_bytes()), self.holder.pid);
        let message = format!("a command was refused devices: {shown} pid={pid}");
        context.emit(&part.plugin, EventType::Warning, "AllocateFailed", message);
        if is_passing {
            return Err(Refusal::Busy(why));
        }
        Err(Refusal::Failed(why))
    }

    /// Returns the description of the devices for the client. Adds a CDI file for each resource to
    /// `files`, if CDI can express the devices.
    fn describe_and_add_files(&self, mut files: Option<&mut CdiFiles>) -> Value {
        let (mut resources, mut names) = (Vec::new(), Vec::new());
        for part in &self.parts {
            let (name, allocation) = (&part.plugin.name, &part.allocation);
            let mut resource = json!(allocation);
            resource["resource"] = json!(name);
            resource["deviceIds"] = part.ids().collect();
            resources.push(resource);
            names.extend(allocation.0.cdi_devices.iter().map(|it| it.name.clone()));
            let files = files.as_deref_mut();
            names.extend(files.and_then(|it| cdi::add_lease_file(it, name, self.id, allocation)));
        }
        json!({ "resources": resources, "cdiDevices": names })
    }

    /// Emits an event for each held device that has become unusable since this was last called.
    fn report_lost_devices(&mut self, plugins: &Store<DevicePlugin>, context: &mut Context<'_>) {
        for part in &mut self.parts {
            let known = plugins.get(&part.plugin.name);
            for (id, is_lost) in &mut part.devices {
                let device = known.as_ref().and_then(|known| known.devices.get(id));
                let is_usable = device.is_some_and(|device| device.is_healthy);
                if !is_usable && !*is_lost {
                    let (id, pid) = (escape::text(id).at_most(SHOWN_ID), self.holder.pid);
                    let message = format!("a device in use cannot be used now: {id} pid={pid}");
                    context.emit(&part.plugin, EventType::Warning, "DeviceLost", message);
                }
                *is_lost = !is_usable;
            }
        }
    }
}

impl Part {
    /// Takes the first of the free devices, in the order of preference. The plugin may choose
    /// others.
    fn new(
        known: &DevicePlugin,
        mut free: Vec<&Device>,
        count: usize,
        required: &[String],
    ) -> Self {
        let mut calls = vec![device_plugin::ALLOCATE];
        if known.pre_start_required {
            calls.insert(0, device_plugin::PRE_START_CONTAINER);
        }
        let mut choice = Vec::new();
        if known.preferred_allocation && free.len() > count {
            calls.push(device_plugin::GET_PREFERRED_ALLOCATION);
            choice.extend(free.iter().map(|device| device.id.to_string()));
        }
        sort_by_preference(&mut free, required, count);
        let chosen = free.iter().take(count);
        Self {
            plugin: known.plugin.clone(),
            devices: chosen.map(|it| (it.id.clone(), false)).collect(),
            choice,
            calls,
            allocation: Allocation::default(),
        }
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|(id, _)| &**id)
    }

    /// Replaces the chosen devices by those that the plugin prefers, if these are equally many, are
    /// free and include the required ones.
    fn apply_preference(&mut self, reply: &[u8], required: &[String], others: &[Lease]) {
        let reply = PreferredAllocationResponse::decode(reply).unwrap_or_default();
        let preferred = reply.container_responses.into_iter().next();
        let preferred = preferred.unwrap_or_default().device_i_ds.into_iter();
        let preferred: BTreeSet<String> = preferred.collect();
        let (choice, held) = (
            mem::take(&mut self.choice),
            held_devices(others, &self.plugin.name),
        );
        let is_free = |id: &String| choice.binary_search(id).is_ok() && !held.contains_key(&**id);
        let is_valid = preferred.len() == self.devices.len()
            && preferred.iter().all(is_free)
            && required.iter().all(|id| preferred.contains(id));
        if is_valid {
            let preferred = preferred.into_iter();
            self.devices = preferred.map(|id| (id.into(), false)).collect();
        }
    }
}

/// Returns the devices of a resource that are held, by ID.
fn held_devices(leases: &[Lease], resource: &str) -> BTreeMap<Box<str>, Holder> {
    let mut held = BTreeMap::new();
    for lease in leases {
        let mut parts = lease.parts.iter();
        if let Some(part) = parts.find(|part| part.plugin.name == resource) {
            held.extend(part.ids().map(|id| (id.into(), lease.holder)));
        }
    }
    held
}

/// Sorts free devices: required ones first, then those of the NUMA node with the fewest devices
/// that suffice, or else of the node with the most.
fn sort_by_preference(free: &mut [&Device], required: &[String], count: usize) {
    let node = |device: &Device| device.numa_nodes.first().copied();
    let mut sizes = BTreeMap::<_, usize>::new();
    for device in &*free {
        *sizes.entry(node(device)).or_default() += 1;
    }
    free.sort_by_cached_key(|device| {
        let (node, size) = (node(device), sizes[&node(device)]);
        let rank = (size < count, size.abs_diff(count));
        let is_required = required.iter().any(|id| **id == *device.id);
        (!is_required, rank, node)
    });
}

/// Returns the refusal that names the holders of a resource's devices.
fn busy_refusal(
    known: &DevicePlugin,
    (wanted, free): (usize, usize),
    obstacle: Option<String>,
    held: &BTreeMap<Box<str>, Holder>,
) -> Refusal {
    let (name, healthy) = (escape::text(&known.plugin.name), known.count_healthy());
    let mut why = format!("{name}: wanted={wanted} free={free} healthy={healthy}");
    why.extend(obstacle.map(|obstacle| format!(", {obstacle}")));
    for (id, holder) in held.iter().take(escape::MAX_LISTED) {
        let id = escape::text(id).at_most(SHOWN_ID);
        let _ = write!(why, ", {id} is held by process {}", holder.pid);
    }
    if let Some(more @ 1..) = held.len().checked_sub(escape::MAX_LISTED) {
        let _ = write!(why, ", and {more} more are held");
    }
    Refusal::Busy(why)
}

#[cfg(test)]
mod tests;
