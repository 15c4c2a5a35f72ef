//! CSI drivers: what they call this node, and where they say it is.
//!
//! Pure. A driver is acceptable when it speaks CSI 1 and no driver of its name is registered that
//! speaks the same version or a higher one. Registering it asks it about the node, and then, as far
//! as it likes to tell, about itself:
//!
//! ```text
//!             NodeGetInfo                GetPluginInfo, NodeGetCapabilities
//! register -> AskingNode -- a node id -> Describing -- both ended -------> registered
//!                |
//!                +--------- anything else -------------------------------> refused
//! ```

mod driver;
mod version;

use std::sync::Arc;

use prost::Message as _;

pub use self::driver::{Capability, Driver};
pub use self::version::{Unsupported, Version};

use self::version::highest_supported;
use super::{
    Answer, Call, CallFailure, Context, EffectId, EndpointUse, Event, Plugin, PluginHandler,
    Reason, Store, Ticket, reply,
};
use crate::config::{CSI_DESCRIBE_TIMEOUT, CSI_NODE_INFO_TIMEOUT, MAX_CSI_REPLY};
use crate::escape;
use crate::proto::csi_v1::{
    GetPluginInfoRequest, NodeGetCapabilitiesRequest, NodeGetInfoRequest, NodeGetInfoResponse,
    identity, node,
};

/// Registers plugins of type [`TYPE`].
#[derive(Debug, Default)]
pub struct CsiHandler {
    drivers: Store<Driver>,
    /// The registrations that have not been answered: at most one for each operation that runs.
    registrations: Vec<Registration>,
}

#[derive(Debug)]
struct Registration {
    plugin: Arc<Plugin>,
    ticket: Option<Ticket>,
    state: State,
}

/// What a registration waits for.
#[derive(Debug)]
enum State {
    /// For the reply to `NodeGetInfo`.
    AskingNode { call: EffectId, version: Version },
    /// For what the driver says of itself; a question that has been answered is no longer there.
    Describing {
        driver: Driver,
        plugin_info: Option<EffectId>,
        capabilities: Option<EffectId>,
    },
}

impl CsiHandler {
    /// The registered drivers, which stay readable after the handler has been given away.
    pub fn drivers(&self) -> Store<Driver> {
        self.drivers.clone()
    }

    /// "Same name already registered with an equal or higher version: refused".
    fn is_superseded(&self, name: &str, version: &Version) -> bool {
        let registered = self.drivers.all(name);
        registered.iter().any(|driver| driver.version >= *version)
    }

    /// Takes out the registration that waits for this call.
    fn take(&mut self, call: EffectId) -> Option<Registration> {
        let waits = |it: &Registration| it.state.calls().any(|open| open == call);
        let place = self.registrations.iter().position(waits)?;
        Some(self.registrations.swap_remove(place))
    }

    /// A registration has heard something: it goes on or ends.
    fn go_on(
        &mut self,
        registration: Registration,
        call: EffectId,
        result: Result<Vec<u8>, CallFailure>,
        context: &mut Context<'_>,
    ) {
        let Registration {
            plugin,
            ticket,
            state,
        } = registration;
        let state = match state {
            State::AskingNode { version, .. } => match node_replied(&plugin, version, result) {
                Ok(driver) => describe(driver, context),
                Err(reason) => return answer(ticket, Err(reason), context),
            },
            State::Describing { .. } => described(&plugin, state, call, result),
        };
        match state {
            State::Describing {
                driver,
                plugin_info: None,
                capabilities: None,
            } => {
                log::info!("{plugin}: {driver}");
                self.drivers.set(driver);
                answer(ticket, Ok(()), context);
            }
            state => self.registrations.push(Registration {
                plugin,
                ticket,
                state,
            }),
        }
    }
}

