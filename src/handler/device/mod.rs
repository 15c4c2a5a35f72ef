//! Device plugins: their devices, and whether these can be used.
//!
//! A plugin is acceptable if it supports `v1beta1` and its name is that of an extended resource.
//! To register the plugin, the handler asks for its options. After that, the plugin lists its
//! devices on a stream, and every message replaces the whole previous list:
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
//! The stream is first opened on the connection of the call for the options, as with kubelet, if
//! that connection is still usable.
//!
//! A list is applied at once, unless another one was applied or rejected less than
//! [`LIST_INTERVAL`] ago: then the newest list is applied when the interval is over. A list that
//! exceeds a limit is rejected, and the one before stays in force, because the next one may be
//! shorter. A message that is too large to be read, or that the memory budget has no room for while
//! it is received, also ends the stream. A list that cannot be decoded ends the stream and makes
//! the devices unhealthy. A stream that has ended is opened again after a pause.
//!
//! kubelet does not open the stream again: there, a plugin whose stream has ended has to register
//! again. Here, that applies only to a plugin that answers UNIMPLEMENTED, and to one that has
//! announced itself, unless its stream ended because of a limit. A plugin that has announced itself
//! is then down until it announces itself again.

mod allocation;
mod cdi;
mod changes;
mod devices;
mod inventory;
mod leases;
mod resource;

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use prost::Message as _;

use self::cdi::Published;
pub(crate) use self::cdi::{CdiFiles, is_lease_file};
pub use self::devices::{Device, Devices};
pub use self::inventory::DevicePlugin;
pub use self::leases::{Holder, Leases, Outcome, Refusal, Wish};
pub(crate) use self::resource::{VERSION, is_resource_name};

use super::reconnect::Reconnect;
use super::{
    Answer, Call, CallFailure, Context, EffectId, EndpointRequest, Event, EventType, Plugin,
    PluginHandler, Reason, Store, Stream, Ticket, Unlistable, reply, wording,
};
use crate::budget::Reserved;
use crate::config::{
    DEVICE_GRACE, DIAL_TIMEOUT, HANDLER_CALL_TIMEOUT, LIST_INTERVAL, MAX_SMALL_MESSAGE,
};
use crate::escape;
use crate::grpc::{CallError, Code};
use crate::octets::PathKey;
use crate::proto::v1beta1::{DevicePluginOptions, Empty, device_plugin};
use crate::time::Time;

/// The handler for plugins of type [`TYPE`].
#[derive(Debug, Default)]
pub struct DeviceHandler {
    plugins: Store<DevicePlugin>,
    /// The registered plugins and those being registered, by registration socket.
    clients: HashMap<PathKey, Client>,
    leases: Leases,
}

/// The handler's state for one plugin. A variant is named after the reply that is awaited.
#[derive(Debug)]
enum Client {
    /// Waits for the plugin's options.
    AskingOptions {
        /// The question to answer when the options have arrived.
        ticket: Option<Ticket>,
        is_announced: bool,
    },
    /// Waits for the next list of devices.
    Listing(Box<ListedPlugin>),
}

/// The state of a plugin whose devices are listed.
#[derive(Debug)]
struct ListedPlugin {
    plugin: Arc<Plugin>,
    store: Store<DevicePlugin>,
    /// Whether the plugin has announced itself, and so has to do that again when the stream ends.
    is_announced: bool,
    /// The plugin's first entry in the store, without devices.
    initial: DevicePlugin,
    /// The stream of lists; `None` if it is not opened again: the plugin does not implement
    /// `ListAndWatch`, or has announced itself and the stream was lost, not ended by a limit.
    stream: Option<Reconnect>,
    /// The timer after which unhealthy devices are forgotten, while it runs.
    grace: Option<EffectId>,
    /// The time at which a list of the stream was last applied or rejected.
    listed_at: Option<Time>,
    /// The newest list that arrived within [`LIST_INTERVAL`] of that.
    next: Option<WaitingList>,
    /// The part of the memory budget that the devices take.
    reserved: Reserved,
    /// Whether a warning about a list was logged and no list has been accepted since.
    is_warned: bool,
    published: Published,
    /// Whether the devices or their health have changed since they were published.
    is_changed: bool,
}

/// A list of devices that arrived too early to be applied.
#[derive(Debug)]
struct WaitingList {
    list: Vec<u8>,
    /// The part of the memory budget that the list takes.
    _reserved: Reserved,
    /// The timer after which the list is applied.
    timer: EffectId,
}

impl DeviceHandler {
    /// Creates a handler that grants devices to the clients in `leases`, and puts the CDI files of
    /// the devices there.
    pub fn new(leases: Leases) -> Self {
        Self {
            leases,
            ..Self::default()
        }
    }

