//! Devices that clients use exclusively, and the clients that wait for some.
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
//! an earlier one waits. Chosen devices are taken before the first call, so that no two clients can
//! have the same ones. They stay taken until the client has gone, even if their plugin goes first.

use std::collections::BTreeMap;
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
use crate::config::ALLOCATE_TIMEOUT;
use crate::escape;
use crate::grpc::Code;
use crate::handler::{Call, CallFailure, Context, EffectId, EventType, Plugin, Store};
use crate::proto::v1beta1::{
    ContainerPreferredAllocationRequest, PreStartContainerRequest, PreferredAllocationRequest,
    PreferredAllocationResponse, device_plugin,
};
use crate::time::Time;

/// The devices that clients hold. Clones share the same data.
#[derive(Clone, Debug, Default)]
pub struct Leases(Arc<Mutex<Table>>);

/// The devices that a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The resources, and how many devices of each.
    pub resources: Vec<(String, usize)>,
    /// The IDs of devices that have to be among them, if there is one resource.
    pub devices: Vec<String>,
    /// The time for which the client waits; `None`: it does not.
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
    /// A resource does not exist.
    Missing(String),
    /// Not enough devices are free, or the plugin does not answer: a later request may succeed.
    Busy(String),
    /// The plugin refuses, or its answer is not valid.
    Failed(String),
}

/// What a client gets: what its devices consist of, as JSON, or the reason why it gets none.
pub type Outcome = Result<Value, Refusal>;

#[derive(Debug, Default)]
struct Table {
    /// In the order of arrival.
    leases: Vec<Lease>,
    outcomes: Vec<(u64, Outcome)>,
    /// The timer for the waiting client whose time is up first, and that time.
    timer: Option<(Time, EffectId)>,
}

#[derive(Debug)]
struct Lease {
    id: u64,
    holder: Holder,
    wish: Wish,
    /// The time until which the client waits for devices.
    until: Time,
    state: State,
    /// What is held of each resource.
    parts: Vec<Part>,
}

#[derive(Debug)]
enum State {
    /// Waits for devices.
    Waiting,
    /// Waits for the end of a call. The number is its step: the steps are all of [`METHODS`] for
    /// the first part, then for the second, and so on.
    Calling(EffectId, usize),
    Held,
}

/// The devices of one resource.
#[derive(Debug)]
struct Part {
    plugin: Arc<Plugin>,
    /// The IDs, and whether an event was emitted that the device cannot be used any more.
    devices: Vec<(Box<str>, bool)>,
    /// The IDs among which the plugin may choose.
    choice: Vec<String>,
    allocation: Allocation,
}

/// The calls for each part, in their order.
const METHODS: [&str; 3] = [
    device_plugin::GET_PREFERRED_ALLOCATION,
    device_plugin::ALLOCATE,
    device_plugin::PRE_START_CONTAINER,
];

impl Leases {
    /// Adds a client that wants devices. Once the handler has been woken, the outcome follows by
    /// [`Leases::take_outcomes`].
    pub(crate) fn request(&self, id: u64, holder: Holder, wish: Wish, now: Time) {
        self.lock().leases.push(Lease {
            id,
            holder,
            until: now + wish.wait.unwrap_or_default(),
            wish,
            state: State::Waiting,
            parts: Vec::new(),
        });
    }

    /// Removes a client that has gone, which frees its devices. Returns whether the client was
    /// known.
    pub(crate) fn end(&self, id: u64, files: &CdiFiles) -> bool {
        let leases = &mut self.lock().leases;
        let Some(at) = leases.iter().position(|lease| lease.id == id) else {
            return false;
        };
        for part in leases.remove(at).parts {
            files.set(cdi::lease_file(&part.plugin.name, id), None);
        }
        true
    }

    /// Removes and returns the outcomes since the last call.
    pub(crate) fn take_outcomes(&self) -> Vec<(u64, Outcome)> {
        mem::take(&mut self.lock().outcomes)
    }

    /// Returns the devices of a resource that are held, by ID.
    pub fn held(&self, resource: &str) -> BTreeMap<Box<str>, Holder> {
        held(&self.lock().leases, resource)
    }

