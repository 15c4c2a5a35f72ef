//! One row: an attack, its former effect, and the limits that the daemon has to keep.

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
use crate::honest::{Times, register};
use crate::support::plugin::Plugin;

/// An attack, with its name and its settings.
pub(crate) struct Row {
    name: &'static str,
    /// The effect on the daemon before it withstood the attack.
    before: &'static str,
    options: Vec<OsString>,
    /// Prepares the attacker's directory before anything is measured.
    prepare: fn(&Path),
    /// The number of plugins in that directory, which are registered before anything is measured.
    registered: usize,
    /// The number of registrations of the honest plugin in peace, and again under attack.
    rounds: usize,
    /// Whether the attacker uses all processors, with the priority of any other process.
    is_greedy: bool,
    /// Whether the attack leaves the daemon no time to rest.
    is_restless: bool,
    /// What the honest plugin or operator does again and again, in the watched directory and under
    /// this name. Returns how long it took.
    honest: Box<Act>,
    /// Checks the daemon after the measurement, while the attack continues.
    check: Box<dyn Fn(&Daemon) + Sync>,
    /// Whether the attacker ends before the daemon.
    ends_early: bool,
}

/// What is measured: it is done in a directory and under a name, and returns how long it took.
type Act = dyn Fn(&Path, &str) -> Duration + Sync;

/// The measurements of an attack.
#[derive(Clone, Copy, Debug)]
struct Measured {
    peace: Times,
    attacked: Times,
    /// The time from SIGTERM until the log mentions it.
    heard: Duration,
    /// The time from SIGTERM until the end of the process.
    ended: Duration,
    /// The resident memory (KiB).
    resident: u64,
    /// The growth of the log (octets per second).
    log_rate: f64,
    longest_turn: Duration,
    /// The time for which others kept the daemon from running. Each turn and each plugin may have
    /// had to wait for as long as all of these waits together.
    delay: Duration,
    /// The time from the end of an attacker that ends early until all was as before.
    recovered: Duration,
}

