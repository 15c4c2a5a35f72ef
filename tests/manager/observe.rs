//! The dry run in virtual time: the manager calls GetInfo and validates, but neither registers nor
//! notifies.

use std::path::Path;
use std::time::Duration;

use plugind::config::{
    BACKOFF_CAP, DEFAULT_TYPES, DIAL_TIMEOUT, HANDLER_TIMEOUT, Mode, PathMap, UnknownTypes,
};
use plugind::handler::{Answer, CallFailure, DialError, Reason, built_in};
use plugind::manager::{Input, Manager, Refusal};

use crate::script::Script;
use crate::world::World;

const SOCKET: &str = "/r/a-reg.sock";
const ENDPOINT: &str = "/p/csi.sock";

/// The log text about a plugin whose endpoint is [`ENDPOINT`], up to the reason.
const REFUSED: &str = "would refuse the plugin: its endpoint /p/csi.sock";

/// More deliveries and pauses than occur before the check of an endpoint.
const STEPS: usize = 100;

fn world() -> World {
    let mut world = World::new();
    world.manager.set_mode(Mode::Observe);
    world
}

fn csi() -> Script {
    Script::good("CSIPlugin", "disk")
}

/// Returns the name of the plugin that would be registered, or the refusal, once there is an
/// outcome.
fn observed(world: &World) -> Option<Result<String, Refusal>> {
    let socket = world
        .manager
        .socket(Path::new(SOCKET))
        .and_then(|it| it.desired())?;
    let found = *socket.observed.clone()?;
    Some(found.map(|plugin| plugin.name.clone()))
}

fn assert_untold(world: &World) {
    assert_eq!(world.notification_of(SOCKET.as_ref()), None);
    assert_eq!(world.manager.registered().count(), 0);
    assert!(
        world.open_connections().is_empty(),
        "the connection is closed"
    );
}

#[test]
fn a_plugin_is_validated_and_neither_registered_nor_told() {
    let mut world = world();
    world.appear(SOCKET, csi());
    assert_eq!(world.handler_calls(), "validate disk");
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_untold(&world);
}

#[test]
fn a_plugin_that_would_be_refused_is_not_told_either() {
    let mut world = world();
    let no = Reason::new("not today");
    world.handler.will_answer([Answer::Done(Err(no.clone()))]);
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
    world.handler.will_answer([Answer::Pending]);
    world.appear(SOCKET, csi());
    assert_eq!(world.manager.operation(SOCKET.as_ref()), Some("Observing"));
    assert_untold(&world);
    world.advance(HANDLER_TIMEOUT);
    assert!(matches!(
        observed(&world),
        Some(Err(Refusal::Validation(_)))
    ));
    assert_eq!(world.handler_calls(), "validate disk, abandon");
}

#[test]
fn a_plugin_that_goes_while_it_is_validated_leaves_nothing_behind() {
    let mut world = world();
    world.handler.will_answer([Answer::Pending]);
    world.appear(SOCKET, csi());
    world.vanish(SOCKET);
    assert!(world.manager.is_idle());
    assert_eq!(world.handler_calls(), "validate disk, abandon");
}

/// Returns a dry run with the built-in handlers, which also accept plugins of other types.
fn world_with_built_in_handlers() -> World {
    let types = DEFAULT_TYPES.map(str::to_owned);
    let (handlers, _) = built_in(&types, UnknownTypes::Accept);
    let mut world = World::with(Manager::new(handlers));
    world.manager.set_mode(Mode::Observe);
    world
}

/// Returns a plugin whose endpoint is not its registration socket.
fn with_endpoint(kind: &str, name: &str, version: &str) -> Script {
    let mut plugin = Script::good(kind, name);
    ENDPOINT.clone_into(&mut plugin.info.endpoint);
    plugin.info.supported_versions = vec![version.to_owned()];
    plugin
}

