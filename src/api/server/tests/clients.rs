//! Clients that change something, are too many, leave, or stop reading; and the end.

use super::*;
use crate::api::Selection;

#[test]
fn a_change_is_taken_once_and_answered_by_the_caller() {
    let mut world = World::new();
    let rescanned = Done::Rescanned {
        directories: 3,
        found: 2,
        lost: 1,
    };
    let refused = Refused {
        status: Status::Conflict,
        reason: "the plugin is not down".to_owned(),
    };
    let cases = [
        ("/v1/retry", Ok(Done::Retried(4)), 200, "{\"retried\":4}\n"),
        (
            "/v1/rescan",
            Ok(rescanned),
            200,
            "{\"directories\":3,\"found\":2,\"lost\":1}\n",
        ),
        (
            "/v1/log?filter=a",
            Ok(Done::Logs("a".into())),
            200,
            "{\"filter\":\"a\"}\n",
        ),
        (
            "/v1/forget?type=a&name=b",
            Ok(Done::Forgotten(1)),
            200,
            "{\"forgotten\":1}\n",
        ),
        (
            "/v1/rescan",
            Err(refused),
            409,
            "{\"error\":\"the plugin is not down\"}\n",
        ),
    ];
    let id = world.client();
    for (target, outcome, status, body) in cases {
        world.ask(id, "POST", target);
        world.ask(id, "GET", "/livez");
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
        world.server.answer(id, &outcome, world.now);
        world.server.answer(id, &outcome, world.now);
        let read = world.read(id);
        assert_eq!(parse(&read), (status, body.to_owned()));
        assert!(
            world.read_all(id).ends_with("ok\n"),
            "the next request was waiting"
        );
    }
}

#[test]
fn only_a_client_that_may_makes_changes() {
    let mut world = World::new();
    let id = world
        .server
        .accept(Access::Read, world.now)
        .expect("there is room");
    world.ask(id, "POST", "/v1/rescan");
    assert_eq!(world.server.poll_change(), None);
    let (status, body) = parse(&world.read(id));
    assert!(status == 403 && body.starts_with("{\"error\":"));
    world.ask(id, "GET", "/v1/rescan");
    assert_eq!(
        parse(&world.read(id)).0,
        405,
        "a method is refused before that"
    );
    world.ask(id, "GET", "/livez");
    assert!(world.read_all(id).ends_with("ok\n"));
}

#[test]
fn a_client_for_metrics_gets_three_paths_and_finds_nothing_else() {
    let mut world = World::new();
    let access = Access::Metrics;
    let id = world.server.accept(access, world.now).expect("a client");
    for method in ["GET", "HEAD", "POST", "PUT"] {
        for path in [
            "/v1/status",
            "/v1/plugins?x",
            "/v1/rescan",
            "/",
            "/metrics/",
        ] {
            world.ask(id, method, path);
            assert_eq!(parse(&world.read(id)).0, 404, "{method} {path}");
        }
    }
    assert_eq!(world.server.poll_change(), None);
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/livez?a", 400)] {
        world.ask(id, "GET", path);
        assert_eq!(parse(&world.read_all(id)).0, status, "{path}");
    }
    world.ask(id, "GET", "/metrics");
    assert!(world.read_all(id).contains("plugind_build_info"));
    world.ask(id, "POST", "/metrics");
    assert_eq!(parse(&world.read(id)).0, 405);
}

#[test]
fn clients_for_metrics_leave_half_of_the_room_to_others() {
    let mut world = World::new();
    let access = Access::Metrics;
    for _ in 0..8 {
        assert!(world.server.accept(access, world.now).is_some());
    }
    assert_eq!(world.server.accept(access, world.now), None);
    for _ in 0..8 {
        world.client();
    }
    assert_eq!(world.server.accept(Access::Change, world.now), None);
}

