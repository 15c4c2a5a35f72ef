//! DRA drivers: the service to call, the connection to each driver, and the health of its devices.
//!
//! Pure. A driver is acceptable if it lists a known service. Registering it is immediate: the
//! connection is opened afterwards and kept open, so that it is known which of several instances of
//! a driver answers. If a driver lists a health service, its health stream is opened:
//!
//! ```text
//! register --> connecting <----------------+        --> health stream <----------+
//!                  | connected             | at once,       |  | ended           | pause
//!                  v                       | then a pause   |  +-----------------+
//!              connected -- broken --------+                +-- UNIMPLEMENTED --> never again
//! ```

mod driver;
mod service;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

pub use self::driver::{DeviceHealth, DeviceName, Driver, Drivers, Health, NoHealth};
pub use self::service::{HealthService, NoService, Service};

use super::reconnect::{Reconnect, Target};
use super::{
    Answer, CallFailure, Context, EffectId, Event, EventType, Plugin, PluginHandler, Reason, Stream,
};
use crate::budget::Reserved;
use crate::config::DIAL_TIMEOUT;
use crate::escape;
use crate::grpc::Code;
use crate::proto::v1alpha1::NodeWatchResourcesRequest;

/// The handler for plugins of type [`TYPE`].
#[derive(Debug, Default)]
pub struct DraHandler {
    drivers: Drivers,
    /// The registered drivers, by registration socket.
    clients: BTreeMap<Arc<Path>, Client>,
}

/// The handler's side of one driver.
#[derive(Debug)]
struct Client {
    plugin: Arc<Plugin>,
    connection: Reconnect,
    /// The stream of health reports; `None` if the driver does not report the health of its
    /// devices.
    health: Option<Reconnect>,
    /// The memory that the health of its devices takes.
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
        match Service::choose(&plugin.versions) {
            Ok(_) => Answer::YES,
            Err(none) => Answer::no(none.words(plugin)),
        }
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let service = match Service::choose(&plugin.versions) {
            Ok(service) => service,
            Err(none) => return Answer::no(none.words(plugin)),
        };
        let client = Client::open(plugin, context);
        self.clients.insert(plugin.socket.clone(), client);
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
        self.clients.remove(&plugin.socket);
        self.drivers.0.remove(plugin);
        Answer::YES
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) {
        self.drivers.0.promote(plugin);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let client = context.plugin().map(|plugin| &plugin.socket);
        if let Some(client) = client.and_then(|socket| self.clients.get_mut(socket)) {
            client.handle_event(event, &self.drivers, context);
        }
    }
}

impl Client {
    fn open(plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Self {
        let endpoint = plugin.endpoint.clone();
        let connection = Reconnect::open(Target::Connection(endpoint.clone()), context);
        let health = HealthService::choose(&plugin.versions).map(|service| {
            let stream = Stream {
                endpoint,
                method: service.method(),
                request: NodeWatchResourcesRequest {}.encode_to_vec(),
                dial_timeout: DIAL_TIMEOUT,
            };
            Reconnect::open(Target::Stream(stream), context)
        });
        Self {
            plugin: plugin.clone(),
            connection,
            health,
            reserved: context.reserve(),
        }
    }

    fn handle_event(&mut self, event: Event, drivers: &Drivers, context: &mut Context<'_>) {
        match event {
            Event::Connected { .. } => self.connected(drivers, context),
            Event::Disconnected { .. } => self.disconnected(drivers, context),
            Event::StreamMessage { message, .. } => self.health_sent(&message, drivers, context),
            Event::StreamEnded { result, .. } => self.health_ended(result, drivers, context),
            Event::TimerFired { id } => self.pause_over(id, context),
            _ => {} // Other effects are never asked for.
        }
    }

    fn connected(&mut self, drivers: &Drivers, context: &mut Context<'_>) {
        self.connection.connected(context);
        let set = |driver: &mut Driver| std::mem::replace(&mut driver.is_connected, true);
        if drivers.0.with(&self.plugin, set) == Some(false) {
            let message = "connected".to_owned();
            context.emit(&self.plugin, EventType::Normal, "Connected", message);
        }
    }

    fn disconnected(&mut self, drivers: &Drivers, context: &mut Context<'_>) {
        self.connection.interrupted(context);
        let set = |driver: &mut Driver| std::mem::replace(&mut driver.is_connected, false);
        if drivers.0.with(&self.plugin, set) == Some(true) {
            let message = "disconnected".to_owned();
            context.emit(&self.plugin, EventType::Normal, "Disconnected", message);
        }
    }

    /// Handles a health report of the driver.
    fn health_sent(&mut self, message: &[u8], drivers: &Drivers, context: &mut Context<'_>) {
        let plugin = &self.plugin;
        let changed = drivers.0.with(plugin, |driver| {
            let is_news = driver.set_health(message, &mut self.reserved)?;
            Ok::<_, NoHealth>(is_news.then(|| (driver.devices.len(), driver.healthy())))
        });
        match changed {
            Some(Ok(Some((total, healthy)))) => {
                let message = format!("received device health devices={total} healthy={healthy}");
                context.emit(plugin, EventType::Normal, "DeviceHealthChanged", message);
            }
            Some(Err(none)) => self.health_lost(&none.to_string(), drivers, context),
            Some(Ok(None)) | None => {}
        }
    }

    /// Opens the health stream again after a pause, unless the driver does not implement it:
    /// "UNIMPLEMENTED is final" ([R34](crate::guide::kubelet)).
    fn health_ended(
        &mut self,
        result: Result<(), CallFailure>,
        drivers: &Drivers,
        context: &mut Context<'_>,
    ) {
        match result {
            Err(CallFailure::Call(error)) if error.code() == Code::Unimplemented => {
                let plugin = &self.plugin;
                let message = "device health is not available: the driver lists the health \
                               service, but does not implement it";
                let message = message.to_owned();
                context.emit(
                    plugin,
                    EventType::Normal,
                    "DeviceHealthUnavailable",
                    message,
                );
                drivers.0.with(plugin, Driver::forget_health);
                self.health = None;
            }
            Err(failure) => self.health_lost(&failure.to_string(), drivers, context),
            Ok(()) => self.health_lost("the driver ended the stream", drivers, context),
        }
    }

    fn health_lost(&mut self, why: &str, drivers: &Drivers, context: &mut Context<'_>) {
        let Some(stream) = &mut self.health else {
            return;
        };
        stream.interrupted(context);
        let plugin = &self.plugin;
        let forget = |driver: &mut Driver| {
            let was_known = driver.healthy() > 0;
            driver.forget_health();
            was_known
        };
        let why = escape::text(why);
        if drivers.0.with(plugin, forget) == Some(true) {
            let message = format!("device health is unknown: {why}");
            context.emit(plugin, EventType::Normal, "DeviceHealthUnknown", message);
        } else {
            log::debug!("{plugin}: device health is still unknown: {why}");
        }
    }

    fn pause_over(&mut self, timer: EffectId, context: &mut Context<'_>) {
        if self.connection.effect() == timer {
            self.connection.resume(context);
        } else if let Some(health) = &mut self.health {
            health.resume(context);
        }
    }
}

/// The type of DRA drivers.
pub const TYPE: &str = "DRAPlugin";
