//! DRA drivers: the service to call, the connection to each driver, and the health of its devices.
//!
//! A driver is acceptable if it lists a known service, and is registered without a call. A
//! connection to the driver is then opened and kept open, which shows which of several instances of
//! a driver answers. If a driver lists a health service, its health stream is opened:
//!
//! ```text
//! register --> connecting <----------------+        --> health stream <----------+
//!                  | connected             | at once,       |  | ended           | pause
//!                  v                       | then a pause   |  +-----------------+
//!              connected -- broken --------+                +-- UNIMPLEMENTED --> never again
//! ```
//!
//! A device whose health was not reported for the timeout that the driver names (30 s if none) has
//! unknown health, and is forgotten after twice that timeout. When the health stream ends, the
//! health of all devices becomes unknown at once.

mod driver;
mod service;

use std::sync::Arc;

use foldhash::HashMap;
use prost::Message as _;

pub use self::driver::{Device, Driver, Drivers, Health};

use super::reconnect::Reconnect;
use super::{
    Answer, CallFailure, Context, EffectId, EndpointRequest, Event, EventType, Plugin,
    PluginHandler, Reason, Stream, Unlistable,
};
use crate::budget::Reserved;
use crate::config::DIAL_TIMEOUT;
use crate::escape;
use crate::grpc::Code;
use crate::octets::PathKey;
use crate::proto::v1alpha1::NodeWatchResourcesRequest;
use crate::time::Time;

/// The handler for plugins of type [`TYPE`].
#[derive(Debug, Default)]
pub struct DraHandler {
    drivers: Drivers,
    /// The registered drivers, by registration socket.
    clients: HashMap<PathKey, Box<Client>>,
}

/// The handler's state for one driver.
#[derive(Debug)]
struct Client {
    plugin: Arc<Plugin>,
    drivers: Drivers,
    connection: Reconnect,
    /// The stream of health reports; `None` if the driver does not report the health of its
    /// devices.
    health: Option<Reconnect>,
    /// The timer for the next expiry of a device's health, and its time.
    expiry: Option<(EffectId, Time)>,
    /// The part of the memory budget that the driver's devices take.
    reserved: Reserved,
}

impl DraHandler {
    /// Returns the registered drivers, which stay readable after the handler has been given away.
    pub fn drivers(&self) -> Drivers {
        self.drivers.clone()
    }
}

impl PluginHandler for DraHandler {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        let service = service::choose_service(plugin);
        Answer::Done(service.map(drop).map_err(Reason::new))
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let service = match service::choose_service(plugin) {
            Ok(service) => service,
            Err(why) => return Answer::no(why),
        };
        let client = Client::open(plugin, &self.drivers, context);
        self.clients.insert(plugin.socket_key(), Box::new(client));
        self.drivers.0.set(Driver::new(plugin, service));
        let message = format!("selected the DRA service to call service={service}");
        context.emit(plugin, EventType::Normal, "ServiceSelected", message);
        Answer::YES
    }

    /// Returns the reason in kubelet's words.
    fn endpoint_taken(&self, plugin: &Plugin) -> Option<Reason> {
        let (endpoint, name) = (plugin.endpoint.display(), &plugin.name);
        let words = format!("endpoint {endpoint} already registered for DRA driver plugin {name}");
        Some(Reason::new(words))
    }

    fn not_checked(&self) -> Option<&'static str> {
        Some("no method of the DRA services was called")
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.clients.remove(&plugin.socket_key());
        self.drivers.0.remove(plugin);
        Answer::YES
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) {
        self.drivers.0.promote(plugin);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let key = context.plugin().map(|plugin| plugin.socket_key());
        if let Some(client) = key.and_then(|key| self.clients.get_mut(&key)) {
            client.handle_event(event, context);
        }
    }
}

