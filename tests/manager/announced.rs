//! Plugins that announce themselves by a call.

mod limits;

use std::path::Path;

use log::Level;
use plugind::config::{DEVICE_GRACE, DIAL_TIMEOUT, MAX_ANNOUNCED, MAX_REGISTRATIONS, OnDown};
use plugind::handler::{HandlerTable, Plugin, device};
use plugind::manager::{AnnouncementError, AnnouncementId, Input, Manager, Process, State};

use crate::handlers::node::seconds;
use crate::script::{Answer as Reply, Script, device_list};
use crate::world::{Recorder, World, YES, awaited_sockets, no};

const A: &str = "/d/a.sock";
const B: &str = "/d/b.sock";
const GPU: &str = "example.com/gpu";
const NIC: &str = "example.com/nic";

/// Returns a device plugin that announces itself.
pub(crate) fn plugin(endpoint: &str, name: &str) -> Plugin {
    let endpoint = Path::new(endpoint);
    Plugin {
        kind: device::TYPE.to_owned(),
        name: name.to_owned(),
        endpoint: endpoint.into(),
        versions: vec!["v1beta1".to_owned()],
        socket: endpoint.into(),
    }
}

/// Has the plugin with this endpoint and name announce itself. A process makes few of these calls.
fn announce(world: &mut World, id: u64, endpoint: &str, name: &str) {
    let pid = u32::try_from(id / 50).unwrap();
    announce_by(world, id, plugin(endpoint, name), Some(pid));
}

/// Has the process with this ID announce a plugin.
fn announce_by(world: &mut World, id: u64, plugin: Plugin, pid: Option<u32>) {
    let announced = Input::Announced {
        id: AnnouncementId(id),
        plugin: Box::new(plugin),
        caller: Some(Process { pid, uid: 0 }),
    };
    world.input(announced);
}

/// Returns the answers since the last call: the number of each call, and the message of a failure.
fn answers(world: &mut World) -> Vec<(u64, Result<(), String>)> {
    let answered = std::mem::take(&mut world.answered).into_iter();
    let answered = answered.map(|(AnnouncementId(id), result)| {
        (id, result.map_err(|error| error.status_error(Path::new(A))))
    });
    answered.collect()
}

/// Returns a world in which these sockets have listeners.
fn world_with(sockets: &[&str]) -> World {
    let mut world = World::new();
    for socket in sockets {
        world.create(socket, Script::serving([]));
    }
    world
}

/// Returns a world in which the plugin [`GPU`] is registered at [`A`].
fn registered() -> World {
    let mut world = world_with(&[A]);
    announce(&mut world, 1, A, GPU);
    assert_eq!(answers(&mut world), [(1, Ok(()))]);
    world.assert_calls("validate example.com/gpu, register example.com/gpu");
    world
}

#[test]
fn a_plugin_that_announces_itself_is_registered_and_answered() {
    let mut world = registered();
    assert_eq!(world.counts(), (1, 1));
    assert_eq!(world.watched_processes(), 1);
    assert_eq!(world.dials[Path::new(A)], 1, "GetInfo is not called");
    assert_eq!(world.state(A), Some(State::Registered));
    assert_eq!(world.reasons(), "Announced Registered");
}

#[test]
fn a_plugin_that_is_refused_is_answered_in_its_handlers_words() {
    let mut world = world_with(&[A]);
    for (id, answers_of_handler, expected) in [
        (1, vec![no("bad version")], "bad version"),
        (2, vec![YES, no("no options")], "no options"),
    ] {
        world.handler.will_answer(answers_of_handler);
        announce(&mut world, id, A, GPU);
        assert_eq!(answers(&mut world), [(id, Err(expected.to_owned()))]);
        world.advance(seconds(600));
        assert_eq!((world.counts(), answers(&mut world)), ((0, 0), vec![]));
        assert_eq!(world.state(A), None);
    }
    assert!(world.reasons().contains("RegistrationFailed"));
}

#[test]
fn an_endpoint_that_listens_within_ten_seconds_is_soon_enough() {
    let mut world = world_with(&[]);
    announce(&mut world, 1, A, GPU);
    world.advance(seconds(3));
    world.create(A, None);
    world.advance(seconds(3));
    assert_eq!(answers(&mut world), []);
    world.listen(A, Script::serving([]));
    world.advance(seconds(2));
    assert_eq!(answers(&mut world), [(1, Ok(()))]);
}