/// Returns why the last attempt failed, as the log shows it.
fn failure(world: &World) -> Option<String> {
    let socket = world
        .manager
        .socket(Path::new(SOCKET))
        .and_then(|it| it.desired())?;
    Some(socket.last_failure.as_deref()?.to_string())
}

/// Asserts that the last attempt failed because the endpoint could not be dialled, and that the
/// plugin was not notified.
#[track_caller]
fn assert_failure(world: &World, what: &str, why: DialError) {
    let why = CallFailure::Dial(why);
    let expected = format!("{what} does not answer: {why}");
    assert_eq!(failure(world), Some(expected));
    assert_eq!(observed(world), None);
    assert_untold(world);
}

#[test]
fn a_plugin_whose_endpoint_does_not_exist_would_be_refused_until_the_endpoint_exists() {
    let mut world = world_with_built_in_handlers();
    world.appear(SOCKET, with_endpoint("CSIPlugin", "disk", "1.0.0"));
    assert_failure(&world, REFUSED, DialError::Gone);
    world.advance(BACKOFF_CAP);
    assert!(world.dials[Path::new(SOCKET)] > 1, "it is dialled again");
    assert_failure(&world, REFUSED, DialError::Gone);

    world.create(ENDPOINT, None);
    world.advance(BACKOFF_CAP * 2);
    assert_failure(&world, REFUSED, DialError::Refused);

    world.listen(ENDPOINT, Script::serving([]));
    world.advance(BACKOFF_CAP * 2);
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_eq!(failure(&world), None);
    assert_eq!(world.plugin(ENDPOINT).called, Vec::<String>::new());
    assert_untold(&world);
}

#[test]
fn a_device_plugin_whose_endpoint_does_not_speak_http2_would_be_refused() {
    let mut world = world_with_built_in_handlers();
    let mut other = Script::serving([]);
    other.babble = Some(b"220 mail.example ready\r\n".to_vec());
    world.create(ENDPOINT, other);
    world.appear(
        SOCKET,
        with_endpoint("DevicePlugin", "a.example/b", "v1beta1"),
    );
    let found = failure(&world).expect("the attempt failed");
    assert!(found.starts_with(REFUSED), "{found}");
    assert!(found.contains("HTTP/2"), "{found}");
    assert_untold(&world);
}

#[test]
fn a_dra_plugin_whose_endpoint_does_not_exist_would_be_registered_and_could_not_be_used() {
    let mut world = world_with_built_in_handlers();
    world.appear(SOCKET, with_endpoint("DRAPlugin", "gpu", "v1.DRAPlugin"));
    let what = "would register the plugin, but its endpoint /p/csi.sock";
    assert_failure(&world, what, DialError::Gone);
}

#[test]
fn an_endpoint_is_looked_for_where_it_is_mapped_to() {
    let mut world = world_with_built_in_handlers();
    let mut map = PathMap::default();
    map.add("/p", "/data/p");
    world.manager.set_path_map(map);
    world.appear(SOCKET, with_endpoint("CSIPlugin", "disk", "1.0.0"));
    let mapped = format!("{REFUSED} (mapped to /data/p/csi.sock)");
    assert_failure(&world, &mapped, DialError::Gone);
    world.create("/data/p/csi.sock", Script::serving([]));
    world.advance(BACKOFF_CAP);
    assert_eq!(observed(&world), Some(Ok("disk".into())));
}

#[test]
fn an_endpoint_that_its_handler_does_not_use_is_not_dialled() {
    let mut world = world_with_built_in_handlers();
    world.appear(SOCKET, with_endpoint("Toaster", "toast", "1.0.0"));
    assert_eq!(observed(&world), Some(Ok("toast".into())));
    assert_eq!(world.dials.get(Path::new(ENDPOINT)), None);
    assert_untold(&world);
}

#[test]
fn an_endpoint_that_is_the_registration_socket_is_not_dialled_again() {
    let mut world = world_with_built_in_handlers();
    let mut plugin = with_endpoint("CSIPlugin", "disk", "1.0.0");
    SOCKET.clone_into(&mut plugin.info.endpoint);
    world.appear(SOCKET, plugin);
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_eq!(world.dials[Path::new(SOCKET)], 1);
}

