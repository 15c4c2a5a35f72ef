//! A plugin that never stops sending, in a loop with others, which it does not delay.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plugind::handler::{
    AcceptHandler, Answer, Context, Event, HandlerTable, Plugin as Registered, PluginHandler,
    Stream,
};

use crate::support::grpc::{self, Server, Service, Status};
use crate::support::node::{Node, watching};
use crate::support::plugin::Plugin;

/// The size of each message, with HTTP/2's overhead (octets).
const MESSAGE: usize = 16_384;

/// The amount that is received meanwhile, enough for a flood (octets).
const ENOUGH: usize = 8 << 20;

/// The most that is received in one turn (octets). A server that never stops sending is read for a
/// limited time; without that limit a turn would never end.
const MOST_IN_A_TURN: usize = ENOUGH / 4;

#[test]
fn a_plugin_that_never_stops_talking_has_a_part_of_a_turn() {
    let scratch = tempfile::tempdir().expect("a directory");
    let flood = scratch.path().join("flood.sock");
    let _talk = Server::start(UnixListener::bind(&flood).expect("a socket"), Talk);
    let (mut node, counter) = listening_to(&flood);
    let heard = || counter.load(Ordering::Relaxed);
    let talker = Plugin::serve_type(&node.path("talker.sock"), "DevicePlugin", "talker");
    node.until_registered(&talker);
    node.until("the talk has begun", |_| (heard() > MESSAGE).then_some(()));

    let other = Plugin::serve(&node.path("other.sock"), "other");
    let begin = heard();
    let mut notified = None;
    node.until("the other plugin is notified", |node| {
        let before = heard();
        node.plugins.turn(Some(Duration::ZERO)).expect("a turn");
        let turn = heard() - before;
        assert!(turn <= MOST_IN_A_TURN, "{turn} octets in one turn");
        notified = notified.take().or_else(|| other.try_notified());
        (notified.is_some() && heard() > begin + ENOUGH).then_some(())
    });
    assert!(notified.is_some_and(|notified| notified.plugin_registered));
}

/// Returns a plugin manager that subscribes to a stream of `endpoint` once a device plugin has
/// registered, and the number of messages it has received.
fn listening_to(endpoint: &Path) -> (Node, Arc<AtomicUsize>) {
    let heard = Arc::new(AtomicUsize::new(0));
    let listener = Listener {
        endpoint: endpoint.into(),
        heard: heard.clone(),
    };
    let dir = tempfile::tempdir().expect("a directory");
    let mut handlers = HandlerTable::new();
    handlers.add(["CSIPlugin"], AcceptHandler);
    handlers.add(["DevicePlugin"], listener);
    let config = watching(dir.path());
    (Node::start_handling(dir, &config, handlers), heard)
}

/// A service that sends messages for as long as the client accepts them.
struct Talk;

impl Service for Talk {
    fn call(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, Status> {
        Ok(grpc::frame(&[7; MESSAGE - 5], 0).into())
    }

    fn is_endless(&self, _: &str) -> bool {
        true
    }
}

/// Subscribes to a stream of messages, whichever plugin registers.
#[derive(Debug)]
struct Listener {
    endpoint: Arc<Path>,
    heard: Arc<AtomicUsize>,
}

impl PluginHandler for Listener {
    fn validate(&mut self, _: &Arc<Registered>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn register(&mut self, _: &Arc<Registered>, context: &mut Context<'_>) -> Answer {
        context.stream(Stream {
            endpoint: self.endpoint.clone(),
            method: "/a.B/Talk",
            request: Vec::new(),
            dial_timeout: Duration::from_secs(10),
        });
        Answer::YES
    }

    fn deregister(&mut self, _: &Arc<Registered>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn handle_event(&mut self, event: Event, _: &mut Context<'_>) {
        if let Event::StreamMessage { message, .. } = event {
            self.heard.fetch_add(message.len(), Ordering::Relaxed);
        }
    }
}
