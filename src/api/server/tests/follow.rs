//! Clients that read events, or follow the records or the events.

use super::*;
use crate::config::{API_FOLLOW_PAUSE, KEPT_EVENTS};

#[test]
fn a_watch_has_the_records_and_then_their_changes() {
    let mut world = World::new();
    world.add_socket("/r/a");
    let id = world.request("GET", "/v1/watch");
    let wanted = ["ADDED /r/a Connecting", "BOOKMARK"];
    assert_eq!(world.read_changes(id), wanted);
    assert_eq!(world.read_changes(id), [""; 0]);
    assert_eq!(
        world.server.poll_timeout(),
        None,
        "a watch may be silent for days"
    );
    world.register("/r/b", "disk");
    let changes = world.read_changes(id);
    assert_eq!(
        changes.last().map(String::as_str),
        Some("ADDED /r/b Registered")
    );
    world.remove_socket("/r/a");
    let changes = world.read_changes(id);
    assert_eq!(changes.last().map(String::as_str), Some("DELETED /r/a"));
    let since = world.manager.generation();
    world.add_socket("/r/c");
    let other = world.request("GET", &format!("/v1/watch?since={since}"));
    assert_eq!(world.read_changes(other), ["ADDED /r/c Connecting"]);
    assert_eq!(world.read_changes(id), ["ADDED /r/c Connecting"]);
}

#[test]
fn a_slow_reader_of_a_watch_gets_the_latest_state_of_records() {
    let mut world = World::new();
    let id = world.request("GET", "/v1/watch");
    assert_eq!(world.read_changes(id), ["BOOKMARK"]);
    let mut fill_and_flap = |flaps| {
        for n in 0..100 {
            world.add_socket(&format!("/r/{n}"));
            world.run_turn();
        }
        for _ in 0..flaps {
            world.add_socket("/r/flapping");
            world.remove_socket("/r/flapping");
            world.run_turn();
        }
        world.add_socket("/r/flapping");
        assert!(world.server.pending_output(id).len() < MAX_UNSENT_OCTETS + 1024);
        let changes = world.read_changes(id);
        for path in world
            .manager
            .records()
            .iter()
            .map(|it| it.socket.clone())
            .collect::<Vec<_>>()
        {
            world.remove_socket(&path.to_string_lossy());
        }
        changes
    };
    let changes = fill_and_flap(100);
    let of_flapping = changes.iter().filter(|it| it.contains("flapping"));
    let found: Vec<&String> = of_flapping
        .filter(|it| !it.starts_with("DELETED"))
        .collect();
    assert_eq!(found, ["ADDED /r/flapping Discovered"]);
    // More removals are missed than the manager keeps.
    let changes = fill_and_flap(300);
    assert_eq!(changes.last().map(String::as_str), Some("EXPIRED"));
}

#[test]
fn a_watch_since_an_unknown_generation_ends() {
    let mut world = World::with_sockets(1);
    let id = world.request("GET", "/v1/watch?since=1000000");
    let (status, body) = parse_response(&world.read_all(id));
    assert_eq!((status, &*body), (200, "{\"event\":\"EXPIRED\"}\n"));
    assert!(world.server.is_finished(id));
    let generation = world.manager.generation();
    let id = world.request("GET", &format!("/v1/watch?since={generation}"));
    assert!(
        world.read_all(id).starts_with("HTTP/1.1 200 OK"),
        "the head is sent at once"
    );
    assert_eq!(world.read_changes(id), [""; 0]);
}

