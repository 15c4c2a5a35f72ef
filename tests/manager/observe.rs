//! The dry run in virtual time: the manager calls GetInfo and validates, but neither registers nor
//! notifies.

use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF, DEFAULT_TYPES, HANDLER_TIMEOUT, Mode, UnknownTypes};
use plugind::handler::{Reason, built_in};
use plugind::manager::{Input, Manager, Refusal, State};

use crate::script::Script;
use crate::world::{WAIT, World, no};

const SOCKET: &str = "/r/a-reg.sock";
const ENDPOINT: &str = "/p/csi.sock";

fn world() -> World {
    let mut world = World::new();
    world.manager.set_mode(Mode::Observe);
    world
}

fn csi() -> Script {
    Script::csi("disk")
}

/// Returns the name of the plugin that would be registered, or the refusal, once there is an
/// outcome.
fn observed(world: &World) -> Option<Result<String, Refusal>> {
    let socket = world.desired(SOCKET)?;
    let found = *socket.observed.clone()?;
    Some(found.map(|plugin| plugin.name.clone()))
}

fn assert_untold(world: &World) {
    assert_eq!(world.notification_of(SOCKET.as_ref()), None);
    assert_eq!(world.manager.registered().count(), 0);
    assert!(world.open_connections().is_empty(), "it is closed");
}

#[test]
fn a_plugin_is_validated_and_neither_registered_nor_told() {
    let mut world = world();
    world.appear(SOCKET, csi());
    world.assert_calls("validate disk");
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_untold(&world);
}

#[test]
fn a_plugin_that_would_be_refused_is_not_told_either() {
    let nameless = Reason::new("plugin name is empty");
    let refused = Reason::new("not today");
    for (kind, name, refusal) in [
        ("CSIPlugin", "disk", Refusal::Validation(refused)),
        ("CSIPlugin", "", Refusal::Validation(nameless)),
        ("Toaster", "toast", Refusal::NoHandler("Toaster".into())),
    ] {
        let mut world = world();
        world.handler.will_answer([no("not today")]);
        world.appear(SOCKET, Script::good(kind, name));
        assert_eq!(observed(&world), Some(Err(refusal)));
        assert_untold(&world);
        let record = world.manager.records().get(Path::new(SOCKET));
        let record = record.expect("it is shown");
        assert_eq!(record.state, State::Rejected);
        assert!(record.last_error.is_some());
        let shown = record.plugin.map(|it| (&*it.kind, &*it.name));
        assert_eq!(shown, Some((kind, name)));
    }
}

#[test]
fn what_has_been_observed_is_not_asked_again() {
    let mut world = world();
    world.appear(SOCKET, csi());
    world.advance(BACKOFF.cap * 10);
    assert_eq!(world.dials[Path::new(SOCKET)], 1);
    world.input(Input::Reconsider);
    assert_eq!(world.dials[Path::new(SOCKET)], 2);
    world.vanish(SOCKET);
    world.appear(SOCKET, csi());
    assert_eq!(world.dials[Path::new(SOCKET)], 3);
    assert_untold(&world);
}

#[test]
fn a_handler_that_does_not_answer_is_given_up() {
    let mut world = world();
    world.handler.will_answer([WAIT]);
    world.appear(SOCKET, csi());
    assert_eq!(world.operation(SOCKET.as_ref()), Some("Observing"));
    assert_untold(&world);
    world.advance(HANDLER_TIMEOUT);
    assert!(matches!(
        observed(&world),
        Some(Err(Refusal::Validation(_)))
    ));
    world.assert_calls("validate disk, abandon");
}

#[test]
fn an_endpoint_is_not_dialed() {
    let types = DEFAULT_TYPES.map(str::to_owned);
    let (handlers, _) = built_in(&types, UnknownTypes::Accept);
    let mut world = World::with(Manager::new(handlers));
    world.manager.set_mode(Mode::Observe);
    let mut plugin = csi();
    ENDPOINT.clone_into(&mut plugin.info.endpoint);
    world.appear(SOCKET, plugin);
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_eq!(world.dials.get(Path::new(ENDPOINT)), None);
    assert_untold(&world);
}

#[test]
fn a_plugin_that_is_refused_at_first_is_asked_again() {
    let mut world = world();
    world.handler.will_answer([no("not yet"), no("not yet")]);
    world.appear(SOCKET, csi());
    let refused = Refusal::Validation(Reason::new("not yet"));
    assert_eq!(observed(&world), Some(Err(refused.clone())));
    world.advance(Duration::from_secs(2));
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_untold(&world);

    world.vanish(SOCKET);
    world.handler_calls();
    world.handler.will_answer(vec![no("not yet"); 20]);
    world.appear(SOCKET, csi());
    world.advance(Duration::from_secs(3600));
    assert_eq!(observed(&world), Some(Err(refused)));
    // At once, and after 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s.
    assert_eq!(world.handler_calls().matches("validate disk").count(), 7);
}

#[test]
fn a_plugin_whose_time_is_up_early_is_left_alone() {
    let mut world = world();
    world.appear(SOCKET, Script::good("Toaster", "toast"));
    world.advance(Duration::from_secs(31));
    let next = world.manager.poll_timeout().map(|(at, _)| at);
    assert!(next < Some(world.now + Duration::from_secs(30)), "{next:?}");
    world.now += Duration::from_secs(30);
    world.manager.handle_timeout(world.now);
    let next = world.manager.poll_timeout().map(|(at, _)| at);
    assert!(next > Some(world.now), "{next:?}");
}