    /// Returns the registered plugins, which stay readable after the handler has been given away.
    pub fn plugins(&self) -> Store<DevicePlugin> {
        self.plugins.clone()
    }

    /// Removes what is known of a plugin, and its devices from the CDI file.
    fn forget_plugin(&mut self, plugin: &Plugin) {
        self.clients.remove(&plugin.socket_key());
        if self.plugins.remove(plugin).is_some() {
            self.replace_cdi_file(&plugin.name);
        }
    }

    /// Replaces the CDI file of a resource after one of its plugins was removed from the store: the
    /// file has the devices for which the plugin that is current now has answered before. That
    /// plugin is asked about the others at its next event.
    fn replace_cdi_file(&mut self, resource: &str) {
        let Some(files) = &mut self.leases.lock().files else {
            return;
        };
        let Some(known) = self.plugins.get(resource) else {
            files.insert(cdi::file_name(resource), None);
            return;
        };
        if let Some(Client::Listing(listing)) = self.clients.get_mut(&known.plugin.socket_key()) {
            listing.published.handle_list(&known, files);
        }
    }

    /// Updates the CDI file and the leases after a plugin or its devices have changed.
    fn update_cdi_file_and_leases(&mut self, plugin: &Plugin, context: &mut Context<'_>) {
        self.update_cdi_file(plugin, context);
        self.wake(&mut context.detached());
    }

    /// Updates the CDI file of a plugin's devices, if the plugin is the current one of its name.
    fn update_cdi_file(&mut self, plugin: &Plugin, context: &mut Context<'_>) {
        let Some(Client::Listing(listing)) = self.clients.get_mut(&plugin.socket_key()) else {
            return;
        };
        let is_current = |known: &Arc<DevicePlugin>| known.plugin.has_socket_of(plugin);
        let known = self.plugins.get(&plugin.name).filter(is_current);
        let (Some(known), Some(files)) = (known, &mut self.leases.lock().files) else {
            return;
        };
        let published = &mut listing.published;
        if std::mem::take(&mut listing.is_changed) {
            published.handle_list(&known, files);
        }
        published.ask_about_next_device(&known, files, context);
    }

    /// Finishes a registration with the result of the call for the plugin's options.
    fn finish_registration(
        &mut self,
        plugin: &Arc<Plugin>,
        result: Result<Vec<u8>, CallFailure>,
        context: &mut Context<'_>,
    ) {
        let Some(client) = self.clients.get_mut(&plugin.socket_key()) else {
            return;
        };
        let Client::AskingOptions {
            ticket,
            is_announced,
        } = *client
        else {
            return;
        };
        let answer = read_options(plugin, result);
        let answer = answer.map(|options| {
            let mut listing = ListedPlugin::open(plugin, options, &self.plugins, context);
            listing.is_announced = is_announced;
            *client = Client::Listing(Box::new(listing));
        });
        if answer.is_err() {
            self.forget_plugin(plugin);
        }
        if let Some(ticket) = ticket {
            context.answer(ticket, answer);
        }
    }
}

impl PluginHandler for DeviceHandler {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::Done(resource::check_plugin(plugin))
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        context.call(Call {
            endpoint: plugin.endpoint.clone(),
            method: device_plugin::GET_DEVICE_PLUGIN_OPTIONS,
            request: Empty {}.encode_to_vec(),
            timeout: HANDLER_CALL_TIMEOUT,
            wait_for_ready: true,
        });
        let client = Client::AskingOptions {
            ticket: context.ticket(),
            is_announced: context.is_announced(),
        };
        self.clients.insert(plugin.socket_key(), client);
        Answer::Pending
    }

    fn not_checked(&self) -> Option<&'static str> {
        Some("GetDevicePluginOptions and ListAndWatch were not called")
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.forget_plugin(plugin);
        self.wake(&mut context.detached());
        Answer::YES
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        self.plugins.promote(plugin);
        if let Some(Client::Listing(listing)) = self.clients.get_mut(&plugin.socket_key()) {
            listing.is_changed = true;
        }
        self.update_cdi_file_and_leases(plugin, context);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let Some(plugin) = context.plugin() else {
            if let Event::Called { id, result, .. } = event {
                self.leases.handle_reply(id, result, context);
            }
            self.wake(context);
            return;
        };
        match (event, self.clients.get_mut(&plugin.socket_key())) {
            (Event::TimerFired { id }, Some(Client::Listing(listing))) => {
                let is_removed = listing.handle_timer(id, context);
                if is_removed {
                    self.replace_cdi_file(&plugin.name);
                }
            }
            (event, Some(Client::Listing(listing))) => listing.handle_event(event, context),
            (Event::Called { result, .. }, _) => self.finish_registration(plugin, result, context),
            _ => {}
        }
        self.update_cdi_file_and_leases(plugin, context);
    }

    fn wake(&mut self, context: &mut Context<'_>) -> bool {
        self.leases.serve_clients(&self.plugins, context);
        true
    }

    /// Forgets a plugin whose registration is abandoned.
    fn abandon(&mut self, _: Ticket, context: &mut Context<'_>) {
        if let Some(plugin) = context.plugin() {
            self.forget_plugin(plugin);
        }
    }
}

