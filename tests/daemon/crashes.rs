//! The built binary, killed again and again while programs of `--exec` run: what a program may rely
//! on holds all the same. `make full ONLY=crashes` kills it a thousand times.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::rng::Rng;
use crate::support::inside::within;
use crate::support::plugin::Plugin;
use crate::support::process::{PATIENCE, Process};
use crate::support::program::install;
use crate::support::skip::programs_can_be_trusted_or_skip;
use crate::support::ticks::ticks;
use crate::support::until::until;

/// A node with a program for the type `Hooked`, which logs what it is run for.
struct Node {
    scratch: TempDir,
    state_file: PathBuf,
}

/// What the program has logged.
#[derive(Debug, Default)]
struct Log(Vec<Line>);

/// A program that has begun or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    has_begun: bool,
    verb: String,
    name: String,
    daemon: String,
}

impl Node {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let state_file = scratch.path().join("state");
        let node = Self {
            scratch,
            state_file,
        };
        fs::create_dir(node.root()).unwrap();
        let script = format!(
            "#!/bin/sh\n\
             echo begin $1 $3 $PPID >> {log}\n\
             n=$(($$ % 8 * 400)); while [ $n -gt 0 ]; do n=$((n-1)); done\n\
             echo end $1 $3 $PPID >> {log}\n",
            log = node.log_file().display(),
        );
        install(&node.program(), &script);
        node
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("plugins")
    }

    fn program(&self) -> PathBuf {
        self.scratch.path().join("hook")
    }

    fn log_file(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    /// Starts a daemon, and returns before it watches.
    fn start(&self) -> Process {
        let mut command = Process::command();
        command
            .args(["run", "-v", "--plugins-dir"])
            .arg(self.root());
        command
            .arg("--run-dir")
            .arg(self.scratch.path().join("run"));
        command.arg("--state-file").arg(&self.state_file);
        command.arg(format!("--exec=Hooked={}", self.program().display()));
        Process::logging(command.stdin(Stdio::null()).stdout(Stdio::null()))
    }

    /// Serves a plugin with this name, each at a path of its own.
    fn serve(&self, name: &str) -> Plugin {
        Plugin::serve_type(&self.root().join(name), "Hooked", name)
    }

    fn log(&self) -> Log {
        let text = fs::read_to_string(self.log_file()).unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let first = words.next()?;
            Some(Line {
                has_begun: first == "begin",
                verb: words.next()?,
                name: words.next()?,
                daemon: words.next()?,
            })
        };
        Log(text.lines().filter_map(line).collect())
    }

    /// Waits until the program has ended with this action for that name.
    #[track_caller]
    fn until_ended(&self, verb: &str, name: &str) {
        let what = format!("{verb} {name}");
        until(&what, || {
            (self.log().last(name) == Some((verb, true))).then_some(())
        });
    }
}

impl Log {
    /// Returns what the program was last run for with this name, and whether it has ended.
    fn last(&self, name: &str) -> Option<(&str, bool)> {
        let last = self.0.iter().rfind(|line| line.name == name)?;
        Some((&last.verb, !last.has_begun))
    }

    /// Returns whether the program was last run to its end for what the plugin is now.
    fn agrees(&self, name: &str, exists: bool) -> bool {
        match self.last(name) {
            None => !exists,
            Some((verb, has_ended)) => has_ended && exists == (verb != "del"),
        }
    }

