//! An operation that runs.

use std::sync::Arc;

use super::connections::Connection;
use super::context::Context;
use super::ids::AttemptId;
use super::messages::{Measurement, code_of};
use super::operation::{Operation, Question, Reply};
use super::reconcile::Target;
use crate::grpc::{self, Client};
use crate::handler::{HandlerId, Plugin, Ticket};
use crate::time::Time;
use crate::watch::Identity;

/// An operation that runs, and what it holds.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: AttemptId,
    /// `None` while it takes a step.
    pub(super) operation: Option<Operation>,
    /// The number of attempts to register this socket's plugin, this one included; 0 if the
    /// operation does not register.
    pub(super) number: u32,
    pub(super) target: Target,
    /// The socket that the operation is about.
    pub(super) identity: Identity,
    /// The plugin behind the socket, once it has described itself.
    pub(super) plugin: Option<Arc<Plugin>>,
    /// The handler that has validated the plugin, which is asked everything after that.
    pub(super) handler: Option<HandlerId>,
    pub(super) connection: Option<Connection>,
    /// The call on the connection that has not ended, and when it began.
    pub(super) call: Option<(&'static str, Time)>,
    /// The question that a handler has not answered yet, and when its name is passed on.
    pub(super) question: Option<Pending>,
    /// The plugin that took over when this one left the actual state.
    pub(super) promoted: Option<Arc<Plugin>>,
}

/// A question that a handler has not answered yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    pub(super) question: Question,
    /// The time at which others of the name are let pass; `None` once they were.
    pub(super) stalls_at: Option<Time>,
}

impl Active {
    /// Creates a run of an operation.
    pub(super) fn new(id: AttemptId, target: Target, identity: Identity, number: u32) -> Self {
        Self {
            id,
            operation: None,
            number,
            target,
            identity,
            plugin: None,
            handler: None,
            connection: None,
            call: None,
            question: None,
            promoted: None,
        }
    }

    /// Returns the deadline of the connection.
    pub(super) fn connection_deadline(&self) -> Option<Time> {
        self.connection.as_ref()?.deadline()
    }

    /// Returns the client of the connection, once that is established.
    pub(super) fn client(&mut self) -> Option<&mut Client> {
        self.connection.as_mut()?.client.as_deref_mut()
    }

    /// Returns the reply that the connection has for the operation, after anything that may have
    /// changed the connection.
    pub(super) fn poll_connection(&mut self, context: &mut Context) -> Option<Reply> {
        let mut reply = None;
        while let Some(event) = self.client()?.poll_event(context.now) {
            if let grpc::Event::Finished { result, .. } = event {
                if let Some((method, began)) = self.call.take() {
                    context.measure(Measurement::Called {
                        method,
                        code: code_of(&result),
                        took: context.now.saturating_since(began),
                    });
                }
                reply = Some(result);
            }
        }
        reply
    }
}
