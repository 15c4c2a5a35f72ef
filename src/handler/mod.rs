//! The handlers, which do the work for plugins once they are identified.
//!
//! Pure, like the whole folder. A [`PluginHandler`] is asked three questions about a plugin of its
//! type, in the order validate, register, deregister (deregister may also come without register, if
//! the plugin was registered before a restart of the daemon), and normally one at a time for each
//! plugin name: only if an answer takes longer than
//! [`STALLED_AFTER`](crate::config::STALLED_AFTER), questions about another socket of that name may
//! overlap with the open one. The handler answers at once ([`Answer::Done`]) or later
//! ([`Answer::Pending`]), and may request effects through its [`Context`], for example a call, a
//! stream or a connection to the plugin's endpoint, a program or a timer. Their results are passed
//! to the handler as [`Event`]s. A handler never blocks, and never accesses the system itself.
//!
//! ```text
//!               validate, register, deregister (Ticket)
//!   manager  ------------------------------------------>  handler
//!            <------------------------------------------
//!               Done(result) | Pending, effects
//!
//!               handle_event(Called | StreamMessage | StreamEnded | Connected | Disconnected |
//!                            ProgramEnded | TimerFired)
//!            ------------------------------------------>
//!            <------------------------------------------
//!               answer(Ticket, result), more effects
//! ```
//!
//! # Writing a handler
//!
//! Implement three methods of [`PluginHandler`], and pass the handler to [`HandlerTable::add`] of
//! the table from which the manager is created:
//!
//! ```
//! use std::sync::Arc;
//!
//! use plugind::handler::{Answer, Context, HandlerTable, Plugin, PluginHandler};
//!
//! struct ToasterHandler;
//!
//! impl PluginHandler for ToasterHandler {
//!     fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
//!         if plugin.versions.iter().any(|version| version == "v1") {
//!             Answer::YES
//!         } else {
//!             Answer::no("only version v1 is supported")
//!         }
//!     }
//!
//!     fn register(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
//!         println!("{plugin}: registered endpoint={}", plugin.endpoint.display());
//!         Answer::YES
//!     }
//!
//!     fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
//!         println!("{plugin}: deregistered");
//!         Answer::YES
//!     }
//! }
//!
//! let mut table = HandlerTable::new();
//! table.add(["Toaster"], ToasterHandler);
//! ```
//!
//! - **Answer at once** if possible. If a call is needed first, keep [`Context::ticket`], return
//!   [`Answer::Pending`], and answer in [`PluginHandler::handle_event`]. The manager waits for
//!   [`HANDLER_TIMEOUT`](crate::config::HANDLER_TIMEOUT), and then abandons the question: forget
//!   its ticket.
//! - **After a no**, the plugin is tried again with backoff; a plugin that has announced itself has
//!   to do that again instead. After a no to validate, the pause is the longest one of
//!   [`BACKOFF`](crate::config::BACKOFF), once [`FIRST_MINUTE`](crate::config::FIRST_MINUTE) is
//!   over. A no to register must leave nothing behind. Any answer to deregister only ends the wait
//!   for it.
//! - **An effect with an [`EffectId`] ends with one event**, unless it is cancelled; a stream and a
//!   connection have more events before that, and a debt ([`Context::owe`]) ends only when it is
//!   cancelled.
//! - **An effect belongs to a plugin**: the one for which the handler is called when it requests
//!   the effect. [`Context::plugin`] returns that plugin with each event. The manager cancels a
//!   plugin's open effects when the plugin is refused, when a question about it is abandoned, and
//!   before and after its deregistration: a handler needs no list of its effects. A cancelled
//!   stream has no last event: the handler gets no [`Event::StreamEnded`], and the plugin sees
//!   RST_STREAM CANCEL, GOAWAY and the end of the connection. Effects that have to outlive a
//!   plugin, or serve several of them, are requested through [`Context::detached`]; only the
//!   handler cancels them.
//! - **Two plugins of one name** can be registered at a time, each through its own socket. The
//!   newest is current; [`PluginHandler::promoted`] reports that an older one is current again.
//! - **Share the plugin**: keep a clone of its `Arc`, which the manager holds anyway.
//! - **Trust nothing**: a plugin may be slow, silent or hostile. Every call has a deadline, and
//!   replies larger than [`MAX_REPLY`](crate::config::MAX_REPLY) are rejected; limit what is kept
//!   of a reply, and show text through [`crate::escape`].
//! - **Count the memory** of data that a plugin has sent ([`Context::reserve`]), if it may be much,
//!   and keep less if the reservation is refused: all plugins together share one budget.
//! - **To be readable from outside**, keep the known facts in a [`Store`] or a similar type, and
//!   hand out a clone before the handler is given away.
//!
//! The examples `simple-handler` and `calling-handler` in `tests/examples/` are complete programs.
//! Of the built-in handlers, [`csi`] makes calls, [`device`] also reads a stream, and [`dra`] keeps
//! a connection open.

