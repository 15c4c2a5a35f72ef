//! What is done with a plugin once it is known who it is.
//!
//! Pure. A [`PluginHandler`] is asked three questions about a plugin of its type, always in the
//! order validate, register, deregister, and as a rule never two at a time about one plugin name:
//! only when an answer takes longer than [`STALLED_AFTER`](crate::config::STALLED_AFTER), questions
//! about another socket of that name may overlap with it. It answers
//! at once ([`Answer::Done`]) or later ([`Answer::Pending`]), and meanwhile may ask for effects
//! through its [`Context`]: a call, a stream or a connection to the plugin's endpoint, a program, a
//! timer. What comes of them reaches it as an [`Event`]. It never blocks, and never touches the
//! system itself.
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
//! Implement three methods of [`PluginHandler`], and give the handler to the
//! [`HandlerTable::add`] of the table that the manager is made with:
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
//!             Answer::no("only toasters of version v1 fit")
//!         }
//!     }
//!
//!     fn register(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
//!         println!("{plugin} is at {}", plugin.endpoint.display());
//!         Answer::YES
//!     }
//!
//!     fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
//!         println!("{plugin} has gone");
//!         Answer::YES
//!     }
//! }
//!
//! let mut table = HandlerTable::new();
//! table.add(["Toaster"], ToasterHandler);
//! ```
//!
//! - **Answer at once** where that is possible. Where it takes a call, keep [`Context::ticket`],
//!   say [`Answer::Pending`], and answer from [`PluginHandler::handle_event`]. The manager waits
//!   for [`HANDLER_TIMEOUT`](crate::config::HANDLER_TIMEOUT); what is abandoned is cancelled.
//! - **A no to validate is final** until something changes; a no to register is tried again with
//!   backoff and leaves nothing behind. What deregister says only ends the wait for it.
//! - **An effect ends with one event**, unless it is cancelled; a stream and a connection tell more
//!   before that. Take back what a plugin's deregistration leaves without use: nobody else does.
//! - **Two plugins of one name** can be registered at a time, each through its own socket. The
//!   newest is the one to use; [`PluginHandler::promoted`] tells when an older one is again.
//! - **Share the plugin**: whoever keeps it keeps a clone of its `Arc`, which the manager holds.
//! - **Believe nothing**: a plugin may be slow, silent or hostile. Every call has a deadline and no
//!   reply is larger than [`MAX_REPLY`](crate::config::MAX_REPLY); limit what is kept of it, and
//!   show text through [`crate::escape`].
//! - **To be read from outside**, keep what is known in a [`Store`] or something like it, and hand
//!   out a clone before the handler is given away.
//!
//! The examples `simple-handler` and `calling-handler` in `tests/examples/` are whole programs;
//! [`csi`], [`device`] and [`dra`] are the built-in ones, from one that makes calls to one that
//! holds connections.

mod accept;
mod built_in;
mod context;
pub mod csi;
pub mod device;
mod dial;
pub mod dra;
mod exec;
mod generic;
mod lasting;
mod owners;
mod plugin;
mod program;
mod reply;
mod store;
mod table;
mod wording;

use std::sync::Arc;

pub use accept::{AcceptHandler, MAX_TOLD, Record, Told};
pub use built_in::{Inventory, built_in};
pub use context::{Call, CallFailure, Context, Effect, EffectId, EffectIds, Event, Stream, Ticket};
pub use dial::DialError;
pub use exec::ExecHandler;
pub use generic::GenericHandler;
pub(crate) use plugin::line;
pub use plugin::{InvalidPlugin, Plugin};
pub use program::{Program, ProgramEnd, ProgramOutcome};
pub use store::Store;
pub use table::{HandlerId, HandlerTable, Unknown};

/// Does the work for plugins of one type.
///
/// The contract, per plugin name: validate, then register, then deregister, each only after the one
/// before has been answered or given up. A second socket with the same name is validated and
/// registered while the first is still registered. A question that stays open for
/// [`STALLED_AFTER`](crate::config::STALLED_AFTER) does not hold up the other sockets of the name:
/// it stays open, and questions about another *socket* of the name may then overlap with it and
/// with what follows it. About one socket there is never more than one question, so a handler that
/// keeps what it does by socket notices nothing; one that must keep an order for each name queues
/// what it does, as [`ExecHandler`] does.
pub trait PluginHandler: Send {
    /// Is this plugin acceptable? Nothing may be kept of it yet.
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// Makes the plugin usable. An error leaves nothing behind: deregister is not called for it.
    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// The plugin has gone: whatever registering it did is undone. It can't be asked any more.
    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer;

    /// Says what this handler needs a plugin's endpoint for. A dry run checks an endpoint that is
    /// needed, and no other.
    fn endpoint_use(&self) -> EndpointUse {
        EndpointUse::None
    }

    /// Returns why a plugin is not registered if another plugin of its type and name is registered
    /// with the same endpoint and is up. `None` if the two live side by side: then
    /// [`PluginHandler::register`] is asked.
    fn endpoint_taken(&self, plugin: &Plugin) -> Option<Reason> {
        let _ = plugin;
        None
    }

    /// Says what registering a plugin does that a dry run does not, for logs: `NodeGetInfo was not
    /// called`. `None` when a dry run leaves nothing out.
    fn not_checked(&self) -> Option<&'static str> {
        None
    }

    /// The plugin has been told that it is registered: what was left for later can be done now.
    fn registered(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        let _ = (plugin, context);
    }

    /// The plugins that were registered under this one's name after it have gone: it is the one to
    /// use again.
    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        let _ = (plugin, context);
    }

    /// The process before this one ended while it still owed this plugin its deregistration
    /// ([`Context::owe`]): it is to be done now, and nothing waits for it. Returns `false` if this
    /// handler never owes one.
    fn resume_deregistration(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> bool {
        let _ = (plugin, context);
        false
    }

    /// Something that an effect was asked for has come.
    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let _ = (event, context);
    }

    /// Nobody waits for the answer to `ticket` any longer: its deadline has passed or its plugin
    /// has gone. An answer that comes all the same is dropped. A registration that is given up may
    /// have taken hold, so its deregistration follows.
    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        let _ = (ticket, context);
    }
}

/// What a handler needs a plugin's endpoint for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointUse {
    /// For nothing: it never connects to it.
    #[default]
    None,
    /// To register the plugin: one whose endpoint does not answer is refused.
    Registering,
    /// To use the plugin: it is registered at once, and connected to afterwards.
    Using,
}

/// What a handler says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer: yes, or why not.
    Done(Result<(), Reason>),
    /// [`Context::answer`] will say it.
    Pending,
}

impl Answer {
    /// Yes, at once.
    pub const YES: Self = Self::Done(Ok(()));

    /// No, at once.
    pub fn no(reason: impl Into<String>) -> Self {
        Self::Done(Err(Reason::new(reason)))
    }
}

/// Why a handler says no, in words for the plugin's author; the plugin is told them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// The reason in these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// The words, as the plugin is told them.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
