//! Device plugins: their devices, and whether these can be used.
//!
//! Pure. A plugin is acceptable if it supports `v1beta1` and is named as an extended resource.
//! Registering the plugin asks for its options. After that, it lists its devices on a stream, and
//! every message replaces the whole previous list:
//!
//! ```text
//!             GetDevicePluginOptions        ListAndWatch
//! register -> AskingOptions ---- answered -> Listing <-----+
//!                |                             |  | ended  | after a pause
//!                +---- anything else: refused  |  +--------+
//!                                              |    meanwhile all are unhealthy, and after
//!                                              |    DEVICE_GRACE they are forgotten
//!                                              +-- deregister: all is forgotten
//! ```
//!
//! The stream is opened on the connection of the call, as with kubelet.
//!
//! A list is applied at once, unless another one was within [`LIST_INTERVAL`]: then the newest is
//! applied at its end. A list that exceeds a limit is rejected, and the one before stays in force;
//! the stream is opened again after a pause, because the next list may be shorter.
//!
//! kubelet does not open the stream again: there, a plugin that ends the stream has to register
//! again. Here this applies only to a plugin that answers UNIMPLEMENTED, and to one that has
//! announced itself: that one is deregistered after [`DEVICE_GRACE`].

mod changes;
mod devices;
mod inventory;
mod resource;
mod unlistable;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

pub use self::devices::{Device, Devices};
pub use self::inventory::DevicePlugin;
pub use self::resource::{NotAResource, Unacceptable};
pub(crate) use self::resource::{VERSION, is_resource_name};
pub use self::unlistable::Unlistable;

use super::reconnect::{Reconnect, Target};
use super::{
    Answer, Call, CallFailure, Context, EffectId, Event, EventType, Plugin, PluginHandler, Reason,
    Store, Stream, Ticket, reply, wording,
};
use crate::budget::Reserved;
use crate::config::{
    DEVICE_GRACE, DEVICE_OPTIONS_TIMEOUT, DIAL_TIMEOUT, LIST_INTERVAL, MAX_NOTIFY_REPLY,
};
use crate::escape;
use crate::grpc::{CallError, Code};
use crate::proto::v1beta1::{DevicePluginOptions, Empty, device_plugin};
use crate::time::Time;

/// The handler for plugins of type [`TYPE`].
#[derive(Debug, Default)]
pub struct DeviceHandler {
    plugins: Store<DevicePlugin>,
    /// The registered plugins and those being registered, by registration socket.
    clients: BTreeMap<Arc<Path>, Client>,
}

/// The handler's side of one plugin.
#[derive(Debug)]
struct Client {
    plugin: Arc<Plugin>,
    /// Whether it announces itself again after the end of the stream.
    is_announced: bool,
    state: State,
}

/// The state of a client, named after what the client waits for.
#[derive(Debug)]
enum State {
    /// Waits for the plugin's options, to answer this question.
    AskingOptions(Option<Ticket>),
    /// Waits for the next list of devices.
    Listing(Box<Listing>),
}

/// What is known about a client whose devices are listed.
#[derive(Debug)]
struct Listing {
    options: DevicePluginOptions,
    /// The stream of lists; `None` if the plugin does not implement `ListAndWatch`.
    stream: Option<Reconnect>,
    /// The timer after which unhealthy devices are forgotten, while it runs.
    grace: Option<EffectId>,
    /// When a list was last applied on the stream.
    listed_at: Option<Time>,
    /// The newest list that arrived soon after that.
    next: Option<WaitingList>,
    /// The memory that the devices take.
    reserved: Reserved,
    /// Whether a warning about a list was logged and no list has been accepted since.
    is_warned: bool,
}

/// A list of devices that waits.
#[derive(Debug)]
struct WaitingList {
    list: Vec<u8>,
    /// The memory that it takes.
    _reserved: Reserved,
    /// The timer that has it applied.
    timer: EffectId,
}

impl DeviceHandler {
    /// Returns the registered plugins, which stay readable after the handler has been given away.
    pub fn plugins(&self) -> Store<DevicePlugin> {
        self.plugins.clone()
    }

    /// Forgets the plugin with that socket.
    fn drop_client(&mut self, socket: &Path) {
        if let Some(client) = self.clients.remove(socket) {
            self.plugins.remove(&client.plugin);
        }
    }

    /// Finishes a registration with the reply that holds the plugin's options, or with its failure.
    fn called(
        &mut self,
        socket: &Path,
        result: Result<Vec<u8>, CallFailure>,
        context: &mut Context<'_>,
    ) {
        let Some(client) = self.clients.get_mut(socket) else {
            return;
        };
        let State::AskingOptions(ticket) = client.state else {
            return;
        };
        let answer = match options(&client.plugin, result) {
            Ok(options) => {
                client.list(options, &self.plugins, context);
                Ok(())
            }
            Err(reason) => {
                self.drop_client(socket);
                Err(reason)
            }
        };
        if let Some(ticket) = ticket {
            context.answer(ticket, answer);
        }
    }
}

