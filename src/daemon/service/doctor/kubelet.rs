//! Processes that run a kubelet: its plugin manager works in the directory below its root.
//!
//! A process counts by its name, and if root or this user runs it. Its root directory is a path in
//! its own mount namespace, and is taken for the same path here.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::finding::{Findings, Level};
use super::other_roots::{DEFAULT, MICROK8S};
use crate::config::MAX_NAMES;

/// A process that runs a kubelet.
#[derive(Debug)]
pub(super) struct Kubelet {
    name: &'static str,
    /// Its directory on /proc.
    process: PathBuf,
    /// The kubelet's root directory.
    pub(super) root: PathBuf,
}

/// Returns the kubelets that root or this user runs, at most [`MAX_KUBELETS`].
pub(super) fn running(user: u32) -> Vec<Kubelet> {
    let mut found = Vec::new();
    let Ok(listed) = fs::read_dir("/proc") else {
        return found;
    };
    for entry in listed.take(MAX_NAMES).flatten() {
        if found.len() < MAX_KUBELETS {
            found.extend(examine(&entry.path(), user));
        }
    }
    found
}

/// Examines a process, by its directory on /proc. Returns `None` if it is not a kubelet, if it
/// belongs to a user other than root and this one, or if it has ended.
fn examine(process: &Path, user: u32) -> Option<Kubelet> {
    // The kernel limits the length of both files.
    let comm = fs::read_to_string(process.join("comm")).ok()?;
    let (name, usual) = NAMES.iter().find(|(name, _)| *name == comm.trim_end())?;
    let uid = fs::metadata(process).ok()?.uid();
    let named = root_dir(&fs::read_to_string(process.join("cmdline")).ok()?);
    (uid == 0 || uid == user).then(|| Kubelet {
        name,
        process: process.to_owned(),
        root: named.unwrap_or_else(|| usual.into()),
    })
}

/// Returns the root directory that a command line names. As in kubelet, the last one counts.
fn root_dir(cmdline: &str) -> Option<PathBuf> {
    let mut root = None;
    let mut arguments = cmdline.split('\0');
    while let Some(argument) = arguments.next() {
        let named = match argument.strip_prefix("--root-dir") {
            Some("") => arguments.next(),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        root = named.filter(|path| path.starts_with('/')).or(root);
    }
    root.map(PathBuf::from)
}

/// Judges a kubelet, by whether its plugins directory is among the named ones.
pub(super) fn judge(kubelet: &Kubelet, is_here: bool, found: &mut Findings) {
    let Kubelet {
        name,
        process,
        root,
    } = kubelet;
    let (level, what, remedy) = if is_here {
        let remedy = "stop one of them, or use plugind run --observe";
        (Level::Warning, "also registers plugins here", remedy)
    } else {
        (Level::Note, "registers plugins in this root", "")
    };
    let message = format!("{name} {what}: process={}", process.display());
    found.add(level, CHECK, &[root], &message, &remedy);
}

/// The names of processes that run a kubelet, each with its root directory unless the command line
/// names another: kubelet itself, that of MicroK8s, and those of k3s.
const NAMES: [(&str, &str); 4] = [
    ("kubelet", DEFAULT),
    ("kubelite", MICROK8S),
    ("k3s-server", DEFAULT),
    ("k3s-agent", DEFAULT),
];

/// The most kubelets that are shown. A node has one.
const MAX_KUBELETS: usize = 8;

const CHECK: &str = "kubelet";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_directory_is_read_from_a_command_line_in_either_form() {
        for (line, expected) in [
            ("kubelet\0--v=2\0", None),
            ("kubelet\0--root-dir=/a\0--v=2\0", Some("/a")),
            ("kubelet\0--root-dir\0/a b\0", Some("/a b")),
            ("kubelet\0--root-dir=/a\0--root-dir=/b", Some("/b")),
            ("kubelet\0--root-directory=/a\0", None),
            ("kubelet\0--root-dir=relative\0", None),
            ("kubelet\0--root-dir", None),
            ("", None),
        ] {
            assert_eq!(root_dir(line), expected.map(PathBuf::from));
        }
    }

    #[test]
    fn a_kubelet_counts_if_it_belongs_to_root_or_to_this_user() {
        let process = tempfile::tempdir().unwrap();
        fs::write(process.path().join("comm"), "kubelet\n").unwrap();
        fs::write(process.path().join("cmdline"), "kubelet\0--root-dir=/a\0").unwrap();
        let uid = fs::metadata(process.path()).unwrap().uid();
        let found = examine(process.path(), uid).expect("it belongs to this user");
        assert_eq!(found.root, Path::new("/a"));
        let is_found = examine(process.path(), uid + 1).is_some();
        assert_eq!(is_found, uid == 0);
    }

    #[test]
    fn a_kubelet_is_a_warning_only_if_it_works_here() {
        let kubelet = Kubelet {
            name: "kubelet",
            process: "/proc/8".into(),
            root: "/a".into(),
        };
        let mut found = Findings::default();
        judge(&kubelet, true, &mut found);
        judge(&kubelet, false, &mut found);
        assert_eq!(
            found.take_lines(),
            [
                "warning /a: kubelet also registers plugins here: process=/proc/8; \
                 stop one of them, or use plugind run --observe",
                "note /a: kubelet registers plugins in this root: process=/proc/8; "
            ]
        );
    }
}
