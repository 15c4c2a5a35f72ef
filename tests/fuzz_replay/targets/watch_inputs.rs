//! The watch's inputs in any order, at any time, whether it has asked for them or not.
//!
//! Events name watches and files of a small tree, also those that do not exist; listings and
//! examinations are answers to requests or arrive without one, and contradict each other. Whatever
//! arrives: outputs end, no deadline stays in the past, no socket is found under two paths at a
//! time, one is lost only if it was found or expected, and with the last root everything is lost.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plugind::time::Time;
use plugind::watch::{
    Cause, Entry, EntryKind, Event, Identity, Input as WatchInput, Listing, Output, Problem, Watch,
    WatchId,
};

use super::input::Input;

/// Plays the inputs.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut play = Play {
        watch: Watch::new([PathBuf::from(ROOTS[0])]),
        wanted: Vec::new(),
        known: BTreeMap::new(),
        now: Time::ZERO,
    };
    if input.coin() {
        let path: Arc<Path> = Path::new("/p/a").into();
        play.watch.expect(vec![path.clone()]);
        play.known.insert(path, None);
    }
    for _ in 0..MOST_INPUTS {
        if input.is_empty() {
            break;
        }
        play.step(&mut input);
        play.follow();
    }
    for root in ROOTS {
        play.watch.remove_root(Path::new(root), play.now);
    }
    play.follow();
    assert!(play.known.is_empty(), "{:?}", play.known);
}

struct Play {
    watch: Watch,
    /// The requests that were not answered.
    wanted: Vec<Output>,
    /// The sockets that were found, or are expected, and not lost.
    known: BTreeMap<Arc<Path>, Option<Identity>>,
    now: Time,
}

impl Play {
    fn step(&mut self, input: &mut Input<'_>) {
        let now = self.now;
        let dir = input.pick(&DIRS);
        let path: Arc<Path> = Path::new(dir).join(name(input)).into();
        let event = match input.below(16) {
            0..5 => return self.answer(input),
            5 => return self.wait(input.time(&WAITS)),
            6 => {
                let at = self.watch.poll_timeout();
                self.now = at.map_or(now, |at| at.max(now));
                return self.wait(Duration::ZERO);
            }
            7 => {
                let root = input.pick(&ROOTS);
                if input.coin() {
                    return self.watch.remove_root(Path::new(root), now);
                }
                let root = Path::new(root).into();
                let (watch, entries) = (watch(input), listing(input));
                // A root with a problem is not added.
                let _is_added = self.watch.add_root(&root, watch, entries, now);
                return;
            }
            8 => {
                self.watch.request_rescan();
                self.watch.take_rescanned();
                return;
            }
            9 => WatchInput::Doubted { path },
            10 => WatchInput::Remounted { dir: dir.into() },
            11 => scanned(input, Path::new(dir).into()),
            12 => WatchInput::Examined {
                path,
                kind: kind(input),
            },
            _ => WatchInput::Event(event(input)),
        };
        self.watch.handle_input(event, now);
    }

    /// Answers a request.
    fn answer(&mut self, input: &mut Input<'_>) {
        let at = input.below(4);
        if at >= self.wanted.len() {
            return;
        }
        let answer = match self.wanted.remove(at) {
            Output::Scan { dir, .. } => scanned(input, dir),
            Output::Examine { path } => WatchInput::Examined {
                path,
                kind: kind(input),
            },
            other => panic!("{other:?} is not a request"),
        };
        self.watch.handle_input(answer, self.now);
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.watch.handle_timeout(self.now);
        let next = self.watch.poll_timeout();
        assert!(next.is_none_or(|at| at > self.now), "{next:?}");
    }