impl Client {
    fn open(plugin: &Arc<Plugin>, drivers: &Drivers, context: &mut Context<'_>) -> Self {
        let endpoint = plugin.endpoint.clone();
        let connection = Reconnect::open(EndpointRequest::Connection(endpoint.clone()), context);
        let health = service::health_method(&plugin.versions).map(|method| {
            let stream = Stream {
                endpoint,
                method,
                request: NodeWatchResourcesRequest {}.encode_to_vec(),
                dial_timeout: DIAL_TIMEOUT,
            };
            Reconnect::open(EndpointRequest::Stream(Box::new(stream)), context)
        });
        Self {
            plugin: plugin.clone(),
            drivers: drivers.clone(),
            connection,
            health,
            expiry: None,
            reserved: context.reserve(),
        }
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { .. } => self.handle_connected(context),
            Event::Disconnected { .. } => self.handle_disconnected(context),
            Event::StreamMessage { message, .. } => self.apply_health_report(&message, context),
            Event::StreamEnded { result, .. } => self.handle_health_end(result, context),
            Event::TimerFired { id } => self.handle_timer(id, context),
            _ => {} // No other effects are requested.
        }
    }

    fn handle_connected(&mut self, context: &mut Context<'_>) {
        self.connection.up_since = Some(context.now());
        if self.set_connected(true) {
            let message = "connected".to_owned();
            context.emit(&self.plugin, EventType::Normal, "Connected", message);
        }
    }

    fn handle_disconnected(&mut self, context: &mut Context<'_>) {
        self.connection.handle_interruption(context);
        if self.set_connected(false) {
            let message = "disconnected".to_owned();
            context.emit(&self.plugin, EventType::Normal, "Disconnected", message);
        }
    }

    /// Records whether the driver is connected. Returns whether that has changed.
    fn set_connected(&self, is_connected: bool) -> bool {
        let set = |driver: &mut Driver| std::mem::replace(&mut driver.is_connected, is_connected);
        self.drivers.0.with(&self.plugin, set) == Some(!is_connected)
    }

    fn apply_health_report(&mut self, message: &[u8], context: &mut Context<'_>) {
        let (reserved, now) = (&mut self.reserved, context.now());
        let set = |driver: &mut Driver| driver.set_health(message, reserved, now);
        match self.drivers.0.with(&self.plugin, set) {
            Some(Ok(is_changed)) => self.report_health(is_changed, context),
            Some(Err(Unlistable::Undecodable)) => {
                self.handle_health_loss(&Unlistable::Undecodable.to_string(), context);
            }
            // The devices stay as reported before, until they expire; the next report may fit.
            Some(Err(why)) => log::debug!("{}: rejected a health report: {why}", self.plugin),
            None => {}
        }
    }

    /// Emits an event if a report has changed anything, and sets the timer of the next expiry.
    fn report_health(&mut self, is_changed: bool, context: &mut Context<'_>) {
        let plugin = &self.plugin;
        let facts = self.drivers.0.with(plugin, |driver| {
            let next = driver.next_expiry(context.now());
            (driver.devices.len(), driver.count(Health::Healthy), next)
        });
        let Some((total, healthy, next)) = facts else {
            return;
        };
        if is_changed {
            let message = format!("received device health devices={total} healthy={healthy}");
            context.emit(plugin, EventType::Normal, "DeviceHealthChanged", message);
        }
        self.set_expiry_timer(next, context);
    }

    /// Sets the timer of the next expiry, unless a running timer fires earlier: most reports only
    /// delay the expiry.
    fn set_expiry_timer(&mut self, next: Option<Time>, context: &mut Context<'_>) {
        let is_early = |(_, at): (EffectId, Time)| next.is_none_or(|next| at <= next);
        if let (Some(next), false) = (next, self.expiry.is_some_and(is_early)) {
            if let Some((late, _)) = self.expiry.take() {
                context.cancel(late);
            }
            let wait = next.saturating_since(context.now());
            self.expiry = Some((context.set_timer(wait), next));
        }
    }

    /// Handles the end of the health stream: opens it again after a pause, unless the driver does
    /// not implement the method: "UNIMPLEMENTED is final" ([R34](crate::guide::kubelet)).
    fn handle_health_end(&mut self, result: Result<(), CallFailure>, context: &mut Context<'_>) {
        match result {
            Err(CallFailure::Call(error)) if error.code() == Code::Unimplemented => {
                let plugin = &self.plugin;
                let message = "device health is not available: the driver lists the health \
                               service, but does not implement it";
                let text = message.to_owned();
                context.emit(plugin, EventType::Normal, "DeviceHealthUnavailable", text);
                self.drivers.0.with(plugin, Driver::forget_health);
                self.health = None;
            }
            Err(failure) => self.handle_health_loss(&failure.to_string(), context),
            Ok(()) => self.handle_health_loss("the driver ended the stream", context),
        }
    }

    fn handle_health_loss(&mut self, why: &str, context: &mut Context<'_>) {
        let Some(stream) = &mut self.health else {
            return;
        };
        stream.handle_interruption(context);
        let plugin = &self.plugin;
        let forget = |driver: &mut Driver| {
            let was_known = driver.count(Health::Unknown) < driver.devices.len();
            driver.forget_health();
            was_known
        };
        let why = escape::text(why);
        if self.drivers.0.with(plugin, forget) == Some(true) {
            let message = format!("device health is unknown: {why}");
            context.emit(plugin, EventType::Normal, "DeviceHealthUnknown", message);
        } else {
            log::debug!("{plugin}: device health is unknown: {why}");
        }
    }

    fn expire_health(&mut self, context: &mut Context<'_>) {
        let (plugin, now) = (&self.plugin, context.now());
        let expired = self.drivers.0.with(plugin, |driver| {
            let is_changed = driver.expire_health(now);
            (is_changed, driver.devices.len(), driver.next_expiry(now))
        });
        let Some((is_changed, total, next)) = expired else {
            return;
        };
        if is_changed {
            let message = format!("device health was not reported in time devices={total}");
            context.emit(plugin, EventType::Warning, "DeviceHealthExpired", message);
        }
        self.set_expiry_timer(next, context);
    }

    fn handle_timer(&mut self, timer: EffectId, context: &mut Context<'_>) {
        if self.expiry.take_if(|(id, _)| *id == timer).is_some() {
            self.expire_health(context);
        } else if self.connection.effect() == timer {
            self.connection.resume(context);
        } else if let Some(health) = &mut self.health {
            health.resume(context);
        }
    }
}

/// The type of DRA drivers.
pub const TYPE: &str = "DRAPlugin";
