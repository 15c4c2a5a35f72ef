//! Clients of `kubelet.sock` that send anything, before a manager that answers some calls.
//!
//! An input is a sequence of operations of a few clients. Whatever happens:
//!
//! - a plugin that is announced has a socket in the directory, and a resource's name;
//! - a call that is announced and not answered is over once, at the latest when its client ends;
//! - there are never more clients than there may be, and each holds no more than its bound;
//! - what the service writes is valid HTTP/2.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use plugind::config::{MAX_REGISTRATIONS, MAX_SMALL_MESSAGE, MAX_STREAMS};
use plugind::handler::device;
use plugind::http2::Endpoint as _;
use plugind::manager::{AnnouncementError, AnnouncementId, Process};
use plugind::proto::v1beta1::RegisterRequest;
use plugind::registration::{self, ClientId, Registrar};
use plugind::time::Time;
use prost::Message as _;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::listener::Listener;
use super::wire::{self, DATA, END_STREAM, RST_STREAM};

/// Plays the operations.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut play = Play {
        registrar: Registrar::new(Path::new(DIR).into()),
        clients: Vec::new(),
        open: BTreeSet::new(),
        last: AnnouncementId(0),
        now: Time::ZERO,
    };
    for _ in 0..MOST_OPERATIONS {
        if input.is_empty() {
            break;
        }
        play.operation(&mut input);
        play.follow();
        play.check();
    }
    play.end();
}

/// The service and its clients.
struct Play {
    registrar: Registrar,
    clients: Vec<Client>,
    /// The calls that the manager has not answered.
    open: BTreeSet<AnnouncementId>,
    last: AnnouncementId,
    now: Time,
}

/// A client, and what the service has written for it.
struct Client {
    id: ClientId,
    listener: Listener,
    /// The stream of its next request.
    next: u32,
}

