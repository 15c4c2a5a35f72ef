//! Tests of the registration, with a server in the place of kubelet.

use std::path::PathBuf;
use std::time::Duration;

use prost::Message as _;

use crate::config;
use crate::grpc::{Code, Incoming, Server, Status};
use crate::http2::{StreamId, carry};
use crate::proto::v1beta1::{DevicePluginOptions, RegisterRequest, registration};
use crate::simulate::{ConnectionId, Faults, Output, Plugin, Profile, Socket};
use crate::time::Time;

/// A plugin that registers itself, and the time.
struct Life {
    plugin: Plugin,
    now: Time,
}

/// A connection of the plugin to kubelet.
struct Connection {
    conn: ConnectionId,
    kubelet: Server,
}

impl Life {
    /// Starts a plugin, up to its first attempt to connect.
    fn begin() -> Self {
        let now = Time::from_millis(7);
        let plugin = Plugin::new(&profile(), Duration::ZERO, now);
        let mut life = Self { plugin, now };
        assert_eq!(life.outputs(), [""; 0]);
        life.pass(0);
        assert_eq!(life.outputs(), ["Dial"]);
        life
    }

    /// Starts a plugin and registers it.
    fn registered() -> Self {
        let mut life = Self::begin();
        let mut connection = life.connect();
        connection.answer(&mut life, Ok(()));
        assert_eq!(life.outputs(), ["registered"]);
        life
    }

    /// Makes the connection that the plugin asked for.
    fn connect(&mut self) -> Connection {
        let conn = self.plugin.connected(self.now);
        let kubelet = Server::new(&[registration::REGISTER], 1 << 16, self.now);
        Connection { conn, kubelet }
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.plugin.handle_timeout(self.now);
    }

    /// Creates a new `kubelet.sock`.
    fn kubelet_created(&mut self, has_socket: bool) {
        self.plugin.kubelet_created(has_socket, self.now);
        self.pass(0);
    }

    /// Returns the outputs as text.
    fn outputs(&mut self) -> Vec<String> {
        let outputs = std::iter::from_fn(|| self.plugin.poll_output());
        let shown = outputs.map(|output| match output {
            Output::Report(text) => text,
            other => format!("{other:?}"),
        });
        shown.collect()
    }
}

impl Connection {
    /// Moves octets between both ends until neither has any. Returns the request, if it arrives.
    fn exchange(&mut self, life: &mut Life) -> Option<(StreamId, RegisterRequest)> {
        let mut request = None;
        loop {
            let client = life.plugin.endpoint(self.conn).expect("it is connected");
            let there = carry(client, &mut self.kubelet, life.now);
            while let Some(incoming) = self.kubelet.poll_event(life.now) {
                if let Incoming::Called { call, message, .. } = incoming {
                    let message = RegisterRequest::decode(&*message).expect("a request");
                    request = Some((call, message));
                }
            }
            let client = life.plugin.endpoint(self.conn).expect("it is connected");
            let back = carry(&mut self.kubelet, client, life.now);
            life.plugin.advance(life.now);
            if there + back == 0 {
                return request;
            }
        }
    }

    /// Answers the plugin's call. Returns the request.
    fn answer(&mut self, life: &mut Life, result: Result<(), Status>) -> RegisterRequest {
        let (call, request) = self.exchange(life).expect("a call");
        match result {
            Ok(()) => self.kubelet.reply(call, &[], life.now),
            Err(status) => self.kubelet.finish(call, status, life.now),
        }
        self.exchange(life);
        assert!(life.plugin.is_closed(self.conn), "one call is enough");
        assert!(self.kubelet.is_closed(), "GOAWAY was sent");
        life.plugin.forget(self.conn);
        request
    }
}

fn profile() -> Profile {
    Profile {
        kind: "DevicePlugin".to_owned(),
        name: "a.example/b".to_owned(),
        versions: vec!["v1beta1".to_owned()],
        socket: "/d/a-plugin.sock".into(),
        is_legacy: true,
        endpoint: None,
        toggle_health: None,
        cdi_devices: Vec::new(),
        faults: Faults::default(),
    }
}

#[test]
fn it_serves_its_service_and_nothing_else() {
    let profile = profile();
    let own = PathBuf::from("/d/a-plugin.sock");
    assert_eq!(profile.sockets(), [(own, Socket::Service)]);
    let kubelet = profile.kubelet_socket();
    assert_eq!(kubelet, Some("/d/kubelet.sock".into()));
}

#[test]
fn the_request_describes_the_plugin_to_kubelet() {
    let mut life = Life::begin();
    let mut connection = life.connect();
    let request = connection.answer(&mut life, Ok(()));
    let expected = RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint: "a-plugin.sock".to_owned(),
        resource_name: "a.example/b".to_owned(),
        options: Some(DevicePluginOptions::default()),
    };
    assert_eq!(request, expected);
    assert_eq!(life.outputs(), ["registered"]);
    assert_eq!(life.plugin.poll_timeout(), None);
    life.pass(24 * 3_600_000);
    assert_eq!(life.outputs(), [""; 0]);
}

