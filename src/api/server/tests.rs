//! Tests of the server in virtual time, with clients, and a manager whose plugins are in memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use prost::Message as _;
use serde_json::Value;

use super::super::{Counters, Daemon, Event, EventLog};
use super::*;
use crate::config::{self, MAX_UNSENT_OCTETS, Mode};
use crate::grpc::{self, Incoming};
use crate::handler::{AcceptHandler, HandlerTable, Inventory};
use crate::http2::carry;
use crate::manager::{ConnectionEvent, Input, Manager, Output};
use crate::proto::pluginregistration::{PluginInfo, registration};
use crate::watch::{Identity, Watch};

mod clients;
mod devices;
mod follow;
mod random;

/// The state of a daemon, without sockets, files or a clock.
struct World {
    manager: Manager,
    watch: Watch,
    inventory: Option<Inventory>,
    events: EventLog,
    counters: Counters,
    daemon: Daemon,
    not_ready: Vec<String>,
    server: Server,
    now: Time,
    turns: u32,
}

impl World {
    fn new() -> Self {
        let mut handlers = HandlerTable::new();
        handlers.add(["CSIPlugin"], AcceptHandler);
        Self {
            manager: Manager::new(handlers),
            watch: Watch::new(["/r".into()]),
            inventory: Some(Inventory::default()),
            events: EventLog::default(),
            counters: Counters::default(),
            daemon: Daemon {
                pid: 7,
                mode: Mode::Register,
                instance: "9f".to_owned(),
                started: Time::ZERO,
                start_time: Duration::from_secs(1_769_860_788),
                sandbox: "off".to_owned(),
            },
            not_ready: Vec::new(),
            server: Server::default(),
            now: Time::from_millis(250),
            turns: 0,
        }
    }

    /// Returns a world in which `count` sockets were found, whose plugins do not answer.
    fn with_sockets(count: u64) -> Self {
        let mut world = Self::new();
        for n in 0..count {
            world.add_socket(&format!("/r/{n}.sock"));
        }
        world
    }

    /// Adds a socket, whose plugin does not answer.
    fn add_socket(&mut self, path: &str) {
        self.handle_found(path);
        self.drain_outputs();
    }

    fn handle_found(&mut self, path: &str) {
        let found = Input::Found {
            path: Path::new(path).into(),
            identity: Identity {
                device: 1,
                inode: self.manager.generation(),
                btime: 0,
            },
        };
        self.manager.handle_input(found, self.now);
    }

    fn remove_socket(&mut self, path: &str) {
        let path = Path::new(path).into();
        self.manager.handle_input(Input::Lost { path }, self.now);
        self.drain_outputs();
    }

    /// Adds a socket and registers its plugin.
    fn register(&mut self, path: &str, name: &str) {
        let methods = &[
            registration::GET_INFO,
            registration::NOTIFY_REGISTRATION_STATUS,
        ];
        let mut peer = grpc::Server::new(methods, 1024, self.now);
        self.handle_found(path);
        while let Some(output) = self.manager.poll_output() {
            match output {
                Output::Dial { conn, .. } => {
                    let connected = Input::Connection(conn, ConnectionEvent::Connected(None));
                    self.manager.handle_input(connected, self.now);
                }
                Output::Transmit(conn) => {
                    let Some(end) = self.manager.endpoint(conn) else {
                        continue;
                    };
                    carry(end, &mut peer, self.now);
                    while let Some(incoming) = peer.poll_event(self.now) {
                        if let Incoming::Called { call, .. } = incoming {
                            let info = PluginInfo {
                                r#type: "CSIPlugin".to_owned(),
                                name: name.to_owned(),
                                supported_versions: vec!["1.0.0".to_owned()],
                                ..PluginInfo::default()
                            };
                            peer.reply(call, &info.encode_to_vec(), self.now);
                        }
                    }
                    if let Some(end) = self.manager.endpoint(conn) {
                        carry(&mut peer, end, self.now);
                    }
                    self.manager.handle_io(conn, self.now);
                }
                output => self.record_output(output),
            }
        }
        let record = self
            .manager
            .records()
            .get(Path::new(path))
            .expect("the socket exists");
        assert_eq!(record.state.name(), "Registered");
    }

    fn drain_outputs(&mut self) {
        while let Some(output) = self.manager.poll_output() {
            self.record_output(output);
        }
    }

    fn record_output(&mut self, output: Output) {
        if let Output::Event(event) = output {
            self.events
                .add(event.generation, Event::Plugin(event), self.now);
        }
    }

