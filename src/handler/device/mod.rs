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
//! A long list is applied over several turns of the loop, and one turn works on one plugin's list.
//! Meanwhile the newest of the next lists waits, so that the lists of a plugin that never pauses
//! are applied, too, though not all of them. The end of the stream and deregistration drop both.
//!
//! kubelet does not open the stream again: there, a plugin that ends the stream has to register
//! again. Here this applies only to a plugin that answers UNIMPLEMENTED, and to one that has
//! announced itself: that one is deregistered after [`DEVICE_GRACE`].

mod changes;
mod devices;
mod encoded;
mod inventory;
mod order;
mod pending;
mod replacement;
mod resource;
mod table;
mod unlistable;
mod work;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

pub use self::devices::Devices;
pub use self::encoded::Device;
pub use self::inventory::DevicePlugin;
pub use self::resource::{NotAResource, Unacceptable};
pub(crate) use self::resource::{VERSION, is_resource_name};
pub use self::unlistable::Unlistable;

use self::pending::Pending;
use self::replacement::Replacement;
use self::work::Work;
use super::reconnect::{Reconnect, Target};
use super::{
    Answer, Call, CallFailure, Context, EffectId, EndpointUse, Event, EventType, Plugin,
    PluginHandler, Reason, Store, Stream, Ticket, reply, wording,
};
use crate::config::{DEVICE_GRACE, DEVICE_OPTIONS_TIMEOUT, DIAL_TIMEOUT, MAX_NOTIFY_REPLY};
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
    /// The last turn that worked on a long list.
    worked_at: Option<Time>,
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
    Listing {
        options: DevicePluginOptions,
        /// The stream of lists; `None` if the plugin does not implement `ListAndWatch`.
        stream: Option<Reconnect>,
        /// The timer after which unhealthy devices are forgotten, while it runs.
        grace: Option<EffectId>,
        /// The list that is being applied, unless that takes one turn.
        pending: Option<Box<Pending>>,
        /// Whether a warning about a list was logged and no list has been accepted since.
        is_warned: bool,
    },
}

impl DeviceHandler {
    /// Returns the registered plugins, which stay readable after the handler has been given away.
    pub fn plugins(&self) -> Store<DevicePlugin> {
        self.plugins.clone()
    }

