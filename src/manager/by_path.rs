//! A map of sockets by path.
//!
//! Pure. Every socket has an entry in one, so it is searched for whatever happens to any of them.
//! Paths are compared octet by octet: `Path` compares them part by part, which costs as much as all
//! the rest of a registration when there are thousands with a long beginning in common.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsStr;
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

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_os_str().cmp(other.0.as_os_str())
    }
}

impl Borrow<OsStr> for Key {
    fn borrow(&self) -> &OsStr {
        self.0.as_os_str()
    }
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
        self.values.remove(path.as_os_str())
    }

    pub(super) fn get(&self, path: &Path) -> Option<&V> {
        self.values.get(path.as_os_str())
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut V> {
        self.values.get_mut(path.as_os_str())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<Path>, &V)> {
        self.values.iter().map(|(key, value)| (&key.0, value))
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
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
    }
}
