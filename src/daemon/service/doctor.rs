//! An examination of a node: what keeps a daemon, or its plugins, from working there.
//!
//! Shell. Needs no daemon, and changes nothing: files are read, a connection to each socket shows
//! whether it has a listener, and an inotify instance that is closed at once shows whether there is
//! one left. The work is limited: at most [`MAX_NAMES`] names are read in all, and no file system
//! that may not answer is entered, wherever a path leads.
//!
//! Each group of checks collects facts, and a function of its own judges them.

mod directory;
mod finding;
mod kubelet;
mod other_roots;
mod running;
mod sockets;
mod system;
mod tree;

use std::path::{Path, PathBuf};

use mio::{Poll, Registry};
use nix::unistd::Uid;

use self::directory::Place;
use self::finding::Findings;
pub use self::finding::{Finding, Level};
use self::kubelet::Kubelet;
use self::tree::sockets_below;
use crate::config::{MAX_NAMES, PLUGINS_DIR};
use crate::daemon::SetupError;
use crate::daemon::fs::mounts::Mounts;
use crate::time::Time;

/// What to examine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The plugins directories.
    pub dirs: Vec<PathBuf>,
    /// The run directory; `None`: the default of this user.
    pub run_dir: Option<PathBuf>,
    /// The socket of the daemon's API; `None`: the one in the run directory.
    pub socket: Option<PathBuf>,
}

/// Examines this node, and returns the findings in the order of the checks. Fails if the process
/// has no descriptors left.
pub fn examine(options: &Options) -> Result<Vec<Finding>, SetupError> {
    let poll = Poll::new().map_err(SetupError::Loop)?;
    let registry = || poll.registry().try_clone().map_err(SetupError::Loop);
    let (first, second, for_trial) = (registry()?, registry()?, registry()?);
    let user = Uid::effective().as_raw();
    // Without roots, every mount that may not answer is in the table.
    let mut mounts = read_mounts(&[], first);
    let mut named = Vec::new();
    for dir in &options.dirs {
        named.push(directory::look(dir, &mounts));
    }
    let kubelets = kubelet::running(user);
    let others = other_roots(&named, &kubelets, &mounts);
    let mut usable = Vec::new();
    for place in named.iter().chain(&others) {
        if place.id.is_some() {
            usable.push(place.dir.clone());
        }
    }
    mounts = read_mounts(&usable, second);

    let (mut found, mut names) = (Findings::default(), MAX_NAMES);
    let (mut directories, mut sockets) = (0, 0);
    for place in &named {
        directory::judge(place, &mounts, &mut found);
        if place.id.is_some() {
            let tree = sockets_below(&place.dir, &mounts, &mut names);
            directory::judge_unread(&place.dir, &tree.unread, &mut found);
            sockets::judge(&place.dir, &tree.paths, &mounts, user, &mut found);
            directories += tree.directories;
            sockets += tree.paths.len();
        }
    }
    for place in &others {
        let tree = sockets_below(&place.dir, &mounts, &mut names);
        other_roots::judge(&place.dir, tree.paths.len(), sockets, &mut found);
    }
    for kubelet in &kubelets {
        let theirs = directory::look(&kubelet.root.join(PLUGINS_DIR), &mounts);
        let is_here = named.iter().any(|it| it.is_same(&theirs));
        kubelet::judge(kubelet, is_here, &mut found);
    }
    running::examine(options, &named, &mounts, &mut found);
    let watches = directories.max(named.len()) + named.len();
    let dir = usable
        .first()
        .map_or_else(|| Path::new("/"), PathBuf::as_path);
    system::examine(dir, watches, sockets, for_trial, &mut found);
    Ok(found.0)
}

/// Reads the whole mount table for these roots.
fn read_mounts(roots: &[PathBuf], registry: Registry) -> Mounts {
    Mounts::new(roots, [].into_iter(), registry, Time::ZERO)
}

/// Returns the plugins directories of kubelets and in the usual roots that exist and are not among
/// the named ones.
fn other_roots(named: &[Place], kubelets: &[Kubelet], mounts: &Mounts) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    let of_kubelets = kubelets.iter().map(|it| &*it.root);
    for root in of_kubelets.chain(other_roots::USUAL.map(Path::new)) {
        let place = directory::look(&root.join(PLUGINS_DIR), mounts);
        let is_known = named.iter().chain(&found).any(|it| it.is_same(&place));
        if place.id.is_some() && !is_known {
            found.push(place);
        }
    }
    found
}
