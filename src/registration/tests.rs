//! Tests of the service with clients in memory.

use std::time::Duration;

use prost::Message as _;

use super::*;
use crate::config::MAX_CLIENT_REGISTRATIONS;
use crate::grpc::{CallError, Client, Event};
use crate::handler::Reason;
use crate::manager::{Failure, Refusal};
use crate::proto::v1beta1::{RegisterRequest, registration};

const DIR: &str = "/d";

/// The service and its clients.
struct Node {
    registrar: Registrar,
    clients: Vec<(ClientId, Client, Vec<Event>)>,
    now: Time,
}

impl Node {
    fn new() -> Self {
        Self {
            registrar: Registrar::new(Path::new(DIR).into()),
            clients: Vec::new(),
            now: Time::ZERO,
        }
    }

    /// Connects another client. Returns its index.
    fn connect(&mut self) -> usize {
        self.connect_from(7)
    }

    /// Connects a client of the process with that ID.
    fn connect_from(&mut self, pid: u32) -> usize {
        let caller = Some(Process {
            pid: Some(pid),
            uid: 0,
        });
        let id = self.registrar.accept(caller, self.now);
        self.clients.push((id, Client::new(self.now), Vec::new()));
        self.clients.len() - 1
    }

    /// Calls Register for a resource of that name.
    fn call(&mut self, client: usize, name: &str) {
        let request = RegisterRequest {
            version: "v1beta1".to_owned(),
            endpoint: format!("{name}.sock"),
            resource_name: format!("example.com/{name}"),
            options: None,
        };
        self.call_with(client, &request.encode_to_vec());
    }

    fn call_with(&mut self, client: usize, request: &[u8]) {
        let deadline = self.now + Duration::from_secs(60);
        let client = &mut self.clients[client].1;
        client.unary(registration::REGISTER, request, 1024, deadline, self.now);
        self.exchange_octets();
    }

    /// Moves all octets in both directions.
    fn exchange_octets(&mut self) {
        let now = self.now;
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            for (id, client, events) in &mut self.clients {
                events.extend(std::iter::from_fn(|| client.poll_event(now)));
                if let Some(end) = self.registrar.endpoint(*id) {
                    let n = end.receive_from(client.transmit(), now);
                    client.sent(n, now);
                    has_moved |= n > 0;
                }
                self.registrar.process_received(*id, now);
                if let Some(end) = self.registrar.endpoint(*id) {
                    let n = client.receive_from(end.transmit(), now);
                    end.sent(n, now);
                    has_moved |= n > 0;
                }
            }
        }
    }

    /// Takes all outputs. Returns the calls that are to be answered, each with the name of its
    /// resource.
    fn take_announcements(&mut self) -> Vec<(AnnouncementId, String)> {
        let outputs = std::iter::from_fn(|| self.registrar.poll_output());
        let announced = outputs.filter_map(|output| match output {
            Output::Announce { id, plugin, caller } => {
                assert!(caller.is_some());
                Some((id, plugin.name))
            }
            Output::Rejected { .. } | Output::CallEnded { .. } => None,
        });
        announced.collect()
    }

    /// Takes all outputs. Returns the calls that have ended without an answer.
    fn take_ended_calls(&mut self) -> Vec<AnnouncementId> {
        let outputs = std::iter::from_fn(|| self.registrar.poll_output());
        let ended = outputs.filter_map(|output| match output {
            Output::CallEnded { id } => Some(id),
            Output::Announce { .. } | Output::Rejected { .. } => None,
        });
        ended.collect()
    }

    fn answer(&mut self, id: AnnouncementId, result: Result<(), AnnouncementError>) {
        self.registrar.answer(id, result, self.now);
        self.exchange_octets();
    }

    /// Returns the results that a client has received since the last call of this function; for a
    /// failure, its code and its message.
    fn take_results(&mut self, client: usize) -> Vec<Result<(), (Code, String)>> {
        let (_, client, events) = &mut self.clients[client];
        events.extend(std::iter::from_fn(|| client.poll_event(self.now)));
        let events = std::mem::take(events).into_iter();
        let results = events.filter_map(|event| match event {
            Event::Finished { result, .. } => Some(match result {
                Ok(message) => {
                    assert!(message.is_empty(), "it is an Empty");
                    Ok(())
                }
                Err(CallError::Status(status)) => Err((status.code, status.message)),
                Err(other) => panic!("{other}"),
            }),
            _ => None,
        });
        results.collect()
    }
}