/// Sets a flag when it is dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Row {
    pub(crate) fn new(name: &'static str, before: &'static str) -> Self {
        Self {
            name,
            before,
            options: Vec::new(),
            prepare: |_| (),
            registered: 0,
            rounds: if is_measured() { ROUNDS } else { ROUNDS / 2 },
            is_greedy: false,
            is_restless: false,
            honest: Box::new(register),
            check: Box::new(|_| ()),
            ends_early: false,
        }
    }

    /// Adds options for the daemon.
    pub(crate) fn options<S: Into<OsString>>(
        mut self,
        options: impl IntoIterator<Item = S>,
    ) -> Self {
        self.options.extend(options.into_iter().map(Into::into));
        self
    }

    /// Prepares the attacker's directory before anything is measured.
    pub(crate) fn prepared(mut self, prepare: fn(&Path)) -> Self {
        self.prepare = prepare;
        self
    }

    /// Has this many plugins registered in the attacker's directory before anything is measured, or
    /// a tenth of them if the limits do not apply exactly.
    pub(crate) fn registered(self, plugins: usize) -> Self {
        let registered = if is_measured() { plugins } else { plugins / 10 };
        Self { registered, ..self }
    }

    /// Makes the attack as long as when it is measured, because it takes time to begin.
    pub(crate) fn long(mut self) -> Self {
        self.rounds = ROUNDS;
        self
    }

    /// Lets the attacker use all processors, the daemon's too, as the scheduler allows.
    ///
    /// The time limits are then [`GREED`] times the usual ones, and include waits for a processor.
    /// The daemon gets only its share of one processor. A change that is preempted holds the lock
    /// of its directory while other processes use their shares, some milliseconds each; a look has
    /// to wait for that lock.
    pub(crate) fn greedy(mut self) -> Self {
        self.is_greedy = true;
        self
    }

    /// Measures the daemon without real-time priority, because it always has something to do.
    ///
    /// sched(7): by default, the kernel stops real-time processes for 50 ms of each second in which
    /// they never rest. It has the highest priority of the others.
    pub(crate) fn restless(mut self) -> Self {
        self.is_restless = true;
        self
    }

    /// Measures something else than registrations.
    pub(crate) fn honest(mut self, act: impl Fn(&Path, &str) -> Duration + Sync + 'static) -> Self {
        self.honest = Box::new(act);
        self
    }

    /// Checks the daemon after the measurement, while the attack continues.
    pub(crate) fn checked(mut self, check: impl Fn(&Daemon) + Sync + 'static) -> Self {
        self.check = Box::new(check);
        self
    }

    /// Lets the attacker end before the daemon, after which all has to be as before.
    pub(crate) fn ends_early(mut self) -> Self {
        self.ends_early = true;
        self
    }

    /// Attacks a daemon, and checks that it keeps its limits.
    ///
    /// `attack` is called on a thread of its own, with the attacker's directory, which lies in the
    /// watched directory. It runs until the flag is set, but may return earlier.
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
        let daemon = Daemon::start(&self.options);
        match (is_measured() && !self.is_greedy, self.is_restless) {
            (true, false) => daemon.run_before_all_others(),
            (true, true) => daemon.run_before_most_others(),
            (false, _) => {}
        }
        let attacker = daemon.root().join("attacker");
        std::fs::create_dir(&attacker).unwrap();
        (self.prepare)(&attacker);
        let registered = register_many(&attacker, self.registered);
        let root = daemon.root().to_owned();
        let honest = |name: &str| (self.honest)(&root, name);
        let peace = Times::measure("peace", self.rounds, honest);
        daemon.longest_turn();
        let over = AtomicBool::new(false);
        let measured = thread::scope(|scope| {
            let _over = SetOnDrop(&over); // The scope waits for the attack, also after a failure.
            let attacking = scope.spawn(|| {
                if self.is_greedy {
                    use_all_processors();
                } else {
                    give_way();
                }
                attack(&attacker, &over);
            });
            let (start, log, delay) = (Instant::now(), daemon.log_len(), daemon.delay());
            let attacked = Times::measure("attacked", self.rounds, honest);
            let logged = daemon.log_len() - log;
            let longest_turn = daemon.longest_turn();
            let time = start.elapsed().max(LEAST_LOG_TIME);
            let delay = daemon.delay().saturating_sub(delay);
            let resident = daemon.resident();
            (self.check)(&daemon);
            let mut recovered = Duration::ZERO;
            let (heard, ended, _root) = if self.ends_early {
                over.store(true, Ordering::Relaxed);
                attacking.join().unwrap();
                recovered = until_as_before(honest, peace);
                daemon.end_with(Signal::SIGTERM)
            } else {
                let ended = daemon.end_with(Signal::SIGTERM);
                over.store(true, Ordering::Relaxed);
                attacking.join().unwrap();
                ended
            };
            Measured {
                peace,
                attacked,
                heard,
                ended,
                resident,
                log_rate: f64::from(u32::try_from(logged).unwrap()) / time.as_secs_f64(),
                longest_turn,
                delay,
                recovered,
            }
        });
        registered.into_iter().for_each(Plugin::leave);
        measured
    }

    /// Returns the row of the table.
    fn line(&self, measured: &Measured) -> String {
        let Self { name, before, .. } = self;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        format!(
            "| {name} | {before} | p50 {:.1} ms, p99 {:.1}, in peace {:.1}, {:.1} | SIGTERM heard \
             after {:.0} ms, ended after {:.0} | {} KiB | log {:.1} KiB/s | longest turn {:.1} ms | \
             waited {:.1} ms for a processor | as before after {:.0} ms |",
            milliseconds(measured.attacked.p50),
            milliseconds(measured.attacked.p99),
            milliseconds(measured.peace.p50),
            milliseconds(measured.peace.p99),
            milliseconds(measured.heard),
            milliseconds(measured.ended),
            measured.resident,
            measured.log_rate / 1024.0,
            milliseconds(measured.longest_turn),
            milliseconds(measured.delay),
            milliseconds(measured.recovered),
        )
    }
}

