//! Where kubelet fails its users: a test for each known hole that the manager closes, in virtual
//! time. Those about the watch are in `src/watch/`, those about the kernel in `tests/real.rs`.

use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF_CAP, MAX_OPERATIONS};
use plugind::handler::{Answer as Say, Reason};
use plugind::manager::Input;

use crate::script::{Answer, Script};
use crate::world::World;

const A: &str = "/r/a-reg.sock";
const B: &str = "/r/b-reg.sock";
const C: &str = "/r/c-reg.sock";

fn csi(name: &str) -> Script {
    Script::good("CSIPlugin", name)
}

fn with_endpoint(name: &str, endpoint: &str) -> Script {
    let mut script = csi(name);
    script.info.endpoint = endpoint.into();
    script
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn asked(world: &mut World, path: &str) -> usize {
    world.plugin(path).asked
}

#[test]
fn a_plugin_does_not_wait_out_the_backoff_that_its_predecessor_s_stale_socket_built_up() {
    let mut world = World::new();
    world.appear(A, None);
    world.advance(minutes(10));
    let backoff = world
        .manager
        .desired()
        .get(Path::new(A))
        .map(|it| it.backoff.delay());
    assert_eq!(backoff, Some(Some(BACKOFF_CAP)));
    world.appear(A, csi("a"));
    assert_eq!(world.told(), "validate a, register a");
}

#[test]
fn dead_sockets_block_nobody() {
    let mut world = World::new();
    for i in 0..3 * MAX_OPERATIONS {
        world.appear(&format!("/r/dead-{i}.sock"), None);
    }
    world.appear(A, csi("a"));
    assert_eq!(world.told(), "validate a, register a");
}

#[test]
fn silent_plugins_hold_up_the_others_for_a_second_at_most() {
    let mut world = World::new();
    for i in 0..MAX_OPERATIONS {
        let silent = Script {
            get_info: Answer::Silence,
            ..csi("silent")
        };
        world.appear(&format!("/r/silent-{i}.sock"), silent);
    }
    world.appear(A, csi("a"));
    assert_eq!(world.told(), "", "every place is taken");
    world.advance(Duration::from_secs(1));
    assert_eq!(world.told(), "validate a, register a");
}

#[test]
fn a_plugin_is_registered_at_the_moment_it_is_found() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    assert_eq!(world.plugin(A).last_told(), Some((true, "")));
    assert_eq!(world.now, plugind::time::Time::ZERO);
}

#[test]
fn a_double_sighting_does_not_flap_a_registered_plugin() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    world.told();
    for _ in 0..10 {
        world.notice(A);
        world.run();
    }
    assert_eq!((world.told().as_str(), asked(&mut world, A)), ("", 1));
}

#[test]
fn a_plugin_that_is_refused_is_told_once_and_asked_again_at_the_cap_only() {
    for script in [Script::good("Unknown", "a"), csi("")] {
        let mut world = World::new();
        world.appear(A, script);
        world.advance(minutes(2));
        assert_eq!((asked(&mut world, A), world.plugin(A).told.len()), (1, 1));
        world.advance(10 * BACKOFF_CAP);
        assert_eq!((asked(&mut world, A), world.plugin(A).told.len()), (11, 1));
    }
}

#[test]
fn a_service_that_is_no_registration_service_is_not_hammered() {
    let mut world = World::new();
    world.appear(
        A,
        Script {
            get_info: Answer::Status(12, "unknown service"),
            ..csi("a")
        },
    );
    world.advance(2 * BACKOFF_CAP);
    assert_eq!(asked(&mut world, A), 3);
}

