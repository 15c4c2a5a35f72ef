//! The mapping of paths that plugins report to paths of this process.
//!
//! A plugin may report an endpoint path that leads elsewhere in this process's mount namespace: for
//! example, because the plugin runs in a container, or was configured with kubelet's usual
//! directory on a node with a different one.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The directories that have another path in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathMap {
    moved: Vec<(PathBuf, PathBuf)>,
}

impl PathMap {
    /// Maps the path `from` of plugins, and everything below it, to `to`.
    pub fn add(&mut self, from: impl Into<PathBuf>, to: impl Into<PathBuf>) {
        self.moved.push((from.into(), to.into()));
    }

    /// Returns the paths of the mapped directories in this process.
    pub fn targets(&self) -> impl Iterator<Item = &Path> {
        self.moved.iter().map(|(_, to)| to.as_path())
    }

    /// Returns the path that `path` has in this process: `path` itself if no mapping matches.
    /// Matching is by path component; the longest `from` wins.
    pub fn translate<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        let above = self
            .moved
            .iter()
            .filter_map(|(from, to)| Some((to, path.strip_prefix(from).ok()?)));
        match above.min_by_key(|(_, rest)| rest.components().count()) {
            Some((to, rest)) if rest.as_os_str().is_empty() => Cow::Owned(to.clone()),
            Some((to, rest)) => Cow::Owned(to.join(rest)),
            None => Cow::Borrowed(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_of_whole_components_wins() {
        let mut map = PathMap::default();
        map.add("/var/lib/kubelet", "/data/kubelet");
        map.add("/var/lib/kubelet/plugins", "/fast/plugins");
        map.add("/var", "/other");
        let cases = [
            ("/var/lib/kubelet/a.sock", "/data/kubelet/a.sock"),
            ("/var/lib/kubelet", "/data/kubelet"),
            ("/var/lib/kubelet/", "/data/kubelet"),
            (
                "/var/lib/kubelet/plugins/x/csi.sock",
                "/fast/plugins/x/csi.sock",
            ),
            (
                "/var/lib/kubelet/plugins2/csi.sock",
                "/data/kubelet/plugins2/csi.sock",
            ),
            ("/var/lib/kubelet2/a.sock", "/other/lib/kubelet2/a.sock"),
            ("/run/a.sock", "/run/a.sock"),
            ("var/lib/kubelet/a.sock", "var/lib/kubelet/a.sock"),
            ("", ""),
        ];
        for (from, to) in cases {
            assert_eq!(map.translate(Path::new(from)), Path::new(to), "{from}");
        }
    }

    #[test]
    fn a_path_is_unchanged_without_a_mapping() {
        let path = Path::new("/var/lib/kubelet/a.sock");
        assert_eq!(PathMap::default().translate(path), path);
    }
}
