//! One row: an attack, what it did before, and what the daemon has to withstand.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use plugind::config::STOP_GRACE;
use rustix::process::setpriority_process;

use crate::daemon::{Daemon, share_processors, use_all_processors};
use crate::honest::Times;

/// An attack by its name, and what is said of it.
pub(crate) struct Row {
    name: &'static str,
    /// What it did to the daemon before it was withstood.
    before: &'static str,
    options: Vec<OsString>,
    /// What the daemon's shell runs first.
    after: &'static str,
    /// What the attacker's directory holds before anything is measured.
    prepare: fn(&Path),
    /// How often the honest plugin registers in peace, and how often under attack.
    rounds: usize,
    /// Whether the attacker has all processors, and leaves them to others like any process.
    is_greedy: bool,
}

/// What was measured during an attack.
#[derive(Clone, Copy, Debug)]
struct Measured {
    peace: Times,
    attacked: Times,
    /// From SIGTERM until the log says so.
    heard: Duration,
    /// From SIGTERM until the end of the process.
    ended: Duration,
    /// KiB.
    resident: u64,
    /// Octets in a second.
    log_rate: f64,
    longest_turn: Duration,
    /// How much of the time the daemon was kept from work by others. Each turn and each plugin may
    /// have had to wait for as long as all of these waits together.
    delay: Duration,
}

impl Row {
    pub(crate) fn new(name: &'static str, before: &'static str) -> Self {
        Self {
            name,
            before,
            options: Vec::new(),
            after: "true",
            prepare: |_| (),
            rounds: if is_measured() { ROUNDS } else { ROUNDS / 2 },
            is_greedy: false,
        }
    }

    /// Has the daemon run with these options, too.
    #[allow(dead_code, reason = "not every row needs it")]
    pub(crate) fn options<S: Into<OsString>>(
        mut self,
        options: impl IntoIterator<Item = S>,
    ) -> Self {
        self.options.extend(options.into_iter().map(Into::into));
        self
    }

    /// Has the daemon started from a shell that has run this command.
    pub(crate) fn after(mut self, command: &'static str) -> Self {
        self.after = command;
        self
    }

    /// Has the attacker's directory prepared before anything is measured.
    #[allow(dead_code, reason = "not every row needs it")]
    pub(crate) fn prepared(mut self, prepare: fn(&Path)) -> Self {
        self.prepare = prepare;
        self
    }

    /// Has the attack last as long as when it is measured, because it takes time to begin.
    pub(crate) fn long(self) -> Self {
        Self {
            rounds: ROUNDS,
            ..self
        }
    }

    /// Has the attacker use all processors, that of the daemon too, as the scheduler lets it.
    ///
    /// The limits of time are [`GREED`] times the usual ones then, and waits for a processor count.
    /// The daemon gets its share of one only, and a change that is interrupted holds the lock of
    /// its directory while other processes have their share, which is some milliseconds for each: a
    /// look waits for that, and the daemon cannot help it.
    pub(crate) fn greedy(self) -> Self {
        Self {
            is_greedy: true,
            ..self
        }
    }

    /// Attacks a daemon, and checks that it holds what it promises.
    ///
    /// `attack` is called on a thread of its own, with the attacker's directory, which lies in the
    /// watched directory, and goes on until the flag is set. It may return earlier.
    ///
    /// A machine that is busy with something else looks like an attack that succeeds, so there are
    /// [`ATTEMPTS`].
    #[track_caller]
    pub(crate) fn withstand(self, attack: impl Fn(&Path, &AtomicBool) + Sync) {
        let _alone = alone();
        for attempt in 1..=ATTEMPTS {
            let measured = self.measure(&attack);
            let failures = measured.failures(self.is_greedy);
            println!("{}", self.line(&measured));
            if failures.is_empty() {
                return;
            }
            assert!(attempt < ATTEMPTS, "{}: {failures:#?}", self.name);
        }
    }

