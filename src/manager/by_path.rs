//! Maps of sockets by path.
//!
//! Pure. Every socket has an entry in such a map, so each event searches one. The paths of one
//! directory share a long prefix, and comparing a dozen of them costs more than the rest of a
//! search. So digests are compared instead, and then a single path.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// At most one value for each path, in unspecified order.
#[derive(Clone, Debug)]
pub(super) struct ByPath<V> {
    /// The entries by the digests of their paths. Two paths rarely have one digest, so each vector
    /// has room for one entry at first. A plugin can choose names that collide: entries with one
    /// digest are sorted by path, so that they are found by binary search.
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
        match place(alike, &path) {
            Ok(place) => return Some(std::mem::replace(&mut alike[place].1, value)),
            Err(place) => {
                alike.reserve_exact(1);
                alike.insert(place, (path, value));
            }
        }
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
        let place = place(alike.get(), path).ok()?;
        let (_, value) = alike.get_mut().remove(place);
        if alike.get().is_empty() {
            alike.remove();
        }
        self.len -= 1;
        Some(value)
    }

    pub(super) fn get(&self, path: &Path) -> Option<&V> {
        self.get_entry(path).map(|(_, value)| value)
    }

    pub(super) fn get_entry(&self, path: &Path) -> Option<(&Arc<Path>, &V)> {
        if self.is_empty() {
            return None;
        }
        let alike = self.values.get(&digest(path))?;
        let place = place(alike, path).ok()?;
        let (path, value) = &alike[place];
        Some((path, value))
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut V> {
        if self.is_empty() {
            return None;
        }
        let alike = self.values.get_mut(&digest(path))?;
        let place = place(alike, path).ok()?;
        Some(&mut alike[place].1)
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

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Returns a digest of the path's octets, the same in every process. Eight octets at a time are
/// mixed in by a multiplication, after which each of them affects the high half; rotating the
/// digest moves that half down for the next step. The last octets are read together with those
/// before them, which are masked out.
fn digest(path: &Path) -> u64 {
    let mut octets = path.as_os_str().as_bytes();
    let length = octets.len() as u64;
    let add = |digest: u64, word: u64| (digest.rotate_left(32) ^ word).wrapping_mul(ODD);
    let Some(last) = octets.last_chunk() else {
        let short = octets
            .iter()
            .fold(0, |word, octet| (word << 8) | u64::from(*octet));
        return add(length, short);
    };
    let mut digest = length;
    while let Some((word, rest)) = octets.split_first_chunk() {
        digest = add(digest, u64::from_le_bytes(*word));
        octets = rest;
    }
    let mask = (1 << (8 * octets.len())) - 1;
    add(digest, u64::from_be_bytes(*last) & mask)
}

/// Returns the index of a path among those with one digest as `Ok`, or the index to insert it at as
/// `Err`.
fn place<V>(alike: &[(Arc<Path>, V)], path: &Path) -> Result<usize, usize> {
    alike.binary_search_by(|(it, _)| {
        if std::ptr::eq(&raw const **it, path) {
            Ordering::Equal // Nearly always, the caller's path is the very same allocation.
        } else {
            it.as_os_str().cmp(path.as_os_str())
        }
    })
}

/// The multiplier of digests: odd, so that no information is lost, with ones and zeros in all
/// parts. It is the fractional part of the golden ratio, in 64 bits.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;

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
        assert_eq!(map.iter().map(|(_, value)| value).sum::<i32>(), 7);
        assert!(!map.is_empty());
    }

    #[test]
    fn paths_with_one_digest_are_told_apart() {
        let [a, b] = ["/r/a", "/r/b"].map(|path| Arc::<Path>::from(Path::new(path)));
        let mut map = ByPath::default();
        map.insert(a.clone(), 1);
        let alike = map.values.get_mut(&digest(&a)).expect("it was inserted");
        alike.push((b.clone(), 2)); // As if both paths had the same digest.
        map.len += 1;
        assert_eq!(map.insert(a.clone(), 3), Some(1));
        assert_eq!(map.get(&a), Some(&3));
        assert_eq!(map.remove(&a), Some(3));
        assert!(map.iter().eq([(&b, &2)]));
    }

    #[test]
    fn names_that_are_made_to_have_one_digest_are_all_found() {
        // The second word cancels the first one.
        let twin = |first: u64| {
            let state = |word: u64| (16_u64.rotate_left(32) ^ word).wrapping_mul(ODD);
            let second = state(first).rotate_left(32) ^ state(0).rotate_left(32);
            let octets = [first.to_le_bytes(), second.to_le_bytes()].concat();
            Arc::<Path>::from(Path::new(OsStr::from_bytes(&octets)))
        };
        let twins: Vec<_> = (0..100).map(twin).collect();
        let digests: BTreeSet<u64> = twins.iter().map(|path| digest(path)).collect();
        assert_eq!(digests.len(), 1);
        let mut map = ByPath::default();
        for (value, path) in twins.iter().enumerate() {
            assert_eq!(map.insert(path.clone(), value), None);
        }
        for (value, path) in twins.iter().enumerate() {
            let equal = path.to_path_buf();
            assert_eq!(map.get(&equal), Some(&value));
            assert_eq!(map.remove(&equal), Some(value));
        }
        assert!(map.is_empty());
    }

    fn digests_of_ten_thousand(suffix: &str) -> Vec<u64> {
        let name = |n| format!("/var/lib/kubelet/plugins_registry/driver-{n:05}{suffix}");
        let digests = (0..10_000).map(|number| digest(Path::new(&name(number))));
        digests.collect()
    }

    #[test]
    fn names_that_differ_in_one_octet_have_digests_that_differ_all_over() {
        let digests = digests_of_ten_thousand("-reg.sock");
        for part in [0, 2, 4, 6] {
            let octets = digests.iter().map(|digest| digest.to_le_bytes());
            let parts: BTreeSet<_> = octets.map(|it| (it[part], it[part + 1])).collect();
            let different = parts.len();
            // So many are expected of 10,000 random draws out of 65,536, give or take 30.
            assert!(different > 9200, "{different}");
        }
    }

    #[test]
    fn names_that_are_numbered_have_different_digests_wherever_the_number_ends() {
        for suffix in ["", "-", "-r", "-re", "-reg", "-reg.", "-reg.s", "-reg.sock"] {
            let digests = digests_of_ten_thousand(suffix);
            let different: BTreeSet<_> = digests.iter().collect();
            assert_eq!(different.len(), digests.len(), "{suffix:?}");
        }
    }
}