impl Measured {
    /// Returns the limits that were exceeded.
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
            "the honest plugin waits too long",
        );
        check(
            self.attacked.p50 <= self.peace.p50 + MAX_DELAY * factor * leniency(),
            "the honest plugin waits too long as a rule",
        );
        check(
            self.recovered <= MAX_RECOVERY * leniency(),
            "the attack has an effect after its end",
        );
        check(self.heard <= MAX_HEARD, "SIGTERM is heard late");
        check(self.ended <= STOP_GRACE + MAX_ENDED, "the end takes long");
        check(self.resident < MAX_RESIDENT, "the daemon grows");
        check(self.log_rate <= MAX_LOG_RATE, "the log grows");
        check(
            self.longest_turn <= MAX_TURN * factor * leniency() + excused,
            "a turn takes too long",
        );
        failures
    }
}

/// Returns this many plugins in `dir`, each of which was registered before the next one appeared.
fn register_many(dir: &Path, plugins: usize) -> Vec<Plugin> {
    let register = |n| {
        let plugin = Plugin::serve(&dir.join(format!("{n}.sock")), &format!("p-{n}"));
        assert!(plugin.until_notified().plugin_registered);
        plugin
    };
    (0..plugins).map(register).collect()
}

/// Waits until the honest plugin is as fast as in peace. Returns the time until then.
fn until_as_before(honest: impl Fn(&str) -> Duration, peace: Times) -> Duration {
    let start = Instant::now();
    loop {
        let since = start.elapsed();
        let times = Times::measure("after", 10, &honest);
        if times.p99 <= peace.p99 + MAX_DELAY || since > MAX_RECOVERY * leniency() {
            return since;
        }
    }
}

/// Leaves the processor to the honest plugin whenever that needs it: its measured time should
/// include its waits for the daemon, but not those for the attacker.
fn give_way() {
    setpriority_process(None, LEAST_PRIORITY).unwrap();
}

/// Waits for other rows to end: they would disturb the measurement.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The niceness of the attacker.
const LEAST_PRIORITY: i32 = 19;

/// The factor on the time limits for turns and plugins beside a greedy attacker: they become 50 ms
/// and 200 ms.
const GREED: u32 = 10;

/// The number of registrations of the honest plugin in peace, and again under attack.
const ROUNDS: usize = 100;

/// The number of times that a row is tried.
const ATTEMPTS: usize = 3;

/// The most by which the honest plugin may be notified later than in peace.
const MAX_DELAY: Duration = Duration::from_millis(20);

/// The time limit until all is as before when the attacker has ended.
const MAX_RECOVERY: Duration = Duration::from_secs(2);

/// The time limit until the log mentions a signal.
const MAX_HEARD: Duration = Duration::from_millis(100);

/// The time by which the end may exceed [`STOP_GRACE`].
const MAX_ENDED: Duration = Duration::from_secs(1);

/// The limit on the daemon's resident memory (KiB).
const MAX_RESIDENT: u64 = 16 * 1024;

/// The limit on the log (octets per second).
const MAX_LOG_RATE: f64 = 64.0 * 1024.0;

/// The least time over which the log rate is measured: a burst is allowed.
const LEAST_LOG_TIME: Duration = Duration::from_secs(2);

/// The time limit for one turn of the loop: whatever depends on a number is done in one turn.
pub(crate) const MAX_TURN: Duration = Duration::from_millis(20);

/// Returns the factor on the time limits of turns and plugins.
///
/// `make full ONLY=neighbours` holds the release binary to the limits, on a machine that does
/// nothing else. Elsewhere, a slow machine should not be taken for a slow daemon: there, these
/// tests notice attacks that make the daemon unresponsive, which was a matter of seconds.
pub(crate) fn leniency() -> u32 {
    let is_shipped = env::var_os("TEST_BINARY").is_some() || !cfg!(debug_assertions);
    match (is_measured(), is_shipped) {
        (true, _) => 1,
        (false, true) => 20,
        (false, false) => 100,
    }
}

/// Returns whether the limits apply exactly.
pub(crate) fn is_measured() -> bool {
    env::var_os("TEST_NEIGHBOURS").is_some()
}