#[test]
fn an_endpoint_that_does_not_exist_is_a_warning() {
    let mut world = world_with(&[]);
    announce(&mut world, 1, A, GPU);
    world.advance(DIAL_TIMEOUT);
    let mut events = world.events.iter();
    let failed = events.find(|it| it.reason() == "ConnectFailed").unwrap();
    assert_eq!((failed.is_warning(), failed.level()), (true, Level::Warn));
}

#[test]
fn rs15_three_calls_of_one_name_and_socket_leave_one_client() {
    let mut world = registered();
    announce(&mut world, 2, A, GPU);
    announce(&mut world, 3, A, GPU);
    assert_eq!(answers(&mut world), [(2, Ok(())), (3, Ok(()))]);
    assert_eq!((world.counts(), world.watched_processes()), ((1, 1), 1));
    assert_eq!(world.open_connections().len(), 0);
}

#[test]
fn a_newer_endpoint_is_used_and_the_older_one_after_it() {
    let mut world = registered();
    world.create(B, Script::serving([]));
    world.handler.will_answer([no("not now")]);
    announce(&mut world, 2, B, GPU);
    assert_eq!(answers(&mut world).len(), 1);
    assert_eq!(world.counts(), (1, 1), "the older one stays");
    world.handler_calls();
    announce(&mut world, 3, B, GPU);
    world.assert_calls("validate example.com/gpu, register example.com/gpu");
    let states = |world: &World| (world.state(A), world.state(B));
    let both = (Some(State::Standby), Some(State::Registered));
    assert_eq!((states(&world), world.counts()), (both, (2, 2)));
    world.kill(B);
    world.assert_calls("deregister example.com/gpu, promoted example.com/gpu@/d/a.sock");
    assert_eq!(states(&world), (Some(State::Registered), None));
}

#[test]
fn a_plugin_whose_call_is_over_is_not_registered_later() {
    let mut world = world_with(&[]);
    world.create(A, None);
    announce(&mut world, 1, A, GPU);
    let id = AnnouncementId(1);
    world.input(Input::CallEnded { id });
    world.listen(A, Script::serving([]));
    world.advance(DIAL_TIMEOUT);
    assert_eq!((world.counts(), answers(&mut world)), ((0, 0), vec![]));
    world.assert_calls("");
}

#[test]
fn two_names_may_have_one_endpoint() {
    let mut world = registered();
    announce(&mut world, 2, A, NIC);
    assert_eq!(answers(&mut world), [(2, Ok(()))]);
    assert_eq!(world.counts(), (2, 2));
    let second = "/d/a.sock?resource=example.com/nic";
    assert_eq!(world.state(second), Some(State::Registered));
    announce(&mut world, 3, A, NIC);
    announce(&mut world, 4, A, GPU);
    assert_eq!(answers(&mut world), [(3, Ok(())), (4, Ok(()))]);
    assert_eq!(world.counts(), (2, 2));
    assert_eq!(world.dials.len(), 1, "{:?}", world.dials);
}

#[test]
fn a_plugin_whose_process_has_ended_stays_for_five_minutes() {
    for (policy, grace) in [
        (OnDown::Keep, 300),
        (OnDown::Deregister(seconds(30)), 30), // It may shorten the five minutes.
    ] {
        let mut world = registered();
        world.manager.set_on_down(policy);
        world.kill(A);
        assert_eq!(world.state(A), Some(State::Down));
        world.advance(seconds(grace - 1));
        world.assert_calls("");
        world.advance(seconds(1));
        world.assert_calls("deregister example.com/gpu");
        assert_eq!((world.counts(), world.state(A)), ((0, 0), None));
        world.advance(seconds(600));
        assert_eq!(world.handler_calls(), "", "it has to announce itself again");
    }
}

#[test]
fn a_plugin_that_listens_again_on_the_same_endpoint_is_up_again() {
    let mut world = registered();
    world.kill(A);
    world.listen(A, Script::serving([]));
    world.advance(seconds(130));
    assert_eq!(world.state(A), Some(State::Registered));
    world.advance(DEVICE_GRACE);
    world.assert_calls("");
}

/// Restarts the daemon, which restores what it has saved.
fn restart(world: &mut World) {
    let mut table = HandlerTable::new();
    table.add([device::TYPE], Recorder(world.handler.clone()));
    let mut manager = Manager::new(table);
    manager.restore(world.saved());
    assert_eq!(
        awaited_sockets(&manager),
        [],
        "the watch will not see its socket"
    );
    manager.handle_timeout(world.now);
    world.restart(manager);
    world.run();
}

