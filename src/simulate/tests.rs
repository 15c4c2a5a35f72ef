//! Tests of the simulated plugin, called by a gRPC client.

mod devices;

use std::time::Duration;

use prost::Message;

use super::*;
use crate::grpc::{CallError, CallId, Client, Event};
use crate::http2::carry;
use crate::proto::csi_v1::{NodeGetInfoResponse, ProbeResponse, identity, node};
use crate::proto::pluginregistration::{
    PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use crate::proto::v1alpha1::{HealthStatus, NodeWatchResourcesResponse, dra_resource_health};
use crate::proto::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateRequest, DevicePluginOptions, Empty,
    ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, device_plugin,
};

/// A plugin, and a client that is connected to it.
struct Session {
    plugin: Plugin,
    conn: ConnectionId,
    client: Client,
    now: Time,
    events: Vec<Event>,
}

impl Session {
    fn start(profile: &Profile) -> Self {
        Self::start_at(profile, Socket::Common)
    }

    /// Starts a plugin whose client is connected to that socket.
    fn start_at(profile: &Profile, socket: Socket) -> Self {
        let mut plugin = Plugin::new(profile, Duration::from_secs(1_000), Time::ZERO);
        let conn = plugin.accept(socket, Time::ZERO);
        let mut session = Self {
            plugin,
            conn,
            client: Client::new(Time::ZERO),
            now: Time::ZERO,
            events: Vec::new(),
        };
        session.exchange();
        session
    }

    /// Moves octets between client and plugin until neither has any left to send.
    fn exchange(&mut self) {
        loop {
            let server = self.plugin.endpoint(self.conn).expect("it is accepted");
            let there = carry(&mut self.client, server, self.now);
            self.plugin.handle_io(self.now);
            let server = self.plugin.endpoint(self.conn).expect("it is accepted");
            let back = carry(server, &mut self.client, self.now);
            self.plugin.handle_io(self.now);
            while let Some(event) = self.client.poll_event(self.now) {
                self.events.push(event);
            }
            if there + back == 0 {
                return;
            }
        }
    }

    fn advance_time(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.plugin.handle_timeout(self.now);
        self.client.handle_timeout(self.now);
        self.exchange();
    }

    fn start_call(&mut self, method: &'static str, message: &impl Message) -> CallId {
        let deadline = self.now + Duration::from_secs(1);
        let message = message.encode_to_vec();
        let call = self
            .client
            .unary(method, &message, 1 << 20, deadline, self.now);
        self.exchange();
        call
    }

    fn watch(&mut self, method: &'static str) {
        self.client
            .server_streaming(method, b"", 1 << 20, None, self.now);
        self.exchange();
    }

