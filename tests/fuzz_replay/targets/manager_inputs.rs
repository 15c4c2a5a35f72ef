//! The manager's inputs in any order, at any time, whether it waits for them or not.
//!
//! An input names paths, sockets, connections, programs, calls and questions of a small world,
//! also those that ended long ago; only a dial has one result. Whatever arrives, the manager keeps
//! its invariants, which are checked after each step; its outputs end; no deadline stays in
//! the past; a connection that is dialled and a program that is started are new; and once
//! everything is gone, nothing is left but plugins that have announced themselves.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plugind::config::{Distrust, HANDLER_TIMEOUT};
use plugind::handler::{
    AcceptHandler, Answer, Context, DialError, EffectId, ExecHandler, HandlerTable, Plugin,
    PluginHandler, ProgramEnd, ProgramOutcome, Reason, Ticket, csi, device, dra,
};
use plugind::http2::Endpoint as _;
use plugind::manager::{
    AnnouncementId, ConnectionEvent, ConnectionId, Input as Event, Manager, OnDown, Output, Process,
};
use plugind::proto::pluginregistration::PluginInfo;
use plugind::time::Time;
use plugind::watch::Identity;
use prost::Message as _;

use super::input::Input;
use super::wire::{self, DATA, END_STREAM};

/// Plays the inputs.
pub fn check(bytes: &[u8]) {
    let open = Questions::default();
    let mut handlers = HandlerTable::new();
    handlers.add([csi::TYPE], Asker(open.clone()));
    handlers.add([dra::TYPE], ExecHandler::new("/bin/true"));
    handlers.add([device::TYPE], AcceptHandler);
    let mut play = Play {
        manager: Manager::new(handlers),
        open,
        connections: Vec::new(),
        dialled: Vec::new(),
        programs: Vec::new(),
        running: BTreeSet::new(),
        calls: 0,
        now: Time::ZERO,
    };
    let mut input = Input::new(bytes);
    for _ in 0..MOST_INPUTS {
        if input.is_empty() {
            break;
        }
        play.step(&mut input);
        play.follow();
    }
    play.end();
}

/// The manager, and all that it has ever asked for.
struct Play {
    manager: Manager,
    open: Questions,
    connections: Vec<ConnectionId>,
    /// Those whose dial has had no result.
    dialled: Vec<ConnectionId>,
    programs: Vec<EffectId>,
    /// The programs that have not ended.
    running: BTreeSet<EffectId>,
    calls: u64,
    now: Time,
}

/// The questions that were left open.
type Questions = Arc<Mutex<Vec<Ticket>>>;

/// A handler that leaves every question open.
struct Asker(Questions);

impl Asker {
    fn ask(&self, context: &Context<'_>) -> Answer {
        let mut open = self.0.lock().expect("no panic under the lock");
        open.extend(context.ticket());
        Answer::Pending
    }
}

impl PluginHandler for Asker {
    fn validate(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.ask(context)
    }

    fn register(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.ask(context)
    }

    fn deregister(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.ask(context)
    }
}