#[test]
fn a_call_is_answered_when_its_outcome_is_known() {
    let mut node = Node::new();
    let client = node.connect();
    node.call(client, "a");
    let announced = node.take_announcements();
    assert_eq!(announced, [(AnnouncementId(1), "example.com/a".to_owned())]);
    assert_eq!(node.take_results(client), []);
    node.answer(AnnouncementId(1), Ok(()));
    assert_eq!(node.take_results(client), [Ok(())]);
    node.answer(AnnouncementId(1), Ok(()));
    assert_eq!(node.take_results(client), [], "it is answered once");
}

#[test]
fn a_failure_has_its_code_and_kubelets_message() {
    let mut node = Node::new();
    let client = node.connect();
    let reason = "failed to get device plugin options: rpc error: code = Unimplemented desc = no";
    let refused = Failure::Refused(Refusal::Registration(Reason::new(reason)));
    let no_handler = Failure::Refused(Refusal::NoHandler("DevicePlugin".to_owned()));
    for (error, code, message) in [
        (AnnouncementError::Failed(refused), Code::Unknown, reason),
        (
            AnnouncementError::Failed(no_handler),
            Code::Unknown,
            "plugin refused: no handler for plugin type \"DevicePlugin\"",
        ),
        (
            AnnouncementError::Superseded,
            Code::Aborted,
            "the plugin was announced again",
        ),
        (
            AnnouncementError::TooMany,
            Code::ResourceExhausted,
            "1024 device plugins are registered already",
        ),
        (
            AnnouncementError::Stopping,
            Code::Unavailable,
            "plugind is stopping",
        ),
    ] {
        node.call(client, "a");
        let (id, _) = node.take_announcements().remove(0);
        node.answer(id, Err(error));
        assert_eq!(node.take_results(client), [Err((code, message.to_owned()))]);
        let logged = node.registrar.poll_output();
        let is_limit = code == Code::ResourceExhausted;
        assert_eq!(matches!(logged, Some(Output::Rejected { .. })), is_limit);
    }
}

#[test]
fn an_unacceptable_request_is_rejected_and_the_next_one_is_not() {
    let mut node = Node::new();
    let client = node.connect();
    node.call(client, "not a name");
    let rejected = [Err((
        Code::Unknown,
        "the ResourceName \"example.com/not a name\" is invalid".to_owned(),
    ))];
    assert_eq!(node.take_results(client), rejected);
    let output = node.registrar.poll_output();
    assert!(
        matches!(output, Some(Output::Rejected { .. })),
        "{output:?}"
    );
    node.call_with(client, &[0x0a, 0xff]);
    let results = node.take_results(client);
    assert!(
        matches!(&results[..], [Err((Code::Internal, _))]),
        "{results:?}"
    );
    node.call(client, "a");
    assert_eq!(node.take_announcements().len(), 1);
}

#[test]
fn a_request_that_is_too_long_is_rejected() {
    let mut node = Node::new();
    let client = node.connect();
    node.call_with(client, &vec![0; crate::config::MAX_SMALL_MESSAGE + 1]);
    let results = node.take_results(client);
    assert!(
        matches!(&results[..], [Err((Code::ResourceExhausted, _))]),
        "{results:?}"
    );
    assert_eq!(node.take_announcements(), []);
}

#[test]
fn a_call_delays_no_other_call_of_its_client() {
    let mut node = Node::new();
    let client = node.connect();
    for i in 0..MAX_CLIENT_REGISTRATIONS + 2 {
        node.call(client, &format!("n{i}"));
    }
    let announced = node.take_announcements();
    assert_eq!(announced.len(), MAX_CLIENT_REGISTRATIONS);
    let results = node.take_results(client);
    assert_eq!(results.len(), 2, "the last two are too many");
    let too_many = "too many registrations are in progress".to_owned();
    assert_eq!(results[0], Err((Code::ResourceExhausted, too_many)));
    let (last, _) = announced[MAX_CLIENT_REGISTRATIONS - 1];
    node.answer(last, Ok(()));
    assert_eq!(
        node.take_results(client),
        [Ok(())],
        "the first is not waited for"
    );
}

#[test]
fn a_call_ends_without_an_answer_when_its_client_disconnects() {
    let mut node = Node::new();
    let client = node.connect();
    node.call(client, "a");
    assert_eq!(node.take_announcements().len(), 1);
    let id = node.clients[client].0;
    node.registrar.endpoint(id).unwrap().eof(node.now);
    node.registrar.process_received(id, node.now);
    assert!(node.registrar.is_closed(id));
    node.registrar.remove(id);
    assert_eq!(node.take_ended_calls(), [AnnouncementId(1)]);
    assert_eq!(
        node.registrar.answer(AnnouncementId(1), Ok(()), node.now),
        None
    );
}