    fn follow(&mut self) {
        for _ in 0..MOST_OUTPUTS {
            let Some(output) = self.watch.poll_output() else {
                return;
            };
            match output {
                Output::Found { path, identity } => {
                    let is_other = |(other, it): (&Arc<Path>, &Option<Identity>)| {
                        *other != path && *it == Some(identity)
                    };
                    let mut known = self.known.iter();
                    assert!(!known.any(is_other), "{path:?} is a second path");
                    let before = self.known.insert(path.clone(), Some(identity));
                    assert_ne!(before, Some(Some(identity)), "{path:?} is found twice");
                }
                Output::Lost { path } => {
                    let known = self.known.remove(&path);
                    assert!(known.is_some(), "{path:?} was not found");
                }
                Output::Scan { .. } | Output::Examine { .. } => self.wanted.push(output),
                Output::Unwatch { .. } | Output::Report(_) => {}
            }
        }
        panic!("outputs without end");
    }
}

fn event(input: &mut Input<'_>) -> Event {
    let watch = watch_id(input);
    match input.below(8) {
        0..3 => Event::Appeared {
            watch,
            name: name(input),
            is_directory: input.coin(),
        },
        3..5 => Event::Vanished {
            watch,
            name: name(input),
        },
        5 => Event::Moved { watch },
        6 => Event::Unwatched { watch },
        _ => Event::Overflowed,
    }
}

fn scanned(input: &mut Input<'_>, dir: Arc<Path>) -> WatchInput {
    WatchInput::Scanned {
        dir,
        watch: watch(input),
        entries: listing(input),
    }
}

fn watch_id(input: &mut Input<'_>) -> WatchId {
    WatchId(i32::from(input.octet() % 8))
}

fn watch(input: &mut Input<'_>) -> Result<WatchId, Problem> {
    match input.below(8) {
        0 => Err(problem(input)),
        _ => Ok(watch_id(input)),
    }
}

fn listing(input: &mut Input<'_>) -> Result<Listing, Problem> {
    if input.below(8) == 0 {
        return Err(problem(input));
    }
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..input.below(5) {
        let (name, kind) = (name(input), kind(input));
        if entries.iter().all(|entry| entry.name != name) {
            entries.push(Entry { name, kind });
        }
    }
    let unreported = input.pick(&[None, None, Some("nfs")]);
    Ok(Listing {
        entries,
        is_cut: input.below(8) == 0,
        unreported: unreported.map(str::to_owned),
    })
}

fn problem(input: &mut Input<'_>) -> Problem {
    match input.below(7) {
        0 => Problem::Missing,
        1 => Problem::NotADirectory,
        2 => Problem::NotCreated(Cause::ReadOnly),
        3 => Problem::NotRead(Cause::Denied),
        4 => Problem::NotWatched(Cause::WatchesUsedUp),
        5 => Problem::MayNotAnswer("nfs".into()),
        _ => Problem::NotExamined,
    }
}

fn kind(input: &mut Input<'_>) -> EntryKind {
    let identity = Identity {
        device: 1,
        inode: u64::from(input.octet() % 4),
        btime: 0,
    };
    match input.below(8) {
        0..4 => EntryKind::Socket(identity),
        4 => EntryKind::Link(identity),
        5 => EntryKind::Directory,
        6 => EntryKind::Other,
        _ => EntryKind::Unknown,
    }
}

/// Returns one of a few names, or any.
fn name(input: &mut Input<'_>) -> OsString {
    match input.below(8) {
        0 => {
            let mut name = input.short().to_vec();
            name.retain(|octet| !matches!(octet, 0 | b'/'));
            name.insert(0, b'x');
            OsString::from_vec(name)
        }
        other => NAMES[other % NAMES.len()].into(),
    }
}

/// None is inside another.
const ROOTS: [&str; 2] = ["/p", "/q/r"];

const DIRS: [&str; 5] = ["/p", "/p/a", "/p/a/b", "/q/r", "/q"];

const NAMES: [&str; 4] = ["a", "b", "c", ".d"];

/// The times that pass (milliseconds).
const WAITS: [u64; 5] = [0, 10, 1000, 11_000, 301_000];

/// The most inputs that are played.
const MOST_INPUTS: usize = 200;

/// More outputs than there are at one moment for a few directories.
const MOST_OUTPUTS: usize = 10_000;
