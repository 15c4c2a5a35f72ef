//! Handlers that open a stream to a plugin's endpoint, for as long as the plugin is registered.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plugind::config::MAX_AT_ONCE;
use plugind::handler::{
    Answer, Context, EffectId, Event, HandlerTable, Plugin, PluginHandler, Stream,
};
use plugind::manager::{ConnectionId, Manager};

use crate::script::{Answer as Reply, Script, WATCH};
use crate::world::World;

const SOCKET: &str = "/plugins/a.sock";
/// The message after which a handler cancels its stream.
const STOP: &str = "stop";
const ENDPOINT: &str = "/endpoints/a.sock";

/// The events that a handler received, as text.
type Heard = Arc<Mutex<Vec<String>>>;

/// A handler that keeps a stream open to the plugin that it registered, until its deregistration.
#[derive(Debug, Default)]
struct Listener {
    heard: Heard,
    stream: Option<EffectId>,
}

impl PluginHandler for Listener {
    fn validate(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.stream = Some(context.stream(Stream {
            endpoint: plugin.endpoint.clone(),
            method: WATCH,
            request: Vec::new(),
            dial_timeout: Duration::from_secs(10),
        }));
        Answer::YES
    }

    fn deregister(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.stream = None; // The manager cancels it.
        Answer::YES
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let words = match event {
            Event::StreamMessage { message, .. } => String::from_utf8(message).expect("text"),
            Event::StreamEnded { result: Ok(()), .. } => "end".to_owned(),
            Event::StreamEnded { result: Err(e), .. } => e.to_string(),
            other => format!("{other:?}"),
        };
        if words == STOP {
            context.cancel(self.stream.take().expect("the stream is open"));
        }
        self.heard.lock().expect("no panic").push(words);
    }
}

/// Returns a world in which the plugin at `SOCKET` is registered by a [`Listener`], and what the
/// handler receives.
fn listening(endpoint: Option<Script>) -> (World, Heard) {
    let heard = Heard::default();
    let mut table = HandlerTable::new();
    table.add(
        ["DevicePlugin"],
        Listener {
            heard: heard.clone(),
            stream: None,
        },
    );
    let mut world = World::with(Manager::new(table));
    if let Some(endpoint) = endpoint {
        world.create(ENDPOINT, endpoint);
    }
    let plugin = Script::good("DevicePlugin", "example.com/a");
    world.appear(SOCKET, plugin.at(ENDPOINT));
    (world, heard)
}

fn endpoint() -> Script {
    let messages = ["one", "two"].map(|it| it.as_bytes().to_vec());
    Script::serving([(WATCH, Reply::Stream(messages.into()))])
}

/// Returns the connection of the stream, which is the last one that was made.
fn conn(world: &World) -> ConnectionId {
    *world.open_connections().last().expect("the stream is open")
}

fn take(heard: &Heard) -> Vec<String> {
    std::mem::take(&mut *heard.lock().expect("no panic"))
}

#[test]
fn a_handler_hears_every_message_of_a_stream_in_order_for_days() {
    let (mut world, heard) = listening(Some(endpoint()));
    assert_eq!(take(&heard), ["one", "two"]);
    for _ in 0..100 {
        world.advance(Duration::from_secs(3600));
        world.push(ENDPOINT, b"still here");
        assert_eq!(take(&heard), ["still here"]);
    }
}

#[test]
fn many_messages_of_one_frame_are_handed_on_in_pieces() {
    let messages: Vec<String> = (0..5 * MAX_AT_ONCE / 2).map(|n| n.to_string()).collect();
    let (mut world, heard) = listening(Some(endpoint()));
    take(&heard);
    world.push_all(ENDPOINT, &messages);
    assert_eq!(take(&heard), messages);
    assert_eq!(world.resumed, 2);

    world.is_slow = true;
    world.push_all(ENDPOINT, &messages);
    world.break_connection(conn(&world));
    world.is_slow = false;
    world.run();
    let mut heard = take(&heard);
    let end = heard.pop();
    assert_eq!(end.as_deref(), Some("the peer closed the connection"));
    assert_eq!(heard, messages);
    assert_eq!(world.resumed, 4);
}

#[test]
fn a_stream_that_is_cancelled_has_no_further_events() {
    let (mut world, heard) = listening(Some(endpoint()));
    take(&heard);
    world.push_all(ENDPOINT, &["a", STOP, "b", "c"]);
    assert_eq!(take(&heard), ["a", STOP]);
}

#[test]
fn a_handler_hears_that_a_stream_has_ended() {
    let (mut world, heard) = listening(Some(endpoint()));
    take(&heard);
    world.end_streams(ENDPOINT, 0);
    assert_eq!(take(&heard), ["end"]);
    assert_eq!(world.open_to(ENDPOINT), 0, "it is closed");
}

#[test]
fn a_handler_hears_that_a_stream_could_not_be_opened() {
    let (_, heard) = listening(None);
    let words = take(&heard);
    assert_eq!(words.len(), 1);
    assert!(words[0].starts_with("cannot connect: "), "{words:?}");
}