#[test]
fn a_refusal_is_reported_and_retried_with_a_pause() {
    let mut life = Life::begin();
    for pause in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        let mut connection = life.connect();
        let status = Status::new(Code::InvalidArgument, "no\n");
        connection.answer(&mut life, Err(status));
        let retry = Duration::from_millis(pause);
        assert_eq!(
            life.outputs(),
            [format!(
                "not registered: the peer returned INVALID_ARGUMENT: no\\n; retrying in {retry:?}"
            )]
        );
        assert_eq!(life.plugin.poll_timeout(), Some(life.now + retry));
        life.pass(pause - 1);
        assert_eq!(life.outputs(), [""; 0]);
        life.pass(1);
        assert_eq!(life.outputs(), ["Dial"]);
    }
    let mut connection = life.connect();
    connection.answer(&mut life, Ok(()));
    assert_eq!(life.outputs(), ["registered"]);
    life.kubelet_created(true);
    life.plugin.dial_failed("why", life.now);
    let pause = life.plugin.poll_timeout();
    let first = life.now + config::REGISTER_RETRY.first;
    assert_eq!(pause, Some(first), "a success forgets the failures");
}

#[test]
fn a_connection_that_fails_is_retried() {
    let mut life = Life::begin();
    life.plugin.dial_failed("nothing listens", life.now);
    let expected = "cannot connect to kubelet.sock: nothing listens; retrying in 100ms";
    assert_eq!(life.outputs(), [expected]);
    life.pass(100);
    assert_eq!(life.outputs(), ["Dial"]);

    let mut connection = life.connect();
    connection.exchange(&mut life);
    let client = life.plugin.endpoint(connection.conn).expect("a connection");
    client.eof(life.now);
    life.plugin.advance(life.now);
    let lines = life.outputs().concat();
    assert!(lines.starts_with("not registered: "), "{lines}");
    assert!(lines.ends_with("; retrying in 200ms"), "{lines}");
    life.plugin.forget(connection.conn);
    life.pass(200);
    assert_eq!(life.outputs(), ["Dial"]);
}

#[test]
fn a_missing_reply_is_a_failure_after_a_timeout() {
    let mut life = Life::begin();
    let mut connection = life.connect();
    connection.exchange(&mut life).expect("a call");
    life.pass(9_999);
    life.plugin.advance(life.now);
    assert_eq!(life.outputs(), [""; 0]);
    life.pass(1);
    let lines = life.outputs().concat();
    let expected = "not registered: the peer did not respond in time; retrying in 100ms";
    assert_eq!(lines, expected);
    assert!(life.plugin.is_closed(connection.conn));
}

#[test]
fn without_kubelet_it_waits_and_does_nothing() {
    let mut life = Life::begin();
    life.plugin.kubelet_missing();
    let expected = "kubelet.sock does not exist, waiting for it";
    assert_eq!(life.outputs(), [expected]);
    assert_eq!(life.plugin.poll_timeout(), None);
    life.kubelet_created(true);
    let expected = ["kubelet.sock was created, registering", "Dial"];
    assert_eq!(life.outputs(), expected);
}

#[test]
fn a_kubelet_that_was_restarted_has_removed_its_socket() {
    let mut life = Life::registered();
    life.kubelet_created(false);
    let expected = [
        "kubelet.sock was created, registering again",
        "its socket was removed, listening again",
        "Listen",
        "Dial",
    ];
    assert_eq!(life.outputs(), expected);
    let mut connection = life.connect();
    connection.answer(&mut life, Ok(()));
    assert_eq!(life.outputs(), ["registered"]);
}

#[test]
fn a_new_kubelet_socket_is_dialed_at_once_in_every_state() {
    type Reach = fn(&mut Life);
    let states: [(&str, Reach); 5] = [
        ("Dialing", |_| {}),
        ("Pausing", |life| {
            life.plugin.dial_failed("why", life.now);
        }),
        ("Waiting", |life| life.plugin.kubelet_missing()),
        ("Calling", |life| {
            let mut connection = life.connect();
            connection.exchange(life).expect("a call");
        }),
        ("Registered", |life| {
            let mut connection = life.connect();
            connection.answer(life, Ok(()));
        }),
    ];
    for (state, reach) in states {
        let mut life = Life::begin();
        reach(&mut life);
        life.outputs();
        life.kubelet_created(true);
        let again = if state == "Registered" { " again" } else { "" };
        let line = format!("kubelet.sock was created, registering{again}");
        assert_eq!(life.outputs(), [&line, "Dial"], "{state}");
        let until = life.plugin.poll_timeout();
        assert_eq!(until, None, "{state}: no earlier attempt is left");
        let mut connection = life.connect();
        connection.answer(&mut life, Ok(()));
        assert_eq!(life.outputs(), ["registered"], "{state}");
    }
}

#[test]
fn a_reply_from_before_a_restart_of_kubelet_is_ignored() {
    let mut life = Life::begin();
    let mut old = life.connect();
    old.exchange(&mut life).expect("a call");
    life.kubelet_created(true);
    assert!(life.plugin.is_closed(old.conn));
    let mut new = life.connect();
    assert!(life.plugin.endpoint(old.conn).is_none());
    life.plugin.forget(old.conn);
    life.outputs();
    new.answer(&mut life, Ok(()));
    assert_eq!(life.outputs(), ["registered"]);
}

#[test]
fn a_plugin_that_stops_sends_goaway_to_kubelet() {
    let mut life = Life::begin();
    let mut connection = life.connect();
    connection.exchange(&mut life).expect("a call");
    life.plugin.stop(life.now);
    assert!(life.plugin.is_closed(connection.conn));
    let client = life.plugin.endpoint(connection.conn).expect("a connection");
    assert!(!client.transmit().is_empty(), "GOAWAY");
}