impl PluginHandler for DeviceHandler {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        match resource::check(&plugin.name, &plugin.versions) {
            Ok(()) => Answer::YES,
            Err(unacceptable) => {
                log::debug!("{plugin}: {unacceptable}");
                Answer::no(unacceptable.words(plugin))
            }
        }
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        context.call(Call {
            endpoint: plugin.endpoint.clone(),
            method: device_plugin::GET_DEVICE_PLUGIN_OPTIONS,
            request: Empty {}.encode_to_vec(),
            timeout: DEVICE_OPTIONS_TIMEOUT,
            wait_for_ready: true,
        });
        let client = Client {
            plugin: plugin.clone(),
            is_announced: context.is_announced(),
            state: State::AskingOptions(context.ticket()),
        };
        self.clients.insert(plugin.socket.clone(), client);
        Answer::Pending
    }

    fn not_checked(&self) -> Option<&'static str> {
        Some("GetDevicePluginOptions and ListAndWatch were not called")
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.drop_client(&plugin.socket);
        Answer::YES
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) {
        self.plugins.promote(plugin);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let Some(plugin) = context.plugin() else {
            return;
        };
        if let Event::Called { result, .. } = event {
            self.called(&plugin.socket, result, context);
        } else if let Some(client) = self.clients.get_mut(&plugin.socket) {
            client.handle_event(event, &self.plugins, context);
        }
    }

    /// Forgets a plugin whose registration is abandoned.
    fn abandon(&mut self, _: Ticket, context: &mut Context<'_>) {
        if let Some(plugin) = context.plugin() {
            self.drop_client(&plugin.socket);
        }
    }
}

impl Client {
    fn handle_event(
        &mut self,
        event: Event,
        store: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) {
        match event {
            Event::StreamMessage { message, .. } => self.listed(message, store, context),
            Event::StreamEnded { result: Ok(()), .. } => {
                self.lost("the plugin ended the stream", store, context);
            }
            Event::StreamEnded {
                result: Err(CallFailure::Call(CallError::TooLarge { announced, .. })),
                ..
            } => self.rejected(&Unlistable::TooLarge { octets: announced }, store, context),
            Event::StreamEnded {
                result: Err(CallFailure::Call(CallError::OverBudget)),
                ..
            } => self.rejected(&Unlistable::OverBudget, store, context),
            Event::StreamEnded {
                result: Err(CallFailure::Call(error)),
                ..
            } if error.code() == Code::Unimplemented => self.unimplemented(&error, store, context),
            Event::StreamEnded {
                result: Err(failure),
                ..
            } => self.lost(&failure.to_string(), store, context),
            Event::TimerFired { id } => self.timer_fired(id, store, context),
            _ => {} // Other effects are never asked for.
        }
    }

    /// Starts using the plugin: adds it to the store and opens the stream that lists its devices.
    fn list(
        &mut self,
        options: DevicePluginOptions,
        store: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) {
        store.set(DevicePlugin::new(&self.plugin, options));
        let stream = Stream {
            endpoint: self.plugin.endpoint.clone(),
            method: device_plugin::LIST_AND_WATCH,
            request: Empty {}.encode_to_vec(),
            dial_timeout: DIAL_TIMEOUT,
        };
        self.state = State::Listing(Box::new(Listing {
            options,
            stream: Some(Reconnect::open(Target::Stream(stream), context)),
            grace: None,
            listed_at: None,
            next: None,
            reserved: context.reserve(),
            is_warned: false,
        }));
    }

    /// Handles a list of devices: applies it, or has it wait because another one was just applied.
    fn listed(&mut self, list: Vec<u8>, store: &Store<DevicePlugin>, context: &mut Context<'_>) {
        let State::Listing(listing) = &mut self.state else {
            return;
        };
        let due = listing.listed_at.map(|at| at + LIST_INTERVAL);
        let wait = due.map_or(Duration::ZERO, |due| due.saturating_since(context.now()));
        if listing.next.is_none() && wait.is_zero() {
            return self.apply(&list, store, context);
        }
        let mut reserved = context.reserve();
        if reserved.resize(list.len()).is_err() {
            return self.rejected(&Unlistable::OverBudget, store, context);
        }
        let timer = match &listing.next {
            Some(next) => next.timer,
            None => context.set_timer(wait),
        };
        listing.next = Some(WaitingList {
            list,
            _reserved: reserved,
            timer,
        });
    }