    /// Asserts that the programs of each name ran one after the other, and that a `del` is between
    /// two of its `add`s. Returns the number of programs.
    fn check(&self) -> usize {
        let mut last: BTreeMap<&str, &Line> = BTreeMap::new();
        let mut is_added: BTreeMap<&str, bool> = BTreeMap::new();
        for line in &self.0 {
            let name = &*line.name;
            let before = last.insert(name, line);
            if line.has_begun {
                // If the daemon was killed, so was the program before; and an `add` is killed when
                // its plugin goes.
                let is_killed = |before: &Line| {
                    let is_undone = before.verb != "del" && line.verb == "del";
                    before.daemon != line.daemon || is_undone
                };
                let is_free = before.is_none_or(|it| !it.has_begun || is_killed(it));
                assert!(
                    is_free,
                    "{name}: two programs at once: {before:?}, {line:?}"
                );
                let before = is_added.insert(name, line.verb != "del");
                let is_twice = before == Some(true) && line.verb == "add";
                assert!(!is_twice, "{name}: added twice: {:#?}", self.of(name));
            } else {
                let is_its_end = before.is_some_and(|before| {
                    before.has_begun && (&before.verb, &before.daemon) == (&line.verb, &line.daemon)
                });
                assert!(is_its_end, "{name}: {before:?}, {line:?}");
            }
        }
        self.0.iter().filter(|line| line.has_begun).count()
    }

    fn of(&self, name: &str) -> Vec<&Line> {
        self.0.iter().filter(|line| line.name == name).collect()
    }
}

/// Kills a daemon. Returns how it ended, which may have been before.
fn kill(daemon: Process) -> Option<i32> {
    daemon.signal(Signal::SIGKILL);
    let (status, _) = daemon.end();
    status.signal()
}

#[test]
fn a_plugin_that_goes_after_a_kill_is_deregistered() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    let node = Node::new();
    let daemon = node.start();
    let plugin = node.serve("disk");
    node.until_ended("add", "disk");
    assert_eq!(kill(daemon), Some(Signal::SIGKILL as i32));
    plugin.stop();
    let daemon = node.start();
    node.until_ended("del", "disk");
    // Once a version of the state file is written, nothing is left to undo.
    until("the plugin is not in the file", || {
        let saved = fs::read_to_string(&node.state_file).unwrap();
        (!saved.contains("disk")).then_some(())
    });
    kill(daemon);
    let daemon = node.start();
    daemon.until_line("watching ");
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.end().0.success());
    let verbs: Vec<_> = node.log().0.into_iter().map(|line| line.verb).collect();
    assert_eq!(verbs, ["add", "add", "del", "del"]);
}

#[test]
fn on_a_full_disk_a_plugin_is_refused_until_there_is_room() {
    within("mount -t tmpfs -o size=16k,mode=755 none /mnt", || {
        if !programs_can_be_trusted_or_skip() {
            return;
        }
        let mut node = Node::new();
        node.state_file = "/mnt/state".into();
        let daemon = node.start();
        let before = node.serve("before");
        node.until_ended("add", "before");
        let filled = fs::write("/mnt/filler", vec![0; 32 * 1024]);
        assert!(filled.is_err());
        // What is left of the last page.
        while fs::read_dir("/mnt").unwrap().count() < 8 {
            let n = fs::read_dir("/mnt").unwrap().count();
            let _ = fs::write(format!("/mnt/filler-{n}"), [0; 4096]);
        }
        let plugin = node.serve("disk");
        let refused = plugin.until_notified();
        let reason = "cannot write the state file: No space left on device";
        assert!(refused.error.contains(reason), "{}", refused.error);
        before.stop();
        node.until_ended("del", "before");
        for filler in fs::read_dir("/mnt").unwrap() {
            let path = filler.unwrap().path();
            if path.to_string_lossy().contains("filler") {
                fs::remove_file(path).unwrap();
            }
        }
        while !plugin.until_notified().plugin_registered {}
        daemon.signal(Signal::SIGTERM);
        assert!(daemon.end().0.success());
    });
}

