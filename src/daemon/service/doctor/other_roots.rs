//! Plugins directories that the user has not named: plugins may register in one of them instead.

use std::path::Path;

use super::finding::{Findings, Level};
use crate::escape;

/// Judges a plugins directory with that many sockets, given the number of those in the named ones.
pub(super) fn judge(dir: &Path, sockets: usize, named: usize, found: &mut Findings) {
    if sockets == 0 {
        return;
    }
    if named > 0 {
        let message = "contains sockets, too";
        return found.add(Level::Note, CHECK, &[dir], &message, &"");
    }
    let root = escape::path(dir.parent().unwrap_or(dir));
    let message = "contains sockets, and the named directories contain none";
    let remedy = format!("use --root-dir {root}");
    found.add(Level::Warning, CHECK, &[dir], &message, &remedy);
}

/// kubelet's root directories: its default, which kubeadm, k3s and RKE2 keep, that of k0s, and that
/// of MicroK8s.
pub(super) const USUAL: [&str; 3] = [DEFAULT, "/var/lib/k0s/kubelet", MICROK8S];

/// kubelet's default for `--root-dir`.
pub(super) const DEFAULT: &str = "/var/lib/kubelet";

/// The root directory of MicroK8s.
pub(super) const MICROK8S: &str = "/var/snap/microk8s/common/var/lib/kubelet";

const CHECK: &str = "root-dir";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_root_is_the_wrong_one_only_if_the_named_one_has_no_sockets() {
        let mut found = Findings::default();
        let dir = Path::new("/k0s/plugins_registry");
        for (sockets, named, expected) in [
            (0, 0, &[][..]),
            (0, 1, &[]),
            (
                3,
                1,
                &["note /k0s/plugins_registry: contains sockets, too; "],
            ),
            (
                3,
                0,
                &[
                    "warning /k0s/plugins_registry: contains sockets, and the named directories \
                   contain none; use --root-dir /k0s",
                ],
            ),
        ] {
            judge(dir, sockets, named, &mut found);
            assert_eq!(found.take_lines(), expected);
        }
    }
}
