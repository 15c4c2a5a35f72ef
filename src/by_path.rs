//! A map by path.
//!
//! Pure. Paths are compared by their octets: `Path` itself compares component by component, which
//! takes ten times as long.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// A map by path, in the order of the paths' octets.
pub(crate) type ByPath<V> = BTreeMap<Octets, V>;

/// A path as the key of a map.
#[derive(Clone, Debug)]
pub(crate) struct Octets(pub(super) Arc<Path>);

/// Returns the octets of a path, to look it up.
pub(crate) fn octets(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Borrow<[u8]> for Octets {
    fn borrow(&self) -> &[u8] {
        octets(&self.0)
    }
}

impl Ord for Octets {
    fn cmp(&self, other: &Self) -> Ordering {
        octets(&self.0).cmp(octets(&other.0))
    }
}

impl PartialOrd for Octets {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Octets {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Octets {}
