//! Maps and sets of sockets by path.
//!
//! Pure. Every socket has an entry in one, so it is searched for whatever happens to any of them.
//! Paths are compared by their octets, eight at a time: `Path` compares them part by part, and
//! musl's `memcmp` octet by octet, and either costs as much as all the rest of a registration when
//! there are thousands with a long beginning in common.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// At most one value for each path, in the order of the paths' octets.
#[derive(Clone, Debug)]
pub(super) struct ByPath<V> {
    values: BTreeMap<Key, V>,
}

/// A path as a sequence of octets.
#[derive(Clone, Debug)]
struct Key(Arc<Path>);

/// A path to compare with others.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByOctets<'a>(pub(super) &'a Path);

/// What a map is searched for: a key of its own or somebody's path.
trait Octets {
    fn octets(&self) -> &[u8];
}

impl Octets for Key {
    fn octets(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }
}

impl Octets for ByOctets<'_> {
    fn octets(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }
}

impl<'a> Borrow<dyn Octets + 'a> for Key {
    fn borrow(&self) -> &(dyn Octets + 'a) {
        self
    }
}

/// Types are compared by their octets.
macro_rules! compare_octets {
    ($($octets:ty),*) => {$(
        impl PartialEq for $octets {
            fn eq(&self, other: &Self) -> bool {
                self.octets() == other.octets()
            }
        }

        impl Eq for $octets {}

        impl PartialOrd for $octets {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $octets {
            fn cmp(&self, other: &Self) -> Ordering {
                compare(self.octets(), other.octets())
            }
        }
    )*};
}

compare_octets!(Key, ByOctets<'_>, dyn Octets + '_);

/// Compares eight octets at a time; the first that differ decide, as one at a time would.
fn compare(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some((left, a_rest)), Some((right, b_rest))) =
        (a.split_first_chunk(), b.split_first_chunk())
    {
        if left != right {
            return u64::from_be_bytes(*left).cmp(&u64::from_be_bytes(*right));
        }
        (a, b) = (a_rest, b_rest);
    }
    a.cmp(b)
}

impl<V> Default for ByPath<V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
        }
    }
}

impl<V> ByPath<V> {
    pub(super) fn insert(&mut self, path: Arc<Path>, value: V) -> Option<V> {
        self.values.insert(Key(path), value)
    }

    pub(super) fn remove(&mut self, path: &Path) -> Option<V> {
        self.values.remove(&ByOctets(path) as &dyn Octets)
    }

    pub(super) fn get(&self, path: &Path) -> Option<&V> {
        self.values.get(&ByOctets(path) as &dyn Octets)
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut V> {
        self.values.get_mut(&ByOctets(path) as &dyn Octets)
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.values.contains_key(&ByOctets(path) as &dyn Octets)
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Arc<Path>, &V) -> bool) {
        self.values.retain(|key, value| keep(&key.0, value));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<Path>, &V)> {
        self.values.iter().map(|(key, value)| (&key.0, value))
    }

    /// Takes everything out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (Arc<Path>, V)> + use<V> {
        let values = std::mem::take(&mut self.values);
        values.into_iter().map(|(key, value)| (key.0, value))
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// A set of paths, in the order of their octets.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    paths: BTreeSet<Key>,
}

impl Paths {
    pub(super) fn insert(&mut self, path: Arc<Path>) {
        self.paths.insert(Key(path));
    }

    /// True when it was there.
    pub(super) fn remove(&mut self, path: &Path) -> bool {
        self.paths.remove(&ByOctets(path) as &dyn Octets)
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.paths.contains(&ByOctets(path) as &dyn Octets)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.paths.iter().map(|key| &key.0)
    }

    /// Takes everything out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Arc<Path>> + use<> {
        let paths = std::mem::take(&mut self.paths);
        paths.into_iter().map(|key| key.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

impl Extend<Arc<Path>> for Paths {
    fn extend<I: IntoIterator<Item = Arc<Path>>>(&mut self, paths: I) {
        self.paths.extend(paths.into_iter().map(Key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_by_its_octets_and_each_has_one_value() {
        let mut map = ByPath::default();
        for (path, value) in [("/r/b", 1), ("/r/a", 2), ("/r/b/c", 3), ("/r/b", 4)] {
            map.insert(Path::new(path).into(), value);
        }
        let all: Vec<_> = map.iter().map(|(path, value)| (&**path, *value)).collect();
        let expected = [("/r/a", 2), ("/r/b", 4), ("/r/b/c", 3)];
        assert_eq!(all, expected.map(|(path, value)| (Path::new(path), value)));
        assert_eq!(map.get(Path::new("/r/b")), Some(&4));
        assert_eq!(map.get(Path::new("/r/b/")), None, "another spelling");
        assert_eq!(map.remove(Path::new("/r/a")), Some(2));
        assert_eq!(map.len(), 2);
        assert!(map.contains(Path::new("/r/b")) && !map.contains(Path::new("/r/a")));
        assert!(map.take().map(|(_, value)| value).eq([4, 3]));
        assert!(map.is_empty());
    }

    #[test]
    fn eight_octets_at_a_time_compare_like_one_at_a_time() {
        let paths = [
            "",
            "/",
            "/r/a",
            "/r/a-reg",
            "/r/a-reg.sock",
            "/r/a-reg.socl",
            "/r/a-rég.sock",
            "/r/b",
            "/registry",
            "/registry/a",
            "/registry/b.sock",
            "/registry\u{ff}",
        ];
        for a in paths {
            for b in paths {
                assert_eq!(compare(a.as_bytes(), b.as_bytes()), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_set_has_a_path_once() {
        let mut paths = Paths::default();
        paths.extend(["/r/b", "/r/a", "/r/b"].map(|path| Path::new(path).into()));
        assert!(
            paths
                .iter()
                .map(|path| &**path)
                .eq([Path::new("/r/a"), Path::new("/r/b")])
        );
        assert!(paths.remove(Path::new("/r/a")) && !paths.remove(Path::new("/r/a")));
        assert!(paths.contains(Path::new("/r/b")));
        assert_eq!(paths.take().count(), 1);
        assert!(paths.is_empty());
    }
}