#[test]
fn what_a_handler_could_not_register_is_tried_again_with_backoff_as_kubelet_does() {
    let mut world = World::new();
    world
        .handler
        .will_say([Say::YES, Say::no("not yet"), Say::YES, Say::no("not yet")]);
    world.appear(A, csi("a"));
    world.advance(Duration::from_millis(1500));
    assert_eq!(world.counts(), (1, 1));
    let told = &world.plugin(A).told;
    assert_eq!(
        told.iter()
            .map(|it| it.plugin_registered)
            .collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[test]
fn what_was_refused_is_tried_at_once_when_it_changes_or_the_handlers_do() {
    let mut world = World::new();
    world
        .handler
        .will_say([Say::no("bad version"), Say::no("bad version")]);
    world.appear(A, csi("a"));
    assert_eq!(world.told(), "validate a");
    world.manager.handle_input(Input::Reconsider, world.now);
    world.run();
    assert_eq!(world.told(), "validate a");
    world.appear(A, csi("a"));
    assert_eq!(world.told(), "validate a, register a");
}

#[test]
fn the_older_socket_s_removal_does_not_take_the_newer_one_s_registration() {
    let mut world = World::new();
    world.appear(A, with_endpoint("a", "/p/old.sock"));
    world.appear(B, with_endpoint("a", "/p/new.sock"));
    world.told();
    world.vanish(A);
    assert_eq!(world.told(), "deregister a@/p/old.sock");
    let current = world
        .manager
        .instances()
        .current("CSIPlugin", "a")
        .map(|it| it.endpoint.clone());
    assert_eq!(current.as_deref(), Some(Path::new("/p/new.sock")));
}

#[test]
fn the_fallback_is_promoted_when_the_newest_goes() {
    let mut world = World::new();
    world.appear(A, with_endpoint("a", "/p/1.sock"));
    world.appear(B, with_endpoint("a", "/p/2.sock"));
    world.appear(C, with_endpoint("a", "/p/3.sock"));
    world.told();
    world.vanish(B);
    assert_eq!(world.told(), "deregister a@/p/2.sock");
    world.vanish(C);
    assert_eq!(world.told(), "deregister a@/p/3.sock, promoted a@/p/1.sock");
}

#[test]
fn the_same_endpoint_twice_is_refused_until_the_one_that_has_it_goes() {
    let mut world = World::new();
    world.appear(A, with_endpoint("a", "/p/a.sock"));
    world.appear(B, with_endpoint("a", "/p/a.sock"));
    assert_eq!(
        world.plugin(B).last_told(),
        Some((
            false,
            "RegisterPlugin error -- plugin validation failed with err: \
             the endpoint is already registered through socket /r/a-reg.sock"
        ))
    );
    assert_eq!(world.told(), "validate a@/p/a.sock, register a@/p/a.sock");
    world.vanish(A);
    assert_eq!(
        world.told(),
        "deregister a@/p/a.sock, validate a@/p/a.sock, register a@/p/a.sock"
    );
    assert_eq!(world.plugin(B).last_told(), Some((true, "")));
}

#[test]
fn the_contract_is_kept_per_plugin_name_and_not_only_per_socket() {
    let mut world = World::new();
    world.handler.will_say([Say::YES, Say::Pending]);
    world.appear(A, with_endpoint("a", "/p/old.sock"));
    world.appear(B, with_endpoint("a", "/p/new.sock"));
    world.appear(C, csi("other"));
    assert_eq!(
        world.told(),
        "validate a@/p/old.sock, register a@/p/old.sock, validate other, register other"
    );
    let ticket = world.handler.open()[0];
    world.answer(ticket, Ok(()));
    assert_eq!(
        world.told(),
        "validate a@/p/new.sock, register a@/p/new.sock"
    );
}

#[test]
fn a_plugin_is_told_by_a_second_connection_when_the_first_died_during_its_registration() {
    let mut world = World::new();
    world.handler.will_say([Say::YES, Say::Pending]);
    world.appear(A, csi("a"));
    for link in world.open_links() {
        world.break_link(link);
    }
    world.run();
    let ticket = world.handler.open()[0];
    world.answer(ticket, Ok(()));
    assert_eq!(world.plugin(A).last_told(), Some((true, "")));
    assert_eq!(
        (world.told().as_str(), world.counts()),
        ("validate a, register a", (1, 1))
    );
}

#[test]
fn a_handler_that_never_answers_costs_its_plugin_the_registration_and_nobody_else_anything() {
    let mut world = World::new();
    world.handler.will_say([Say::YES, Say::Pending]);
    world.appear(A, csi("a"));
    world.appear(B, csi("b"));
    assert_eq!(
        world.told(),
        "validate a, register a, validate b, register b"
    );
    world.advance(plugind::config::HANDLER_TIMEOUT);
    assert_eq!(world.told(), "abandon, deregister a");
    assert_eq!(
        world.plugin(A).last_told(),
        Some((
            false,
            "RegisterPlugin error -- plugin registration failed with err: \
             no answer from the handler within 150 s"
        ))
    );
}

#[test]
fn an_answer_that_comes_too_late_meets_nobody() {
    let mut world = World::new();
    world.handler.will_say([Say::Pending]);
    world.appear(A, csi("a"));
    let ticket = world.handler.open()[0];
    world.vanish(A);
    world.answer(ticket, Ok(()));
    world.answer(ticket, Err(Reason::new("twice")));
    assert_eq!(
        (world.told().as_str(), world.counts()),
        ("validate a, abandon", (0, 0))
    );
}
