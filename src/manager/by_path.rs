//! Maps of sockets by path.
//!
//! Pure. Every socket has an entry in one, so it is searched for whatever happens to any of them.
//! Paths of one directory have a long beginning in common, and to compare a dozen of them costs
//! more than all the rest of a search. So what is compared is a digest of each, and then one path.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{DefaultHasher, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// At most one value for each path, in no order that means anything.
#[derive(Clone, Debug)]
pub(super) struct ByPath<V> {
    /// By the paths' digests. As a rule, no two paths have the same: there is room for one.
    values: BTreeMap<u64, Vec<(Arc<Path>, V)>>,
    len: usize,
}

impl<V> Default for ByPath<V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<V> ByPath<V> {
    pub(super) fn insert(&mut self, path: Arc<Path>, value: V) -> Option<V> {
        let alike = self.values.entry(digest(&path)).or_default();
        if let Some((_, before)) = alike.iter_mut().find(|(it, _)| is_same(it, &path)) {
            return Some(std::mem::replace(before, value));
        }
        alike.reserve_exact(1);
        alike.push((path, value));
        self.len += 1;
        None
    }

    pub(super) fn remove(&mut self, path: &Path) -> Option<V> {
        if self.is_empty() {
            return None;
        }
        let Entry::Occupied(mut alike) = self.values.entry(digest(path)) else {
            return None;
        };
        let place = alike.get().iter().position(|(it, _)| is_same(it, path))?;
        let (_, value) = alike.get_mut().swap_remove(place);
        if alike.get().is_empty() {
            alike.remove();
        }
        self.len -= 1;
        Some(value)
    }

    pub(super) fn get(&self, path: &Path) -> Option<&V> {
        if self.is_empty() {
            return None;
        }
        let mut alike = self.values.get(&digest(path))?.iter();
        let (_, value) = alike.find(|(it, _)| is_same(it, path))?;
        Some(value)
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut V> {
        if self.is_empty() {
            return None;
        }
        let mut alike = self.values.get_mut(&digest(path))?.iter_mut();
        let (_, value) = alike.find(|(it, _)| is_same(it, path))?;
        Some(value)
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.get(path).is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<Path>, &V)> {
        self.values
            .values()
            .flatten()
            .map(|(path, value)| (path, value))
    }

    /// Takes everything out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (Arc<Path>, V)> + use<V> {
        std::mem::take(self).values.into_values().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The same for the same octets, in every process.
fn digest(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(path.as_os_str().as_bytes());
    hasher.finish()
}

/// Nearly always it is the very same text that is asked for.
fn is_same(a: &Path, b: &Path) -> bool {
    std::ptr::eq(a, b) || a.as_os_str() == b.as_os_str()
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
        let mut all: Vec<_> = map.iter().map(|(path, value)| (&**path, *value)).collect();
        all.sort_unstable();
        let expected = [("/r/a", 2), ("/r/b", 4), ("/r/b/c", 3)];
        assert_eq!(all, expected.map(|(path, value)| (Path::new(path), value)));
        assert_eq!(map.get(Path::new("/r/b")), Some(&4));
        assert_eq!(map.get(Path::new("/r/b/")), None, "another spelling");
        assert_eq!(map.remove(Path::new("/r/a")), Some(2));
        assert_eq!(map.remove(Path::new("/r/a")), None);
        assert_eq!(map.len(), 2);
        assert!(map.contains(Path::new("/r/b")) && !map.contains(Path::new("/r/a")));
        assert_eq!(map.take().map(|(_, value)| value).sum::<i32>(), 7);
        assert!(map.is_empty() && map.iter().next().is_none());
    }

    #[test]
    fn paths_with_one_digest_are_told_apart() {
        let [a, b] = ["/r/a", "/r/b"].map(|path| Arc::<Path>::from(Path::new(path)));
        let mut map = ByPath::default();
        map.insert(a.clone(), 1);
        let alike = map.values.get_mut(&digest(&a)).expect("it was inserted");
        alike.insert(0, (b.clone(), 2)); // As if the digests were the same.
        map.len += 1;
        assert_eq!(map.insert(a.clone(), 3), Some(1));
        assert_eq!(map.get(&a), Some(&3));
        assert_eq!(map.remove(&a), Some(3));
        assert!(map.iter().eq([(&b, &2)]));
    }
}
