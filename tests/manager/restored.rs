//! The plugins that a restarted daemon has restored: what its watch has seen of their sockets, and
//! what may be asked of handlers because of that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use plugind::handler::Plugin;
use plugind::watch::{EntryKind, Identity, Listing, Output, Problem};

/// The restored plugins; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restored(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The plugins that are neither registered again nor deregistered yet, by their sockets.
    plugins: BTreeMap<Arc<Path>, Entry>,
    /// The socket to which each reported path leads.
    reported: BTreeMap<Arc<Path>, Identity>,
    /// The sockets whose plugins have changed their descriptions, in any process.
    changed: BTreeSet<Identity>,
}

/// A restored plugin, and what the watch has reported about its socket since the restart.
#[derive(Debug)]
struct Entry {
    plugin: Arc<Plugin>,
    identity: Identity,
    /// Whether the watch has examined the place of the socket.
    is_seen: bool,
    fate: Fate,
    /// Whether a plugin with its type, name and endpoint was registered through another socket: to
    /// deregister this one would undo that.
    has_twin: bool,
    checked: Checked,
}

/// How a plugin is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    /// By what the watch reports and what the oracle is asked.
    ByWatch,
    /// By what the oracle is asked: it has announced itself, and the watch knows nothing of it.
    ByAnnouncement,
    /// By other means: it has a built-in handler.
    Elsewhere,
}

/// What the watch has reported about the path of a plugin. It only moves on in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Nothing yet.
    Awaited,
    /// It leads to the socket.
    Found,
    /// It was removed, or another path to the socket was found first.
    Left,
    /// The socket was removed or replaced.
    Gone,
}

impl Restored {
    /// Forgets the plugins of the process before, and restores these, each with its socket. Nothing
    /// has been seen of any socket yet.
    pub(crate) fn restart(&self, plugins: impl Iterator<Item = (Arc<Plugin>, Identity)>) {
        let mut state = self.lock();
        let changed = std::mem::take(&mut state.changed);
        let plugins = plugins.map(|(plugin, identity)| {
            let entry = Entry {
                plugin: plugin.clone(),
                identity,
                is_seen: false,
                fate: Fate::Awaited,
                has_twin: false,
                checked: if BUILT_IN.contains(&plugin.kind.as_str()) {
                    Checked::Elsewhere
                } else if identity.device == ANNOUNCED {
                    Checked::ByAnnouncement
                } else {
                    Checked::ByWatch
                },
            };
            (plugin.socket.clone(), entry)
        });
        *state = State {
            plugins: plugins.collect(),
            changed,
            ..State::default()
        };
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the sockets about which the watch has reported nothing yet.
    pub(crate) fn awaited(&self) -> BTreeSet<Arc<Path>> {
        let state = self.lock();
        let awaited = state.plugins.iter();
        let awaited = awaited.filter(|(_, entry)| {
            entry.fate == Fate::Awaited && entry.checked != Checked::ByAnnouncement
        });
        awaited.map(|(path, _)| path.clone()).collect()
    }

    /// Returns whether this plugin is neither registered again nor deregistered yet.
    pub(crate) fn has(&self, plugin: &Plugin) -> bool {
        let state = self.lock();
        let entry = state.plugins.get(&plugin.socket);
        entry.is_some_and(|it| *it.plugin == *plugin)
    }

    /// Returns whether this plugin is one of these and has announced itself.
    pub(crate) fn has_announced(&self, plugin: &Plugin) -> bool {
        let state = self.lock();
        let entry = state.plugins.get(&plugin.socket);
        entry.is_some_and(|it| *it.plugin == *plugin && it.checked == Checked::ByAnnouncement)
    }

    /// Returns whether every plugin is registered again or deregistered.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        let mut checked = state.plugins.values().map(|entry| entry.checked);
        checked.all(|checked| checked == Checked::Elsewhere)
    }

    /// Checks that the daemon saves every plugin, but those that are registered through another
    /// socket.
    pub(crate) fn check_saved(&self, saved: &[Arc<Plugin>]) {
        self.lock().plugins.retain(|_, entry| {
            let is_saved = saved.contains(&entry.plugin) || entry.checked == Checked::Elsewhere;
            assert!(is_saved || entry.has_twin, "{entry:?} is forgotten");
            is_saved
        });
    }

    // --- What the watch does ---

    /// Records what a scan of a directory has shown.
    pub(crate) fn scanned(&self, dir: &Path, listing: &Result<Listing, Problem>) {
        let mut state = self.lock();
        match listing {
            Ok(listing) => {
                state.see(dir, &EntryKind::Directory);
                state.list(dir, listing);
            }
            Err(_) => state.see_below(dir),
        }
    }

    /// Records which paths no watched directory leads to: nothing there is awaited.
    pub(crate) fn uncovered(&self, covers: impl Fn(&Path) -> bool) {
        self.lock().see_all(|path| !covers(path));
    }

    /// Records that a path was examined.
    pub(crate) fn examined(&self, path: &Path, kind: &EntryKind) {
        self.lock().see(path, kind);
    }

    /// Records what the watch reports, and checks that it has examined the place before.
    pub(crate) fn reported(&self, output: &Output) {
        match output {
            Output::Found { path, identity, .. } => self.lock().found(path, *identity),
            Output::Lost { path } => self.lock().lost(path),
            _ => {}
        }
    }

    /// Records that the plugin behind a socket describes itself in another way than before.
    pub(crate) fn changed(&self, identity: Identity) {
        self.lock().changed.insert(identity);
    }