mod built_in;
mod context;
pub mod csi;
pub mod device;
mod dial;
pub mod dra;
mod exec;
mod list;
mod plugin;
mod program;
mod reconnect;
mod reply;
mod store;
mod table;
mod wording;

use std::sync::Arc;

pub use crate::grpc::{CallError, Code};
pub use built_in::{Inventory, built_in};
pub(crate) use built_in::{NO_HANDLERS, change_handlers};
pub use context::{Call, CallFailure, Context, EffectId, Event, EventType, Notice, Stream, Ticket};
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use context::{Effect, EffectIds, EndpointRequest, Run};
pub(crate) use context::{EffectOwner, Hints};
pub use dial::DialError;
pub use exec::ExecHandler;
pub use list::Unlistable;

pub(crate) use plugin::NameKey;
pub use plugin::Plugin;
pub use program::{Program, ProgramEnd, ProgramOutcome};
pub use store::Store;
pub use table::{HandlerId, HandlerTable, Unknown};
pub(crate) use wording::dial_failure;

/// A handler for plugins of one type.
///
/// The contract for each plugin name: validate, then register, then deregister, each only after the
/// previous question was answered or abandoned. A second socket with the same name may be validated
/// and registered while the first is still registered. A question that is open for longer than
/// [`STALLED_AFTER`](crate::config::STALLED_AFTER) does not delay the other sockets of its name:
/// from then on, questions about different *sockets* of the name may overlap. There is never more
/// than one question about one socket at a time, so a handler that keeps its state by socket is not
/// affected; a handler that must keep an order for each name needs a queue, as [`ExecHandler`] has.
///
/// A handler should not panic: nothing catches that.
pub trait PluginHandler: Send {
    /// Answers whether the plugin is acceptable. The handler may not keep anything of it yet.
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// Makes the plugin usable. An error leaves nothing behind: deregister is not called after it.
    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// Reverts the registration of a plugin. Its process may have ended, so do not call the plugin.
    /// The manager has cancelled the plugin's open effects before. The handler may not know the
    /// plugin: its registration was abandoned, or dates from before a restart of the daemon.
    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// Returns the reason for refusing a plugin because another plugin of its type and name is
    /// registered with the same endpoint and is up; `None` to allow both: then
    /// [`PluginHandler::register`] is called.
    fn endpoint_taken(&self, plugin: &Plugin) -> Option<Reason> {
        let _ = plugin;
        None
    }

    /// Returns, for logs, the part of a registration that a dry run leaves out, such as
    /// `NodeGetInfo was not called`; `None` if it leaves nothing out.
    fn not_checked(&self) -> Option<&'static str> {
        None
    }

    /// Runs deferred work, after the plugin was notified of its registration.
    fn registered(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        let _ = (plugin, context);
    }

    /// Makes the plugin current again: the newer plugins of its name were deregistered.
    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        let _ = (plugin, context);
    }

    /// Deregisters a plugin whose deregistration was still owed ([`Context::owe`]) when the
    /// previous process of the daemon ended. This call clears the debt: a handler that does not
    /// finish at once calls [`Context::owe`] again. No answer is expected. Returns `false` if this
    /// handler never owes a deregistration.
    fn resume_deregistration(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> bool {
        let _ = (plugin, context);
        false
    }

    /// Handles an event of one of the handler's effects. [`Context::plugin`] returns the plugin
    /// that the effect belongs to, or `None` if the effect is detached.
    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let _ = (event, context);
    }

    /// Handles a change of shared data, such as [`device::Leases`], that was made outside of the
    /// handler. Returns `false` if the handler shares no such data.
    fn wake(&mut self, context: &mut Context<'_>) -> bool {
        let _ = context;
        false
    }

    /// Abandons the question `ticket`: its deadline has passed, or its plugin is not wanted any
    /// more. A later answer is dropped. An abandoned registration may have taken effect, so a
    /// deregistration follows. The manager cancels the plugin's effects after this call.
    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        let _ = (ticket, context);
    }
}

/// A handler that accepts every plugin of its types, and does nothing else.
///
/// It is meant for types that need no work on this node, and for experiments. The manager lists the
/// accepted plugins, as it does for all handlers.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptHandler;

impl PluginHandler for AcceptHandler {
    fn validate(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn register(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn deregister(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }
}

/// The answer of a handler to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer itself: `Ok` if accepted, else the reason for the refusal.
    Done(Result<(), Reason>),
    /// The handler answers later, with [`Context::answer`].
    Pending,
}

impl Answer {
    /// An immediate yes.
    pub const YES: Self = Self::Done(Ok(()));

    /// Returns an immediate no.
    pub fn no(reason: impl Into<String>) -> Self {
        Self::Done(Err(Reason::new(reason)))
    }
}

/// A handler's reason for a refusal, written for the plugin's author; it is sent to the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// Creates a reason from these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// Returns the words, as they are sent to the plugin.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
