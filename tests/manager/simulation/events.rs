//! The events of the simulation: what happens on the node, in the network and to the daemon.

use std::time::Duration;

use plugind::config::{DEFAULT_TYPES, HANDLER_TIMEOUT};
use plugind::handler::Reason;
use plugind::manager::Input;

use super::Simulation;
use crate::node::ROOT;
use crate::script::{Answer, Script};

/// Few paths and few names, so that they often collide.
pub(super) const PATHS: [&str; 7] = [
    "/r/a.sock",
    "/r/b.sock",
    "/r/d/a.sock",
    "/r/d/b.sock",
    "/r/d/e/a.sock",
    "/r/f/a.sock",
    "/r/.hidden.sock",
];
/// More of them, in another directory, in runs with faults.
const MORE: [&str; 2] = ["/s/a.sock", "/s/b.sock"];

const DIRECTORIES: [&str; 4] = ["/r/d", "/r/d/e", "/r/f", "/r/.git"];
pub(super) const NAMES: [&str; 3] = ["one", "two", "three"];

/// An event: its description, and what causes it.
pub(super) type Happening = (&'static str, fn(&mut Simulation));

/// All events, each with its weight relative to the others.
pub(super) const HAPPENINGS: [(u64, Happening); 20] = [
    (4, ("a plugin binds its socket", Simulation::bind)),
    (2, ("a path is removed", Simulation::remove)),
    (2, ("a socket is linked", Simulation::link)),
    (2, ("a directory is created", Simulation::make_directory)),
    (2, ("a path is moved", Simulation::rename)),
    (2, ("two paths are exchanged", Simulation::exchange)),
    (1, ("the root is removed", Simulation::remove_root)),
    (1, ("watches are used up, or freed", Simulation::use_up)),
    (8, ("the watch gets an event", Simulation::hear)),
    (2, ("the watch gets all events", Simulation::hear_all)),
    (24, ("data in flight arrives", Simulation::deliver)),
    (2, ("a connection is closed", Simulation::break_connection)),
    (2, ("a plugin is killed", Simulation::kill)),
    (1, ("another plugin listens", Simulation::listen)),
    (3, ("a handler answers", Simulation::answer)),
    (1, ("an answer is too late", Simulation::answer_too_late)),
    (3, ("a moment passes", Simulation::wait)),
    (1, ("a long time passes", Simulation::wait_long)),
    (1, ("the handlers change", Simulation::reconsider)),
    (2, ("the state file is written", Simulation::save)),
];

impl Simulation {
    pub(super) fn path(&mut self) -> &'static str {
        let more: &[_] = if self.faults.is_some() { &MORE } else { &[] };
        let all = [&PATHS[..], more].concat();
        self.rng.pick(&all).copied().expect("the list is not empty")
    }

    fn anything(&mut self) -> &'static str {
        let all = [&PATHS[..], &DIRECTORIES[..]].concat();
        self.rng.pick(&all).copied().expect("the list is not empty")
    }

    pub(super) fn bind(&mut self) {
        let (path, script) = (self.path(), self.script());
        let moves_over = self.rng.one_in(4);
        self.say(format_args!("  {path} {moves_over}: {script:?}"));
        self.node.bind(path, script, moves_over);
    }

    pub(super) fn remove(&mut self) {
        let path = self.anything();
        self.say(format_args!("  {path}"));
        self.node.remove(path);
    }

    pub(super) fn link(&mut self) {
        let (from, to) = (self.path(), self.path());
        self.say(format_args!("  {from} = {to}"));
        self.node.link(from, to);
        let identity = self.node.world.identity(std::path::Path::new(from));
        let paths = self
            .node
            .tree
            .sockets()
            .filter(|(_, it)| Some(*it) == identity);
        if paths.count() > 2 {
            self.many_paths.extend(identity);
        }
    }

    pub(super) fn make_directory(&mut self) {
        let path = *self.rng.pick(&DIRECTORIES).expect("the list is not empty");
        self.say(format_args!("  {path}"));
        self.node.make_directory(path);
    }

    pub(super) fn rename(&mut self) {
        let (from, to) = (self.anything(), self.anything());
        let to = (!self.rng.one_in(4)).then_some(to);
        self.say(format_args!("  {from} -> {to:?}"));
        self.node.rename(from, to);
    }

    pub(super) fn exchange(&mut self) {
        let (a, b) = (self.anything(), self.anything());
        self.say(format_args!("  {a} <-> {b}"));
        self.node.exchange(a, b);
    }

    pub(super) fn remove_root(&mut self) {
        self.node.remove(ROOT);
        if self.rng.one_in(2) {
            self.node.make_directory(ROOT);
        }
    }

    fn use_up(&mut self) {
        self.node.tree.is_used_up = self.rng.one_in(2);
    }

    fn hear(&mut self) {
        if self.node.is_starting && self.rng.one_in(2) {
            self.node.scan_next();
        } else {
            self.node.hear();
        }
    }

    fn hear_all(&mut self) {
        self.node.finish_start();
        self.node.hear_all();
    }

    fn break_connection(&mut self) {
        let conns = self.node.world.open_connections();
        if let Some(conn) = self.rng.pick(&conns) {
            self.say(format_args!("  {conn:?}"));
            self.node.world.break_connection(*conn);
        }
    }

    /// Kills a plugin, preferably a registered one.
    pub(super) fn kill(&mut self) {
        let registered = self.node.world.manager.registered();
        let registered = registered.filter_map(|it| it.plugin.socket.to_str().map(str::to_owned));
        let registered: Vec<_> = registered.collect();
        let path = match self.rng.pick(&registered) {
            Some(path) => path.clone(),
            None => self.path().to_owned(),
        };
        self.say(format_args!("  {path}"));
        self.node.world.kill(&path);
    }

    /// Lets another process listen on a socket.
    pub(super) fn listen(&mut self) {
        let (path, script) = (self.path(), self.script());
        self.say(format_args!("  {path}: {script:?}"));
        self.node.listen(path, script);
    }

    fn wait(&mut self) {
        let by = Duration::from_millis(self.rng.below(0..3000));
        self.node.advance(by);
    }

    fn wait_long(&mut self) {
        self.node.advance(HANDLER_TIMEOUT);
    }

    fn reconsider(&mut self) {
        let now = self.node.world.now;
        let manager = &mut self.node.world.manager;
        if self.rng.one_in(2) {
            self.oracle = self.oracle.next();
            manager.add_handler(self.types.clone(), self.oracle.clone(), now);
        } else {
            manager.handle_input(Input::Reconsider, now);
        }
        self.dials.clear();
    }

    /// Returns a random plugin for a new socket, or `None` if no process listens on it.
    fn script(&mut self) -> Option<Script> {
        if self.rng.one_in(6) {
            return None;
        }
        let unknown = self.rng.one_in(8);
        let kind = if unknown { "Unknown" } else { DEFAULT_TYPES[0] };
        let name = *self.rng.pick(&NAMES)?;
        let mut script = Script::good(kind, if self.rng.one_in(10) { "" } else { name });
        let endpoint = *self.rng.pick(&["", "", "/p/one.sock", "/p/two.sock"])?;
        script.info.endpoint = endpoint.into();
        script.get_info = self.misbehave();
        script.notify = self.misbehave();
        if self.rng.one_in(12) {
            script.babble = Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
        }
        Some(script)
    }

    fn misbehave(&mut self) -> Answer {
        match self.rng.below(0..16) {
            0 => Answer::Status(12, "unimplemented"),
            1 => Answer::Octets(vec![0xff]),
            2 => Answer::Silence,
            3 => Answer::Close,
            _ => Answer::Good,
        }
    }

    /// Delivers what is in flight first on one connection, perhaps only a part of it.
    fn deliver(&mut self) {
        let conns = self.node.world.busy_connections();
        if let Some(conn) = self.rng.pick(&conns).copied() {
            let at = usize::try_from(self.rng.below(1..40)).expect("a small number");
            self.node.world.split(conn, at);
            self.say(format_args!("  {conn:?}"));
            self.node.world.deliver(conn);
        }
    }

    /// Answers a question that a handler left open.
    pub(super) fn answer(&mut self) {
        let mut state = self.oracle.lock();
        let open: Vec<_> = state
            .open
            .iter()
            .map(|(socket, (ticket, ..))| (socket.clone(), *ticket))
            .collect();
        let Some((socket, ticket)) = self.rng.pick(&open) else {
            return;
        };
        let yes = state.is_honest || state.rng.below(0..3) > 0;
        let question = state.close(socket, self.node.world.now);
        state.answered(question, socket, yes);
        drop(state);
        self.say(format_args!("  {question} {socket:?}: {yes}"));
        let result = if yes {
            Ok(())
        } else {
            Err(Reason::new("no, after all"))
        };
        self.node.world.answer(*ticket, result);
    }

    /// Answers a question that was abandoned.
    fn answer_too_late(&mut self) {
        let stale = self.oracle.lock().stale.pop();
        if let Some(ticket) = stale {
            self.node.world.answer(ticket, Ok(()));
        }
    }
}
