//! Tests of a plugin that registers itself with a server in place of kubelet.

use std::path::PathBuf;
use std::time::Duration;

use prost::Message as _;

use crate::config;
use crate::grpc::{Code, Incoming, Server, Status};
use crate::http2::{StreamId, carry};
use crate::proto::v1beta1::{DevicePluginOptions, RegisterRequest, registration};
use crate::simulate::{ConnectionId, Faults, Output, Plugin, Profile, Socket};
use crate::time::Time;

/// A plugin that registers itself, and the current time.
struct Session {
    plugin: Plugin,
    now: Time,
}

/// A connection of the plugin to kubelet.
struct Connection {
    conn: ConnectionId,
    kubelet: Server,
}

impl Session {
    /// Starts a plugin, up to its first attempt to connect.
    fn start() -> Self {
        let now = Time::from_millis(7);
        let plugin = Plugin::new(&profile(), Duration::ZERO, now);
        let mut session = Self { plugin, now };
        assert_eq!(session.take_outputs(), [""; 0]);
        session.advance_time(0);
        assert_eq!(session.take_outputs(), ["Dial"]);
        session
    }

    /// Starts a plugin and registers it.
    fn start_registered() -> Self {
        let mut session = Self::start();
        let mut connection = session.connect();
        connection.answer(&mut session, Ok(()));
        assert_eq!(session.take_outputs(), ["registered"]);
        session
    }

    /// Establishes the connection that the plugin has requested.
    fn connect(&mut self) -> Connection {
        let conn = self.plugin.handle_connected(self.now);
        let kubelet = Server::new(&[registration::REGISTER], 1 << 16, self.now);
        Connection { conn, kubelet }
    }

    fn advance_time(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.plugin.handle_timeout(self.now);
    }

    /// Creates a new `kubelet.sock`.
    fn create_kubelet_socket(&mut self, is_socket_in_place: bool) {
        self.plugin
            .handle_kubelet_created(is_socket_in_place, self.now);
        self.advance_time(0);
    }

    /// Removes and returns the outputs, as text.
    fn take_outputs(&mut self) -> Vec<String> {
        let outputs = std::iter::from_fn(|| self.plugin.poll_output());
        let shown = outputs.map(|output| match output {
            Output::Report(text) => text,
            other => format!("{other:?}"),
        });
        shown.collect()
    }
}

impl Connection {
    /// Moves octets between plugin and kubelet until neither has any left to send. Returns the
    /// request, if one arrives.
    fn exchange(&mut self, session: &mut Session) -> Option<(StreamId, RegisterRequest)> {
        let mut request = None;
        loop {
            let client = session.plugin.endpoint(self.conn).expect("it is connected");
            let there = carry(client, &mut self.kubelet, session.now);
            while let Some(incoming) = self.kubelet.poll_event(session.now) {
                if let Incoming::Called { call, message, .. } = incoming {
                    let message = RegisterRequest::decode(&*message).expect("a request");
                    request = Some((call, message));
                }
            }
            let client = session.plugin.endpoint(self.conn).expect("it is connected");
            let back = carry(&mut self.kubelet, client, session.now);
            session.plugin.handle_io(session.now);
            if there + back == 0 {
                return request;
            }
        }
    }

    /// Receives and answers the plugin's request, and returns the request.
    fn answer(&mut self, session: &mut Session, result: Result<(), Status>) -> RegisterRequest {
        let (call, request) = self.exchange(session).expect("a call");
        match result {
            Ok(()) => self.kubelet.reply(call, &[], session.now),
            Err(status) => self.kubelet.finish(call, status, session.now),
        }
        self.exchange(session);
        assert!(session.plugin.is_closed(self.conn), "one call is enough");
        assert!(self.kubelet.is_closed(), "GOAWAY was sent");
        session.plugin.remove_connection(self.conn);
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
fn a_plugin_that_registers_itself_serves_only_its_service() {
    let profile = profile();
    let own = PathBuf::from("/d/a-plugin.sock");
    assert_eq!(profile.sockets(), [(own, Socket::Service)]);
    let kubelet = profile.kubelet_socket();
    assert_eq!(kubelet, Some("/d/kubelet.sock".into()));
}

#[test]
fn the_request_describes_the_plugin_to_kubelet() {
    let mut session = Session::start();
    let mut connection = session.connect();
    let request = connection.answer(&mut session, Ok(()));
    let expected = RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint: "a-plugin.sock".to_owned(),
        resource_name: "a.example/b".to_owned(),
        options: Some(DevicePluginOptions::default()),
    };
    assert_eq!(request, expected);
    assert_eq!(session.take_outputs(), ["registered"]);
    assert_eq!(session.plugin.poll_timeout(), None);
    session.advance_time(24 * 3_600_000);
    assert_eq!(session.take_outputs(), [""; 0]);
}

#[test]
fn a_refusal_is_reported_and_retried_with_a_pause() {
    let mut session = Session::start();
    for pause in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        let mut connection = session.connect();
        let status = Status::new(Code::InvalidArgument, "no\n");
        connection.answer(&mut session, Err(status));
        let retry = Duration::from_millis(pause);
        assert_eq!(
            session.take_outputs(),
            [format!(
                "not registered: the peer returned INVALID_ARGUMENT: no\\n; retrying in {retry:?}"
            )]
        );
        assert_eq!(session.plugin.poll_timeout(), Some(session.now + retry));
        session.advance_time(pause - 1);
        assert_eq!(session.take_outputs(), [""; 0]);
        session.advance_time(1);
        assert_eq!(session.take_outputs(), ["Dial"]);
    }
    let mut connection = session.connect();
    connection.answer(&mut session, Ok(()));
    assert_eq!(session.take_outputs(), ["registered"]);
    session.create_kubelet_socket(true);
    session.plugin.handle_dial_failed("why", session.now);
    let pause = session.plugin.poll_timeout();
    let first = session.now + config::REGISTER_RETRY.first;
    assert_eq!(pause, Some(first), "a success forgets the failures");
}

