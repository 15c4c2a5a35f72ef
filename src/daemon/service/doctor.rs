//! An examination of a node: the facts that keep a daemon, or its plugins, from working there.
//!
//! Each plugin is probed ([`super::probe`]). Nothing is changed, and no file system that may not
//! answer is entered, wherever a path leads.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mio::Poll;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, Uid, access};

use super::probe::{self, Outcome, probe};
use crate::config::{DEFAULT_ROOT_DIR, DaemonConfig, PLUGINS_DIR, PathMap};
use crate::daemon::SetupError;
use crate::daemon::fs::dial::{connect, open_foreign};
use crate::daemon::fs::mounts::Mounts;
use crate::daemon::fs::open_path::open_path;
use crate::daemon::fs::{permissions, run_dir, scan};
use crate::escape;
use crate::handler::DialError;
use crate::time::Time;
use crate::watch::{Entry, EntryKind, Problem, Report};

/// The directories to examine, and the daemon's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The plugins directories.
    pub dirs: Vec<PathBuf>,
    /// The run directory; `None`: the default of this user.
    pub run_dir: Option<PathBuf>,
    /// The socket of the daemon's API; `None`: the one in the run directory.
    pub socket: Option<PathBuf>,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The name of the check: one word, or two with a hyphen.
    pub check: &'static str,
    /// What was found. If there are paths, it applies to each of them. Texts from outside are
    /// escaped.
    pub message: String,
    /// The remedy; empty if nothing has to be done.
    pub remedy: String,
    /// The directories, files or sockets that the finding concerns: only the first few of many.
    pub paths: Vec<PathBuf>,
    /// The number of all paths that the finding concerns.
    pub count: usize,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No problem was found.
    Ok,
    /// A fact that needs no action.
    Note,
    /// Something works in part, or for some plugins only.
    Warning,
    /// Something does not work.
    Problem,
}

impl Level {
    /// Returns the name of the level.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// Examines this node, and returns the findings in the order of the checks. Fails, for example, if
/// the process has no descriptors left.
pub fn examine(options: &Options) -> Result<Vec<Finding>, SetupError> {
    let poll = Poll::new().map_err(SetupError::Loop)?;
    let registry = poll.registry().try_clone().map_err(SetupError::Loop)?;
    let mut doctor = Doctor {
        // Without roots, every mount that may not answer is in the table.
        mounts: Mounts::new(&[], &PathMap::default(), registry, Time::ZERO),
        findings: Vec::new(),
    };
    let mut sockets = 0;
    for dir in &options.dirs {
        sockets += doctor.examine_directory(dir)?;
    }
    doctor.examine_other_roots(&options.dirs, sockets);
    doctor.examine_kubelets(&options.dirs);
    doctor.examine_daemon(options);
    Ok(doctor.findings)
}

/// An examination in progress.
struct Doctor {
    mounts: Mounts,
    findings: Vec<Finding>,
}

impl Doctor {
    /// Adds a finding with the first [`escape::MAX_LISTED`] of the paths, and the number of all.
    fn add_finding(
        &mut self,
        level: Level,
        check: &'static str,
        paths: &[&Path],
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let first = paths.iter().take(escape::MAX_LISTED);
        self.findings.push(Finding {
            level,
            check,
            message: message.into(),
            remedy: remedy.into(),
            paths: first.map(|&path| path.to_owned()).collect(),
            count: paths.len(),
        });
    }

    /// Adds a finding for a problem with a directory.
    fn add_problem(&mut self, level: Level, dir: &Path, problem: &Problem) {
        let (message, remedy) = (problem.to_string(), problem.remedy());
        self.add_finding(level, DIRECTORY, &[dir], message, remedy);
    }

