//! What an existing plugin may rely on: kubelet's own tests of its plugin manager, row by row, in
//! virtual time. `PM` rows are about the two worlds and the reconciler, `GM` rows about the table
//! of operations ([`table`]). Rows with real directories and sockets are in
//! `tests/library/integration.rs`.

mod table;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::handler::HandlerTable;
use plugind::manager::reconcile::Action;
use plugind::manager::{Input, Manager, SavedState};
use plugind::time::Time;
use plugind::watch::Identity;

use crate::handlers::node::seconds;
use crate::script::{Answer, Script};
use crate::world::{WAIT, World, YES, identity, no, plan, world_plan};

const A: &str = "/r/a-reg.sock";
const B: &str = "/r/b-reg.sock";

fn path(path: &str) -> Arc<Path> {
    Path::new(path).into()
}

/// Returns the identities of the desired socket and of the registered plugin at [`A`].
fn identities(world: &World) -> (Option<Identity>, Option<Identity>) {
    let desired = world.desired(A).map(|it| it.identity);
    (desired, world.registered(A).map(|it| it.identity))
}

/// Returns a world in which the plugin `a` is registered at [`A`].
fn registered() -> World {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    world.assert_calls("validate a, register a");
    world
}

// --- The two worlds ------------------------------------------------------------------------------

#[test]
fn pm1_a_plugin_at_any_depth_is_validated_and_registered() {
    for socket in ["/r/a.sock", "/r/one/a.sock", "/r/one/two/a.sock"] {
        let mut world = World::new();
        world.appear(socket, Script::csi("a"));
        world.assert_calls("validate a, register a");
        assert_eq!(world.plugin(socket).last_notified(), Some((true, "")));
        assert_eq!(world.dials[&path(socket)], 1, "for both calls");
        world.vanish(socket);
        world.assert_calls("deregister a");
    }
}

#[test]
fn pm2_pm6_pm10_pm16_both_worlds_have_what_was_added() {
    let mut world = World::new();
    let identity = world.appear(A, Script::csi("a"));
    assert_eq!(world.counts(), (1, 1));
    assert_eq!(identities(&world), (Some(identity), Some(identity)));
}

#[test]
fn pm3_pm8_a_socket_without_a_path_is_not_stored() {
    let mut manager = Manager::new(HandlerTable::new());
    let file = r#"{"format":"plugind registered plugins 2","boot":"b","plugins":[
        {"socket":"","device":1,"inode":1,"born":[0,0],"type":"CSIPlugin","name":"a",
        "endpoint":"/p","versions":[]}]}"#;
    manager.restore(SavedState::decode(file.as_bytes(), "b").expect("it is valid"));
    let (path, identity) = (path(""), identity(1));
    manager.handle_input(Input::Found { path, identity }, Time::ZERO);
    assert_eq!(manager.sockets().count(), 0);
}

#[test]
fn pm4_pm9_pm17_neither_world_has_what_was_removed() {
    let mut world = registered();
    world.vanish(A);
    assert_eq!(world.counts(), (0, 0));
    assert!(world.manager.socket(Path::new(A)).is_none());
}

#[test]
fn pm5_a_plugin_with_another_identity_does_not_match() {
    let mut world = registered();
    let (before, _) = identities(&world);
    world.handler.will_answer([WAIT]);
    world.appear(A, Script::csi("a"));
    world.assert_calls("deregister a");
    let (desired, registered) = identities(&world);
    assert_eq!(registered, None);
    assert_ne!(desired, before);
}

#[test]
fn pm7_pm18_a_second_add_leaves_one_entry_of_the_new_identity() {
    let mut world = registered();
    let identity = world.appear(A, Script::csi("a"));
    assert_eq!(world.counts(), (1, 1));
    assert_eq!(identities(&world), (Some(identity), Some(identity)));
    world.assert_calls("deregister a, validate a, register a");
}

// --- Operations ----------------------------------------------------------------------------------

#[test]
fn pm11_gm1_gm2_two_sockets_register_concurrently() {
    let mut world = World::answering([WAIT, WAIT]);
    world.appear(A, Script::csi("a"));
    world.appear(B, Script::csi("b"));
    world.assert_calls("validate a, validate b");
    for ticket in world.handler.open() {
        world.answer(ticket, Ok(()));
    }
    world.assert_calls("register a, register b");
}

#[test]
fn pm12_gm8_a_second_register_on_the_same_socket_is_refused() {
    let mut world = World::answering([WAIT]);
    world.appear(A, Script::csi("a"));
    for _ in 0..3 {
        world.notice(A);
        world.advance(seconds(1));
    }
    world.assert_calls("validate a");
    assert_eq!(world.dials[&path(A)], 1);
}