    /// Grants free devices, refuses clients whose wait is over, and reports held devices that
    /// cannot be used any more.
    pub(super) fn advance(&self, plugins: &Store<DevicePlugin>, context: &mut Context<'_>) {
        let mut table = self.lock();
        let Table {
            leases,
            outcomes,
            timer,
        } = &mut *table;
        let (mut awaited, now) = (Vec::new(), context.now());
        for at in 0..leases.len() {
            leases[at].report_lost(plugins, context);
            if !matches!(leases[at].state, State::Waiting) {
                continue;
            }
            let lease = &leases[at];
            let mut names = lease.wish.resources.iter().map(|(name, _)| name);
            if lease.until > now && names.any(|name| awaited.contains(name)) {
                // An earlier client goes first, whatever is free.
                awaited.extend(lease.wish.resources.iter().map(|(name, _)| name.clone()));
                continue;
            }
            let chosen = choose(&leases[at].wish, &awaited, leases, plugins);
            let lease = &mut leases[at];
            let begun = chosen.and_then(|parts| {
                lease.parts = parts;
                lease.call_from(0, plugins, context)
            });
            let Err(refusal) = begun else {
                continue;
            };
            lease.parts.clear();
            if lease.until <= now {
                outcomes.push((lease.id, Err(refusal)));
            } else {
                awaited.extend(lease.wish.resources.iter().map(|(name, _)| name.clone()));
            }
        }
        leases.retain(|it| it.until > now || !matches!(it.state, State::Waiting));
        let waiting = leases
            .iter()
            .filter(|it| matches!(it.state, State::Waiting));
        let next = waiting.map(|it| it.until).min();
        if next != timer.map(|(at, _)| at) {
            if let Some((_, old)) = timer.take() {
                context.cancel(old);
            }
            *timer = next.map(|at| (at, context.set_timer(at.saturating_since(now))));
        }
    }