impl Play {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(24) {
            0 => self.wait(input.time(&WAITS)),
            1 => {
                let at = self.manager.poll_timeout();
                self.now = at.map_or(self.now, |(at, _)| at.max(self.now));
                self.wait(Duration::ZERO);
            }
            2 => {
                let grace = OnDown::Deregister(input.time(&WAITS));
                self.manager.set_on_down(input.pick(&[OnDown::Keep, grace]));
                self.pass(Event::Reconsider);
            }
            3 => {
                self.manager
                    .set_descriptor_limit(input.pick(&[0, 30, 1024]));
                let budget = input.pick(&[1 << 20, 1 << 24]);
                self.manager.set_memory_budget(budget);
            }
            4 => {
                let is_odd = input.coin();
                self.manager.retry(&|_| is_odd, self.now);
            }
            5 => {
                let (kind, name) = (input.pick(&KINDS), input.pick(&NAMES));
                // It is refused unless the plugin is down.
                let _forgotten = self.manager.forget(kind, name, self.now);
            }
            6..12 => self.exchange(input),
            _ => {
                if let Some(event) = self.event(input) {
                    self.pass(event);
                }
            }
        }
        self.manager.check_invariants();
    }

    /// Returns an event; `None` if it would be about something that has never existed.
    fn event(&mut self, input: &mut Input<'_>) -> Option<Event> {
        let path: Arc<Path> = Path::new(input.pick(&PATHS)).into();
        let (number, choice) = (input.below(8), input.below(24));
        let conn = last(&self.connections, number);
        let id = AnnouncementId(self.calls.saturating_sub(number as u64));
        let uid = input.pick(&[0, 0, 1000]);
        let process = Some(Process { pid: Some(7), uid });
        Some(match choice {
            0..4 => Event::Found {
                path,
                identity: Identity {
                    device: 1,
                    inode: number as u64 / 4,
                    btime: 0,
                },
            },
            4 | 5 => Event::Lost { path },
            6 => {
                self.calls += 1;
                Event::Announced {
                    id: AnnouncementId(self.calls),
                    plugin: Box::new(announced(input, path)),
                    caller: process,
                }
            }
            7 => Event::CallEnded { id },
            8..14 => {
                let connected = ConnectionEvent::Connected(process);
                Event::Connection(self.take_dialled(number)?, connected)
            }
            14 => {
                let error = ERRORS[number % ERRORS.len()].clone();
                let failed = ConnectionEvent::DialFailed(error);
                Event::Connection(self.take_dialled(number)?, failed)
            }
            15 => Event::Connection(conn?, ConnectionEvent::Closed),
            16 => Event::Connection(conn?, ConnectionEvent::Watched),
            17 => Event::Connection(conn?, ConnectionEvent::ProcessEnded),
            18 => Event::Distrusted(conn?, Distrust::User(uid)),
            19 | 20 => {
                let id = last(&self.programs, number)?;
                self.running.remove(&id);
                let end = ProgramEnd::Exited(input.pick(&[0, 0, 1]));
                let outcome = ProgramOutcome::silent(end);
                Event::ProgramEnded { id, outcome }
            }
            21 | 22 => Event::Answered {
                ticket: last(&self.open.lock().expect("no panic"), number)?,
                result: input
                    .pick(&[true, true, false])
                    .then_some(())
                    .ok_or_else(no),
            },
            _ if number == 0 => Event::Stop,
            _ => Event::Reconsider,
        })
    }

    /// Removes and returns a connection whose dial ends: once, as the daemon reports it.
    fn take_dialled(&mut self, number: usize) -> Option<ConnectionId> {
        let conn = last(&self.dialled, number)?;
        self.dialled.retain(|it| *it != conn);
        Some(conn)
    }

    fn pass(&mut self, event: Event) {
        self.manager.handle_input(event, self.now);
    }

    /// Has the peer of a connection read what was written, and respond, mostly as a plugin does.
    fn exchange(&mut self, input: &mut Input<'_>) {
        let Some(conn) = last(&self.connections, input.below(8)) else {
            return;
        };
        let now = self.now;
        let stream = input.pick(&[1, 1, 1, 3, 5]);
        let octets = match input.below(8) {
            0 => input.short().to_vec(),
            1 => wire::settings(&[]),
            2 => wire::message(&[]),
            _ => answer(stream, &info(input).encode_to_vec()),
        };
        let Some(end) = self.manager.endpoint(conn) else {
            return;
        };
        end.sent(end.transmit().len(), now);
        if input.below(16) == 0 {
            end.eof(now);
        } else {
            end.receive_from(&octets, now);
        }
        self.manager.handle_io(conn, now);
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.manager.handle_timeout(self.now);
        let next = self.manager.poll_timeout();
        assert!(next.is_none_or(|(at, _)| at > self.now), "{next:?}");
    }

    /// Carries out the outputs, except for what an input has to answer.
    fn follow(&mut self) {
        for _ in 0..MOST_OUTPUTS {
            let Some(output) = self.manager.poll_output() else {
                return;
            };
            match output {
                Output::Dial { conn, .. } => {
                    assert!(!self.connections.contains(&conn), "{conn} is not new");
                    self.connections.push(conn);
                    self.dialled.push(conn);
                }
                Output::Resume(conn) => self.manager.handle_io(conn, self.now),
                Output::Spawn { id, .. } => {
                    assert!(!self.programs.contains(&id), "{id:?} is not new");
                    self.programs.push(id);
                    self.running.insert(id);
                }
                Output::Kill(id) => self.end_program(id),
                _ => {}
            }
        }
        panic!("outputs without end");
    }

    fn end_program(&mut self, id: EffectId) {
        if self.running.remove(&id) {
            let outcome = ProgramOutcome::silent(ProgramEnd::TimedOut);
            self.pass(Event::ProgramEnded { id, outcome });
        }
    }

    /// Removes everything, and waits until nothing is left to do.
    fn end(mut self) {
        for path in PATHS {
            let path = Path::new(path).into();
            self.pass(Event::Lost { path });
        }
        for _ in 0..ROUNDS_TO_END {
            self.follow();
            self.wait(HANDLER_TIMEOUT);
            while let Some(id) = self.running.first().copied() {
                self.end_program(id);
                self.follow();
            }
        }
        // Plugins are left to the next daemon.
        let is_stopped = self.manager.is_stopped();
        for socket in self.manager.sockets() {
            let desired = socket.desired().map(|it| it.identity);
            let registered = socket.registered().map(|it| it.identity);
            let is_announced = desired
                .or(registered)
                .is_some_and(|it| it.device == ANNOUNCED);
            let is_left = is_stopped && registered.is_some();
            assert!(is_announced || is_left, "{socket:?}");
        }
    }
}