#[test]
#[ignore = "make full ONLY=crashes"]
fn programs_agree_with_the_plugins_after_each_kill() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    let kills = env::var("CRASHES").map_or(1000, |kills| kills.parse().unwrap());
    let seed =
        env::var("SEED").map_or_else(|_| std::process::id().into(), |it| it.parse().unwrap());
    println!("SEED={seed}");
    let mut rng = Rng::new(seed);
    let mut churn = Churn {
        node: Node::new(),
        plugins: (0..NAMES).map(|n| (format!("disk-{n}"), None)).collect(),
    };
    let mut interrupted = 0;
    let mut longest_start = Duration::ZERO;
    for n in 1..=kills {
        let daemon = churn.node.start();
        let life = if rng.one_in(10) { LONG } else { SHORT };
        let over = Instant::now() + Duration::from_micros(rng.below(life));
        while Instant::now() < over {
            let pause = Duration::from_micros(rng.below(1..4000));
            ticks(pause).wait().unwrap();
            churn.change(&mut rng);
        }
        assert_eq!(kill(daemon), Some(Signal::SIGKILL as i32), "SEED={seed}");
        let log = churn.node.log();
        let is_running = |name: &String| matches!(log.last(name), Some((_, false)));
        interrupted += churn.plugins.keys().filter(|it| is_running(it)).count();
        for _ in 0..rng.below(0..4) {
            churn.change(&mut rng);
        }
        if n % 20 == 0 || n == kills {
            longest_start = longest_start.max(churn.settle());
        }
    }
    let count = churn.node.log().check();
    let longest_start_ms = longest_start.as_millis();
    println!(
        "kills={kills} programs={count} interrupted={interrupted} \
         longest_start_ms={longest_start_ms}"
    );
    assert!(count > kills, "{count} programs were run");
}

/// Plugins that start and stop.
struct Churn {
    node: Node,
    plugins: BTreeMap<String, Option<Plugin>>,
}

impl Churn {
    /// Starts, stops or restarts a plugin.
    fn change(&mut self, rng: &mut Rng) {
        let names: Vec<_> = self.plugins.keys().cloned().collect();
        let name = rng.pick(&names).expect("there are names");
        let before = self.plugins.get_mut(name).and_then(Option::take);
        let is_restart = before.is_none() || rng.one_in(3);
        before.into_iter().for_each(Plugin::stop);
        let plugin = is_restart.then(|| self.node.serve(name));
        self.plugins.insert(name.clone(), plugin);
    }

    /// Starts a daemon, waits until the programs agree with the plugins, and stops the daemon. They
    /// agree after that, too. Returns how long the start took.
    #[track_caller]
    fn settle(&self) -> Duration {
        let start = Instant::now();
        let daemon = self.node.start();
        daemon.until_line("watching ");
        let took = start.elapsed();
        let clock = ticks(TICK);
        let end = Instant::now() + PATIENCE;
        loop {
            let log = self.node.log();
            let mut plugins = self.plugins.iter();
            let Some((name, plugin)) =
                plugins.find(|(name, plugin)| !log.agrees(name, plugin.is_some()))
            else {
                break;
            };
            let exists = plugin.is_some();
            let of = log.of(name);
            if Instant::now() >= end {
                let lines: Vec<_> = daemon.lines.try_iter().collect();
                panic!("{name} exists={exists}: {of:?}: {lines:#?}");
            }
            clock.wait().unwrap();
        }
        daemon.signal(Signal::SIGTERM);
        assert!(daemon.end().0.success());
        let log = self.node.log();
        log.check();
        for (name, plugin) in &self.plugins {
            let exists = plugin.is_some();
            let of = log.of(name);
            assert!(log.agrees(name, exists), "{name} exists={exists}: {of:#?}");
        }
        took
    }
}

/// The number of plugin names.
const NAMES: usize = 8;

/// The life of most daemons until they are killed (µs): up to several times what it takes to
/// register all plugins.
const SHORT: Range<u64> = 0..150_000;

/// The life of the others (µs): until a version of the state file is about to be written, or was.
const LONG: Range<u64> = 990_000..1_100_000;

/// The time from one look at the log to the next.
const TICK: Duration = Duration::from_millis(5);