#[test]
fn a_client_that_is_gone_is_not_answered() {
    let mut world = World::with_sockets(1);
    let id = world.asking("POST", "/v1/rescan");
    let (_, change) = world.server.poll_change().expect("there is a change");
    assert_eq!(change, Change::Rescan);
    world.server.remove(id);
    let other = world.asking("POST", "/v1/retry");
    assert_ne!(id, other);
    world.server.answer(id, &Ok(Done::Retried(1)), world.now);
    assert_eq!(world.server.pending(other), b"");
    assert!(world.server.is_finished(id) && !world.server.wants_input(id));
    world.server.answer(other, &Ok(Done::Retried(1)), world.now);
    assert_eq!(
        world.server.pending(other),
        b"",
        "the change was not taken yet"
    );
}

#[test]
fn the_seventeenth_client_is_sent_away() {
    let mut world = World::new();
    let ids: Vec<ClientId> = (0..16).map(|_| world.client()).collect();
    assert_eq!(world.server.accept(Access::Change, world.now), None);
    assert_eq!(world.server.clients(), 16);
    world.server.remove(ids[3]);
    assert!(world.server.accept(Access::Change, world.now).is_some());
    let mut connection = Connection::new(world.now);
    connection.receive(b"GET / HTTP/1.0\r\n\r\n", world.now);
    assert!(connection.poll_request(world.now).is_some());
    let busy = Response::error(Status::ServiceUnavailable, "too many clients");
    connection.respond(&busy, world.now);
    let busy = String::from_utf8_lossy(Server::BUSY);
    assert_eq!(busy, String::from_utf8_lossy(connection.pending()));
}

#[test]
fn a_stop_ends_what_would_go_on_and_completes_the_rest() {
    let mut world = World::with_sockets(200);
    let targets = ["/v1/watch", "/v1/events?follow=1", "/v1/plugins"];
    let ids = targets.map(|target| world.asking("GET", target));
    let change = world.asking("POST", "/v1/rescan");
    let idle = world.client();
    world.advance();
    let late = world.asking("GET", "/v1/watch");
    world.server.stop(world.now);
    assert_eq!(world.server.accept(Access::Change, world.now), None);
    assert_eq!(parse(&world.read(late)).0, 503, "nothing was rendered yet");
    assert!(world.server.is_finished(idle));
    assert_eq!(world.server.poll_change(), None);
    assert_eq!(parse(&world.read(change)).0, 503);
    for id in ids {
        let (status, body) = parse(&world.read_all(id));
        assert_eq!(status, 200);
        if id == ids[2] {
            let list: Value = serde_json::from_str(&body).expect("the list is complete");
            assert_eq!(sockets(&list).len(), 200);
        }
    }
    assert!(
        [ids[0], ids[1], ids[2], change, late]
            .iter()
            .all(|id| world.server.is_finished(*id))
    );
}

#[test]
fn a_client_that_stops_reading_is_closed_and_costs_nothing_more() {
    let mut world = World::with_sockets(200);
    let id = world.asking("GET", "/v1/watch");
    let other = world.asking("GET", "/v1/plugins");
    world.advance();
    world.advance();
    assert!(!world.has_work(), "both outputs are full");
    let deadline = world.now + Duration::from_secs(30);
    assert_eq!(world.server.poll_timeout(), Some(deadline));
    world.now += Duration::from_secs(29);
    assert!(!world.read(other).is_empty());
    world.now = deadline;
    world.server.handle_timeout(world.now);
    assert!(world.server.is_finished(id) && world.server.pending(id).is_empty());
    assert!(!world.server.is_finished(other));
    assert!(world.read_all(other).ends_with("]}\n\r\n0\r\n\r\n"));
}

#[test]
fn the_end_of_the_input_ends_the_connection_after_the_response() {
    let mut world = World::with_sockets(200);
    let id = world.asking("GET", "/v1/plugins");
    world.server.eof(id, world.now);
    assert!(!world.server.is_finished(id));
    let (status, body) = parse(&world.read_all(id));
    assert!(status == 200 && body.ends_with("]}\n"));
    assert!(world.server.is_finished(id));
}
