//! NodeGetInfo, which is called when a driver is registered, and then periodically with
//! `--csi-node-info`.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

use super::driver::Driver;
use super::version::highest_supported;
use crate::config::{HANDLER_CALL_TIMEOUT, MAX_SMALL_MESSAGE};
use crate::escape;
use crate::handler::{Call, CallFailure, Context, EventType, Plugin, Reason, reply};
use crate::proto::csi_v1::{NodeGetInfoRequest, node};

/// The pauses between two calls of NodeGetInfo, by driver name; `*` is for all other drivers.
#[derive(Debug, Default)]
pub(in crate::handler) struct Periods(Vec<(String, Duration)>);

impl Periods {
    pub(in crate::handler) fn new(periods: &[(String, Duration)]) -> Self {
        Self(periods.to_vec())
    }

    /// Returns the period of a driver, or `None` if NodeGetInfo is not called again.
    pub(in crate::handler) fn find(&self, driver: &str) -> Option<Duration> {
        let of = |name| self.0.iter().rfind(|(driver, _)| driver == name);
        of(driver).or_else(|| of("*")).map(|(_, period)| *period)
    }

    /// Sets the timer for the next call to a registered driver, if the driver has a period.
    pub(in crate::handler) fn schedule_call(&self, plugin: &Plugin, context: &mut Context<'_>) {
        if let Some(period) = self.find(&plugin.name) {
            context.set_timer(period);
        }
    }
}

/// Calls NodeGetInfo on a driver.
pub(in crate::handler) fn call_node_get_info(plugin: &Plugin, context: &mut Context<'_>) {
    context.call(Call {
        endpoint: plugin.endpoint.clone(),
        method: node::NODE_GET_INFO,
        request: NodeGetInfoRequest {}.encode_to_vec(),
        timeout: HANDLER_CALL_TIMEOUT,
        wait_for_ready: true,
    });
}

/// Returns the driver that a reply to NodeGetInfo describes, or the reason for refusing it.
pub(in crate::handler) fn parse_reply(
    plugin: &Arc<Plugin>,
    result: Result<Vec<u8>, CallFailure>,
) -> Result<Driver, Reason> {
    let version = highest_supported(&plugin.versions).map_err(Reason::new)?;
    let node = reply::decode(&plugin.endpoint, result, MAX_SMALL_MESSAGE)?;
    Driver::new(plugin, version, node)
}

/// Replaces `known` by the driver that a reply describes, and emits an event if a known driver has
/// changed. Returns whether one has changed.
pub(in crate::handler) fn apply_reply(
    plugin: &Arc<Plugin>,
    known: &mut Option<Driver>,
    result: Result<Vec<u8>, CallFailure>,
    context: &mut Context<'_>,
) -> bool {
    let driver = match parse_reply(plugin, result) {
        Ok(driver) => driver,
        Err(why) => {
            let why = escape::text(why.as_str());
            log::debug!("{plugin}: NodeGetInfo failed, the node information is unchanged: {why}");
            return false;
        }
    };
    let is_changed = known.as_ref().is_some_and(|known| *known != driver);
    if is_changed {
        let message = format!("node information has changed {driver}");
        context.emit(plugin, EventType::Normal, "NodeInfoChanged", message);
    }
    *known = Some(driver);
    is_changed
}
