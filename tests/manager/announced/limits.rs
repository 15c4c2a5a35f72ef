//! How many plugins announce themselves: in all, of one process, and beside those that are down.

use super::*;

/// Returns a world in which as many plugins as there may be are registered at [`A`].
fn full() -> World {
    let mut world = world_with(&[A, B]);
    for i in 1..=MAX_ANNOUNCED as u64 {
        announce(&mut world, i, A, &format!("example.com/{i}"));
    }
    assert_eq!(answers(&mut world).len(), MAX_ANNOUNCED);
    world
}

#[test]
fn a_plugin_too_many_is_refused_and_one_that_is_known_is_not() {
    let mut world = full();
    announce(&mut world, 2000, A, "example.com/other");
    announce(&mut world, 2001, A, "example.com/7");
    let message = format!("{MAX_ANNOUNCED} device plugins are registered already");
    assert_eq!(answers(&mut world), [(2000, Err(message)), (2001, Ok(()))]);
}

#[test]
fn one_process_announces_64_plugins() {
    let mut world = world_with(&[A]);
    let caller = Some(7);
    let mut announce = |id: u64, name: &str, caller| {
        announce_by(&mut world, id, plugin(A, name), caller);
        answers(&mut world).pop().unwrap().1
    };
    for id in 0..64 {
        assert_eq!(announce(id, &format!("example.com/{id}"), caller), Ok(()));
    }
    let refused = announce(64, "example.com/64", caller).unwrap_err();
    let reason = "this process has registered 64 device plugins already";
    assert!(refused.contains(reason), "{refused}");
    assert_eq!(announce(65, "example.com/0", caller), Ok(()), "again");
    assert_eq!(announce(66, "example.com/64", Some(8)), Ok(()));
    // Processes in another PID namespace cannot be told apart.
    for id in 67..140 {
        assert_eq!(announce(id, &format!("example.com/{id}"), None), Ok(()));
    }
}

#[test]
fn plugins_that_are_down_give_way_to_others() {
    let mut world = full();
    announce(&mut world, 2000, B, "example.com/new");
    let refused = answers(&mut world).pop().unwrap();
    assert!(refused.1.is_err(), "{refused:?}");
    world.kill(A);
    for i in 0..3 {
        announce(&mut world, 2001 + i, B, &format!("example.com/new-{i}"));
        assert_eq!(answers(&mut world).pop(), Some((2001 + i, Ok(()))));
    }
    assert_eq!(world.counts(), (MAX_ANNOUNCED, MAX_ANNOUNCED));
}

#[test]
fn plugins_that_are_down_do_not_give_way_to_a_process_with_64() {
    let mut world = world_with(&[A, B]);
    let greedy = Some(7_000);
    for id in 1..=64 {
        let name = format!("example.com/{id}");
        announce_by(&mut world, id, plugin(B, &name), greedy);
    }
    for id in 65..=MAX_ANNOUNCED as u64 {
        announce(&mut world, id, A, &format!("example.com/{id}"));
    }
    world.kill(A);
    answers(&mut world);
    announce_by(&mut world, 2000, plugin(B, "example.com/new"), greedy);
    let refused = answers(&mut world).pop().unwrap().1.unwrap_err();
    assert!(refused.contains("this process"), "{refused}");
}

#[test]
fn a_name_with_ever_new_endpoints_is_limited_too() {
    let mut world = full();
    let calls = 2 * MAX_REGISTRATIONS as u64;
    for i in 0..calls {
        announce(&mut world, 5000 + i, &format!("/d/{i}"), "example.com/7");
    }
    assert_eq!(world.counts().0, MAX_ANNOUNCED + MAX_REGISTRATIONS);
    world.advance(DIAL_TIMEOUT);
    assert_eq!(world.counts(), (MAX_ANNOUNCED, MAX_ANNOUNCED));
    assert_eq!(answers(&mut world).len() as u64, calls);
}