#[test]
fn after_a_restart_a_plugin_has_five_minutes_to_come_again() {
    let mut world = registered();
    world.now = plugind::time::Time::ZERO;
    restart(&mut world);
    assert_eq!(world.state(A), Some(State::Registered));
    world.advance(seconds(299));
    world.assert_calls("");
    assert_eq!(world.counts(), (0, 1));
    restart(&mut world);
    world.now = plugind::time::Time::ZERO;
    world.advance(DEVICE_GRACE);
    world.assert_calls("deregister example.com/gpu");
    assert_eq!(world.counts(), (0, 0));
    assert!(world.reasons().contains("NotAnnounced"));
}

#[test]
fn a_plugin_with_another_endpoint_replaces_the_restored_one() {
    let mut world = registered();
    restart(&mut world);
    world.create(B, Script::serving([]));
    announce(&mut world, 1, B, GPU);
    world.assert_calls(
        "validate example.com/gpu, register example.com/gpu, deregister example.com/gpu",
    );
    assert_eq!(world.counts(), (1, 1));
}

#[test]
fn nothing_is_announced_to_a_daemon_that_stops() {
    let mut world = registered();
    world.input(Input::Stop);
    announce(&mut world, 2, B, NIC);
    let refused = Err(AnnouncementError::Stopping);
    assert_eq!(world.answered, [(AnnouncementId(2), refused)]);
    assert!(world.manager.is_stopped());
    assert_eq!(world.counts().1, 1, "saved for the next start");
}

/// Returns a world with the built-in handler, in which the plugin lists one device.
fn listing() -> (World, plugind::handler::Store<device::DevicePlugin>) {
    let handler = device::DeviceHandler::default();
    let store = handler.plugins();
    let mut table = HandlerTable::new();
    table.add([device::TYPE], handler);
    let mut world = World::with(Manager::new(table));
    let list = Reply::Stream(vec![device_list(["1-1"])]);
    world.create(A, Script::devices(GPU, list));
    announce(&mut world, 1, A, GPU);
    assert_eq!(answers(&mut world), [(1, Ok(()))]);
    (world, store)
}

#[test]
fn the_end_of_its_stream_makes_devices_unhealthy() {
    let (mut world, store) = listing();
    let healthy = || {
        let plugin = store.get(GPU)?;
        Some((plugin.devices.len(), plugin.count_healthy()))
    };
    assert_eq!(healthy(), Some((1, 1)));
    let calls = world.plugin(A).called.len();
    world.end_streams(A, 0);
    assert_eq!(healthy(), Some((1, 0)));
    assert_eq!(world.state(A), Some(State::Down));
    world.manager.retry(&|_| true, world.now);
    world.run();
    world.advance(seconds(299));
    assert_eq!(healthy(), Some((1, 0)));
    assert_eq!(world.state(A), Some(State::Down), "it only answers");
    assert_eq!(world.plugin(A).called.len(), calls, "not opened again");
    world.advance(seconds(1));
    assert_eq!((healthy(), world.counts()), (None, (0, 0)));
}

#[test]
fn a_plugin_whose_stream_has_ended_is_up_when_announced_again() {
    let (mut world, store) = listing();
    world.end_streams(A, 0);
    announce(&mut world, 2, A, GPU);
    assert_eq!(answers(&mut world), [(2, Ok(()))]);
    assert_eq!(world.state(A), Some(State::Registered));
    world.advance(DEVICE_GRACE * 2);
    assert_eq!(world.state(A), Some(State::Registered));
    assert_eq!(store.get(GPU).unwrap().count_healthy(), 1);
}

#[test]
fn a_plugin_that_stays_away_after_a_restart_is_deregistered() {
    let mut world = registered();
    restart(&mut world);
    world.kill(A);
    announce(&mut world, 1, A, GPU);
    world.advance(DIAL_TIMEOUT);
    assert_eq!(answers(&mut world).len(), 1);
    world.assert_calls("deregister example.com/gpu");
    assert_eq!(world.counts(), (0, 0));
}

#[test]
fn a_watched_socket_and_an_announced_plugin_stay_apart() {
    let mut world = world_with(&[]);
    world.appear(A, Script::good(device::TYPE, "example.com/x"));
    announce(&mut world, 1, A, GPU);
    assert_eq!(answers(&mut world), [(1, Ok(()))]);
    assert_eq!(world.counts(), (2, 2));
    world.create(B, Script::serving([]));
    announce(&mut world, 2, B, NIC);
    world.notice(B);
    world.run();
    world.kill(A);
    world.kill(B);
    world.vanish(A);
    world.vanish(B);
    world.run();
    world.advance(DEVICE_GRACE * 2);
    assert_eq!((answers(&mut world).len(), world.counts()), (1, (0, 0)));
}