    fn measure(&self, attack: &(impl Fn(&Path, &AtomicBool) + Sync)) -> Measured {
        share_processors();
        let mut daemon = Daemon::start_after(self.after, &self.options);
        if is_measured() && !self.is_greedy {
            daemon.run_before_all_others();
        }
        let attacker = daemon.root().join("attacker");
        std::fs::create_dir(&attacker).unwrap();
        (self.prepare)(&attacker);
        let peace = Times::measure(daemon.root(), "peace", self.rounds);
        daemon.longest_turn();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let attacking = scope.spawn(|| {
                if self.is_greedy {
                    use_all_processors();
                } else {
                    give_way();
                }
                attack(&attacker, &over);
            });
            let (start, log, delay) = (Instant::now(), daemon.log_len(), daemon.delay());
            let attacked = Times::measure(daemon.root(), "attacked", self.rounds);
            let logged = daemon.log_len() - log;
            let longest_turn = daemon.longest_turn();
            let time = start.elapsed().max(LEAST_LOG_TIME);
            let delay = daemon.delay().saturating_sub(delay);
            let resident = daemon.resident();
            let (heard, ended) = daemon.end_with(Signal::SIGTERM);
            over.store(true, Ordering::Relaxed);
            attacking.join().unwrap();
            Measured {
                peace,
                attacked,
                heard,
                ended,
                resident,
                log_rate: f64::from(u32::try_from(logged).unwrap()) / time.as_secs_f64(),
                longest_turn,
                delay,
            }
        })
    }

    /// The row of the table.
    fn line(&self, measured: &Measured) -> String {
        let Self { name, before, .. } = self;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        format!(
            "| {name} | {before} | p99 {:.1} ms, in peace {:.1} | SIGTERM heard after {:.0} ms, \
             ended after {:.0} | {} KiB | log {:.1} KiB/s | longest turn {:.1} ms | waited {:.1} ms \
             for a processor |",
            milliseconds(measured.attacked.p99),
            milliseconds(measured.peace.p99),
            milliseconds(measured.heard),
            milliseconds(measured.ended),
            measured.resident,
            measured.log_rate / 1024.0,
            milliseconds(measured.longest_turn),
            milliseconds(measured.delay),
        )
    }
}

impl Measured {
    /// What exceeds its limit.
    fn failures(&self, is_greedy: bool) -> Vec<String> {
        let (factor, excused) = if is_greedy {
            (GREED, Duration::ZERO)
        } else {
            (1, self.delay)
        };
        let mut failures = Vec::new();
        let mut check = |is_held: bool, what: &str| {
            if !is_held {
                failures.push(format!("{what}: {self:?}"));
            }
        };
        check(
            self.attacked.p99 <= self.peace.p99 + MAX_DELAY * factor * leniency() + excused,
            "the honest plugin waits",
        );
        check(self.heard <= MAX_HEARD, "SIGTERM is heard late");
        check(self.ended <= STOP_GRACE + MAX_ENDED, "the end takes long");
        check(self.resident < MAX_RESIDENT, "the daemon grows");
        check(self.log_rate <= MAX_LOG_RATE, "the log grows");
        check(
            self.longest_turn <= MAX_TURN * factor * leniency() + excused,
            "a turn takes long",
        );
        failures
    }
}

/// Leaves the processor to the honest plugin whenever that needs it: not the time that it waits for
/// the attacker is to be measured, but the time that it waits for the daemon.
fn give_way() {
    setpriority_process(None, LEAST_PRIORITY).unwrap();
}

/// Rows take turns: what one measures, another one would disturb.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The niceness of the attacker.
const LEAST_PRIORITY: i32 = 19;

/// How many times as long as usual turns and plugins may take beside a greedy attacker: 50 ms and
/// 200 ms.
const GREED: u32 = 10;

/// How often the honest plugin registers in peace, and then under attack.
const ROUNDS: usize = 100;

/// How often a row is tried.
const ATTEMPTS: usize = 3;

/// How much later than in peace the honest plugin may be told.
const MAX_DELAY: Duration = Duration::from_millis(20);

/// How soon the log mentions a signal.
const MAX_HEARD: Duration = Duration::from_millis(100);

/// How much longer than [`STOP_GRACE`] the end may take.
const MAX_ENDED: Duration = Duration::from_secs(1);

/// How much of the daemon may be in memory (KiB).
const MAX_RESIDENT: u64 = 16 * 1024;

/// How much is logged at most (octets in a second).
const MAX_LOG_RATE: f64 = 64.0 * 1024.0;

/// The least time over which the log rate is measured: a burst is allowed.
const LEAST_LOG_TIME: Duration = Duration::from_secs(2);

/// How long one turn of the loop may take.
const MAX_TURN: Duration = Duration::from_millis(5);

/// How many times as long as the limits say turns and plugins may take.
///
/// `make neighbours` holds the binary that ships to the limits, on a machine that does nothing
/// else. Everywhere else a machine that hesitates is not to be taken for a daemon that does: there,
/// these tests notice what makes the daemon deaf, which was a matter of seconds.
pub(crate) fn leniency() -> u32 {
    let is_shipped = env::var_os("PLUGIND_BINARY").is_some() || !cfg!(debug_assertions);
    match (is_measured(), is_shipped) {
        (true, _) => 1,
        (false, true) => 20,
        (false, false) => 100,
    }
}

/// Returns whether the limits are held to the letter.
fn is_measured() -> bool {
    env::var_os("PLUGIND_NEIGHBOURS").is_some()
}