    /// Returns the result of the call that has ended, which must be the only event.
    #[track_caller]
    fn take_outcome<T: Message + Default>(&mut self) -> Result<T, Status> {
        match &std::mem::take(&mut self.events)[..] {
            [Event::Finished { result, .. }] => match result {
                Ok(message) => Ok(T::decode(&**message).expect("a message")),
                Err(CallError::Status(status)) => Err(status.clone()),
                Err(error) => panic!("{error}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Makes a call now and returns its result.
    #[track_caller]
    fn call<T: Message + Default>(
        &mut self,
        method: &'static str,
        message: &impl Message,
    ) -> Result<T, Status> {
        self.start_call(method, message);
        self.take_outcome()
    }

    /// Removes and returns the messages that were received on streams.
    fn take_lists<T: Message + Default>(&mut self) -> Vec<T> {
        let messages = std::mem::take(&mut self.events)
            .into_iter()
            .map(|event| match event {
                Event::Message { message, .. } => T::decode(&*message).expect("a list"),
                other => panic!("{other:?}"),
            });
        messages.collect()
    }

    /// Returns the health of the devices in each list that a device plugin has sent.
    fn take_health(&mut self) -> Vec<String> {
        let shown = |list: ListAndWatchResponse| {
            let devices = list.devices.into_iter();
            let shown = devices.map(|device| format!("{} {}", device.id, device.health));
            shown.collect::<Vec<_>>().join(", ")
        };
        self.take_lists().into_iter().map(shown).collect()
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

fn profile(kind: &str) -> Profile {
    Profile {
        kind: kind.to_owned(),
        name: "a.example/b".to_owned(),
        versions: vec!["1.0.0".to_owned(), "2".to_owned()],
        socket: "/r/a-reg.sock".into(),
        is_legacy: false,
        endpoint: None,
        toggle_health: None,
        cdi_devices: Vec::new(),
        faults: Faults::default(),
    }
}

fn profile_with(kind: &str, faults: Faults) -> Profile {
    Profile {
        faults,
        ..profile(kind)
    }
}

fn refusal(code: Code, words: &str) -> Status {
    Status::new(code, words)
}

#[test]
fn a_plugin_reports_the_endpoint_that_is_usual_for_its_type() {
    let own = Some("/s/a.sock".to_owned());
    for (kind, endpoint, said) in [
        ("CSIPlugin", None, "/r/a-reg.sock"),
        ("DRAPlugin", None, "/r/a-reg.sock"),
        ("DevicePlugin", None, ""),
        ("Toaster", None, ""),
        ("CSIPlugin", own.clone(), "/s/a.sock"),
        ("DevicePlugin", own, "/s/a.sock"),
    ] {
        let mut session = Session::start(&Profile {
            endpoint,
            ..profile(kind)
        });
        let info = PluginInfo {
            r#type: kind.to_owned(),
            name: "a.example/b".to_owned(),
            endpoint: said.to_owned(),
            supported_versions: vec!["1.0.0".to_owned(), "2".to_owned()],
        };
        assert_eq!(session.call(registration::GET_INFO, &Empty {}), Ok(info));
        assert_eq!(session.take_outputs(), ["received GetInfo"]);
        assert_eq!(session.plugin.poll_timeout(), None, "nothing is left to do");
    }
}

#[test]
fn a_service_may_have_a_socket_of_its_own() {
    let at = |endpoint: Option<&str>| {
        let endpoint = endpoint.map(str::to_owned);
        let kind = profile("CSIPlugin");
        Profile { endpoint, ..kind }.sockets()
    };
    let own = "/r/a-reg.sock";
    assert_eq!(at(None), [(own.into(), Socket::Common)]);
    assert_eq!(at(Some(own)), [(own.into(), Socket::Common)]);
    let two = [
        ("/s/a.sock".into(), Socket::Service),
        (own.into(), Socket::Registration),
    ];
    assert_eq!(at(Some("/s/a.sock")), two);
}

#[test]
fn get_info_fails_as_often_as_configured() {
    let mut session = Session::start(&profile_with(
        "CSIPlugin",
        Faults {
            fail_get_info: 2,
            ..Faults::default()
        },
    ));
    for _ in 0..2 {
        let answer = session.call::<PluginInfo>(registration::GET_INFO, &Empty {});
        let failure = refusal(Code::Unavailable, "a simulated failure");
        assert_eq!(answer, Err(failure));
    }
    let answer = session.call::<PluginInfo>(registration::GET_INFO, &Empty {});
    assert_eq!(answer.expect("an answer").name, "a.example/b");
    assert_eq!(
        session.take_outputs(),
        [
            "received GetInfo: returning error 1 of 2",
            "received GetInfo: returning error 2 of 2",
            "received GetInfo",
        ]
    );
}

#[test]
fn a_notification_is_reported_and_may_be_rejected() {
    let notify = |rejects, status: &RegistrationStatus| {
        let mut session = Session::start(&profile_with(
            "Toaster",
            Faults {
                reject_notify: rejects,
                ..Faults::default()
            },
        ));
        let method = registration::NOTIFY_REGISTRATION_STATUS;
        let answer = session.call::<RegistrationStatusResponse>(method, status);
        (
            answer.map_err(|status| status.code),
            session.take_outputs().concat(),
        )
    };
    let registered = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    let refused = RegistrationStatus {
        plugin_registered: false,
        error: "no\x1b[2J\n".to_owned(),
    };
    let thanks = Ok(RegistrationStatusResponse {});
    let well = "received NotifyRegistrationStatus: registered";
    let badly = "received NotifyRegistrationStatus: not registered: no\\u{1b}[2J\\n";
    assert_eq!(notify(false, &registered), (thanks, well.to_owned()));
    assert_eq!(notify(false, &refused), (thanks, badly.to_owned()));
    let words = format!("{badly}; returning an error");
    assert_eq!(notify(true, &refused), (Err(Code::Unknown), words));
}

#[test]
fn every_answer_is_sent_exactly_after_its_delay() {
    let mut session = Session::start(&profile_with(
        "CSIPlugin",
        Faults {
            delay: Duration::from_millis(300),
            ..Faults::default()
        },
    ));
    session.start_call(registration::GET_INFO, &Empty {});
    assert_eq!(session.take_outputs(), ["received GetInfo"]);
    session.advance_time(100);
    session.start_call(identity::PROBE, &Empty {});
    assert_eq!(session.plugin.poll_timeout(), Some(Time::from_millis(300)));
    session.advance_time(199);
    assert!(session.events.is_empty());
    session.advance_time(1);
    assert!(session.take_outcome::<PluginInfo>().is_ok());
    assert_eq!(session.plugin.poll_timeout(), Some(Time::from_millis(400)));
    session.advance_time(100);
    assert!(session.take_outcome::<ProbeResponse>().is_ok());
    assert_eq!(session.plugin.poll_timeout(), None);
}

#[test]
fn a_call_that_times_out_before_its_answer_is_cancelled() {
    let mut session = Session::start(&profile_with(
        "CSIPlugin",
        Faults {
            delay: Duration::from_millis(1_001),
            ..Faults::default()
        },
    ));
    session.start_call(registration::GET_INFO, &Empty {});
    session.advance_time(1_000);
    let gave_up = "call cancelled by its caller: pluginregistration.Registration/GetInfo";
    assert_eq!(session.take_outputs(), ["received GetInfo", gave_up]);
    session.events.clear();
    session.advance_time(1);
    assert!(session.events.is_empty() && session.take_outputs().is_empty());
}

#[test]
fn a_csi_driver_describes_its_node_and_is_ready() {
    let mut session = Session::start(&profile("CSIPlugin"));
    let node: NodeGetInfoResponse = session
        .call(node::NODE_GET_INFO, &Empty {})
        .expect("a node");
    let zones = node.accessible_topology.expect("a place").segments;
    assert_eq!((&*node.node_id, &*zones[0].value), ("simulated-node", "a"));
    let probe: ProbeResponse = session.call(identity::PROBE, &Empty {}).expect("an answer");
    assert_eq!(probe.ready, Some(true));
    assert_eq!(
        session.take_outputs()[0],
        "received csi.v1.Node/NodeGetInfo"
    );
}

#[test]
fn a_request_that_cannot_be_decoded_is_an_error() {
    let mut session = Session::start(&profile("DevicePlugin"));
    for method in [
        registration::NOTIFY_REGISTRATION_STATUS,
        device_plugin::ALLOCATE,
    ] {
        let deadline = Time::from_millis(1_000);
        session
            .client
            .unary(method, b"\xff", 1 << 20, deadline, session.now);
        session.exchange();
        let code = session
            .take_outcome::<Empty>()
            .map_err(|status| status.code);
        assert_eq!(code, Err(Code::Internal), "{method}");
    }
    assert!(
        session
            .call::<PluginInfo>(registration::GET_INFO, &Empty {})
            .is_ok()
    );
}

#[test]
fn each_socket_serves_only_its_own_methods() {
    let code = |kind, socket, method| {
        let mut session = Session::start_at(&profile(kind), socket);
        let answer = session.call::<Empty>(method, &Empty {});
        answer.map_err(|status| status.code)
    };
    let unimplemented = Err(Code::Unimplemented);
    let (get_info, probe) = (registration::GET_INFO, identity::PROBE);
    assert_eq!(code("CSIPlugin", Socket::Common, probe), Ok(Empty {}));
    assert_eq!(code("CSIPlugin", Socket::Service, probe), Ok(Empty {}));
    assert_eq!(
        code("CSIPlugin", Socket::Registration, probe),
        unimplemented
    );
    assert_eq!(code("CSIPlugin", Socket::Service, get_info), unimplemented);
    assert_eq!(
        code("CSIPlugin", Socket::Registration, get_info),
        Ok(Empty {})
    );
    assert_eq!(code("Toaster", Socket::Common, probe), unimplemented);
    assert_eq!(code("Toaster", Socket::Service, get_info), unimplemented);
}

#[test]
fn a_simulated_crash_does_not_close_connections() {
    let mut session = Session::start(&profile_with(
        "DevicePlugin",
        Faults {
            crash_after: Some(Duration::from_secs(2)),
            ..Faults::default()
        },
    ));
    session.watch(device_plugin::LIST_AND_WATCH);
    session.advance_time(1_999);
    assert_eq!(session.take_outputs(), ["device stream opened"]);
    session.events.clear();
    session.advance_time(1);
    assert_eq!(session.take_outputs(), ["Crash"]);
    assert!(session.events.is_empty());
}

#[test]
fn stopping_ends_calls_with_an_error() {
    let mut session = Session::start(&profile_with(
        "DevicePlugin",
        Faults {
            delay: Duration::from_millis(10),
            ..Faults::default()
        },
    ));
    session.watch(device_plugin::LIST_AND_WATCH);
    session.advance_time(10);
    session.events.clear();
    let asked = session.start_call(registration::GET_INFO, &Empty {});
    session.plugin.stop(session.now);
    session.exchange();
    let ends = || CallError::Status(refusal(Code::Unavailable, "the plugin is stopping"));
    let [
        Event::Closed { result: closed, .. },
        Event::Finished { call, result },
    ] = &session.events[..]
    else {
        panic!("{:?}", session.events);
    };
    assert_eq!((*call, result), (asked, &Err(ends())));
    assert_eq!(closed, &Err(ends()));
    assert!(session.client.is_closed() && session.plugin.is_closed(session.conn));
}

#[test]
fn connections_are_limited_until_one_has_ended() {
    let mut plugin = Plugin::new(&profile("CSIPlugin"), Duration::ZERO, Time::ZERO);
    let mut connections = Vec::new();
    while plugin.has_room() {
        connections.push(plugin.accept(Socket::Common, Time::ZERO));
    }
    assert_eq!(connections.len(), config::MAX_SIMULATED_CLIENTS);
    plugin.remove_connection(connections[0]);
    assert!(plugin.has_room());
    let next = plugin.accept(Socket::Common, Time::ZERO);
    assert!(!connections.contains(&next));
}

#[test]
fn a_connection_without_a_handshake_is_closed() {
    let mut plugin = Plugin::new(&profile("CSIPlugin"), Duration::ZERO, Time::ZERO);
    let conn = plugin.accept(Socket::Common, Time::ZERO);
    let end = plugin.poll_timeout().expect("a deadline");
    assert_eq!(end, Time::ZERO + config::HANDSHAKE_TIMEOUT);
    plugin.handle_timeout(end);
    assert!(plugin.is_closed(conn));
}
