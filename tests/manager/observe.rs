//! A manager that only looks on, in virtual time: it asks, validates, and leaves no trace.

use std::path::Path;

use plugind::config::{BACKOFF_CAP, HANDLER_TIMEOUT, Mode};
use plugind::handler::{Answer, Reason};
use plugind::manager::{Input, Refusal};

use crate::script::Script;
use crate::world::World;

const SOCKET: &str = "/r/a-reg.sock";

fn world() -> World {
    let mut world = World::new();
    world.manager.set_mode(Mode::Observe);
    world
}

fn csi() -> Script {
    Script::good("CSIPlugin", "disk")
}

/// The name of the plugin that would be registered, or why it would not be.
fn observed(world: &World) -> Option<Result<String, Refusal>> {
    let socket = world.manager.desired().get(Path::new(SOCKET))?;
    let found = *socket.observed.clone()?;
    Some(found.map(|plugin| plugin.name.clone()))
}

fn assert_untold(world: &World) {
    assert_eq!(world.told_by(SOCKET.as_ref()), None);
    assert!(world.manager.actual().is_empty());
    assert!(world.open_links().is_empty(), "the connection is closed");
}

#[test]
fn a_plugin_is_validated_and_neither_registered_nor_told() {
    let mut world = world();
    world.appear(SOCKET, csi());
    assert_eq!(world.told(), "validate disk");
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_untold(&world);
}

#[test]
fn a_plugin_that_would_be_refused_is_not_told_either() {
    let mut world = world();
    let no = Reason::new("not today");
    world.handler.will_say([Answer::Done(Err(no.clone()))]);
    world.appear(SOCKET, csi());
    let refused = Some(Err(Refusal::Validation(no)));
    assert_eq!(observed(&world), refused);
    assert_untold(&world);

    world.vanish(SOCKET);
    world.appear(SOCKET, Script::good("Toaster", "toast"));
    let refused = Some(Err(Refusal::NoHandler("Toaster".into())));
    assert_eq!(observed(&world), refused);
    assert_untold(&world);

    world.vanish(SOCKET);
    world.appear(SOCKET, Script::good("CSIPlugin", ""));
    assert!(matches!(
        observed(&world),
        Some(Err(Refusal::Validation(_)))
    ));
    assert_untold(&world);
}

#[test]
fn what_has_been_observed_is_not_asked_again_until_something_changes() {
    let mut world = world();
    world.appear(SOCKET, csi());
    world.advance(BACKOFF_CAP * 10);
    assert_eq!(world.dials[Path::new(SOCKET)], 1);
    world.manager.handle_input(Input::Reconsider, world.now);
    world.run();
    assert_eq!(world.dials[Path::new(SOCKET)], 2);
    world.vanish(SOCKET);
    world.appear(SOCKET, csi());
    assert_eq!(world.dials[Path::new(SOCKET)], 3);
    assert_untold(&world);
}

#[test]
fn a_plugin_that_does_not_answer_is_tried_again_as_ever() {
    let mut world = world();
    world.appear(SOCKET, None);
    world.advance(BACKOFF_CAP);
    assert_eq!(observed(&world), None);
    world.listen(SOCKET, csi());
    world.advance(BACKOFF_CAP * 2);
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_untold(&world);
}

#[test]
fn a_handler_that_does_not_answer_is_given_up() {
    let mut world = world();
    world.handler.will_say([Answer::Pending]);
    world.appear(SOCKET, csi());
    assert_eq!(world.manager.operation(SOCKET.as_ref()), Some("Observing"));
    assert_untold(&world);
    world.advance(HANDLER_TIMEOUT);
    assert!(matches!(
        observed(&world),
        Some(Err(Refusal::Validation(_)))
    ));
    assert_eq!(world.told(), "validate disk, abandon");
}

#[test]
fn a_plugin_that_goes_while_it_is_validated_leaves_nothing_behind() {
    let mut world = world();
    world.handler.will_say([Answer::Pending]);
    world.appear(SOCKET, csi());
    world.vanish(SOCKET);
    assert!(world.manager.is_idle());
    assert_eq!(world.told(), "validate disk, abandon");
}