/// Returns one of the last elements.
fn last<T: Copy>(from: &[T], number: usize) -> Option<T> {
    from.iter().rev().nth(number).copied()
}

fn no() -> Reason {
    Reason::new("no")
}

/// Returns a plugin that announces itself at a path.
fn announced(input: &mut Input<'_>, path: Arc<Path>) -> Plugin {
    let info = PluginInfo {
        r#type: device::TYPE.into(),
        endpoint: path.display().to_string(),
        ..info(input)
    };
    Plugin::from_info(info, path).expect("it has a name")
}

/// Returns the description of a plugin.
fn info(input: &mut Input<'_>) -> PluginInfo {
    PluginInfo {
        r#type: input.pick(&KINDS).into(),
        name: input.pick(&NAMES).into(),
        endpoint: input.pick(&["", "", "/p/one.sock"]).into(),
        supported_versions: vec![input.pick(&["1.0.0", "v1beta1"]).into()],
    }
}

/// Returns the frames of a server that answers its first or a later call with a message.
fn answer(stream: u32, message: &[u8]) -> Vec<u8> {
    let greeting = if stream == 1 {
        wire::settings(&[])
    } else {
        Vec::new()
    };
    let message = wire::frame(DATA, 0, stream, &wire::message(message));
    let head = wire::headers(stream, &wire::ANSWER, 0);
    let trailer = wire::headers(stream, &[(b"grpc-status", b"0")], END_STREAM);
    [greeting, head, message, trailer].concat()
}

/// The device of a plugin that has announced itself, which has no socket of its own.
const ANNOUNCED: u64 = u64::MAX;

const PATHS: [&str; 4] = ["/r/a.sock", "/r/b.sock", "/r/c.sock", "/d/d.sock"];

const KINDS: [&str; 4] = [csi::TYPE, dra::TYPE, device::TYPE, "Other"];

const NAMES: [&str; 2] = ["a.example.com", "example.com/b"];

const ERRORS: [DialError; 5] = [
    DialError::Refused,
    DialError::Busy,
    DialError::Gone,
    DialError::Replaced,
    DialError::NoDescriptors,
];

/// The times that pass (milliseconds).
const WAITS: [u64; 6] = [0, 10, 1000, 11_000, 61_000, 301_000];

/// The most inputs that are played.
const MOST_INPUTS: usize = 200;

/// More outputs than there are at one moment for a few sockets.
const MOST_OUTPUTS: usize = 10_000;

/// Enough for a question about each plugin to time out, and those that follow it.
const ROUNDS_TO_END: usize = 20;
