//! The stage of a scenario: a directory that one of the plugin managers watches, and its plugins.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::socket::{Backlog, listen};
use tempfile::TempDir;

use crate::bind::bind;
use crate::plugin::{Script, ScriptedPlugin};
use crate::subject::{Subject, Which};

/// A directory, the plugin manager that watches it, and its plugins.
pub(crate) struct Stage<'a> {
    dir: TempDir,
    which: Which<'a>,
    subject: Option<Subject>,
    /// The plugin whose registration shows that watching has begun.
    first: Option<ScriptedPlugin>,
    plugins: BTreeMap<String, ScriptedPlugin>,
    bound: BTreeMap<String, OwnedFd>,
    /// The statuses that ended plugins were notified of.
    notified: BTreeMap<String, Vec<String>>,
}

/// The statuses that plugins were notified of, and the calls of the handler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    notified: BTreeMap<String, Vec<String>>,
    asked: BTreeMap<String, Vec<String>>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(which: Which<'a>) -> Self {
        Self {
            // Kubelet ignores everything below a directory whose name begins with a dot.
            dir: tempfile::Builder::new().prefix("parity").tempdir().unwrap(),
            which,
            subject: None,
            first: None,
            plugins: BTreeMap::new(),
            bound: BTreeMap::new(),
            notified: BTreeMap::new(),
        }
    }

    /// Starts watching, and waits until a plugin for that purpose has been notified.
    pub(crate) fn watch(&mut self) {
        let root = self.beside(REGISTRY);
        fs::create_dir_all(&root).unwrap();
        let first = ScriptedPlugin::serve(&self.path(FIRST), Script::named(FIRST));
        self.subject = Some(Subject::start(self.which, &root));
        let end = Instant::now() + PATIENCE;
        while first.notified().is_empty() {
            assert!(Instant::now() < end, "watching has not begun");
            pause(GLANCE);
        }
        self.first = Some(first);
        self.settle();
    }

    /// Returns a path below the watched directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(REGISTRY).join(name)
    }

    /// Returns a path beside the watched directory.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn mkdir(&self, name: &str) {
        fs::create_dir_all(self.path(name)).unwrap();
    }

    /// Begins to serve a plugin on a socket with this name.
    pub(crate) fn plugin(&mut self, name: &str, script: Script) {
        let plugin = ScriptedPlugin::serve(&self.path(name), script);
        self.add(name, plugin);
    }

    fn add(&mut self, name: &str, plugin: ScriptedPlugin) {
        if let Some(before) = self.plugins.insert(name.to_owned(), plugin) {
            self.retire(name, &before);
        }
    }

    /// Binds a socket on which nothing listens.
    pub(crate) fn bind(&mut self, name: &str) {
        let bound = bind(&self.path(name));
        self.bound.insert(name.to_owned(), bound);
    }

    /// Begins to listen on a bound socket.
    pub(crate) fn listen(&mut self, name: &str, script: Script) {
        let bound = self.bound.remove(name).unwrap();
        listen(&bound, Backlog::MAXALLOWABLE).unwrap();
        let plugin = ScriptedPlugin::serve_on(UnixListener::from(bound), script);
        self.add(name, plugin);
    }

    /// Ends a plugin that leaves its socket behind.
    pub(crate) fn kill(&mut self, name: &str) {
        let plugin = self.plugins.remove(name).unwrap();
        self.retire(name, &plugin);
    }

    fn retire(&mut self, name: &str, plugin: &ScriptedPlugin) {
        let notified = self.notified.entry(name.to_owned()).or_default();
        notified.extend(plugin.notified());
    }

    /// Ends a plugin that removes its socket.
    pub(crate) fn stop(&mut self, name: &str) {
        self.remove(name);
        self.kill(name);
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub(crate) fn link(&self, target: &str, link: &str) {
        symlink(target, self.path(link)).unwrap();
    }

    /// Waits until nothing has happened for [`QUIET`].
    pub(crate) fn settle(&self) {
        let (mut before, mut since) = (self.events(), Instant::now());
        while since.elapsed() < QUIET {
            pause(GLANCE);
            let now = self.events();
            if now != before {
                (before, since) = (now, Instant::now());
            }
            if since.elapsed() > PATIENCE {
                return;
            }
        }
    }

    /// Waits until the plugin was notified `count` times, for [`PATIENCE`] at most.
    pub(crate) fn until_notified(&self, name: &str, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.plugins[name].notified().len() < count && Instant::now() < end {
            pause(GLANCE);
        }
        self.settle();
    }

    /// Returns the number of statuses and calls so far.
    fn events(&self) -> usize {
        let notified: usize = self.plugins.values().map(|it| it.notified().len()).sum();
        notified + self.subject.as_ref().map_or(0, |it| it.calls().len())
    }

    /// Ends the scenario. Returns what was seen, without repetitions.
    pub(crate) fn end(mut self) -> Seen {
        self.settle();
        let place = format!("{}/", self.dir.path().display());
        let plain = |words: &str| words.replace(&place, "").replace(REGISTRY, "registry");
        for (name, plugin) in std::mem::take(&mut self.plugins) {
            self.retire(&name, &plugin);
        }
        let mut notified = std::mem::take(&mut self.notified);
        for words in notified.values_mut().flatten() {
            *words = plain(words);
        }
        let mut asked: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let calls = self.subject.take().map_or_else(Vec::new, |it| it.calls());
        for call in calls.iter().filter(|call| !call.contains(FIRST)) {
            let name = call.split(' ').nth(1).unwrap_or_default().to_owned();
            let of_it: &mut Vec<_> = asked.entry(name).or_default();
            of_it.push(call.replace(&place, ""));
        }
        notified.values_mut().for_each(collapse);
        asked.values_mut().for_each(collapse);
        Seen { notified, asked }
    }
}

/// Removes repetitions of one element, or of two or three together.
fn collapse(words: &mut Vec<String>) {
    for length in 1..=3 {
        let mut at = 0;
        while at + 2 * length <= words.len() {
            if words[at..at + length] == words[at + length..at + 2 * length] {
                words.drain(at..at + length);
            } else {
                at += 1;
            }
        }
    }
}

/// Waits for this long, on a channel on which nothing is sent.
fn pause(time: Duration) {
    let (_sender, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(time);
}

/// The time for which nothing may happen: kubelet looks once a second, and retries after 1, 3 and
/// 6.
const QUIET: Duration = Duration::from_secs(4);

/// The name of the watched directory.
///
/// Kubelet sends the path of the socket as `:authority`, percent-encoded, which `h2` refuses. If
/// the path begins like this, its gRPC takes that for a scheme and sends `localhost`.
const REGISTRY: &str = "unix:registry";

/// The name of the plugin whose registration shows that watching has begun.
const FIRST: &str = "first-of-all";

/// The time between two looks.
const GLANCE: Duration = Duration::from_millis(20);

/// The time limit for every wait.
const PATIENCE: Duration = Duration::from_secs(60);
