//! Tests of whole plugin lives.

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

/// A plugin, and a client that calls it.
struct Life {
    plugin: Plugin,
    conn: ConnectionId,
    client: Client,
    now: Time,
    events: Vec<Event>,
}

impl Life {
    fn of(profile: &Profile) -> Self {
        Self::at(profile, Socket::Common)
    }

    /// Starts a plugin whose client is connected to that socket.
    fn at(profile: &Profile, socket: Socket) -> Self {
        let mut plugin = Plugin::new(profile, Duration::from_secs(1_000), Time::ZERO);
        let conn = plugin.accept(socket, Time::ZERO);
        let mut life = Self {
            plugin,
            conn,
            client: Client::new(Time::ZERO),
            now: Time::ZERO,
            events: Vec::new(),
        };
        life.exchange();
        life
    }

    /// Moves octets between both ends until neither has any.
    fn exchange(&mut self) {
        loop {
            let server = self.plugin.endpoint(self.conn).expect("it is accepted");
            let there = carry(&mut self.client, server, self.now);
            self.plugin.advance(self.now);
            let server = self.plugin.endpoint(self.conn).expect("it is accepted");
            let back = carry(server, &mut self.client, self.now);
            self.plugin.advance(self.now);
            while let Some(event) = self.client.poll_event(self.now) {
                self.events.push(event);
            }
            if there + back == 0 {
                return;
            }
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.plugin.handle_timeout(self.now);
        self.client.handle_timeout(self.now);
        self.exchange();
    }

    fn call(&mut self, method: &'static str, message: &impl Message) -> CallId {
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

    /// Returns the result of the only call that has ended.
    #[track_caller]
    fn outcome<T: Message + Default>(&mut self) -> Result<T, Status> {
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
    fn ask<T: Message + Default>(
        &mut self,
        method: &'static str,
        message: &impl Message,
    ) -> Result<T, Status> {
        self.call(method, message);
        self.outcome()
    }

    /// Returns the messages that were received on streams.
    fn listed<T: Message + Default>(&mut self) -> Vec<T> {
        let messages = std::mem::take(&mut self.events)
            .into_iter()
            .map(|event| match event {
                Event::Message { message, .. } => T::decode(&*message).expect("a list"),
                other => panic!("{other:?}"),
            });
        messages.collect()
    }

    /// Returns the state of the devices in each list that a device plugin has sent.
    fn health(&mut self) -> Vec<String> {
        let shown = |list: ListAndWatchResponse| {
            let devices = list.devices.into_iter();
            let shown = devices.map(|device| format!("{} {}", device.id, device.health));
            shown.collect::<Vec<_>>().join(", ")
        };
        self.listed().into_iter().map(shown).collect()
    }

    /// Returns the outputs as text.
    fn reports(&mut self) -> Vec<String> {
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

fn faulty(kind: &str, faults: Faults) -> Profile {
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
        let mut life = Life::of(&Profile {
            endpoint,
            ..profile(kind)
        });
        let info = PluginInfo {
            r#type: kind.to_owned(),
            name: "a.example/b".to_owned(),
            endpoint: said.to_owned(),
            supported_versions: vec!["1.0.0".to_owned(), "2".to_owned()],
        };
        assert_eq!(life.ask(registration::GET_INFO, &Empty {}), Ok(info));
        assert_eq!(life.reports(), ["received GetInfo"]);
        assert_eq!(life.plugin.poll_timeout(), None, "nothing is left to do");
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
    let mut life = Life::of(&faulty(
        "CSIPlugin",
        Faults {
            fail_get_info: 2,
            ..Faults::default()
        },
    ));
    for _ in 0..2 {
        let answer = life.ask::<PluginInfo>(registration::GET_INFO, &Empty {});
        let failure = refusal(Code::Unavailable, "a simulated failure");
        assert_eq!(answer, Err(failure));
    }
    let answer = life.ask::<PluginInfo>(registration::GET_INFO, &Empty {});
    assert_eq!(answer.expect("an answer").name, "a.example/b");
    assert_eq!(
        life.reports(),
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
        let mut life = Life::of(&faulty(
            "Toaster",
            Faults {
                reject_notify: rejects,
                ..Faults::default()
            },
        ));
        let method = registration::NOTIFY_REGISTRATION_STATUS;
        let answer = life.ask::<RegistrationStatusResponse>(method, status);
        (
            answer.map_err(|status| status.code),
            life.reports().concat(),
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
    let mut life = Life::of(&faulty(
        "CSIPlugin",
        Faults {
            delay: Duration::from_millis(300),
            ..Faults::default()
        },
    ));
    life.call(registration::GET_INFO, &Empty {});
    assert_eq!(life.reports(), ["received GetInfo"]);
    life.pass(100);
    life.call(identity::PROBE, &Empty {});
    assert_eq!(life.plugin.poll_timeout(), Some(Time::from_millis(300)));
    life.pass(199);
    assert!(life.events.is_empty());
    life.pass(1);
    assert!(life.outcome::<PluginInfo>().is_ok());
    assert_eq!(life.plugin.poll_timeout(), Some(Time::from_millis(400)));
    life.pass(100);
    assert!(life.outcome::<ProbeResponse>().is_ok());
    assert_eq!(life.plugin.poll_timeout(), None);
}

#[test]
fn a_caller_that_does_not_wait_long_enough_gets_nothing() {
    let mut life = Life::of(&faulty(
        "CSIPlugin",
        Faults {
            delay: Duration::from_millis(1_001),
            ..Faults::default()
        },
    ));
    life.call(registration::GET_INFO, &Empty {});
    life.pass(1_000);
    let gave_up = "call cancelled by its caller: pluginregistration.Registration/GetInfo";
    assert_eq!(life.reports(), ["received GetInfo", gave_up]);
    life.events.clear();
    life.pass(1);
    assert!(life.events.is_empty() && life.reports().is_empty());
}

#[test]
fn a_csi_driver_describes_its_node_and_is_ready() {
    let mut life = Life::of(&profile("CSIPlugin"));
    let node: NodeGetInfoResponse = life.ask(node::NODE_GET_INFO, &Empty {}).expect("a node");
    let zones = node.accessible_topology.expect("a place").segments;
    assert_eq!((&*node.node_id, &*zones[0].value), ("simulated-node", "a"));
    let probe: ProbeResponse = life.ask(identity::PROBE, &Empty {}).expect("an answer");
    assert_eq!(probe.ready, Some(true));
    assert_eq!(life.reports()[0], "received csi.v1.Node/NodeGetInfo");
}

#[test]
fn a_request_that_cannot_be_decoded_is_an_error() {
    let mut life = Life::of(&profile("DevicePlugin"));
    for method in [
        registration::NOTIFY_REGISTRATION_STATUS,
        device_plugin::ALLOCATE,
    ] {
        let deadline = Time::from_millis(1_000);
        life.client
            .unary(method, b"\xff", 1 << 20, deadline, life.now);
        life.exchange();
        let code = life.outcome::<Empty>().map_err(|status| status.code);
        assert_eq!(code, Err(Code::Internal), "{method}");
    }
    assert!(
        life.ask::<PluginInfo>(registration::GET_INFO, &Empty {})
            .is_ok()
    );
}

#[test]
fn each_socket_serves_only_its_own_methods() {
    let code = |kind, socket, method| {
        let mut life = Life::at(&profile(kind), socket);
        let answer = life.ask::<Empty>(method, &Empty {});
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
fn it_crashes_on_request_and_closes_no_connection() {
    let mut life = Life::of(&faulty(
        "DevicePlugin",
        Faults {
            crash_after: Some(Duration::from_secs(2)),
            ..Faults::default()
        },
    ));
    life.watch(device_plugin::LIST_AND_WATCH);
    life.pass(1_999);
    assert_eq!(life.reports(), ["device stream opened"]);
    life.events.clear();
    life.pass(1);
    assert_eq!(life.reports(), ["Crash"]);
    assert!(life.events.is_empty());
}

#[test]
fn a_stop_ends_calls_with_an_error() {
    let mut life = Life::of(&faulty(
        "DevicePlugin",
        Faults {
            delay: Duration::from_millis(10),
            ..Faults::default()
        },
    ));
    life.watch(device_plugin::LIST_AND_WATCH);
    life.pass(10);
    life.events.clear();
    let asked = life.call(registration::GET_INFO, &Empty {});
    life.plugin.stop(life.now);
    life.exchange();
    let ends = || CallError::Status(refusal(Code::Unavailable, "the plugin is stopping"));
    let [
        Event::Closed { result: closed, .. },
        Event::Finished { call, result },
    ] = &life.events[..]
    else {
        panic!("{:?}", life.events);
    };
    assert_eq!((*call, result), (asked, &Err(ends())));
    assert_eq!(closed, &Err(ends()));
    assert!(life.client.is_closed() && life.plugin.is_closed(life.conn));
}

#[test]
fn connections_are_limited_until_one_has_ended() {
    let mut plugin = Plugin::new(&profile("CSIPlugin"), Duration::ZERO, Time::ZERO);
    let mut connections = Vec::new();
    while plugin.has_room() {
        connections.push(plugin.accept(Socket::Common, Time::ZERO));
    }
    assert_eq!(connections.len(), config::MAX_CLIENTS);
    plugin.forget(connections[0]);
    assert!(plugin.has_room());
    let next = plugin.accept(Socket::Common, Time::ZERO);
    assert!(!connections.contains(&next));
}

#[test]
fn a_silent_connection_is_closed() {
    let mut plugin = Plugin::new(&profile("CSIPlugin"), Duration::ZERO, Time::ZERO);
    let conn = plugin.accept(Socket::Common, Time::ZERO);
    let end = plugin.poll_timeout().expect("a deadline");
    assert_eq!(end, Time::ZERO + config::HANDSHAKE_TIMEOUT);
    plugin.handle_timeout(end);
    assert!(plugin.is_closed(conn));
}