impl ListedPlugin {
    /// Starts using a plugin: adds it to the store and opens the stream that lists its devices.
    fn open(
        plugin: &Arc<Plugin>,
        options: DevicePluginOptions,
        store: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) -> Self {
        let stream = Stream {
            endpoint: plugin.endpoint.clone(),
            method: device_plugin::LIST_AND_WATCH,
            request: Empty {}.encode_to_vec(),
            dial_timeout: DIAL_TIMEOUT,
        };
        let stream = Reconnect::open(EndpointRequest::Stream(Box::new(stream)), context);
        let mut initial = DevicePlugin::new(plugin, options);
        initial.order = stream.effect().number;
        store.set(initial.clone());
        Self {
            plugin: plugin.clone(),
            store: store.clone(),
            is_announced: false,
            initial,
            stream: Some(stream),
            grace: None,
            listed_at: None,
            next: None,
            reserved: context.reserve(),
            is_warned: false,
            published: Published::new(context),
            is_changed: true,
        }
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Called { id, result, .. } => {
                self.published
                    .handle_reply(id, result, &self.plugin, context);
            }
            Event::StreamMessage { message, .. } => self.receive_list(message, context),
            Event::StreamEnded { result, .. } => self.handle_stream_end(result, context),
            _ => {} // No other effects are requested, and `handle_timer` handles timers.
        }
    }

    /// Handles the end of the stream. If it ended because a message exceeds a limit, the previous
    /// list stays in force.
    fn handle_stream_end(&mut self, result: Result<(), CallFailure>, context: &mut Context<'_>) {
        let why = match result {
            Ok(()) => return self.handle_stream_loss("the plugin ended the stream", context),
            Err(CallFailure::Call(CallError::TooLarge { announced, .. })) => {
                Unlistable::TooLarge { octets: announced }
            }
            Err(CallFailure::Call(CallError::OverBudget)) => Unlistable::OverBudget,
            Err(CallFailure::Call(error)) if error.code() == Code::Unimplemented => {
                return self.give_up_stream(&error, context);
            }
            Err(failure) => return self.handle_stream_loss(&failure.to_string(), context),
        };
        self.reject_list(why, context);
        if let Some(stream) = &mut self.stream {
            stream.handle_interruption(context);
        }
    }

    /// Handles a list of devices: applies it, or keeps it for later because another one was just
    /// applied or rejected. Rejects a list that the memory budget has no room to keep.
    fn receive_list(&mut self, list: Vec<u8>, context: &mut Context<'_>) {
        let due = self.listed_at.map(|at| at + LIST_INTERVAL);
        let wait = due.map_or(Duration::ZERO, |due| due.saturating_since(context.now()));
        if self.next.is_none() && wait.is_zero() {
            return self.apply_list(&list, context);
        }
        let mut reserved = context.reserve();
        if reserved.resize(list.len()).is_err() {
            return self.reject_list(Unlistable::OverBudget, context);
        }
        let timer = match &self.next {
            Some(next) => next.timer,
            None => context.set_timer(wait),
        };
        self.next = Some(WaitingList {
            list,
            _reserved: reserved,
            timer,
        });
    }

    /// Replaces the devices with those of a list; rejects the list if it cannot be decoded or
    /// exceeds a limit.
    fn apply_list(&mut self, list: &[u8], context: &mut Context<'_>) {
        self.listed_at = Some(context.now());
        let devices = Devices::from_message(list).and_then(|devices| {
            let is_granted = self.reserved.resize(devices.mem_used());
            is_granted.map_or(Err(Unlistable::OverBudget), |()| Ok(devices))
        });
        let devices = match devices {
            Ok(devices) => devices,
            Err(why) => return self.reject_list(why, context),
        };
        let plugin = &self.plugin;
        self.is_warned = false;
        if let Some(grace) = self.grace.take() {
            context.cancel(grace);
        }
        if self.store.with(plugin, |_| ()).is_none() {
            // The new entry is the last one: the entries of the newer plugins go behind it again.
            self.store.set(self.initial.clone());
            let mut others = self.store.all(&plugin.name);
            others.retain(|other| other.order > self.initial.order);
            for newer in others {
                self.store.promote(&newer.plugin);
            }
        }
        if let Some(Some(changes)) = self
            .store
            .with(plugin, |known| known.replace_devices(devices))
        {
            self.is_changed = true;
            let message = format!("received a device list {changes}");
            context.emit(plugin, EventType::Normal, "DevicesChanged", message);
        }
    }

    /// Rejects a list of devices, and logs a warning unless one was logged since the last accepted
    /// list: the next warning is likely to be the same. The previous list stays in force, unless
    /// the new one cannot be decoded: then the messages of the stream may not be lists at all.
    fn reject_list(&mut self, why: Unlistable, context: &mut Context<'_>) {
        if !std::mem::replace(&mut self.is_warned, true) {
            let advice = why.advice();
            let message = format!("rejected its device list; {advice}: {why}");
            context.emit(&self.plugin, EventType::Warning, "DevicesRejected", message);
        }
        if why == Unlistable::Undecodable {
            self.handle_stream_loss(&why.to_string(), context);
        }
    }

    /// Gives up the stream: a plugin that does not implement it now will not do so later.
    fn give_up_stream(&mut self, error: &CallError, context: &mut Context<'_>) {
        self.stream = None;
        let message = format!(
            "does not implement ListAndWatch, so none of its devices can be used; the method is \
             not called again until the plugin registers again: {error}"
        );
        context.emit(
            &self.plugin,
            EventType::Warning,
            "DevicesUnavailable",
            message,
        );
        self.handle_stream_loss(&error.to_string(), context);
    }

    /// Handles the loss of the stream: the health of the devices is unknown, so they become
    /// unhealthy. A plugin that has announced itself is down; otherwise, the stream is opened again
    /// after a pause.
    fn handle_stream_loss(&mut self, why: &str, context: &mut Context<'_>) {
        let plugin = &self.plugin;
        self.listed_at = None;
        if let Some(next) = self.next.take() {
            context.cancel(next.timer);
        }
        if self.is_announced {
            if let Some(ended) = self.stream.take() {
                context.cancel(ended.effect());
            }
            let reason = format!("ListAndWatch has ended: {why}");
            context.set_down(plugin, Reason::new(reason));
        } else if let Some(stream) = &mut self.stream {
            stream.handle_interruption(context);
        }
        self.is_changed = true;
        let is_kept = self.store.with(plugin, DevicePlugin::mark_disconnected);
        let why = escape::text(why);
        if is_kept == Some(true) {
            let message = format!("all devices are unhealthy: {why}");
            context.emit(plugin, EventType::Normal, "DevicesUnhealthy", message);
        } else {
            log::debug!("{plugin}: ListAndWatch ended before a device list was accepted: {why}");
        }
        if is_kept.is_some() && self.grace.is_none() {
            self.grace = Some(context.set_timer(DEVICE_GRACE));
        }
    }

    /// Handles the expiry of a timer: applies the waiting list, opens the stream again, or forgets
    /// the devices. The timer of [`Published`] needs nothing here:
    /// [`DeviceHandler::update_cdi_file_and_leases`] follows. Returns whether the plugin was
    /// removed from the store.
    fn handle_timer(&mut self, timer: EffectId, context: &mut Context<'_>) -> bool {
        if let Some(next) = self.next.take_if(|next| next.timer == timer) {
            self.apply_list(&next.list, context);
        } else if self.grace.take_if(|end| *end == timer).is_none() {
            let paused = self.stream.as_mut().filter(|it| it.effect() == timer);
            if let Some(stream) = paused {
                stream.resume(context);
            }
        } else if self.store.remove(&self.plugin).is_some() {
            self.reserved = context.reserve();
            let message = format!(
                "removed its devices: it has sent no device list in time grace={DEVICE_GRACE:?}"
            );
            let plugin = &self.plugin;
            context.emit(plugin, EventType::Normal, "DevicesRemoved", message);
            return true;
        }
        false
    }
}

/// Returns the options that a plugin reported, or the reason for refusing the plugin, in kubelet's
/// words.
fn read_options(
    plugin: &Plugin,
    result: Result<Vec<u8>, CallFailure>,
) -> Result<DevicePluginOptions, Reason> {
    let endpoint = &plugin.endpoint;
    if let Err(CallFailure::Dial(error)) = &result {
        let why = wording::connection_error(error, endpoint);
        return Err(Reason::new(format!("failed to dial device plugin: {why}")));
    }
    reply::decode(endpoint, result, MAX_SMALL_MESSAGE).map_err(|why| {
        let why = why.as_str();
        Reason::new(format!("failed to get device plugin options: {why}"))
    })
}

/// The type of device plugins.
pub const TYPE: &str = "DevicePlugin";

#[cfg(test)]
mod tests;