    fn run_turn(&mut self) {
        self.turns += 1;
        assert!(self.turns < 10_000, "the work ends");
        // Changes are sent to followers after a pause, which passes here at once.
        let work_at = self.next_work_time().unwrap_or(self.now);
        let pause = work_at.saturating_since(self.now);
        let view = View {
            manager: &self.manager,
            watch: &self.watch,
            inventory: self.inventory.as_ref(),
            events: &self.events,
            counters: &self.counters,
            process: || None,
            peer: |_| None,
            daemon: &self.daemon,
            not_ready: &self.not_ready,
            longest_turn: Duration::from_micros(312),
            now: self.now + pause,
            time_of_day: Duration::from_millis(1_769_860_800_250) + pause,
        };
        self.server.render_responses(&view);
    }

    fn next_work_time(&self) -> Option<Time> {
        self.server.next_work_time(self.manager.generation())
    }

    fn has_work(&self) -> bool {
        self.next_work_time().is_some()
    }

    fn add_client(&mut self) -> ClientId {
        self.server
            .accept(Access::Change, self.now)
            .expect("there is room for a client")
    }

    /// Adds a client that sends this request; returns its ID.
    fn request(&mut self, method: &str, target: &str) -> ClientId {
        let id = self.add_client();
        self.send_request(id, method, target);
        id
    }

    fn send_request(&mut self, id: ClientId, method: &str, target: &str) {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        self.server.receive(id, request.as_bytes(), self.now);
    }

    /// Reads what is pending for a client.
    fn read(&mut self, id: ClientId) -> String {
        let pending = self.server.pending_output(id).to_vec();
        self.server.sent(id, pending.len(), self.now);
        String::from_utf8(pending).expect("responses are ASCII")
    }

    /// Renders and reads until there is nothing to do.
    fn read_all(&mut self, id: ClientId) -> String {
        let mut read = self.read(id);
        while self.has_work() {
            self.run_turn();
            read.push_str(&self.read(id));
        }
        read
    }

    /// Returns the status and the body of the response to a request.
    fn get(&mut self, target: &str) -> (u16, String) {
        let id = self.request("GET", target);
        let read = self.read_all(id);
        self.server.remove(id);
        parse_response(&read)
    }

    fn get_json(&mut self, target: &str) -> Value {
        let (status, body) = self.get(target);
        assert_eq!(status, 200, "{body}");
        assert!(body.ends_with('\n') && body.is_ascii());
        serde_json::from_str(&body).expect("the body is JSON")
    }

    /// Reads and returns the lines that a follower has received since the last call.
    fn read_lines(&mut self, id: ClientId) -> Vec<Value> {
        let read = self.read_all(id);
        let body = match read.split_once("\r\n\r\n") {
            Some((_, body)) if read.starts_with("HTTP/") => body,
            _ => &read,
        };
        let line = |line| serde_json::from_str(line).expect("a line is JSON");
        body.lines().map(line).collect()
    }

    /// Reads the lines that a watch has received since the last call. Returns the event, socket and
    /// state of each.
    fn read_changes(&mut self, id: ClientId) -> Vec<String> {
        let change = |line: &Value| {
            let event = line["event"].as_str().expect("a line has an event");
            let socket = line["record"]["socket"].as_str().unwrap_or_default();
            let state = line["record"]["state"].as_str().unwrap_or_default();
            [event, socket, state].join(" ").trim_end().to_owned()
        };
        self.read_lines(id).iter().map(change).collect()
    }
}

/// Returns the status and the body of a response.
fn parse_response(response: &str) -> (u16, String) {
    let (head, body) = response
        .split_once("\r\n\r\n")
        .expect("the head is complete");
    let status = head[9..12].parse().expect("the status is a number");
    (status, body.to_owned())
}

fn sockets(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list has items").iter();
    items
        .map(|item| item["socket"].as_str().expect("a path"))
        .collect()
}

#[test]
fn a_list_has_the_records_that_are_asked_for() {
    let mut world = World::new();
    assert_eq!(sockets(&world.get_json("/v1/plugins")), [""; 0]);
    world.register("/r/a.sock", "disk.example");
    world.add_socket("/r/\u{e4}.sock");
    let list = world.get_json("/v1/plugins");
    assert_eq!(
        (&list["kind"], &list["instance"]),
        (&"PluginList".into(), &"9f".into())
    );
    assert_eq!(list["generation"], world.manager.generation());
    assert_eq!(sockets(&list), ["/r/a.sock", "/r/\u{e4}.sock"]);
    let generation = &list["items"][0]["generation"];
    let wanted = serde_json::json!({
        "type": "CSIPlugin", "name": "disk.example", "state": "Registered",
        "socket": "/r/a.sock", "endpoint": "/r/a.sock", "versions": ["1.0.0"],
        "since": "2026-01-31T12:00:00.250Z", "generation": generation, "attempts": 1,
    });
    assert_eq!(list["items"][0], wanted);
    for (target, wanted) in [
        ("/v1/plugins?type=CSIPlugin", vec!["/r/a.sock"]),
        ("/v1/plugins?state=connecting", vec!["/r/\u{e4}.sock"]),
        ("/v1/plugins?state=Down", vec![]),
        ("/v1/plugins/CSIPlugin/disk.example", vec!["/r/a.sock"]),
    ] {
        assert_eq!(sockets(&world.get_json(target)), wanted, "{target}");
    }
    let (status, body) = world.get("/v1/plugins/CSIPlugin/disk");
    assert_eq!((status, &*body), (404, "{\"error\":\"no such plugin\"}\n"));
}