    /// Handles the end of a call.
    pub(super) fn handle_reply(
        &self,
        call: EffectId,
        result: Result<Vec<u8>, CallFailure>,
        plugins: &Store<DevicePlugin>,
        files: &CdiFiles,
        context: &mut Context<'_>,
    ) {
        let mut table = self.lock();
        let Table {
            leases, outcomes, ..
        } = &mut *table;
        let found = leases
            .iter()
            .enumerate()
            .find_map(|(at, it)| match it.state {
                State::Calling(open, step) if open == call => Some((at, step)),
                _ => None,
            });
        let Some((at, step)) = found else {
            return;
        };
        let part = &leases[at].parts[step / METHODS.len()];
        let held = held(leases, &part.plugin.name);
        let lease = &mut leases[at];
        let applied = lease.apply_reply(step, result, &held);
        match applied.and_then(|()| lease.call_from(step + 1, plugins, context)) {
            Ok(()) if matches!(lease.state, State::Held) => {
                outcomes.push((lease.id, Ok(lease.document(files))));
            }
            Ok(()) => {}
            Err(refusal) => {
                lease.report_failed(step, &refusal, context);
                outcomes.push((leases.remove(at).id, Err(refusal)));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Makes the next call that a plugin needs, from this step on. After the last one, the devices
    /// are held.
    fn call_from(
        &mut self,
        step: usize,
        plugins: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        for step in step..self.parts.len() * METHODS.len() {
            let part = &self.parts[step / METHODS.len()];
            let method = METHODS[step % METHODS.len()];
            let known = plugins.get(&part.plugin.name);
            let known = known.ok_or_else(|| missing(&part.plugin.name))?;
            let request = match method {
                device_plugin::GET_PREFERRED_ALLOCATION if part.choice.is_empty() => continue,
                device_plugin::PRE_START_CONTAINER if !known.pre_start_required => continue,
                device_plugin::GET_PREFERRED_ALLOCATION => {
                    let request = ContainerPreferredAllocationRequest {
                        available_device_i_ds: part.choice.clone(),
                        must_include_device_i_ds: self.wish.devices.clone(),
                        allocation_size: i32::try_from(part.devices.len()).unwrap_or(i32::MAX),
                    };
                    let container_requests = vec![request];
                    PreferredAllocationRequest { container_requests }.encode_to_vec()
                }
                device_plugin::ALLOCATE => {
                    allocation::request(part.ids().map(str::to_owned).collect())
                }
                _ => {
                    let devices_ids = part.ids().map(str::to_owned).collect();
                    PreStartContainerRequest { devices_ids }.encode_to_vec()
                }
            };
            let call = context.call(Call {
                endpoint: known.plugin.endpoint.clone(),
                method,
                request,
                timeout: ALLOCATE_TIMEOUT,
                wait_for_ready: false,
            });
            self.state = State::Calling(call, step);
            return Ok(());
        }
        self.state = State::Held;
        Ok(())
    }

    /// Applies the reply to the call of a step. `held`: the held devices of its resource.
    fn apply_reply(
        &mut self,
        step: usize,
        result: Result<Vec<u8>, CallFailure>,
        held: &BTreeMap<Box<str>, Holder>,
    ) -> Result<(), Refusal> {
        let part = &mut self.parts[step / METHODS.len()];
        let method = METHODS[step % METHODS.len()];
        let describe = |why: &str| {
            let resource = escape::text(&part.plugin.name);
            let method = method.rsplit('/').next().unwrap_or(method);
            format!("{resource}: {method}: {why}")
        };
        let reply = result.map_err(|failure| {
            let why = describe(&failure.to_string());
            match failure {
                CallFailure::Call(error)
                    if !matches!(error.code(), Code::DeadlineExceeded | Code::Unavailable) =>
                {
                    Refusal::Failed(why)
                }
                _ => Refusal::Busy(why), // The plugin may answer later.
            }
        })?;
        match method {
            device_plugin::GET_PREFERRED_ALLOCATION => {
                part.apply_preference(&reply, held, &self.wish.devices);
            }
            device_plugin::ALLOCATE => {
                let allocation = Allocation::from_reply(&reply);
                part.allocation = allocation.map_err(|why| Refusal::Failed(describe(&why)))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns what the client gets, and adds files with that for container runtimes.
    fn document(&self, files: &CdiFiles) -> Value {
        let parts = self.parts.iter();
        let resources = parts.map(|part| {
            let mut resource = json!(part.allocation);
            resource["resource"] = part.plugin.name.clone().into();
            resource["deviceIds"] = part.ids().collect();
            resource
        });
        let mut names = Vec::new();
        for part in &self.parts {
            names.extend(part.allocation.cdi_devices().map(str::to_owned));
            let resource = &part.plugin.name;
            names.extend(cdi::add_lease_file(
                files,
                resource,
                self.id,
                &part.allocation,
            ));
        }
        json!({ "resources": resources.collect::<Value>(), "cdiDevices": names })
    }

    /// Emits an event for each device that cannot be used any more.
    fn report_lost(&mut self, plugins: &Store<DevicePlugin>, context: &mut Context<'_>) {
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

    fn report_failed(&self, step: usize, refusal: &Refusal, context: &mut Context<'_>) {
        let plugin = &self.parts[step / METHODS.len()].plugin;
        let (Refusal::Missing(why) | Refusal::Busy(why) | Refusal::Failed(why)) = refusal;
        let (why, pid) = (escape::composed(why.as_bytes()), self.holder.pid);
        let message = format!("a command was refused devices: {why} pid={pid}");
        context.emit(plugin, EventType::Warning, "AllocateFailed", message);
    }
}

impl Part {
    fn ids(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|(id, _)| &**id)
    }

    /// Replaces the devices by those that the plugin prefers, if these are as many, are free and
    /// include the required ones.
    fn apply_preference(
        &mut self,
        reply: &[u8],
        held: &BTreeMap<Box<str>, Holder>,
        required: &[String],
    ) {
        let reply = PreferredAllocationResponse::decode(reply).unwrap_or_default();
        let preferred = reply.container_responses.into_iter().next();
        let mut preferred = preferred.unwrap_or_default().device_i_ds;
        preferred.sort_unstable();
        preferred.dedup();
        let is_own = |id: &str| self.ids().any(|own| own == id);
        let is_free = |id: &String| is_own(id) || !held.contains_key(&**id);
        let is_valid = preferred.len() == self.devices.len()
            && preferred
                .iter()
                .all(|id| self.choice.binary_search(id).is_ok() && is_free(id))
            && required
                .iter()
                .all(|id| preferred.binary_search(id).is_ok());
        if is_valid {
            let preferred = preferred.into_iter();
            self.devices = preferred.map(|id| (id.into(), false)).collect();
        }
        self.choice = Vec::new();
    }
}

/// Returns the devices of a resource that are held, by ID.
fn held(leases: &[Lease], resource: &str) -> BTreeMap<Box<str>, Holder> {
    let mut held = BTreeMap::new();
    for lease in leases {
        let mut parts = lease.parts.iter();
        if let Some(part) = parts.find(|part| part.plugin.name == resource) {
            held.extend(part.ids().map(|id| (id.into(), lease.holder)));
        }
    }
    held
}

/// Chooses devices of each resource, if enough are free and no earlier client waits for
/// some of them.
fn choose(
    wish: &Wish,
    awaited: &[String],
    leases: &[Lease],
    plugins: &Store<DevicePlugin>,
) -> Result<Vec<Part>, Refusal> {
    let parts = wish.resources.iter().map(|(name, count)| {
        let known = plugins.get(name).ok_or_else(|| missing(name))?;
        let held = held(leases, name);
        let devices = known.devices.iter();
        let free = devices.filter(|it| it.is_healthy && !held.contains_key(&it.id));
        let mut free: Vec<&Device> = free.collect();
        let is_lacking = |id: &&String| free.binary_search_by(|it| (*it.id).cmp(id)).is_err();
        let lacking = wish.devices.iter().find(is_lacking);
        let lacking =
            lacking.map(|id| format!("{} is not free", escape::text(id).at_most(SHOWN_ID)));
        let is_awaited = awaited.contains(name);
        let obstacle = is_awaited.then(|| "an earlier command waits".to_owned());
        let obstacle = obstacle.or(lacking);
        if free.len() < *count || obstacle.is_some() {
            return Err(busy(&known, (*count, free.len()), obstacle, &held));
        }
        let choice = if known.preferred_allocation && free.len() > *count {
            free.iter().map(|device| device.id.to_string()).collect()
        } else {
            Vec::new()
        };
        sort_by_preference(&mut free, &wish.devices, *count);
        let chosen = free.iter().take(*count);
        Ok(Part {
            plugin: known.plugin.clone(),
            devices: chosen.map(|it| (it.id.clone(), false)).collect(),
            choice,
            allocation: Allocation::default(),
        })
    });
    parts.collect()
}

/// Sorts free devices: required ones first, then those of the NUMA node with the fewest devices
/// that suffice, or else of the node with the most.
fn sort_by_preference(free: &mut [&Device], required: &[String], count: usize) {
    let node = |device: &Device| device.numa_nodes.first().copied();
    let mut nodes: Vec<_> = free.iter().map(|device| node(device)).collect();
    nodes.sort_unstable();
    free.sort_by_cached_key(|device| {
        let node = node(device);
        let size = nodes.partition_point(|it| *it <= node) - nodes.partition_point(|it| *it < node);
        let rank = if size >= count {
            size
        } else {
            usize::MAX - size
        };
        let is_required = required.iter().any(|id| **id == *device.id);
        (!is_required, rank, node)
    });
}

fn missing(resource: &str) -> Refusal {
    Refusal::Missing(format!("no such resource: {}", escape::text(resource)))
}

/// Returns the refusal that names the holders of a resource.
fn busy(
    known: &DevicePlugin,
    (wanted, free): (usize, usize),
    obstacle: Option<String>,
    held: &BTreeMap<Box<str>, Holder>,
) -> Refusal {
    let (name, healthy) = (escape::text(&known.plugin.name), known.healthy());
    let mut why = format!("{name}: wanted={wanted} free={free} healthy={healthy}");
    if let Some(obstacle) = obstacle {
        why = why + ", " + &obstacle;
    }
    for (id, holder) in held.iter().take(SHOWN_HOLDERS) {
        let id = escape::text(id).at_most(SHOWN_ID);
        let _ = write!(why, ", {id} is held by process {}", holder.pid);
    }
    if let Some(more @ 1..) = held.len().checked_sub(SHOWN_HOLDERS) {
        let _ = write!(why, ", and {more} more are held");
    }
    Refusal::Busy(why)
}

/// The number of holders that a refusal names.
const SHOWN_HOLDERS: usize = 8;

#[cfg(test)]
mod tests;
