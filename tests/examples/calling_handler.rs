//! A custom handler that makes a call: a CSI driver is registered once it reports that it is ready.
//!
//! `cargo run --example calling-handler -- DIRECTORY` runs until it is killed.
//! A program of your own generates its messages, with prost: `plugind::proto` may change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, error};

use plugind::config::Config;
use plugind::daemon::PluginManager;
use plugind::handler::{
    Answer, Call, CallFailure, Context, EffectId, Event, HandlerTable, Plugin, PluginHandler,
    Reason, Ticket,
};
use plugind::proto::csi_v1::{ProbeRequest, ProbeResponse, identity};
use prost::Message as _;

/// A handler that asks every driver whether it is ready.
#[derive(Default)]
struct ReadyHandler {
    /// The question that each call answers.
    asking: BTreeMap<EffectId, Ticket>,
}

impl PluginHandler for ReadyHandler {
    fn validate(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    /// Answers later, because the answer takes a call: the ticket names the question.
    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let Some(ticket) = context.ticket() else {
            return Answer::no("nobody asks");
        };
        let call = context.call(Call {
            endpoint: plugin.endpoint.clone(),
            method: identity::PROBE,
            request: ProbeRequest {}.encode_to_vec(),
            timeout: Duration::from_secs(10),
            wait_for_ready: true,
        });
        self.asking.insert(call, ticket);
        Answer::Pending
    }

    fn deregister(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    /// Handles the end of the call: every effect ends with an event, unless it is cancelled.
    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let Event::Called { id, result, .. } = event else {
            return;
        };
        if let Some(ticket) = self.asking.remove(&id) {
            context.answer(ticket, is_ready(result));
        }
    }

    /// Forgets the question: the plugin has gone meanwhile, or the manager's timeout has expired.
    /// The manager cancels the call.
    fn abandon(&mut self, ticket: Ticket, _: &mut Context<'_>) {
        self.asking.retain(|_, asked| *asked != ticket);
    }
}

/// Decodes the driver's reply, which is never trusted to be what it should be.
fn is_ready(result: Result<Vec<u8>, CallFailure>) -> Result<(), Reason> {
    let reply = result.map_err(|failure| Reason::new(format!("Probe failed: {failure}")))?;
    match ProbeResponse::decode(&*reply) {
        Ok(ProbeResponse { ready: Some(false) }) => Err(Reason::new("the driver is not ready")),
        Ok(_) => Ok(()), // "Absent means ready."
        Err(error) => Err(Reason::new(format!("that is no reply to Probe: {error}"))),
    }
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let dir = env::args_os().nth(1).ok_or("name a directory")?;
    let config = Config {
        plugins_dirs: vec![PathBuf::from(dir)],
        ..Config::default()
    };
    let mut handlers = HandlerTable::new();
    handlers.add(["CSIPlugin"], ReadyHandler::default());
    let mut plugins = PluginManager::new(&config, handlers)?;
    loop {
        plugins.turn(None)?;
    }
}