#[test]
fn a_failed_connection_is_retried() {
    let mut session = Session::start();
    session
        .plugin
        .handle_dial_failed("nothing listens", session.now);
    let expected = "cannot connect to kubelet.sock: nothing listens; retrying in 100ms";
    assert_eq!(session.take_outputs(), [expected]);
    session.advance_time(100);
    assert_eq!(session.take_outputs(), ["Dial"]);

    let mut connection = session.connect();
    connection.exchange(&mut session);
    let client = session
        .plugin
        .endpoint(connection.conn)
        .expect("a connection");
    client.eof(session.now);
    session.plugin.handle_io(session.now);
    let lines = session.take_outputs().concat();
    assert!(lines.starts_with("not registered: "), "{lines}");
    assert!(lines.ends_with("; retrying in 200ms"), "{lines}");
    session.plugin.remove_connection(connection.conn);
    session.advance_time(200);
    assert_eq!(session.take_outputs(), ["Dial"]);
}

#[test]
fn a_call_without_a_reply_times_out() {
    let mut session = Session::start();
    let mut connection = session.connect();
    connection.exchange(&mut session).expect("a call");
    session.advance_time(9_999);
    session.plugin.handle_io(session.now);
    assert_eq!(session.take_outputs(), [""; 0]);
    session.advance_time(1);
    let lines = session.take_outputs().concat();
    let expected = "not registered: the peer did not respond in time; retrying in 100ms";
    assert_eq!(lines, expected);
    assert!(session.plugin.is_closed(connection.conn));
}

#[test]
fn a_plugin_waits_until_kubelet_creates_its_socket() {
    let mut session = Session::start();
    session.plugin.handle_kubelet_missing();
    let expected = "kubelet.sock does not exist, waiting for it";
    assert_eq!(session.take_outputs(), [expected]);
    assert_eq!(session.plugin.poll_timeout(), None);
    session.create_kubelet_socket(true);
    let expected = ["kubelet.sock was created, registering", "Dial"];
    assert_eq!(session.take_outputs(), expected);
}

#[test]
fn a_plugin_listens_again_if_a_new_kubelet_removed_its_socket() {
    let mut session = Session::start_registered();
    session.create_kubelet_socket(false);
    let expected = [
        "kubelet.sock was created, registering again",
        "its socket was removed, listening again",
        "Listen",
        "Dial",
    ];
    assert_eq!(session.take_outputs(), expected);
    let mut connection = session.connect();
    connection.answer(&mut session, Ok(()));
    assert_eq!(session.take_outputs(), ["registered"]);
}

#[test]
fn a_new_kubelet_socket_is_dialed_at_once_in_every_state() {
    type Reach = fn(&mut Session);
    let states: [(&str, Reach); 5] = [
        ("Dialing", |_| {}),
        ("Pausing", |session| {
            session.plugin.handle_dial_failed("why", session.now);
        }),
        ("Waiting", |session| session.plugin.handle_kubelet_missing()),
        ("Calling", |session| {
            let mut connection = session.connect();
            connection.exchange(session).expect("a call");
        }),
        ("Registered", |session| {
            let mut connection = session.connect();
            connection.answer(session, Ok(()));
        }),
    ];
    for (state, reach) in states {
        let mut session = Session::start();
        reach(&mut session);
        session.take_outputs();
        session.create_kubelet_socket(true);
        let again = if state == "Registered" { " again" } else { "" };
        let line = format!("kubelet.sock was created, registering{again}");
        assert_eq!(session.take_outputs(), [&line, "Dial"], "{state}");
        let until = session.plugin.poll_timeout();
        assert_eq!(until, None, "{state}: no earlier attempt is left");
        let mut connection = session.connect();
        connection.answer(&mut session, Ok(()));
        assert_eq!(session.take_outputs(), ["registered"], "{state}");
    }
}

#[test]
fn a_reply_from_before_a_restart_of_kubelet_is_ignored() {
    let mut session = Session::start();
    let mut old = session.connect();
    old.exchange(&mut session).expect("a call");
    session.create_kubelet_socket(true);
    assert!(session.plugin.is_closed(old.conn));
    let mut new = session.connect();
    assert!(session.plugin.endpoint(old.conn).is_none());
    session.plugin.remove_connection(old.conn);
    session.take_outputs();
    new.answer(&mut session, Ok(()));
    assert_eq!(session.take_outputs(), ["registered"]);
}

#[test]
fn a_plugin_that_stops_sends_goaway_to_kubelet() {
    let mut session = Session::start();
    let mut connection = session.connect();
    connection.exchange(&mut session).expect("a call");
    session.plugin.stop(session.now);
    assert!(session.plugin.is_closed(connection.conn));
    let client = session
        .plugin
        .endpoint(connection.conn)
        .expect("a connection");
    assert!(!client.transmit().is_empty(), "GOAWAY");
}