#[test]
fn pm13_pm14_two_sockets_deregister_concurrently_and_once_each() {
    let mut world = registered();
    world.appear(B, Script::csi("b"));
    world.handler_calls();
    world.handler.will_answer([WAIT, WAIT]);
    world.vanish(A);
    world.vanish(B);
    world.notice(A);
    world.advance(seconds(1));
    world.assert_calls("deregister a, deregister b");
}

#[test]
fn pm15_gm12_empty_worlds_stay_empty() {
    let mut world = World::new();
    world.advance(seconds(3600));
    assert_eq!(world.counts(), (0, 0));
    assert_eq!(world.manager.poll_timeout(), None, "no deadline is left");
    assert_eq!(world_plan(&world.manager), []);
    assert!(world.manager.is_idle());
}

#[test]
fn pm19_pm21_a_path_that_is_created_ten_times_is_one_entry() {
    let mut world = World::new();
    let mut last = None;
    for i in 0..10 {
        let identity = world.appear(A, Script::csi(&format!("plugin-{i}")));
        assert!(Some(identity) > last);
        last = Some(identity);
        assert_eq!(world.counts(), (1, 1));
    }
    let registered = world.registered(A).expect("it is registered");
    assert_eq!(registered.plugin.name, "plugin-9");
    world.vanish(A);
    assert_eq!(world.counts(), (0, 0));
}

#[test]
fn pm20_pm22_ten_sockets_of_one_name_are_all_found() {
    let mut world = World::new();
    let sockets: Vec<_> = (0..10).map(|i| format!("/r/{i}.sock")).collect();
    for socket in &sockets {
        world.create(socket, Script::csi("one"));
    }
    for socket in &sockets {
        world.notice(socket);
    }
    world.run();
    assert_eq!(world.counts(), (10, 10));
}

#[test]
fn pm23_a_plugin_that_cannot_be_told_is_deregistered() {
    for answer in [Answer::Status(13, "no"), Answer::Close, Answer::Silence] {
        let mut world = World::new();
        world.appear(A, Script::csi("a").with_notify(answer.clone()));
        world.advance(Duration::from_millis(5400));
        assert_eq!(world.counts(), (1, 0), "{answer:?}");
        let calls = world.handler_calls();
        let undone = "validate a, register a, deregister a";
        assert!(calls.starts_with(undone), "{answer:?}");
        let failure = world.failure(A);
        let words = "NotifyRegistrationStatus failed: ";
        assert!(failure.starts_with(words), "{failure}");
        assert!(world.reasons().starts_with("SocketFound NotifyFailed"));
    }
}

// --- The order of events -------------------------------------------------------------------------

#[test]
fn a_plugin_is_in_the_actual_world() {
    let mut world = World::answering([YES, WAIT]);
    world.appear(A, Script::csi("a"));
    assert_eq!(world.counts(), (1, 1));
    world.vanish(A);
    world.assert_calls("validate a, register a, abandon, deregister a");
    assert_eq!(world.counts(), (0, 0));
}

#[test]
fn unregistrations_come_before_registrations() {
    let entries = [
        (path(A), Some(identity(1)), None),
        (path(B), None, Some(identity(2))),
    ];
    let steps = [(Action::Deregister, path(B)), (Action::Register, path(A))];
    assert_eq!(plan(entries), steps);
}

#[test]
fn a_plugin_that_is_refused_is_told_so_in_kubelet_s_words() {
    for (kind, answers, calls, reason, why) in [
        (
            "Unknown",
            vec![],
            "",
            "ValidationFailed",
            "no handler registered for plugin type: Unknown at socket /r/a-reg.sock",
        ),
        (
            "CSIPlugin",
            vec![no("bad version")],
            "validate a",
            "ValidationFailed",
            "plugin validation failed with err: bad version",
        ),
        (
            "CSIPlugin",
            vec![YES, no("no node id")],
            "validate a, register a",
            "RegistrationFailed",
            "plugin registration failed with err: no node id",
        ),
    ] {
        let mut world = World::answering(answers);
        world.appear(A, Script::good(kind, "a"));
        let notified = format!("RegisterPlugin error -- {why}");
        let told = world.plugin(A).last_notified();
        assert_eq!(told, Some((false, notified.as_str())));
        assert_eq!(world.handler_calls(), calls);
        assert_eq!(world.reasons(), format!("SocketFound {reason}"));
        assert_eq!(world.counts(), (1, 0));
    }
}

#[test]
fn a_plugin_that_does_not_say_who_it_is_is_not_told_anything() {
    for answer in [
        Answer::Status(5, "?"),
        Answer::Octets(vec![0xff]),
        Answer::Silence,
    ] {
        let mut world = World::new();
        world.appear(A, Script::csi("a").with_get_info(answer));
        world.advance(Duration::from_millis(1400));
        assert!(world.plugin(A).asked > 0);
        assert_eq!(world.plugin(A).notified.len(), 0);
        world.assert_calls("");
    }
}