impl PluginHandler for CsiHandler {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        match highest_supported(&plugin.versions) {
            Err(unsupported) => Answer::no(unsupported.to_string()),
            Ok(version) if self.is_superseded(&plugin.name, &version) => Answer::no(SUPERSEDED),
            Ok(_) => Answer::YES,
        }
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let version = match highest_supported(&plugin.versions) {
            Ok(version) => version,
            Err(unsupported) => return Answer::no(unsupported.to_string()),
        };
        let call = context.call(Call {
            endpoint: plugin.endpoint.clone(),
            method: node::NODE_GET_INFO,
            request: NodeGetInfoRequest {}.encode_to_vec(),
            timeout: CSI_NODE_INFO_TIMEOUT,
        });
        self.registrations.push(Registration {
            plugin: plugin.clone(),
            ticket: context.ticket(),
            state: State::AskingNode { call, version },
        });
        Answer::Pending
    }

    fn endpoint_use(&self) -> EndpointUse {
        EndpointUse::Registering
    }

    fn not_checked(&self) -> Option<&'static str> {
        Some("NodeGetInfo was not called")
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.drivers.remove(plugin);
        Answer::YES
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) {
        self.drivers.promote(plugin);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let Event::Called { id, result } = event else {
            return;
        };
        if let Some(registration) = self.take(id) {
            self.go_on(registration, id, result, context);
        }
    }

    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        let asked = |it: &Registration| it.ticket == Some(ticket);
        if let Some(place) = self.registrations.iter().position(asked) {
            let registration = self.registrations.swap_remove(place);
            for call in registration.state.calls() {
                context.cancel(call);
            }
        }
    }
}

impl State {
    /// The calls that have not ended.
    fn calls(&self) -> impl Iterator<Item = EffectId> {
        let calls = match self {
            Self::AskingNode { call, .. } => [Some(*call), None],
            Self::Describing {
                plugin_info,
                capabilities,
                ..
            } => [*plugin_info, *capabilities],
        };
        calls.into_iter().flatten()
    }
}

fn node_replied(
    plugin: &Arc<Plugin>,
    version: Version,
    result: Result<Vec<u8>, CallFailure>,
) -> Result<Driver, Reason> {
    let node: NodeGetInfoResponse = reply::read("NodeGetInfo", result, MAX_CSI_REPLY)?;
    Driver::new(plugin, version, node)
}

/// Asks the driver about itself. What it does not tell is no reason to refuse it.
fn describe(driver: Driver, context: &mut Context<'_>) -> State {
    let endpoint = &driver.plugin.endpoint;
    let mut ask = |method, request| {
        context.call(Call {
            endpoint: endpoint.clone(),
            method,
            request,
            timeout: CSI_DESCRIBE_TIMEOUT,
        })
    };
    let plugin_info = ask(
        identity::GET_PLUGIN_INFO,
        GetPluginInfoRequest {}.encode_to_vec(),
    );
    let capabilities = ask(
        node::NODE_GET_CAPABILITIES,
        NodeGetCapabilitiesRequest {}.encode_to_vec(),
    );
    State::Describing {
        driver,
        plugin_info: Some(plugin_info),
        capabilities: Some(capabilities),
    }
}

/// One of the questions to a driver about itself has been answered, or has not.
fn described(
    plugin: &Plugin,
    state: State,
    call: EffectId,
    result: Result<Vec<u8>, CallFailure>,
) -> State {
    let State::Describing {
        mut driver,
        mut plugin_info,
        mut capabilities,
    } = state
    else {
        return state;
    };
    let tolerated = if plugin_info.take_if(|open| *open == call).is_some() {
        reply::read("GetPluginInfo", result, MAX_CSI_REPLY).map(|info| driver.set_plugin_info(info))
    } else {
        capabilities = None;
        reply::read("NodeGetCapabilities", result, MAX_CSI_REPLY)
            .map(|reply| driver.set_capabilities(reply))
    };
    if let Err(reason) = tolerated {
        log::debug!("{plugin}: {}", escape::text(reason.as_str()));
    }
    State::Describing {
        driver,
        plugin_info,
        capabilities,
    }
}

fn answer(ticket: Option<Ticket>, result: Result<(), Reason>, context: &mut Context<'_>) {
    if let Some(ticket) = ticket {
        context.answer(ticket, result);
    }
}

/// Why a driver is refused whose name is taken: kubelet's words.
const SUPERSEDED: &str =
    "another driver with the same name is already registered with a higher supported version";

/// The type of CSI drivers.
pub const TYPE: &str = "CSIPlugin";