    /// Examines a plugins directory, and the plugins in it. Returns the number of sockets.
    fn examine_directory(&mut self, dir: &Path) -> Result<usize, SetupError> {
        let report = match self.probe_directory(dir) {
            Ok(Some(report)) => report,
            Ok(None) => {
                let message = "does not exist; the daemon creates it";
                self.add_finding(Level::Note, DIRECTORY, &[dir], message, "");
                return Ok(0);
            }
            Err(SetupError::Directory { dir, problem }) => {
                self.add_problem(Level::Problem, &dir, &problem);
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        let before = self.findings.len();
        if let Err(problem) = permissions::resolve_trusted_directory(dir, true) {
            let message = format!("other users can put sockets here: {problem}");
            self.add_finding(Level::Warning, DIRECTORY, &[dir], message, problem.remedy());
        }
        for trouble in &report.problems {
            if let Report::Trouble { dir, problem } = trouble {
                self.add_problem(Level::Warning, dir, problem);
            }
        }
        if self.findings.len() == before {
            self.add_finding(Level::Ok, DIRECTORY, &[dir], "can be used", "");
        }
        self.assess_sockets(&report);
        self.assess_access(&report);
        Ok(report.sockets.len())
    }

    /// Probes the plugins in a directory. Returns `None` if the directory does not exist but can be
    /// created.
    fn probe_directory(&self, dir: &Path) -> Result<Option<probe::Report>, SetupError> {
        let exists = match self.file_id(dir) {
            Err(Problem::Missing) => self.check_creation(dir).map(|()| false),
            found => found.map(|_| true),
        };
        let options = probe::Options {
            path: dir.to_owned(),
            config: DaemonConfig::default(),
            timeout: Some(PROBE_TIMEOUT),
        };
        let dir = dir.into();
        match exists {
            Ok(true) => probe(&options, &mut |_, _| {}).map(Some),
            Ok(false) => Ok(None),
            Err(problem) => Err(SetupError::Directory { dir, problem }),
        }
    }

    /// Adds a finding for the sockets that not every user may connect to.
    fn assess_access(&mut self, report: &probe::Report) {
        let allows = |path: &Path, others: Mode| {
            let held = open_path(path, OFlag::empty(), &self.mounts).ok();
            let found = held.and_then(|held| held.metadata().ok());
            found.is_none_or(|found| found.mode() & others.bits() != 0)
        };
        // To connect, other users need to write to the socket, and to search the directories above.
        let is_closed = |path: &&Path| {
            let mut dirs = path.ancestors().skip(1);
            !allows(path, Mode::S_IWOTH) || !dirs.all(|dir| allows(dir, Mode::S_IXOTH))
        };
        let sockets = report.sockets.keys().map(|path| &**path);
        let closed: Vec<&Path> = sockets.filter(is_closed).collect();
        if !closed.is_empty() {
            let message = "an ordinary user could not connect; plugind as root can";
            self.add_finding(Level::Note, "sockets", &closed, message, "");
        }
    }

    /// Adds a finding for each group of sockets about which the probe has found the same, and one
    /// for each reason why a socket is not trusted.
    fn assess_sockets(&mut self, report: &probe::Report) {
        let mut found = Vec::new();
        for (path, probed) in &report.sockets {
            let (_, _, what, _) = probed.outcome.describe();
            let what = match probed.steps.last() {
                Some(last) if probed.outcome != Outcome::WouldRegister => &last.message,
                _ => what,
            };
            found.push((probed.outcome, what, &**path));
            let steps = probed.steps.iter();
            for step in steps.filter(|step| step.reason == "Untrusted") {
                self.add_finding(Level::Note, "trust", &[path], &*step.message, "");
            }
        }
        found.sort_unstable();
        for alike in found.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let (outcome, what, _) = alike[0];
            let paths: Vec<&Path> = alike.iter().map(|(.., path)| *path).collect();
            let (_, _, _, advice) = outcome.describe();
            let level = match outcome {
                Outcome::WouldRegister => Level::Ok,
                _ => Level::Warning,
            };
            self.add_finding(level, "sockets", &paths, what, advice);
        }
    }

    /// Looks for sockets in the kubelet root directories of other distributions, if the named
    /// directories have none.
    fn examine_other_roots(&mut self, named: &[PathBuf], sockets: usize) {
        for root in ROOTS.map(Path::new).into_iter().filter(|_| sockets == 0) {
            let dir = root.join(PLUGINS_DIR);
            if self.is_named(&dir, named) || self.file_id(&dir).is_err() {
                continue;
            }
            let listed = scan::list(&dir, &dir, &self.mounts);
            let is_socket = |it: &Entry| matches!(it.kind, EntryKind::Socket(_));
            if listed.is_ok_and(|listed| listed.entries.iter().any(is_socket)) {
                let message = "contains sockets, and the named directories contain none";
                let remedy = format!("use --root-dir {}", escape::path(root));
                self.add_finding(Level::Warning, "root-dir", &[&dir], message, remedy);
            }
        }
    }

    /// Looks for kubelet processes, whose plugin managers use [`PLUGINS_DIR`] in kubelet's root
    /// directory. The root directory is a path in kubelet's mount namespace, and is assumed to be
    /// the same path here.
    fn examine_kubelets(&mut self, named: &[PathBuf]) {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let kubelets = processes.filter_map(|it| Some((it.path(), kubelet_root(&it.path())?)));
        for (process, root) in kubelets.take(escape::MAX_LISTED) {
            let process = process.display();
            let (level, message, remedy) = if self.is_named(&root.join(PLUGINS_DIR), named) {
                let remedy = "stop one of them, or use plugind run --observe";
                (Level::Warning, "also registers plugins here", remedy)
            } else {
                (Level::Note, "registers plugins in this root", "")
            };
            let message = format!("a kubelet {message}: process={process}");
            self.add_finding(level, "kubelet", &[&root], message, remedy);
        }
    }

    /// Examines whether a daemon listens on the API socket, by connecting to the socket.
    fn examine_daemon(&mut self, options: &Options) {
        let in_run_dir = options.run_dir.as_deref().map(run_dir::api_socket);
        let socket = options.socket.clone().or(in_run_dir);
        let socket = socket.unwrap_or_else(run_dir::default_api_socket);
        let opened = open_foreign(&socket, None, &self.mounts);
        let dialed = opened.and_then(|opened| connect(opened.as_ref(), &socket));
        let (level, message, remedy) = match dialed {
            Ok(_) => (Level::Ok, "a daemon listens".to_owned(), ""),
            Err(error) => {
                let (level, remedy) = match error {
                    DialError::Gone if options.socket.is_none() => (Level::Note, ""),
                    DialError::Refused => (Level::Warning, "start plugind run"),
                    DialError::Denied => (Level::Warning, "run as root or as the daemon's user"),
                    _ => (Level::Warning, "name the daemon's socket with --socket"),
                };
                (level, error.to_string(), remedy)
            }
        };
        self.add_finding(level, "daemon", &[&socket], message, remedy);
    }

    /// Returns the device and the inode of a directory, or the reason why it cannot be used.
    fn file_id(&self, dir: &Path) -> Result<(u64, u64), Problem> {
        let (_, found) = scan::open_directory(dir, OFlag::empty(), &self.mounts)?;
        Ok((found.identity.device, found.identity.inode))
    }

    /// Fails if this user cannot create a missing directory.
    fn check_creation(&self, dir: &Path) -> Result<(), Problem> {
        if dir.is_symlink() {
            return Err(Problem::NotADirectory); // The target does not exist.
        }
        let above = dir.ancestors().find(|it| self.file_id(it).is_ok());
        let checked = above.map_or(Ok(()), |above| access(above, AccessFlags::W_OK));
        checked.map_err(|errno| Problem::NotCreated(scan::cause(&errno.into())))
    }

    /// Returns whether a directory is one of the named ones, perhaps under another path.
    fn is_named(&self, dir: &Path, named: &[PathBuf]) -> bool {
        let inode = self.file_id(dir).ok();
        let is_it = |it: &PathBuf| dir == it || inode.is_some() && self.file_id(it).ok() == inode;
        named.iter().any(is_it)
    }
}

/// Returns the root directory of the kubelet that a process of root or of this user runs. `process`
/// is the directory of the process in `/proc`. Returns `None` for any other process.
fn kubelet_root(process: &Path) -> Option<PathBuf> {
    let comm = fs::read_to_string(process.join("comm")).ok()?;
    let (_, usual) = KUBELETS.iter().find(|(name, _)| *name == comm.trim_end())?;
    let uid = fs::metadata(process).ok()?.uid();
    let cmdline = fs::read_to_string(process.join("cmdline")).ok()?;
    let is_trusted = uid == 0 || uid == Uid::effective().as_raw();
    is_trusted.then(|| parse_root_dir(&cmdline).unwrap_or(usual).into())
}

/// Returns the absolute root directory that a command line names. As in kubelet, the last one
/// counts.
fn parse_root_dir(cmdline: &str) -> Option<&str> {
    let mut arguments = cmdline.split('\0');
    let mut root = None;
    while let Some(argument) = arguments.next() {
        let named = match argument.strip_prefix("--root-dir") {
            Some("") => arguments.next(),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        root = named.filter(|path| path.starts_with('/')).or(root);
    }
    root
}

/// The names of processes that run a kubelet, each with its root directory unless the command line
/// names another: kubelet itself, that of MicroK8s, and those of k3s.
const KUBELETS: [(&str, &str); 4] = [
    ("kubelet", DEFAULT_ROOT_DIR),
    ("kubelite", MICROK8S),
    ("k3s-server", DEFAULT_ROOT_DIR),
    ("k3s-agent", DEFAULT_ROOT_DIR),
];

/// kubelet's root directories: its default, which kubeadm, k3s and RKE2 keep, that of k0s, and that
/// of MicroK8s.
const ROOTS: [&str; 3] = [DEFAULT_ROOT_DIR, "/var/lib/k0s/kubelet", MICROK8S];

/// The root directory of MicroK8s.
const MICROK8S: &str = "/var/snap/microk8s/common/var/lib/kubelet";

/// The time in which all plugins of a directory have to answer: much more than they need.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The name of the checks of a plugins directory.
const DIRECTORY: &str = "directory";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_root_that_a_kubelet_names_counts() {
        for (cmdline, root) in [
            ("kubelet\0--v=2\0", None),
            ("kubelet\0--root-dir=/a\0", Some("/a")),
            ("kubelet\0--root-dir\0/a\0--root-dir=/b\0", Some("/b")),
            ("kubelet\0--root-dir=a\0--root-directory=/c\0", None),
        ] {
            assert_eq!(parse_root_dir(cmdline), root, "{cmdline}");
        }
    }
}