/// Returns a dry run that waits for the server at the endpoint.
fn world_that_checks_an_endpoint() -> World {
    let mut world = world_with_built_in_handlers();
    world.appear(SOCKET, with_endpoint("CSIPlugin", "disk", "1.0.0"));
    world.create(ENDPOINT, Script::serving([]));
    world.is_slow = true;
    for _ in 0..STEPS {
        if world.manager.operation(SOCKET.as_ref()) == Some("CheckingEndpoint") {
            return world;
        }
        match world.busy_connections()[..] {
            [conn, ..] => world.deliver(conn),
            [] => world.advance(BACKOFF_CAP / 100),
        }
        world.run();
    }
    panic!("the endpoint is not checked");
}

#[test]
fn an_endpoint_that_does_not_answer_in_time_is_given_up() {
    let mut world = world_that_checks_an_endpoint();
    world.advance(DIAL_TIMEOUT / 2);
    assert_eq!(
        world.manager.operation(SOCKET.as_ref()),
        Some("CheckingEndpoint")
    );
    world.advance(DIAL_TIMEOUT / 2);
    assert_failure(&world, REFUSED, DialError::TimedOut);
}

#[test]
fn a_server_at_the_endpoint_that_sends_no_settings_in_time_is_given_up() {
    let mut world = world_that_checks_an_endpoint();
    for conn in world.busy_connections() {
        world.deliver(conn);
    }
    world.run();
    assert_eq!(world.open_to(ENDPOINT), 1);
    world.advance(DIAL_TIMEOUT);
    let found = failure(&world).expect("the attempt failed");
    assert!(found.starts_with(REFUSED), "{found}");
    assert!(found.contains("sent no SETTINGS within 10.0s"), "{found}");
    assert_untold(&world);
}

#[test]
fn a_plugin_that_goes_while_its_endpoint_is_checked_leaves_nothing_behind() {
    let mut world = world_that_checks_an_endpoint();
    world.is_slow = false;
    world.vanish(SOCKET);
    assert!(world.manager.is_idle());
    assert!(
        world.open_connections().is_empty(),
        "the connection is closed"
    );
}

#[test]
fn a_plugin_that_is_refused_at_first_is_asked_again_for_a_minute() {
    let mut world = world();
    let no = || Answer::Done(Err(Reason::new("not yet")));
    world
        .handler
        .will_answer([no(), no(), Answer::Done(Ok(()))]);
    world.appear(SOCKET, csi());
    let refused = Refusal::Validation(Reason::new("not yet"));
    assert_eq!(observed(&world), Some(Err(refused.clone())));
    world.advance(Duration::from_secs(2));
    assert_eq!(observed(&world), Some(Ok("disk".into())));
    assert_untold(&world);

    world.vanish(SOCKET);
    world.handler_calls();
    world
        .handler
        .will_answer(std::iter::repeat_with(no).take(20));
    world.appear(SOCKET, csi());
    world.advance(Duration::from_secs(3600));
    assert_eq!(observed(&world), Some(Err(refused)));
    // At once, and after 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s.
    assert_eq!(world.handler_calls().matches("validate disk").count(), 7);
}

#[test]
fn a_plugin_whose_time_is_up_before_its_timer_fires_is_left_alone() {
    let mut world = World::new();
    world.manager.set_mode(Mode::Observe);
    world.appear(SOCKET, Script::good("Toaster", "toast"));
    world.advance(Duration::from_secs(31));
    let next = world.manager.poll_timeout().map(|(at, _)| at);
    assert!(next < Some(world.now + Duration::from_secs(30)), "{next:?}");
    world.now += Duration::from_secs(30);
    world.manager.handle_timeout(world.now);
    let next = world.manager.poll_timeout().map(|(at, _)| at);
    assert!(next > Some(world.now), "{next:?}");
}