#[test]
fn a_list_is_rendered_at_once_and_has_its_length() {
    let mut world = World::with_sockets(1000);
    let id = world.request("GET", "/v1/plugins");
    world.run_turn();
    assert!(!world.has_work());
    let read = world.read(id);
    assert!(read.contains("\r\nContent-Length: ") && world.server.is_finished(id));
    let list: Value = serde_json::from_str(&parse_response(&read).1).expect("the list is JSON");
    let distinct: BTreeSet<&str> = sockets(&list).into_iter().collect();
    assert_eq!((distinct.len(), sockets(&list).len()), (1000, 1000));
}

#[test]
fn each_turn_renders_one_long_list() {
    let mut world = World::with_sockets(600);
    let mut ids: Vec<ClientId> = (0..15)
        .map(|_| world.request("GET", "/v1/plugins"))
        .collect();
    ids.push(world.request("GET", "/v1/watch"));
    let mut turns = 0;
    while world.has_work() {
        world.run_turn();
        turns += 1;
        let answered = ids
            .iter()
            .filter(|id| world.server.pending_output(**id).len() > 1024);
        assert!(answered.count() <= turns, "turn {turns}");
    }
    assert_eq!(turns, 16);
    for id in &ids[..15] {
        let (status, body) = parse_response(&world.read(*id));
        let list: Value = serde_json::from_str(&body).expect("the list is JSON");
        assert_eq!((status, sockets(&list).len()), (200, 600));
    }
}

#[test]
fn head_is_answered_without_a_body() {
    let mut world = World::with_sockets(1);
    let targets = [
        "/v1/plugins",
        "/v1/devices",
        "/v1/status",
        "/v1/events?follow=1",
        "/v1/watch",
        "/metrics",
    ];
    for target in targets {
        let id = world.request("HEAD", target);
        let read = world.read_all(id);
        assert!(
            read.starts_with("HTTP/1.1 200 OK") && read.ends_with("\r\n\r\n"),
            "{read}"
        );
        assert!(world.server.is_finished(id));
        world.server.remove(id);
    }
}

#[test]
fn the_status_counts_records_and_names_limits() {
    let mut world = World::new();
    world.register("/r/a.sock", "disk");
    world.add_socket("/r/b");
    world.now += Duration::from_secs(12);
    let status = world.get_json("/v1/status");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&status["pid"], &status["mode"]),
        (&7.into(), &"register".into())
    );
    assert_eq!(status["startTime"], "2026-01-31T11:59:48.000Z");
    assert_eq!(status["uptimeSeconds"], 12);
    assert_eq!(
        (&status["instance"], &status["sockets"]),
        (&"9f".into(), &2.into())
    );
    assert_eq!(
        status["plugins"],
        serde_json::json!({"Registered": 1, "Connecting": 1})
    );
    let directories = serde_json::json!([{"path": "/r", "state": "Lost"}]);
    assert_eq!(status["directories"], directories);
    assert_eq!(status["longestTurnMicroseconds"], 312);
    let limits = status["limits"].as_array().expect("limits are a list");
    let named = |name: &str| limits.iter().find(|limit| limit["name"] == name).cloned();
    let clients = serde_json::json!({"name": "clients", "used": 1, "limit": 16});
    assert_eq!(named("clients"), Some(clients));
    let sockets = named("sockets").expect("sockets are limited");
    assert_eq!(
        (&sockets["used"], &sockets["limit"]),
        (&2.into(), &2048.into())
    );
    let operations = named("operations").expect("operations are limited");
    assert_eq!(operations["used"], 1);
    assert!(named("connections").is_some_and(|it| it["used"].as_u64() > Some(0)));
}

#[test]
fn readiness_names_each_reason_against_it() {
    let mut world = World::new();
    assert_eq!(world.get("/livez"), (200, "ok\n".to_owned()));
    assert_eq!(world.get("/readyz"), (200, "ok\n".to_owned()));
    world.not_ready = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(world.get("/livez"), (200, "ok\n".to_owned()));
    assert_eq!(world.get("/readyz"), (503, "a\nb\n".to_owned()));
}

#[test]
fn metrics_are_sent_to_the_end_as_prometheus_text() {
    let mut world = World::with_sockets(3);
    let id = world.request("GET", "/metrics");
    let read = world.read_all(id);
    assert!(read.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    let (status, body) = parse_response(&read);
    assert!(status == 200 && body.ends_with('\n') && body.lines().count() > 2);
}