impl Play {
    fn operation(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 => self.connect(),
            1 => self.write(input),
            2 => self.wait(input.time(&WAITS)),
            3 => {
                self.registrar.make_room(self.now);
            }
            4 | 5 => self.answer(input),
            6 => {
                if let Some(client) = self.pick(input) {
                    let id = client.id;
                    if let Some(end) = self.registrar.endpoint(id) {
                        end.eof(self.now);
                    }
                    self.registrar.process_received(id, self.now);
                }
            }
            7 | 8 => {
                let octets = input.short().to_vec();
                self.hear(input, &octets);
            }
            9 => {
                let Some(stream) = self.pick(input).map(|client| client.next) else {
                    return;
                };
                let stream = stream.saturating_sub(input.pick(&[2, 4, 6]));
                let reset = wire::frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
                self.hear(input, &reset);
            }
            _ => self.call(input),
        }
    }

    fn connect(&mut self) {
        if !self.registrar.has_room() {
            return self.registrar.make_room(self.now);
        }
        let uid = 0;
        let id = self
            .registrar
            .accept(Some(Process { pid: None, uid }), self.now);
        self.clients.push(Client {
            id,
            listener: Listener::server(),
            next: 1,
        });
        self.receive(id, &wire::greeting());
    }

    fn pick(&mut self, input: &mut Input<'_>) -> Option<&mut Client> {
        let at = input.below(self.clients.len().max(1));
        self.clients.get_mut(at)
    }

    /// Calls Register, mostly with a valid request.
    fn call(&mut self, input: &mut Input<'_>) {
        let request = RegisterRequest {
            version: input
                .pick(&["v1beta1", "v1beta1", "v1beta1", "v1", ""])
                .to_owned(),
            endpoint: match input.below(8) {
                0 => String::from_utf8_lossy(input.short()).into_owned(),
                other => ENDPOINTS[other % ENDPOINTS.len()].to_owned(),
            },
            resource_name: match input.below(8) {
                0 => String::from_utf8_lossy(input.short()).into_owned(),
                other => NAMES[other % NAMES.len()].to_owned(),
            },
            options: None,
        };
        let mut message = wire::message(&request.encode_to_vec());
        if input.below(16) == 0 {
            message = input.short().to_vec();
        }
        let path = input.pick(&[REGISTER, REGISTER, REGISTER, "/v1beta1.Registration/Other"]);
        let timeout = input.pick(&[&b""[..], b"", b"1m", b"4S"]);
        let end = input.pick(&[END_STREAM, END_STREAM, END_STREAM, 0]);
        let Some(client) = self.pick(input) else {
            return;
        };
        let stream = client.next;
        client.next += 2;
        let id = client.id;
        let mut octets = wire::call(stream, path, b"application/grpc", timeout);
        octets.extend(wire::frame(DATA, end, stream, &message));
        self.receive(id, &octets);
    }

    fn hear(&mut self, input: &mut Input<'_>, octets: &[u8]) {
        if let Some(id) = self.pick(input).map(|client| client.id) {
            self.receive(id, octets);
        }
    }

    /// Has the service read octets of a client, as far as it does.
    fn receive(&mut self, id: ClientId, mut octets: &[u8]) {
        while let Some(end) = self.registrar.endpoint(id) {
            let n = end.receive_from(octets, self.now);
            self.registrar.process_received(id, self.now);
            octets = &octets[n..];
            if n == 0 || octets.is_empty() {
                return;
            }
        }
    }

    /// Has a client read some of what was written for it.
    fn write(&mut self, input: &mut Input<'_>) {
        let most = input.pick(&[usize::MAX, 1, 9, 100]);
        let now = self.now;
        let Some(client) = self.pick(input) else {
            return;
        };
        let id = client.id;
        let Some(end) = self.registrar.endpoint(id) else {
            return;
        };
        let octets = end.transmit();
        let octets = octets[..octets.len().min(most)].to_vec();
        end.sent(octets.len(), now);
        self.registrar.process_received(id, now);
        let mut clients = self.clients.iter_mut();
        if let Some(client) = clients.find(|client| client.id == id) {
            client.listener.hear(&octets);
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.registrar.handle_timeout(self.now);
    }

    /// Answers the call that has waited longest: the plugin is registered, or it is not. An answer
    /// to a call that is over has no effect.
    fn answer(&mut self, input: &mut Input<'_>) {
        let id = self.open.pop_first().unwrap_or(self.last);
        let is_registered = input.coin();
        let result = is_registered
            .then_some(())
            .ok_or(AnnouncementError::Stopping);
        self.registrar.answer(id, result, self.now);
    }

    /// Takes the announcements, and removes the clients that have gone.
    fn follow(&mut self) {
        while let Some(output) = self.registrar.poll_output() {
            self.announced(output);
        }
        let registrar = &mut self.registrar;
        self.clients.retain(|client| {
            if registrar.is_closed(client.id) {
                registrar.remove(client.id);
            }
            registrar.endpoint(client.id).is_some()
        });
    }

    fn announced(&mut self, output: registration::Output) {
        let (id, plugin) = match output {
            registration::Output::Announce { id, plugin, .. } => (id, plugin),
            registration::Output::CallEnded { id } => {
                assert!(self.open.remove(&id), "{id:?} is over again");
                return;
            }
            registration::Output::Rejected { .. } => return,
        };
        assert!(id > self.last, "{id:?} is not new");
        self.last = id;
        self.open.insert(id);
        assert_eq!(plugin.kind, device::TYPE);
        assert_eq!(plugin.endpoint.parent(), Some(Path::new(DIR)));
        assert_ne!(plugin.endpoint.file_name(), Some("kubelet.sock".as_ref()));
        assert!(plugin.name.contains('/') && !plugin.name.contains(char::is_control));
    }

    fn check(&mut self) {
        assert!(self.clients.len() <= 2 * MAX_REGISTRATIONS);
        for client in &self.clients {
            if let Some(end) = self.registrar.endpoint(client.id) {
                let used = end.mem_used();
                assert!(used <= CLIENT_BOUND, "{used} octets");
            }
        }
        let next = self.registrar.poll_timeout();
        self.registrar.handle_timeout(self.now);
        let again = self.registrar.poll_timeout();
        assert!(
            again.is_none_or(|at| at > self.now) || next.is_none(),
            "{again:?}"
        );
        // What timed out is known before the next operation answers a call.
        self.follow();
    }

    /// Ends all clients: no call stays open.
    fn end(mut self) {
        for client in &self.clients {
            if let Some(end) = self.registrar.endpoint(client.id) {
                end.eof(self.now);
            }
            self.registrar.process_received(client.id, self.now);
        }
        self.follow();
        assert!(self.open.is_empty(), "{:?} are not over", self.open);
    }
}

/// The directory of the plugins' sockets.
const DIR: &str = "/d";

const REGISTER: &str = "/v1beta1.Registration/Register";

const ENDPOINTS: [&str; 4] = ["a.sock", "b.sock", "kubelet.sock", "../c.sock"];

const NAMES: [&str; 4] = ["example.com/a", "example.com/b", "example.com/c", "gpu"];

/// The times that pass (milliseconds).
const WAITS: [u64; 4] = [1, 1000, 11_000, 301_000];

/// The most operations that are played of an input.
const MOST_OPERATIONS: usize = 100;

/// The most that a client may hold: its connection, and requests in vectors that double (octets).
const CLIENT_BOUND: usize = CONNECTION_BOUND + MAX_STREAMS as usize * (3 * MAX_SMALL_MESSAGE);
