//! The mistakes that `make full ONLY=mistakes` plants.
//!
//! The comment `// mutation: WHAT` marks the statement that a mistake replaces. `tests/tidy` checks
//! that every mistake has its mark.

#![allow(dead_code, reason = "a check of the marks plants nothing")]

/// A mistake.
pub(crate) struct Mistake {
    /// What it makes wrong, as in its mark.
    pub(crate) what: &'static str,
    /// What replaces the statement.
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

impl Mistake {
    /// Returns a file with the mistake, or `None` if it does not have the mark once.
    pub(crate) fn planted_in(&self, source: &str) -> Option<String> {
        let mark = format!("// mutation: {}\n", self.what);
        let (before, after) = source.split_once(&mark)?;
        let mut end = 0;
        for line in after.split_inclusive('\n') {
            // The end of a block ends its last expression.
            if end > 0 && line.trim_start().starts_with([')', '}']) {
                break;
            }
            end += line.len();
            if line.trim_end().ends_with([';', ',', '{', '}']) {
                break;
            }
        }
        let is_once = !after.contains(&mark);
        is_once.then(|| format!("{before}{}\n{}", self.wrong, &after[end..]))
    }
}

pub(crate) const MISTAKES: [Mistake; 51] = [
    Mistake {
        what: "two operations speak to a handler about one name",
        wrong: "let is_free = queue.iter().all(|_| true);",
        finder: Finder::Simulation { seed: 93 },
    },
    Mistake {
        what: "a name that is released is given to no other operation",
        wrong: "Lock::Held => None,",
        finder: Finder::Simulation { seed: 93 },
    },
    Mistake {
        what: "a plugin that is down is not reported",
        wrong: "let _ = down;",
        finder: Finder::Simulation { seed: 21 },
    },
    Mistake {
        what: "a plugin that is deregistered stays the one to use of its name",
        wrong: "let promoted = None;",
        finder: Finder::Simulation { seed: 0 },
    },
    Mistake {
        what: "a plugin enters the actual state too late for a removal in between",
        wrong: "",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "a handler is not told that its question is abandoned",
        wrong: "",
        finder: Finder::Simulation { seed: 39 },
    },
    Mistake {
        what: "a plugin that could not be registered stays in the actual state",
        wrong: "",
        finder: Finder::Simulation { seed: 82 },
    },
    Mistake {
        what: "a failed registration is tried again at once",
        wrong: "self.backoff.reset();",
        finder: Finder::Simulation { seed: 8 },
    },
    Mistake {
        what: "a socket in the place of another one is taken for the same",
        wrong: "let before = socket.desired.take_if(|before| before.identity.device != identity.device);",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "the end of a backoff is forgotten",
        wrong: "None => return None,",
        finder: Finder::Simulation { seed: 8 },
    },
    Mistake {
        what: "a socket whose name starts with a dot counts",
        wrong: "name.as_bytes().starts_with(b\"..\")",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "the source of liveness of a plugin that has gone is kept",
        wrong: "let _ = liveness;",
        finder: Finder::Simulation { seed: 93 },
    },
    Mistake {
        what: "a plugin that is down is not asked again",
        wrong: "",
        finder: Finder::Simulation { seed: 1721 },
    },
    Mistake {
        what: "an overflow of the queue is ignored",
        wrong: "Input::Event(Event::Overflowed) => {}",
        finder: Finder::Simulation { seed: 96 },
    },
    Mistake {
        what: "a call that is overtaken by another one is not answered",
        wrong: "",
        finder: Finder::Simulation { seed: 0 },
    },
    Mistake {
        what: "an older endpoint of a name that is announced again stays",
        wrong: "",
        finder: Finder::Simulation { seed: 7 },
    },
    Mistake {
        what: "a plugin that is announced again counts as the same one",
        wrong: "let identity = Identity::of_announcement(0);",
        finder: Finder::Simulation { seed: 2 },
    },
    Mistake {
        what: "a plugin that announced itself and was refused is tried again",
        wrong: "let _ = context;",
        finder: Finder::Simulation { seed: 0 },
    },
    Mistake {
        what: "a directory that is moved leaves its sockets behind",
        wrong: "drop(removed);",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "deregister is asked of a handler that has not validated the plugin",
        wrong: "let _ = (handler, &execution.active);",
        finder: Finder::Simulation { seed: 21 },
    },
    Mistake {
        what: "an effect is left open after deregistration",
        wrong: "let _ = context;",
        finder: Finder::Simulation { seed: 5 },
    },
    Mistake {
        what: "an effect is open while its plugin is deregistered",
        wrong: "if false {",
        finder: Finder::Simulation { seed: 1310 },
    },
    Mistake {
        what: "a name is not released when the operation ends",
        wrong: "let next = manager.names.let_others_pass(&before, id);",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "the release of a permit is applied twice",
        wrong: "",
        finder: Finder::Simulation { seed: 1 },
    },
    Mistake {
        what: "the deadline of a call is left out of the deadline of its socket",
        wrong: "deadlines[2] = None;",
        finder: Finder::Simulation { seed: 93 },
    },
    Mistake {
        what: "a restored socket acted on before its directory was scanned",
        wrong: "if registered.is_restored() && false {",
        finder: Finder::Simulation { seed: 662 },
    },
    Mistake {
        what: "a restored plugin is forgotten when another plugin answers on its socket",
        wrong: "let restored = desired.and_then(|it| it.restored.take()).filter(|_| false);",
        finder: Finder::Simulation { seed: 150 },
    },
    Mistake {
        what: "a restored plugin is deregistered twice",
        wrong: "let _ = desired;",
        finder: Finder::Simulation { seed: 971 },
    },
    Mistake {
        what: "a plugin that waits to be deregistered is not saved",
        wrong: "Self::AwaitingLock(plugin, Purpose::Validate(Mode::Observe)) => Some(plugin),",
        finder: Finder::Simulation { seed: 3399 },
    },
    Mistake {
        what: "a socket that waits for a descriptor never gets one",
        wrong: "let ready = self.limiter.dequeue_ready(room.min(0));",
        finder: Finder::Simulation { seed: 20 },
    },
    Mistake {
        what: "a permit that was held for long sets a deadline in the past",
        wrong: "if false {",
        finder: Finder::Simulation { seed: 20 },
    },
    Mistake {
        what: "a list of devices is kept for the newest plugin of its name",
        wrong: "let index = index_of(&entries, plugin)?.max(entries.len() - 1);",
        finder: Finder::Simulation { seed: 34 },
    },
    Mistake {
        what: "a plugin stays with a handler that was replaced",
        wrong: "",
        finder: Finder::Simulation { seed: 51 },
    },
    Mistake {
        what: "the state file is not written after a plugin has left the actual state",
        wrong: "",
        finder: Finder::Simulation { seed: 42 },
    },
    Mistake {
        what: "a plugin that announced itself is awaited like a socket after a restart",
        wrong: "announced: false,",
        finder: Finder::Simulation { seed: 1244 },
    },
    Mistake {
        what: "a file system that answers again is not scanned",
        wrong: "Input::Remounted { .. } => {}",
        finder: Finder::Simulation { seed: 109 },
    },
    Mistake {
        what: "a program that was killed is not undone",
        wrong: "ProgramEnd::TimedOut",
        finder: Finder::Simulation { seed: 169 },
    },
    Mistake {
        what: "a program that is owed is forgotten in a restart",
        wrong: "drop(Work::Resume(plugin));",
        finder: Finder::Simulation { seed: 250 },
    },
    Mistake {
        what: "a socket in the queue is started out of turn",
        wrong: "if has_descriptors && limiter.make_permit_available(now) {",
        finder: Finder::Simulation { seed: 11121 },
    },
    Mistake {
        what: "a program is started although its plugin is not saved",
        wrong: "let is_add = run.as_deref().is_some_and(|run| run.action != \"add\");",
        finder: Finder::Simulation { seed: 28 },
    },
    Mistake {
        what: "a `del` that is yet to be started is not owed",
        wrong: "owed: None,",
        finder: Finder::Simulation { seed: 25 },
    },
    Mistake {
        what: "a stream takes more content than its window allows",
        wrong: "self.receive.receive(cost).unwrap_or_default();",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may have one frame too many",
        wrong: "if self.continuations > config::MAX_CONTINUATIONS + 1 {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may be longer than its limit",
        wrong: "if size > 2 * config::MAX_HEADER_LIST {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may decode to anything",
        wrong: "if section.size == usize::MAX {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "calls wait for streams that a GOAWAY has refused",
        wrong: "http2::Event::GoAway { .. } => {}",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "an entry of the dynamic table is evicted too early",
        wrong: "while self.size >= size {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "the response to HEAD has a body",
        wrong: "if true {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a response that follows changes has a length",
        wrong: "encode_head(Status::OK, ContentType::JSON, \"Content-Length: 0\\r\\n\")",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a value that begins with = is printed behind a blank",
        wrong: "[b'#', ..] => \" =\",",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "all problems of a configuration are listed",
        wrong: "if count == usize::MAX {",
        finder: Finder::FuzzTargets,
    },
];
