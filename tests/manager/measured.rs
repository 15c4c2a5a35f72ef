//! What the manager measures for the metrics: the durations of registrations, calls and programs,
//! and the limits that were hit.

use std::time::Duration;

use plugind::config::{
    EXEC_TIMEOUT, GET_INFO_TIMEOUT, MAX_PROGRAMS, PERMIT_TIME, SOFT_OPERATION_LIMIT,
};
use plugind::handler::{Code, ProgramEnd};
use plugind::manager::event::EventKind;
use plugind::manager::{Limit, Measurement};
use plugind::proto::pluginregistration::registration::{GET_INFO, NOTIFY_REGISTRATION_STATUS};

use crate::exec;
use crate::script::Script;
use crate::world::World;

const SOCKET: &str = "/r/a.sock";
const MILLISECOND: Duration = Duration::from_millis(1);

fn good() -> Script {
    Script::csi("disk")
}

/// Delivers everything that is in flight, one step every millisecond.
fn deliver_slowly(world: &mut World) {
    world.is_slow = true;
    world.run();
    while let Some(conn) = world.busy_connections().first().copied() {
        world.advance(MILLISECOND);
        world.deliver(conn);
        world.run();
    }
    world.is_slow = false;
}

/// Returns how long the registrations have taken that were reported since the last call.
fn registrations(world: &mut World) -> Vec<Duration> {
    let events = std::mem::take(&mut world.events);
    let took = events.into_iter().filter_map(|event| match event.kind {
        EventKind::Registered { took } => Some(took),
        _ => None,
    });
    took.collect()
}

/// Returns what was measured since the last call, as far as `pick` returns it.
fn measured<T>(world: &mut World, pick: impl Fn(Measurement) -> Option<T>) -> Vec<T> {
    let measured = std::mem::take(&mut world.measured);
    measured.into_iter().filter_map(pick).collect()
}

/// Returns the calls that were measured since the last call.
fn calls(world: &mut World) -> Vec<(&'static str, Code, Duration)> {
    measured(world, |it| match it {
        Measurement::Called { method, code, took } => Some((method, code, took)),
        _ => None,
    })
}

/// Returns the programs that were measured since the last call, as action and result.
fn runs(world: &mut World) -> Vec<(&'static str, &'static str, Duration)> {
    measured(world, |it| match it {
        Measurement::Ran {
            plugin,
            action,
            result,
            took,
        } => {
            assert_eq!((&*plugin.kind, &*plugin.name), ("CSIPlugin", "disk"));
            Some((action, result, took))
        }
        _ => None,
    })
}

/// Returns how often a limit was hit.
fn hits(world: &World, limit: Limit) -> usize {
    let hit = Measurement::LimitHit(limit);
    world.measured.iter().filter(|it| **it == hit).count()
}

#[test]
fn a_registration_takes_until_the_reply_of_the_plugin() {
    let mut world = World::new();
    world.create(SOCKET, good());
    world.notice(SOCKET);
    deliver_slowly(&mut world);
    let both = [GET_INFO, NOTIFY_REGISTRATION_STATUS];
    let both = both.map(|method| (method, Code::Ok, MILLISECOND));
    assert_eq!(calls(&mut world), both);
    let took = registrations(&mut world);
    assert_eq!(took, [MILLISECOND * 3], "with the dial");
}

#[test]
fn a_registration_after_failed_attempts_includes_them() {
    let mut world = World::new();
    world.appear(SOCKET, Script::silent());
    world.advance(GET_INFO_TIMEOUT);
    let late = (GET_INFO, Code::DeadlineExceeded, GET_INFO_TIMEOUT);
    assert_eq!(calls(&mut world), [late]);
    world.behave(SOCKET);
    world.advance(Duration::from_secs(10));
    let took = registrations(&mut world);
    assert_eq!(took.len(), 1);
    assert!(took[0] > GET_INFO_TIMEOUT, "{took:?}");
}

#[test]
fn sockets_that_wait_for_a_permit_hit_the_limit_once_each() {
    let mut world = World::new();
    for n in 0..SOFT_OPERATION_LIMIT + 3 {
        world.appear(&format!("/r/{n}"), Script::silent());
    }
    assert_eq!(hits(&world, Limit::Operations), 3);
    assert_eq!(hits(&world, Limit::Descriptors), 0);
    assert_eq!(world.manager.records().undialed_count(), 3);
    world.advance(PERMIT_TIME);
    assert_eq!(world.manager.records().undialed_count(), 0);
}

#[test]
fn a_dial_without_a_descriptor_hits_the_limit_of_descriptors() {
    let mut world = World::new();
    world.manager.set_descriptor_limit(0);
    world.appear(SOCKET, good());
    assert_eq!(hits(&world, Limit::Descriptors), 1);
    assert_eq!(hits(&world, Limit::Operations), 0);
}

fn with_programs() -> World {
    World::with(exec::manager())
}

#[test]
fn a_program_is_measured_however_it_ended() {
    let mut world = with_programs();
    let rows = [
        (ProgramEnd::Exited(0), "success"),
        (ProgramEnd::Exited(1), "failure"),
        (ProgramEnd::Killed(9), "killed"),
        (ProgramEnd::NotStarted("no".to_owned()), "not_started"),
    ];
    for (end, result) in rows {
        world.appear(SOCKET, good());
        world.advance(MILLISECOND);
        assert_eq!(runs(&mut world), []);
        world.end_first(end);
        assert_eq!(runs(&mut world), [("add", result, MILLISECOND)]);
        world.vanish(SOCKET);
        while !world.programs.is_empty() {
            world.end_first(ProgramEnd::Exited(0));
            assert_eq!(runs(&mut world), [("del", "success", Duration::ZERO)]);
        }
    }
    world.appear(SOCKET, good());
    world.advance(EXEC_TIMEOUT);
    assert_eq!(runs(&mut world), [("add", "timeout", EXEC_TIMEOUT)]);
}

#[test]
fn a_program_that_is_cancelled_is_measured() {
    let mut world = with_programs();
    world.appear(SOCKET, good());
    world.advance(MILLISECOND);
    world.vanish(SOCKET);
    assert_eq!(world.killed.len(), 1);
    assert_eq!(runs(&mut world), [("add", "cancelled", MILLISECOND)]);
}

#[test]
fn a_program_that_waits_hits_the_limit() {
    let mut world = with_programs();
    for n in 0..MAX_PROGRAMS / 2 {
        world.appear(&format!("/r/{n}"), Script::csi(&n.to_string()));
    }
    assert_eq!(hits(&world, Limit::Programs), 0);
    world.appear(SOCKET, good());
    assert_eq!(hits(&world, Limit::Programs), 1);
    world.advance(MILLISECOND);
    world.measured.clear();
    world.end_first(ProgramEnd::Exited(0));
    world.measured.clear();
    world.advance(MILLISECOND);
    let (id, _) = world.programs.last_key_value().expect("its program runs");
    world.report_end(*id, ProgramEnd::Exited(0));
    assert_eq!(world.notification_of(SOCKET.as_ref()), None);
    world.run();
    assert_eq!(runs(&mut world), [("add", "success", MILLISECOND)]);
}
