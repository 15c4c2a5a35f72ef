//! What the daemon would say to a plugin, for somebody who only wants to know.
//!
//! Pure. Asks the handlers to validate, and nothing else of them.

use std::path::Path;
use std::sync::Arc;

use super::failure::Refusal;
use crate::handler::{Answer, Context, EffectIds, HandlerId, HandlerTable, Plugin, Ticket};
use crate::proto::pluginregistration::PluginInfo;
use crate::time::Time;

/// What would become of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its handler finds it acceptable.
    Accepted(Arc<Plugin>),
    /// It would be refused, and told so.
    Refused(Refusal),
    /// Its handler would have to look further.
    Undecided(Arc<Plugin>),
}

/// What these handlers would say to the plugin that described itself as `info` on `socket`.
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
    let mut context = Context::new(now, Some(Ticket(0)), &mut ids, &mut effects);
    match handlers.get_mut(handler).validate(&plugin, &mut context) {
        Answer::Done(Ok(())) => Verdict::Accepted(plugin),
        Answer::Done(Err(reason)) => Verdict::Refused(Refusal::Validation(reason)),
        Answer::Pending => Verdict::Undecided(plugin),
    }
}

/// Finds the handler that validates a plugin, or returns why there is none or it is not asked. The
/// type comes first, as in kubelet; but no handler has one that is too long to keep.
pub(super) fn find_handler(handlers: &HandlerTable, plugin: &Plugin) -> Result<HandlerId, Refusal> {
    plugin.check_type()?;
    let handler = handlers.find(&plugin.kind);
    let handler = handler.ok_or_else(|| Refusal::without_handler(plugin.kind.clone(), handlers))?;
    plugin.check()?;
    Ok(handler)
}