#[test]
fn changes_within_a_short_time_are_sent_together() {
    let mut world = World::new();
    let id = world.request("GET", "/v1/watch");
    assert_eq!(world.read_changes(id), ["BOOKMARK"]);
    world.now += Duration::from_secs(1);
    world.add_socket("/r/a");
    world.run_turn();
    assert_eq!(world.read(id), "", "the first change waits for others");
    let pause_ends = world.now + API_FOLLOW_PAUSE;
    for n in 0..10 {
        world.now += Duration::from_micros(500);
        world.add_socket(&format!("/r/b{n}"));
        assert_eq!(world.next_work_time(), Some(pause_ends));
    }
    world.now = pause_ends;
    world.run_turn();
    let lines = world.read(id).matches("ADDED").count();
    assert_eq!((lines, world.next_work_time()), (11, None));
    for n in 0..100 {
        world.add_socket(&format!("/r/c{n}"));
    }
    assert!(
        world.next_work_time() <= Some(world.now),
        "many changes are not held back"
    );
}

#[test]
fn events_are_listed_since_a_generation_and_followed() {
    let mut world = World::new();
    world.register("/r/a.sock", "disk");
    let reasons = |lines: &[Value]| -> Vec<String> {
        let reason = |line: &Value| line["reason"].as_str().unwrap_or_default().to_owned();
        lines.iter().map(reason).collect()
    };
    let id = world.request("GET", "/v1/events");
    let lines = world.read_lines(id);
    assert_eq!(reasons(&lines), ["SocketFound", "Registered"]);
    let wanted = serde_json::json!({
        "generation": lines[1]["generation"], "type": "Normal", "reason": "Registered",
        "socket": "/r/a.sock", "plugin": {"type": "CSIPlugin", "name": "disk"},
        "message": lines[1]["message"], "detail": lines[1]["detail"], "count": 1,
        "firstTime": "2026-01-31T12:00:00.250Z", "lastTime": "2026-01-31T12:00:00.250Z",
    });
    assert_eq!(lines[1], wanted);
    assert!(lines[1]["message"].is_string() && lines[1]["detail"].is_string());
    let target = format!("/v1/events?follow=1&since={}", lines[0]["generation"]);
    let id = world.request("GET", &target);
    assert_eq!(reasons(&world.read_lines(id)), ["Registered"]);
    assert!(!world.has_work());
    world.add_socket("/r/b");
    let lines = world.read_lines(id);
    assert_eq!(reasons(&lines), ["SocketFound"]);
}

#[test]
fn dropped_events_are_reported_to_a_reader_once() {
    let mut world = World::new();
    let find = |world: &mut World, count: usize| {
        for _ in 0..count {
            let path = format!("/r/{}", world.manager.generation());
            world.add_socket(&path);
        }
    };
    let dropped = |lines: &[Value]| -> Vec<Value> {
        let is_it = |line: &&Value| line["reason"] == "EventsDropped";
        lines.iter().filter(is_it).cloned().collect()
    };
    find(&mut world, 2 * KEPT_EVENTS.count);
    let id = world.request("GET", "/v1/events");
    let lines = world.read_lines(id);
    let wanted = serde_json::json!({
        "generation": 0, "type": "Normal", "reason": "EventsDropped",
        "message": "earlier events were dropped", "lastTime": "2026-01-31T12:00:00.250Z",
    });
    assert_eq!(
        (dropped(&lines), &lines[0]),
        (vec![wanted.clone()], &wanted)
    );
    for oldest in [&lines[1], &lines[9]] {
        let target = format!("/v1/events?since={}", oldest["generation"]);
        let id = world.request("GET", &target);
        assert_eq!(dropped(&world.read_lines(id)), [] as [Value; 0]);
    }

    let last = &lines[lines.len() - 1]["generation"];
    let id = world.request("GET", &format!("/v1/events?follow=1&since={last}"));
    find(&mut world, 3);
    assert_eq!(dropped(&world.read_lines(id)), [] as [Value; 0]);
    let seen = world.manager.generation();
    find(&mut world, 2 * KEPT_EVENTS.count);
    let lines = world.read_lines(id);
    assert_eq!(dropped(&lines), [lines[0].clone()]);
    assert!(lines[0]["generation"].as_u64() <= Some(seen));
    find(&mut world, 3);
    assert_eq!(world.read_lines(id).len(), 3);
}
