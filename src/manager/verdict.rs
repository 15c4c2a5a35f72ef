//! The outcome that a plugin would get, for callers that only want to know.
//!
//! Pure. Calls no other method of a handler than `validate`.

use std::path::Path;
use std::sync::Arc;

use super::failure::Refusal;
use crate::handler::{Answer, Context, EffectIds, HandlerId, HandlerTable, Plugin, Ticket};
use crate::proto::pluginregistration::PluginInfo;
use crate::time::Time;

/// The outcome that a plugin would get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its handler accepts the plugin.
    Accepted(Arc<Plugin>),
    /// The plugin would be refused.
    Refused(Refusal),
    /// Its handler has not decided at once.
    Undecided(Arc<Plugin>),
}

/// Returns the outcome for a plugin that described itself as `info` on `socket`.
pub fn verdict(
    handlers: &mut HandlerTable,
    info: PluginInfo,
    socket: Arc<Path>,
    now: Time,
) -> Verdict {
    let plugin = Arc::new(Plugin::unchecked(info, socket));
    let handler = match find_handler(handlers, &plugin) {
        Ok(handler) => handler,
        Err(refusal) => return Verdict::Refused(refusal),
    };
    let (mut ids, mut effects) = (EffectIds::default(), Vec::new());
    let mut context =
        Context::new(now, Some(Ticket(0)), &mut ids, &mut effects).with_plugin(&plugin);
    let Some(of_type) = handlers.get_mut(handler) else {
        return Verdict::Refused(Refusal::without_handler(plugin.kind.clone(), handlers));
    };
    match of_type.validate(&plugin, &mut context) {
        Answer::Done(Ok(())) => Verdict::Accepted(plugin),
        Answer::Done(Err(reason)) => Verdict::Refused(Refusal::Validation(reason)),
        Answer::Pending => Verdict::Undecided(plugin),
    }
}

/// Returns the handler that validates a plugin, or the refusal if no handler has its type or the
/// plugin is malformed. The type is looked up first, as in kubelet, but only if it is short enough
/// to be kept.
pub(super) fn find_handler(handlers: &HandlerTable, plugin: &Plugin) -> Result<HandlerId, Refusal> {
    plugin.check_type()?;
    let handler = handlers.find(&plugin.kind);
    let handler = handler.ok_or_else(|| Refusal::without_handler(plugin.kind.clone(), handlers))?;
    plugin.check()?;
    Ok(handler)
}