#[test]
fn a_call_ends_when_its_deadline_has_passed() {
    let mut node = Node::new();
    let client = node.connect();
    node.call(client, "a");
    node.call(client, "b");
    assert_eq!(node.take_announcements().len(), 2);
    node.now += Duration::from_secs(60);
    let (_, client, _) = &mut node.clients[client];
    client.handle_timeout(node.now);
    node.exchange_octets();
    assert_eq!(
        node.take_ended_calls(),
        [AnnouncementId(1), AnnouncementId(2)]
    );
}

#[test]
fn clients_with_a_call_in_progress_do_not_count_as_idle() {
    let mut node = Node::new();
    for client in 0..MAX_REGISTRATIONS {
        node.connect();
        node.call(client, &format!("n{client}"));
    }
    assert!(node.registrar.has_room());
    for _ in 0..MAX_REGISTRATIONS {
        node.connect_from(8);
    }
    assert!(!node.registrar.has_room());
}

#[test]
fn a_client_of_the_process_with_the_most_clients_makes_room() {
    let mut node = Node::new();
    let only = node.connect_from(1);
    node.call(only, "only");
    for client in 1..2 * MAX_REGISTRATIONS {
        node.connect_from(2);
        node.call(client, &format!("n{client}"));
    }
    assert!(!node.registrar.has_room());
    node.registrar.make_room(node.now);
    let closed = |node: &Node, client: usize| node.registrar.is_closed(node.clients[client].0);
    assert!(!closed(&node, only) && closed(&node, 1) && !closed(&node, 2));
}

#[test]
fn a_client_with_an_incomplete_call_makes_room() {
    let mut node = Node::new();
    for _ in 0..MAX_REGISTRATIONS {
        node.connect();
    }
    node.exchange_octets();
    let (id, client, _) = &mut node.clients[0];
    let deadline = node.now + Duration::from_secs(60);
    client.unary(registration::REGISTER, &[0; 64], 1024, deadline, node.now);
    let octets = client.transmit();
    let part = &octets[..octets.len() - 1];
    let end = node.registrar.endpoint(*id).unwrap();
    end.recv_buf()[..part.len()].copy_from_slice(part);
    end.received(part.len(), node.now);
    node.registrar.process_received(*id, node.now);
    node.registrar.make_room(node.now);
    assert!(node.registrar.is_closed(node.clients[0].0));
}

#[test]
fn the_process_with_the_most_clients_makes_room() {
    let mut node = Node::new();
    let only = node.connect_from(1);
    for _ in 1..MAX_REGISTRATIONS {
        node.connect_from(2);
    }
    let closed = |node: &Node, client: usize| node.registrar.is_closed(node.clients[client].0);
    node.registrar.make_room(node.now);
    assert!(!closed(&node, only) && closed(&node, 1) && !closed(&node, 2));
}

#[test]
fn a_client_that_does_not_call_in_time_makes_room() {
    let mut node = Node::new();
    for pid in 0..MAX_REGISTRATIONS {
        node.connect_from(pid.try_into().unwrap());
    }
    let closed = |node: &Node, client: usize| node.registrar.is_closed(node.clients[client].0);
    let due = node.now + REGISTRATION_PATIENCE;
    node.registrar.make_room(node.now);
    assert!(!closed(&node, 0));
    assert_eq!(node.registrar.make_room_at(), Some(due));
    node.registrar.make_room(due);
    assert!(closed(&node, 0) && !closed(&node, 1));
}

#[test]
fn if_all_clients_call_the_first_whose_call_ends_makes_room() {
    let mut node = Node::new();
    for client in 0..2 * MAX_REGISTRATIONS {
        node.connect_from(client.try_into().unwrap());
        node.call(client, &format!("n{client}"));
    }
    let announced = node.take_announcements();
    node.registrar.make_room(node.now);
    let (id, _) = announced[9];
    node.answer(id, Ok(()));
    let id = node.clients[9].0;
    assert!(node.registrar.is_closed(id));
    node.registrar.remove(id);
    assert!(node.registrar.has_room());
    let (id, _) = announced[10];
    node.answer(id, Ok(()));
    assert!(
        !node.registrar.is_closed(node.clients[10].0),
        "no other one waits any more"
    );
}

#[test]
fn a_client_that_does_not_send_http2_is_closed() {
    let mut node = Node::new();
    let client = node.connect();
    let id = node.clients[client].0;
    let end = node.registrar.endpoint(id).unwrap();
    end.receive_from(b"GET / HTTP/1.1\r\n\r\n", node.now);
    node.registrar.process_received(id, node.now);
    assert!(node.registrar.is_closed(id));
    let silent = node.connect();
    let id = node.clients[silent].0;
    let at = node.registrar.poll_timeout().expect("it has a deadline");
    node.registrar.handle_timeout(at);
    assert!(node.registrar.is_closed(id));
}
