//! Clients that make changes, exceed the limits, leave or stop reading, and the stop of the server.

use std::iter;

use serde_json::json;

use super::*;
use crate::api::Selection;

#[test]
fn a_change_is_taken_once_and_answered_by_the_caller() {
    let mut world = World::new();
    let done = Response::json(&json!({ "retried": 4 }));
    let refused = Response::error(Status::CONFLICT, "the plugin is not down");
    let cases = [
        ("/v1/retry", done.clone(), 200, "{\"retried\":4}\n"),
        ("/v1/rescan", done.clone(), 200, "{\"retried\":4}\n"),
        ("/v1/log?filter=a", done.clone(), 200, "{\"retried\":4}\n"),
        (
            "/v1/forget?type=a&name=b",
            refused,
            409,
            "{\"error\":\"the plugin is not down\"}\n",
        ),
    ];
    for (target, outcome, status, body) in cases {
        let id = world.request("POST", target);
        let (client, change) = world.server.poll_change().expect("there is a change");
        assert_eq!(client, id);
        if target == "/v1/retry" {
            assert_eq!(change, Change::Retry(Selection::All));
        }
        assert_eq!(world.server.poll_change(), None);
        assert!(!world.has_work() && !world.server.wants_input(id));
        assert_eq!(
            world.server.poll_timeout(),
            None,
            "the change may take its time"
        );
        assert_eq!(world.read(id), "");
        world.server.answer_change(id, &outcome, world.now);
        world.server.answer_change(id, &outcome, world.now);
        let read = world.read(id);
        assert_eq!(parse_response(&read), (status, body.to_owned()));
        assert!(world.server.is_finished(id));
    }
}

#[test]
fn changes_are_taken_in_the_order_in_which_clients_connected() {
    let mut world = World::new();
    let mut clients: Vec<_> = (0..3).map(|_| world.request("POST", "/v1/retry")).collect();
    let mut taken = vec![world.server.poll_change().expect("a change").0];
    // A turn begins with the clients that the last one did not reach.
    world.run_turn();
    clients.push(world.request("POST", "/v1/rescan"));
    world.run_turn();
    taken.extend(iter::from_fn(|| world.server.poll_change().map(|it| it.0)));
    assert_eq!(taken, clients);
}

/// Returns the response to a request of a client with this access.
fn request_with_access(
    world: &mut World,
    access: Access,
    method: &str,
    target: &str,
) -> (u16, String) {
    let id = world.server.accept(access, world.now).expect("a client");
    world.send_request(id, method, target);
    let read = world.read_all(id);
    world.server.remove(id);
    parse_response(&read)
}

#[test]
fn only_a_client_with_access_may_make_changes() {
    let mut world = World::new();
    let (status, body) = request_with_access(&mut world, Access::Read, "POST", "/v1/rescan");
    assert!(status == 403 && body.starts_with("{\"error\":"));
    assert_eq!(world.server.poll_change(), None);
    let (status, _) = request_with_access(&mut world, Access::Read, "GET", "/v1/rescan");
    assert_eq!(status, 405, "the method is checked first");
    let (_, body) = request_with_access(&mut world, Access::Read, "GET", "/livez");
    assert_eq!(body, "ok\n");
}

#[test]
fn a_metrics_client_may_request_three_paths_and_others_are_404() {
    let mut world = World::new();
    let access = Access::Metrics;
    let mut ask = |method: &str, path: &str| request_with_access(&mut world, access, method, path);
    for method in ["GET", "HEAD", "POST", "PUT"] {
        for path in [
            "/v1/status",
            "/v1/plugins?x",
            "/v1/rescan",
            "/",
            "/metrics/",
        ] {
            assert_eq!(ask(method, path).0, 404, "{method} {path}");
        }
    }
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/livez?a", 400)] {
        assert_eq!(ask("GET", path).0, status, "{path}");
    }
    assert!(ask("GET", "/metrics").1.contains("plugind_build_info"));
    assert_eq!(ask("POST", "/metrics").0, 405);
    assert_eq!(world.server.poll_change(), None);
}

#[test]
fn metrics_clients_leave_half_of_the_room_to_others() {
    let mut world = World::new();
    let access = Access::Metrics;
    for _ in 0..8 {
        assert!(world.server.accept(access, world.now).is_some());
    }
    assert_eq!(world.server.accept(access, world.now), None);
    for _ in 0..8 {
        world.add_client();
    }
    assert_eq!(world.server.accept(Access::Change, world.now), None);
}

