//! The mistakes that `make mistakes` plants. `tests/tidy` checks that each fits the source.

#![allow(dead_code, reason = "each user needs a part of it")]

/// A replacement in one file, which must match exactly once.
pub(crate) struct Mistake {
    pub(crate) what: &'static str,
    pub(crate) file: &'static str,
    pub(crate) right: &'static str,
    pub(crate) wrong: &'static str,
    pub(crate) finder: Finder,
}

/// The tests that should find a mistake.
#[derive(Clone, Copy)]
pub(crate) enum Finder {
    /// The simulation, which found it with this seed.
    Simulation { seed: u64 },
    /// The fuzz targets, on their corpus and its mutations.
    FuzzTargets,
}

pub(crate) const MISTAKES: [Mistake; 31] = [
    Mistake {
        what: "two operations speak to a handler about one name",
        file: "src/manager/names.rs",
        right: "queue.iter().all(|(_, lock)| *lock == Lock::Stalled)",
        wrong: "queue.iter().all(|_| true)",
        finder: Finder::Simulation { seed: 93 },
    },
    Mistake {
        what: "a name that is released is given to no other operation",
        file: "src/manager/names.rs",
        right: "(lock == Lock::Held).then(|| waiters.next()).flatten();",
        wrong: "(lock != Lock::Held).then(|| waiters.next()).flatten();",
        finder: Finder::Simulation { seed: 93 },
    },
    Mistake {
        what: "a plugin that is down is not reported",
        file: "src/manager/outcomes.rs",
        right: "self.context.emit(PluginEvent::of_plugin(plugin, down));",
        wrong: "let _ = down;",
        finder: Finder::Simulation { seed: 21 },
    },
    Mistake {
        what: "a plugin that is deregistered stays the one to use of its name",
        file: "src/manager/commands.rs",
        right: "if let Some(left) = self.take_registered(context) {",
        wrong: "if let Some(left) = self.take_registered(context).filter(|_| false) {",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "a plugin enters the actual state too late for a removal in between",
        file: "src/manager/operation/steps.rs",
        right: "self.commands.push(Command::EnterActual(plugin.clone()));",
        wrong: "",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "a handler is not told that its question is abandoned",
        file: "src/manager/operation/steps.rs",
        right: ".extend([abandon, Command::Hangup, Command::LeaveActual]);",
        wrong: ".extend([Command::Hangup, Command::LeaveActual]);",
        finder: Finder::Simulation { seed: 39 },
    },
    Mistake {
        what: "a plugin that could not be registered stays in the actual state",
        file: "src/manager/operation/steps.rs",
        right: "self.commands.push(Command::LeaveActual);",
        wrong: "",
        finder: Finder::Simulation { seed: 82 },
    },
    Mistake {
        what: "a failed registration is tried again at once",
        file: "src/manager/desired.rs",
        right: "self.backoff.fail(now);\n        }\n        if let (Failure::Refused(refusal)",
        wrong: "self.backoff.succeed();\n        }\n        if let (Failure::Refused(refusal)",
        finder: Finder::Simulation { seed: 8 },
    },
    Mistake {
        what: "a socket in the place of another one is taken for the same",
        file: "src/manager/sockets.rs",
        right: ".take_if(|before| before.identity != identity);",
        wrong: ".take_if(|before| before.identity.device != identity.device);",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "the end of a backoff is forgotten",
        file: "src/manager/desired.rs",
        right: "let at = self.redial_at.or_else(|| self.backoff.until());",
        wrong: "let at = self.redial_at;",
        finder: Finder::Simulation { seed: 8 },
    },
    Mistake {
        what: "a socket whose name starts with a dot counts",
        file: "src/watch/mod.rs",
        right: "    name.as_bytes().starts_with(b\".\")",
        wrong: "    name.as_bytes().starts_with(b\"..\")",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "the source of liveness of a plugin that has gone is kept",
        file: "src/manager/router.rs",
        right: "left.health.liveness.as_mut().filter(|_| !is_kept)",
        wrong: "left.health.liveness.as_mut().filter(|_| false)",
        finder: Finder::Simulation { seed: 93 },
    },
    Mistake {
        what: "a plugin that is down is not asked again",
        file: "src/manager/registered.rs",
        right: "self.check_at = self.checks.until();",
        wrong: "",
        finder: Finder::Simulation { seed: 1721 },
    },
    Mistake {
        what: "an overflow of the queue is ignored",
        file: "src/watch/mod.rs",
        right: "Event::Overflowed => self.rescan_all(now),",
        wrong: "Event::Overflowed => {}",
        finder: Finder::Simulation { seed: 96 },
    },
    Mistake {
        what: "a directory that is moved leaves its sockets behind",
        file: "src/watch/mod.rs",
        right: "let removed = self.tree.remove_child(dir, name);\n        self.announce(removed, now);",
        wrong: "drop(self.tree.remove_child(dir, name));",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "deregister is asked of a handler that has not validated the plugin",
        file: "src/manager/router.rs",
        right: "            active.handler = Some(*handler);\n",
        wrong: "",
        finder: Finder::Simulation { seed: 21 },
    },
    Mistake {
        what: "an effect is left open after deregistration",
        file: "src/manager/host/uses.rs",
        right: "self.cancel_all_of(socket.owner(), context);",
        wrong: "",
        finder: Finder::Simulation { seed: 5 },
    },
    Mistake {
        what: "an effect is open while its plugin is deregistered",
        file: "src/manager/host/mod.rs",
        right: "if question == Question::Deregister {\n            self.cancel_all_of",
        wrong: "if false {\n            self.cancel_all_of",
        finder: Finder::Simulation { seed: 262 },
    },
    Mistake {
        what: "a name is not released when the operation ends",
        file: "src/manager/router.rs",
        right: "let next = before.and_then(|before| self.names.release(&before, id));",
        wrong: "let next = before.and_then(|before| self.names.stall(&before, id));",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "the release of a permit is applied twice",
        file: "src/manager/router.rs",
        right: "self.limiter.release(id);\n                socket.applied.permit = Permit::None;",
        wrong: "self.limiter.release(id);",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "the deadline of a call is left out of the deadline of its socket",
        file: "src/manager/socket.rs",
        right: "deadlines[2] = active.connection_deadline();",
        wrong: "deadlines[2] = None;",
        finder: Finder::Simulation { seed: 93 },
    },
    Mistake {
        what: "a restored socket acted on before its directory was scanned",
        file: "src/manager/socket.rs",
        right: "if registered.is_some_and(Registered::is_restored) {",
        wrong: "if registered.is_some_and(|it| it.is_restored() && false) {",
        finder: Finder::Simulation { seed: 662 },
    },
    Mistake {
        what: "a restored plugin is forgotten when another plugin answers on its socket",
        file: "src/manager/outcomes.rs",
        right: "desired.and_then(|it| it.restored.take()) {",
        wrong: "desired.and_then(|it| it.restored.take()).filter(|_| false) {",
        finder: Finder::Simulation { seed: 150 },
    },
    Mistake {
        what: "a restored plugin is deregistered twice",
        file: "src/manager/commands.rs",
        right: "desired.restored.take_if(|known| *known == plugin);",
        wrong: "",
        finder: Finder::Simulation { seed: 971 },
    },
    Mistake {
        what: "a plugin that waits to be deregistered is not saved",
        file: "src/manager/operation/mod.rs",
        right: "State::AwaitingLock(plugin, Purpose::Deregister) => Some(plugin),\n            _",
        wrong: "State::AwaitingLock(plugin, Purpose::Observe) => Some(plugin),\n            _",
        finder: Finder::Simulation { seed: 3399 },
    },
    Mistake {
        what: "a stream takes more content than its window allows",
        file: "src/http2/stream.rs",
        right: ".map_err(|_| StreamError::WindowExceeded)?;",
        wrong: ".unwrap_or_default();",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may have one frame too many",
        file: "src/http2/block.rs",
        right: "if self.continuations > config::MAX_CONTINUATIONS {",
        wrong: "if self.continuations > config::MAX_CONTINUATIONS + 1 {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may be longer than its limit",
        file: "src/http2/block.rs",
        right: "if size > config::MAX_HEADER_BLOCK {",
        wrong: "if size > 2 * config::MAX_HEADER_BLOCK {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may decode to anything",
        file: "src/http2/fields.rs",
        right: "self.size > config::MAX_DECODED_HEADERS",
        wrong: "self.size == usize::MAX",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "calls wait for streams that a GOAWAY has refused",
        file: "src/grpc/client.rs",
        right: "http2::Event::GoAway { last_stream, .. } => self.refuse_above(last_stream, now),",
        wrong: "http2::Event::GoAway { .. } => {}",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "an entry of the dynamic table is evicted too early",
        file: "src/hpack/table.rs",
        right: "while self.size > size {",
        wrong: "while self.size >= size {",
        finder: Finder::FuzzTargets,
    },
];
