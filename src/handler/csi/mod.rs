//! CSI drivers: the ID that they give this node, and its topology.
//!
//! A driver is acceptable if it supports CSI 1 and if no driver of its name is registered with the
//! same version or a higher one. Registering a driver calls NodeGetInfo, as kubelet does.
//!
//! ```text
//!             NodeGetInfo
//! register -> asked ------- a node id -> registered
//!                |
//!                +--------- anything else -> refused
//! ```
//!
//! With `--csi-node-info`, NodeGetInfo is called again periodically, because a driver's volume
//! limit and topology may change.

mod driver;
pub(super) mod node;
mod version;

use std::sync::Arc;
use std::time::Duration;

pub use self::driver::Driver;
pub use self::version::Version;

use self::version::highest_supported;
use super::{
    Answer, CallFailure, Context, Event, EventType, Plugin, PluginHandler, Reason, Store, Ticket,
    wording,
};

/// The handler for plugins of type [`TYPE`].
#[derive(Debug, Default)]
pub struct CsiHandler {
    drivers: Store<Driver>,
    /// The plugins whose registration waits for the reply to `NodeGetInfo`, at most one for each
    /// socket, and the question to answer then.
    registrations: Vec<(Arc<Plugin>, Option<Ticket>)>,
    periods: node::Periods,
}

impl CsiHandler {
    /// Creates a handler that periodically calls NodeGetInfo on registered drivers. Each period is
    /// that of the named driver; `*` names all others.
    pub fn new(periods: &[(String, Duration)]) -> Self {
        Self {
            periods: node::Periods::new(periods),
            ..Self::default()
        }
    }

    /// Returns the registered drivers, which stay readable after the handler has been given away.
    pub fn drivers(&self) -> Store<Driver> {
        self.drivers.clone()
    }

    /// Checks whether the plugin is acceptable. The error is the message with which kubelet's
    /// `function` refuses the plugin. "A CSI driver whose name is registered with an equal or
    /// higher version is refused" ([R24](crate::guide::kubelet)).
    fn check_plugin(&self, plugin: &Plugin, function: &str) -> Result<(), String> {
        let (name, listed) = (&plugin.name, &plugin.versions);
        let why = match highest_supported(listed) {
            _ if listed.is_empty() => {
                "Plugin returned an empty list for supported versions".to_owned()
            }
            Err(why) => {
                let listed = wording::quoted_list(listed);
                format!("None of the versions specified {listed} are supported. err={why}")
            }
            Ok(version) => {
                let registered = self.drivers.all(name);
                let Some(driver) = registered
                    .iter()
                    .rfind(|it| it.version.rank() >= version.rank())
                else {
                    return Ok(());
                };
                format!(
                    "Another driver with the same name is already registered with a higher \
                     supported version: \"{}\"",
                    driver.version
                )
            }
        };
        Err(format!(
            "kubernetes.io/csi: {function} for CSI driver {name:?} failed. {why}"
        ))
    }

    /// Applies a later reply of a registered driver, if it is valid, and schedules the next call.
    fn update_node_info(
        &mut self,
        plugin: &Arc<Plugin>,
        result: Result<Vec<u8>, CallFailure>,
        context: &mut Context<'_>,
    ) {
        let mut known = self.drivers.with(plugin, |driver| driver.clone());
        let is_registered = known.is_some();
        if is_registered && node::apply_reply(plugin, &mut known, result, context) {
            if let Some(changed) = known {
                self.drivers.set(changed);
            }
        }
        self.periods.schedule_call(plugin, context);
    }

    /// Finishes a registration with the driver's reply to `NodeGetInfo`.
    fn finish_registration(
        &mut self,
        plugin: &Arc<Plugin>,
        ticket: Option<Ticket>,
        result: Result<Vec<u8>, CallFailure>,
        context: &mut Context<'_>,
    ) {
        let driver = node::parse_reply(plugin, result);
        // Another driver of that name may have been registered since the validation.
        let driver = driver.and_then(|driver| match self.check_plugin(plugin, "RegisterPlugin") {
            Ok(()) => Ok(driver),
            Err(taken) => Err(Reason::new(taken)),
        });
        let result = driver.map(|driver| {
            let message = format!("received node information {driver}");
            context.emit(plugin, EventType::Normal, "NodeInfoReceived", message);
            self.drivers.set(driver);
        });
        if let Some(ticket) = ticket {
            context.answer(ticket, result);
        }
    }
}

impl PluginHandler for CsiHandler {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        match self.check_plugin(plugin, "ValidatePlugin") {
            Ok(()) => Answer::YES,
            Err(why) => {
                let (name, endpoint) = (&plugin.name, plugin.endpoint.display());
                Answer::no(format!(
                    "validation failed for CSI Driver {name} at endpoint {endpoint}: {why}"
                ))
            }
        }
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        if let Err(why) = self.check_plugin(plugin, "RegisterPlugin") {
            return Answer::no(why);
        }
        node::call_node_get_info(plugin, context);
        self.registrations.push((plugin.clone(), context.ticket()));
        Answer::Pending
    }

    fn not_checked(&self) -> Option<&'static str> {
        Some("NodeGetInfo was not called")
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.drivers.remove(plugin);
        Answer::YES
    }

    fn registered(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        self.periods.schedule_call(plugin, context);
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) {
        self.drivers.promote(plugin);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let Some(plugin) = context.plugin() else {
            return;
        };
        let result = match event {
            Event::Called { result, .. } => result,
            Event::TimerFired { .. } => {
                node::call_node_get_info(plugin, context);
                return;
            }
            _ => return, // No other effects are requested.
        };
        let mut asked = self.registrations.iter();
        if let Some(place) = asked.position(|(it, _)| it.has_socket_of(plugin)) {
            let (plugin, ticket) = self.registrations.swap_remove(place);
            self.finish_registration(&plugin, ticket, result, context);
        } else {
            self.update_node_info(plugin, result, context);
        }
    }

    fn abandon(&mut self, ticket: Ticket, _: &mut Context<'_>) {
        self.registrations.retain(|(_, it)| *it != Some(ticket));
    }
}

/// The type of CSI drivers.
pub const TYPE: &str = "CSIPlugin";