    /// Returns whether another process has listened on a socket.
    pub(crate) fn has_changed(&self, identity: Identity) -> bool {
        self.lock().changed.contains(&identity)
    }

    // --- What handlers are asked ---

    /// Checks that a plugin may be validated: the plugin that was restored at its path is not
    /// awaited any more, and was deregistered if its socket has gone, unless it is registered
    /// through another socket by now.
    pub(crate) fn validate(&self, plugin: &Plugin) {
        let state = self.lock();
        let entry = state.plugins.get(&plugin.socket);
        if let Some(entry) = entry.filter(|entry| entry.checked == Checked::ByWatch) {
            assert!(entry.is_seen, "validate {plugin} before a scan: {entry:?}");
            let is_there = ![Fate::Awaited, Fate::Gone].contains(&entry.fate);
            let may_stay = is_there || entry.has_twin;
            assert!(may_stay, "validate {plugin} before {entry:?} goes");
        }
    }

    /// Checks that a plugin may be registered: it is the one that was restored at its path, or that
    /// one is registered through another socket by now.
    pub(crate) fn register(&self, plugin: &Plugin) {
        self.validate(plugin);
        let state = self.lock();
        let entry = state.plugins.get(&plugin.socket);
        if let Some(entry) = entry.filter(|entry| entry.checked == Checked::ByWatch) {
            let is_the_one = *entry.plugin == *plugin;
            assert!(is_the_one || entry.has_twin, "{plugin} and not {entry:?}");
        }
    }

    /// Records that a plugin was registered: from now on it is an ordinary one.
    pub(crate) fn registered(&self, plugin: &Plugin) {
        let mut state = self.lock();
        state.plugins.remove(&plugin.socket);
        for entry in state.plugins.values_mut() {
            entry.has_twin |= is_twin(&entry.plugin, plugin);
        }
    }

    /// Checks that a plugin may be deregistered that was not registered since the restart. Returns
    /// false if it was not restored either.
    pub(crate) fn deregister(&self, plugin: &Plugin) -> bool {
        let mut state = self.lock();
        let State {
            plugins, changed, ..
        } = &mut *state;
        let entry = plugins.get(&plugin.socket);
        let Some(entry) = entry.filter(|entry| *entry.plugin == *plugin) else {
            return false;
        };
        if entry.checked == Checked::ByAnnouncement {
            plugins.remove(&plugin.socket);
            return true;
        }
        assert!(entry.is_seen, "deregister {plugin} before a scan");
        assert_ne!(entry.fate, Fate::Awaited, "deregister {plugin} unseen");
        let has_changed = changed.contains(&entry.identity);
        assert!(
            entry.fate >= Fate::Left || has_changed,
            "deregister {plugin} although its socket is there: {entry:?}"
        );
        plugins.remove(&plugin.socket);
        true
    }
}

/// The types of the plugins in the simulation that built-in handlers serve.
pub(crate) const BUILT_IN: [&str; 2] = ["Program", "Gadget"];

/// The device of the sockets whose plugins have announced themselves.
const ANNOUNCED: u64 = u64::MAX;

/// Returns whether two plugins have the same type, name and endpoint.
pub(crate) fn is_twin(a: &Plugin, b: &Plugin) -> bool {
    (&a.kind, &a.name, &a.endpoint) == (&b.kind, &b.name, &b.endpoint)
}

impl State {
    fn list(&mut self, dir: &Path, listing: &Listing) {
        for entry in &listing.entries {
            self.see(&dir.join(&entry.name), &entry.kind);
        }
        self.see_all(|path| {
            let first = path.strip_prefix(dir).ok().and_then(|it| it.iter().next());
            let is_first = |first: &OsStr| listing.entries.iter().any(|entry| entry.name == first);
            first.is_some_and(|first| !is_first(first))
        });
    }

    /// Records what is at a path: if that is not a directory, nothing is below it.
    fn see(&mut self, at: &Path, kind: &EntryKind) {
        if matches!(kind, EntryKind::Directory) {
            self.see_all(|path| path == at);
        } else {
            self.see_below(at);
        }
    }

    fn see_below(&mut self, at: &Path) {
        self.see_all(|path| path.starts_with(at));
    }

    fn see_all(&mut self, is_seen: impl Fn(&Path) -> bool) {
        for (path, entry) in &mut self.plugins {
            entry.is_seen |= is_seen(path);
        }
    }

    fn found(&mut self, path: &Arc<Path>, identity: Identity) {
        self.reported.insert(path.clone(), identity);
        if let Some(entry) = self.plugins.get_mut(path) {
            assert!(entry.is_seen, "{path:?} is found before a scan");
            let fate = if entry.identity == identity {
                Fate::Found
            } else {
                Fate::Gone
            };
            entry.fate = entry.fate.max(fate);
        }
        self.settle();
    }

    fn lost(&mut self, path: &Arc<Path>) {
        self.reported.remove(path);
        if let Some(entry) = self.plugins.get_mut(path) {
            assert!(entry.is_seen, "{path:?} is lost before a scan");
            entry.fate = entry.fate.max(Fate::Left);
        }
        self.settle();
    }

    /// Records which sockets no path leads to any more.
    fn settle(&mut self) {
        let Self {
            plugins, reported, ..
        } = self;
        for entry in plugins.values_mut() {
            let is_unreachable = reported.values().all(|it| *it != entry.identity);
            if entry.fate == Fate::Left && is_unreachable {
                entry.fate = Fate::Gone;
            }
        }
    }
}