    /// Replaces the devices by those of a list, unless that exceeds a limit.
    fn apply(&mut self, list: &[u8], store: &Store<DevicePlugin>, context: &mut Context<'_>) {
        let Self { plugin, state, .. } = self;
        let State::Listing(listing) = state else {
            return;
        };
        listing.listed_at = Some(context.now());
        let devices = Devices::from_message(list).and_then(|devices| {
            let is_granted = listing.reserved.resize(devices.mem_used());
            is_granted.map_or(Err(Unlistable::OverBudget), |()| Ok(devices))
        });
        let devices = match devices {
            Ok(devices) => devices,
            Err(unlistable) => return self.rejected(&unlistable, store, context),
        };
        listing.is_warned = false;
        if let Some(grace) = listing.grace.take() {
            context.cancel(grace);
        }
        if store.with(plugin, |_| ()).is_none() {
            store.set(DevicePlugin::new(plugin, listing.options));
        }
        if let Some(Some(changes)) = store.with(plugin, |known| known.replace(devices)) {
            let message = format!("received a device list {changes}");
            context.emit(plugin, EventType::Normal, "DevicesChanged", message);
        }
    }

    /// Rejects a list of devices, and logs a warning unless one was logged since the last accepted
    /// list: the stream is opened again, and the next list is likely to be the same.
    fn rejected(
        &mut self,
        why: &Unlistable,
        store: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) {
        let Self { plugin, state, .. } = self;
        let State::Listing(listing) = state else {
            return;
        };
        if !std::mem::replace(&mut listing.is_warned, true) {
            let advice = why.advice();
            let message = format!("rejected its device list; {advice}: {why}");
            context.emit(plugin, EventType::Warning, "DevicesRejected", message);
        }
        if *why == Unlistable::Undecodable {
            self.lost(&why.to_string(), store, context);
        } else if let Some(stream) = &mut listing.stream {
            stream.interrupted(context);
        }
    }

    /// Gives up the stream: a plugin that does not implement it now will not do so later.
    fn unimplemented(
        &mut self,
        error: &CallError,
        store: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) {
        let Self { plugin, state, .. } = self;
        if let State::Listing(listing) = state {
            listing.stream = None;
            let message = format!(
                "does not implement ListAndWatch, so none of its devices can be used; it is not \
                 called again until the plugin registers again: {error}"
            );
            context.emit(plugin, EventType::Warning, "DevicesUnavailable", message);
        }
        self.lost(&error.to_string(), store, context);
    }

    /// Handles the loss of the stream: the devices may be in any state.
    fn lost(&mut self, why: &str, store: &Store<DevicePlugin>, context: &mut Context<'_>) {
        let Self {
            plugin,
            is_announced,
            state,
        } = self;
        let State::Listing(listing) = state else {
            return;
        };
        listing.listed_at = None;
        if let Some(next) = listing.next.take() {
            context.cancel(next.timer);
        }
        if *is_announced {
            if let Some(ended) = listing.stream.take() {
                context.cancel(ended.effect());
            }
        } else if let Some(stream) = &mut listing.stream {
            stream.interrupted(context);
        }
        let is_kept = store.with(plugin, DevicePlugin::disconnect);
        let why = escape::text(why);
        if is_kept == Some(true) {
            let message = format!("all devices are unhealthy: {why}");
            context.emit(plugin, EventType::Normal, "DevicesUnhealthy", message);
        } else {
            log::debug!("{plugin}: still no list of devices: {why}");
        }
        if is_kept.is_some() && listing.grace.is_none() {
            listing.grace = Some(context.set_timer(DEVICE_GRACE));
        }
    }

    /// Applies the list that waits, forgets the devices or opens the stream again, depending on the
    /// timer.
    fn timer_fired(
        &mut self,
        timer: EffectId,
        store: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) {
        let State::Listing(listing) = &mut self.state else {
            return;
        };
        if let Some(next) = listing.next.take_if(|next| next.timer == timer) {
            self.apply(&next.list, store, context);
        } else if listing.grace.take_if(|end| *end == timer).is_none() {
            if let Some(stream) = &mut listing.stream {
                stream.resume(context);
            }
        } else if store.remove(&self.plugin).is_some() {
            listing.reserved = context.reserve();
            let message = format!(
                "removed its devices: it has sent no device list in time grace={DEVICE_GRACE:?}"
            );
            let plugin = &self.plugin;
            context.emit(plugin, EventType::Normal, "DevicesRemoved", message);
            if self.is_announced {
                context.withdraw(plugin);
            }
        }
    }
}

/// Returns the options that a plugin reported, or why it did not, in kubelet's words.
fn options(
    plugin: &Plugin,
    result: Result<Vec<u8>, CallFailure>,
) -> Result<DevicePluginOptions, Reason> {
    let endpoint = &plugin.endpoint;
    if let Err(CallFailure::Dial(error)) = &result {
        let why = wording::connection_error(error, endpoint);
        return Err(Reason::new(format!("failed to dial device plugin: {why}")));
    }
    reply::read(endpoint, result, MAX_NOTIFY_REPLY).map_err(|why| {
        let why = why.as_str();
        Reason::new(format!("failed to get device plugin options: {why}"))
    })
}

/// The type of device plugins.
pub const TYPE: &str = "DevicePlugin";

#[cfg(test)]
mod tests;