    /// Returns the octets of memory of the lists that are being applied or wait for that.
    pub fn mem_used(&self) -> usize {
        self.clients.values().map(Client::pending_len).sum()
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

    fn endpoint_use(&self) -> EndpointUse {
        EndpointUse::Registering
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
            client.handle_event(event, &self.plugins, &mut self.worked_at, context);
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
        worked_at: &mut Option<Time>,
        context: &mut Context<'_>,
    ) {
        match event {
            Event::StreamMessage { message, .. } => {
                self.listed(message, store, worked_at, context);
            }
            Event::StreamEnded { result: Ok(()), .. } => {
                self.lost("the plugin ended the stream", store, context);
            }
            Event::StreamEnded {
                result: Err(CallFailure::Call(CallError::TooLarge { announced, .. })),
                ..
            } => self.rejected(&Unlistable::TooLarge { octets: announced }, store, context),
            Event::StreamEnded {
                result: Err(CallFailure::Call(error)),
                ..
            } if error.code() == Code::Unimplemented => self.unimplemented(&error, store, context),
            Event::OverBudget { .. }
            | Event::StreamEnded {
                result: Err(CallFailure::OverBudget),
                ..
            } => self.over_budget(store, context),
            Event::StreamEnded {
                result: Err(failure),
                ..
            } => self.lost(&failure.to_string(), store, context),
            Event::TimerFired { id } => self.timer_fired(id, store, worked_at, context),
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
        self.state = State::Listing {
            options,
            stream: Some(Reconnect::open(Target::Stream(stream), context)),
            grace: None,
            pending: None,
            is_warned: false,
        };
    }

    /// Handles a list of devices: applies it, or has it wait for the end of one that is applied.
    fn listed(
        &mut self,
        message: Vec<u8>,
        store: &Store<DevicePlugin>,
        worked_at: &mut Option<Time>,
        context: &mut Context<'_>,
    ) {
        let State::Listing { pending, .. } = &mut self.state else {
            return;
        };
        let mut list = Replacement::new(message);
        if let Some(pending) = pending {
            pending.next = Some(list);
        } else if self.apply(&mut list, store, context).is_none() {
            *worked_at = Some(context.now());
            if let State::Listing { pending, .. } = &mut self.state {
                *pending = Some(Box::new(Pending::new(list, context)));
            }
        }
        self.state_kept(store, context);
    }

    /// Goes on with the list that is being applied, unless this turn has worked on one before.
    fn resume(
        &mut self,
        mut list: Box<Pending>,
        store: &Store<DevicePlugin>,
        worked_at: &mut Option<Time>,
        context: &mut Context<'_>,
    ) {
        let is_its_turn = worked_at.replace(context.now()) != Some(context.now());
        let is_accepted = if is_its_turn {
            self.apply(&mut list.list, store, context)
        } else {
            None
        };
        let is_any = match is_accepted {
            None => true,
            Some(true) => list.start_next(),
            Some(false) => false, // The stream is closed.
        };
        if let State::Listing { pending, .. } = &mut self.state {
            if is_any {
                list.wait(is_its_turn, context);
                *pending = Some(list);
            }
        }
        self.state_kept(store, context);
    }

    /// States what is kept for the plugin.
    fn state_kept(&self, store: &Store<DevicePlugin>, context: &mut Context<'_>) {
        let known = store.with(&self.plugin, |known| known.mem_used());
        context.keeps(known.unwrap_or_default() + self.pending_len());
    }

    /// Returns the octets of memory that lists take which are not applied yet.
    fn pending_len(&self) -> usize {
        match &self.state {
            State::Listing {
                pending: Some(pending),
                ..
            } => pending.mem_used(),
            _ => 0,
        }
    }

    /// Does one turn's work on a list. Returns whether the list is accepted, or `None` if there is
    /// more work to do.
    fn apply(
        &mut self,
        list: &mut Replacement,
        store: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) -> Option<bool> {
        let Self { plugin, state, .. } = self;
        let State::Listing {
            options,
            grace,
            is_warned,
            ..
        } = state
        else {
            return Some(false);
        };
        if store.with(plugin, |_| ()).is_none() {
            store.set(DevicePlugin::new(plugin, *options));
        }
        let result = store.with(plugin, |known| known.advance(list, Work::TURN));
        let is_accepted = match result.flatten()? {
            Ok(news) => {
                *is_warned = false;
                if let Some(grace) = grace.take() {
                    context.cancel(grace);
                }
                if let Some(changes) = news {
                    let message = format!("received a device list {changes}");
                    context.emit(plugin, EventType::Normal, "DevicesChanged", message);
                }
                true
            }
            Err(unlistable) => {
                self.rejected(&unlistable, store, context);
                false
            }
        };
        Some(is_accepted)
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
        if let State::Listing { is_warned, .. } = state {
            if !std::mem::replace(is_warned, true) {
                let message = format!(
                    "rejected its device list; none of its devices can be used until a list is \
                     accepted; {}: {why}",
                    why.remedy()
                );
                context.emit(plugin, EventType::Warning, "DevicesRejected", message);
            }
        }
        self.lost(&why.to_string(), store, context);
    }

    /// Gives up the stream: a plugin that does not implement it now will not do so later.
    fn unimplemented(
        &mut self,
        error: &CallError,
        store: &Store<DevicePlugin>,
        context: &mut Context<'_>,
    ) {
        let Self { plugin, state, .. } = self;
        if let State::Listing { stream, .. } = state {
            *stream = None;
            let message = format!(
                "does not implement ListAndWatch, so none of its devices can be used; it is not \
                 called again until the plugin registers again: {error}"
            );
            context.emit(plugin, EventType::Warning, "DevicesUnavailable", message);
        }
        self.lost(&error.to_string(), store, context);
    }

    /// Drops the list of devices, because plugins have exhausted the memory budget, and opens the
    /// stream again after a pause, also that of a plugin that has announced itself.
    fn over_budget(&mut self, store: &Store<DevicePlugin>, context: &mut Context<'_>) {
        let Self { plugin, state, .. } = self;
        let State::Listing {
            options,
            stream,
            pending,
            ..
        } = state
        else {
            return;
        };
        Pending::drop_lists(pending, context);
        if let Some(stream) = stream {
            stream.interrupted(context);
        }
        let mut devices = 0;
        let known = store.with(plugin, |known| devices = known.devices.len());
        if known.is_some() && devices > 0 {
            store.set(DevicePlugin::new(plugin, *options));
            let why = CallFailure::OverBudget;
            let message = format!("removed its devices: {why} devices={devices}");
            context.emit(plugin, EventType::Normal, "DevicesRemoved", message);
        }
    }

    /// Handles the loss of the stream: the devices may be in any state.
    fn lost(&mut self, why: &str, store: &Store<DevicePlugin>, context: &mut Context<'_>) {
        let Self {
            plugin,
            is_announced,
            state,
        } = self;
        let State::Listing {
            stream,
            grace,
            pending,
            ..
        } = state
        else {
            return;
        };
        Pending::drop_lists(pending, context);
        if *is_announced {
            if let Some(ended) = stream.take() {
                context.cancel(ended.effect());
            }
        } else if let Some(stream) = stream {
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
        if is_kept.is_some() && grace.is_none() {
            *grace = Some(context.set_timer(DEVICE_GRACE));
        }
    }

    /// Opens the stream again, forgets the devices or goes on with a list, depending on the timer.
    fn timer_fired(
        &mut self,
        timer: EffectId,
        store: &Store<DevicePlugin>,
        worked_at: &mut Option<Time>,
        context: &mut Context<'_>,
    ) {
        let State::Listing {
            stream,
            grace,
            pending,
            ..
        } = &mut self.state
        else {
            return;
        };
        if let Some(list) = pending.take_if(|list| list.timer == timer) {
            self.resume(list, store, worked_at, context);
        } else if grace.take_if(|end| *end == timer).is_none() {
            if let Some(stream) = stream {
                stream.resume(context);
            }
        } else if store.remove(&self.plugin).is_some() {
            if let Some(pending) = pending {
                pending.list.restart();
            }
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