#[test]
fn readers_leave_room_to_clients_that_may_make_changes() {
    let mut world = World::new();
    let readers = iter::repeat_with(|| world.server.accept(Access::Read, world.now));
    assert_eq!(readers.take_while(Option::is_some).count(), 12);
    assert_eq!(world.server.accept(Access::Metrics, world.now), None);
    for _ in 0..4 {
        world.add_client();
    }
    assert_eq!(world.server.accept(Access::Change, world.now), None);
}

#[test]
fn a_client_that_is_gone_is_not_answered() {
    let mut world = World::with_sockets(1);
    let id = world.request("POST", "/v1/rescan");
    let (_, change) = world.server.poll_change().expect("there is a change");
    assert_eq!(change, Change::Rescan);
    world.server.remove(id);
    let other = world.request("POST", "/v1/retry");
    assert_ne!(id, other);
    world
        .server
        .answer_change(id, &Response::json(&json!({ "retried": 1 })), world.now);
    assert_eq!(world.server.pending_output(other), b"");
    assert!(world.server.is_finished(id) && !world.server.wants_input(id));
    world
        .server
        .answer_change(other, &Response::json(&json!({ "retried": 1 })), world.now);
    assert_eq!(
        world.server.pending_output(other),
        b"",
        "the change was not taken yet"
    );
}

#[test]
fn the_seventeenth_client_is_rejected() {
    let mut world = World::new();
    let ids: Vec<ClientId> = (0..16).map(|_| world.add_client()).collect();
    assert_eq!(world.server.accept(Access::Change, world.now), None);
    assert_eq!(world.server.clients.len(), 16);
    world.server.remove(ids[3]);
    assert!(world.server.accept(Access::Change, world.now).is_some());
    let busy = Server::busy_response();
    let (status, body) = parse_response(&String::from_utf8_lossy(&busy));
    assert_eq!(
        (status, &*body),
        (503, "{\"error\":\"too many clients\"}\n")
    );
}

#[test]
fn a_stop_ends_streams_and_completes_other_responses() {
    let mut world = World::with_sockets(200);
    let targets = ["/v1/watch", "/v1/events?follow=1", "/v1/plugins"];
    let ids = targets.map(|target| world.request("GET", target));
    let change = world.request("POST", "/v1/rescan");
    let idle = world.add_client();
    world.server.stop(world.now);
    assert_eq!(world.server.accept(Access::Change, world.now), None);
    assert!(world.server.is_finished(idle));
    assert_eq!(world.server.poll_change(), None);
    assert_eq!(parse_response(&world.read(change)).0, 503);
    for id in ids {
        let (status, body) = parse_response(&world.read_all(id));
        assert_eq!(status, 200);
        if id == ids[2] {
            let list: Value = serde_json::from_str(&body).expect("the list is complete");
            assert_eq!(sockets(&list).len(), 200);
        }
    }
    let mut all = ids.iter().chain([&change]);
    assert!(all.all(|id| world.server.is_finished(*id)));
}

#[test]
fn a_client_that_stops_reading_is_closed_and_costs_nothing_more() {
    let mut world = World::with_sockets(200);
    let id = world.request("GET", "/v1/watch");
    let other = world.request("GET", "/v1/plugins");
    while world.has_work() {
        world.run_turn();
    }
    assert!(world.server.pending_output(id).len() < MAX_UNSENT_OCTETS + 1024);
    let deadline = world.now + Duration::from_secs(30);
    assert_eq!(world.server.poll_timeout(), Some(deadline));
    world.now += Duration::from_secs(29);
    world.server.sent(other, 1, world.now);
    world.now = deadline;
    world.server.handle_timeout(world.now);
    assert!(world.server.is_finished(id) && world.server.pending_output(id).is_empty());
    world.add_socket("/r/new");
    assert!(!world.has_work() && !world.server.is_finished(other));
    assert!(world.read(other).ends_with("]}\n"));
}

#[test]
fn eof_from_a_client_does_not_end_its_response() {
    let mut world = World::with_sockets(200);
    let id = world.request("GET", "/v1/plugins");
    world.server.eof(id);
    assert!(!world.server.is_finished(id));
    let (status, body) = parse_response(&world.read_all(id));
    assert!(status == 200 && body.ends_with("]}\n"));
    assert!(world.server.is_finished(id));
}
