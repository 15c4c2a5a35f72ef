//! The handlers, which do the work for plugins once they are identified.
//!
//! Pure, like the whole folder. A [`PluginHandler`] is asked three questions about a plugin of its
//! type, always in the order validate, register, deregister, and usually never two at a time about
//! one plugin name: only if an answer takes longer than
//! [`STALLED_AFTER`](crate::config::STALLED_AFTER), questions about another socket of that name may
//! overlap with it. The handler answers at once ([`Answer::Done`]) or later ([`Answer::Pending`]),
//! and meanwhile may ask for effects through its [`Context`]: a call, a stream or a connection to
//! the plugin's endpoint, a program, a timer. Their results are passed to the handler as
//! [`Event`]s. A handler never blocks, and never accesses the system itself.
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
//! - **After a no**, the plugin is tried again with backoff; after a no to validate only after
//!   the longest pause of [`BACKOFF`](crate::config::BACKOFF), once
//!   [`FIRST_MINUTE`](crate::config::FIRST_MINUTE) is over. A no to register must leave nothing
//!   behind. Any answer to deregister only ends the wait for it.
//! - **An effect ends with one event**, unless it is cancelled; a stream and a connection have more
//!   events before that, and a debt ([`Context::owe`]) ends only when it is cancelled.
//! - **An effect belongs to a plugin**: the one that the call is about. [`Context::plugin`] returns
//!   it with each event. The manager cancels a plugin's open effects when it is refused, when a
//!   question about it is abandoned, and before and after its deregistration: a handler needs no
//!   list of its effects. A cancelled stream has no last event: the handler gets no
//!   [`Event::StreamEnded`], and the plugin sees RST_STREAM CANCEL, GOAWAY and the end of the
//!   connection. What has to outlive a plugin, or serves several of them, is asked for through
//!   [`Context::detached`], and only the handler cancels it.
//! - **Two plugins of one name** can be registered at a time, each through its own socket. The
//!   newest is current; [`PluginHandler::promoted`] reports that an older one is current again.
//! - **Share the plugin**: keep a clone of its `Arc`, which the manager holds anyway.
//! - **Trust nothing**: a plugin may be slow, silent or hostile. Every call has a deadline, and
//!   replies larger than [`MAX_REPLY`](crate::config::MAX_REPLY) are rejected; limit what is kept
//!   of a reply, and show text through [`crate::escape`].
//! - **Count what is kept** of what a plugin has sent ([`Context::reserve`]), if that may be much,
//!   and keep less if it is refused: the sum over all plugins has a budget.
//! - **To be readable from outside**, keep the known facts in a [`Store`] or a similar type, and
//!   hand out a clone before the handler is given away.
//!
//! The examples `simple-handler` and `calling-handler` in `tests/examples/` are complete programs.
//! The built-in handlers are [`csi`], [`device`] and [`dra`]: the first makes calls, the last keeps
//! connections open.

mod accept;
mod built_in;
mod by_socket;
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
pub use accept::AcceptHandler;
pub use built_in::{Inventory, built_in};
pub(crate) use built_in::{NO_HANDLERS, change_handlers};
pub use context::{Call, CallFailure, Context, EffectId, Event, EventType, Notice, Stream, Ticket};
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use context::{Effect, EffectIds, Run};
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
/// previous question was answered or abandoned. A second socket with the same name is validated and
/// registered while the first is still registered. A question that stays open for
/// [`STALLED_AFTER`](crate::config::STALLED_AFTER) does not delay the other sockets of the name:
/// the question stays open, and questions about another *socket* of the name may then overlap with
/// it and with those that follow it. There is never more than one question about one socket at a
/// time, so a handler that keeps its state by socket is not affected; a handler that must keep an
/// order for each name needs a queue, as [`ExecHandler`] has.
///
/// A handler should not panic: nothing catches that.
pub trait PluginHandler: Send {
    /// Answers whether the plugin is acceptable. The handler may not keep anything of it yet.
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// Makes the plugin usable. An error leaves nothing behind: deregister is not called after it.
    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// Reverts the registration of a plugin that has ended and cannot be called. The effects
    /// that were open for the plugin are cancelled before.
    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// Returns the reason for refusing a plugin if another plugin of its type and name is
    /// registered with the same endpoint and is up; `None` to allow both: then
    /// [`PluginHandler::register`] is asked.
    fn endpoint_taken(&self, plugin: &Plugin) -> Option<Reason> {
        let _ = plugin;
        None
    }

    /// Returns, for logs, the part of a registration that a dry run leaves out, such as
    /// `NodeGetInfo was not called`; `None` if it leaves nothing out.
    fn not_checked(&self) -> Option<&'static str> {
        None
    }

    /// Runs deferred work: called after the plugin was notified of its registration.
    fn registered(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        let _ = (plugin, context);
    }

    /// Makes the plugin current again: the newer plugins of its name were deregistered.
    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        let _ = (plugin, context);
    }

    /// Deregisters a plugin whose deregistration was still owed ([`Context::owe`]) when the
    /// previous process ended. An answer is not expected. The record ends with this call: a handler
    /// that is not done at once makes another record. Returns `false` if this handler never owes a
    /// deregistration.
    fn resume_deregistration(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> bool {
        let _ = (plugin, context);
        false
    }

    /// Handles an event of one of the handler's effects. [`Context::plugin`] returns the plugin
    /// that the effect belongs to.
    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let _ = (event, context);
    }

    /// Reacts to a change from outside of data that the handler shares, such as [`device::Leases`].
    /// Returns `false` if the handler shares no data that can be changed.
    fn wake(&mut self, context: &mut Context<'_>) -> bool {
        let _ = context;
        false
    }

    /// Abandons the question `ticket`: its deadline has passed or its plugin is gone. A later
    /// answer is dropped. An abandoned registration may have taken effect, so its deregistration
    /// follows. The effects of the plugin need not be cancelled: the manager does that next.
    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        let _ = (ticket, context);
    }
}

/// The answer of a handler to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer itself: `Ok` if accepted, else the reason for the refusal.
    Done(Result<(), Reason>),
    /// The answer follows by [`Context::answer`].
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

/// The reason of a handler for a no, in words for the plugin's author; it is sent to the plugin.
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
