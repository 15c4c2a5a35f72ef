//! An order of octets that is fast to compare: by length, and then from the end.
//!
//! musl's `memcmp` compares one octet at a time, and the paths of sockets share long prefixes. The
//! order is not alphabetical, so it must not be shown to users.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

/// Compares the lengths, and then the octets from the end, eight at a time. This is not the
/// lexicographic order.
#[inline]
pub fn cmp_length_then_end(mut a: &[u8], mut b: &[u8]) -> Ordering {
    if a.len() != b.len() {
        return a.len().cmp(&b.len());
    }
    while let (Some((rest_of_a, x)), Some((rest_of_b, y))) =
        (a.split_last_chunk(), b.split_last_chunk())
    {
        let (x, y) = (u64::from_ne_bytes(*x), u64::from_ne_bytes(*y));
        if x != y {
            return x.cmp(&y);
        }
        (a, b) = (rest_of_a, rest_of_b);
    }
    a.cmp(b)
}

/// Returns whether two sequences of octets are equal, comparing eight at a time.
#[inline]
pub fn are_equal(a: &[u8], b: &[u8]) -> bool {
    cmp_length_then_end(a, b).is_eq()
}

/// A path as a key, which is hashed, or sorted by [`cmp_length_then_end`].
#[derive(Clone, Debug)]
pub struct PathKey(pub Arc<Path>);

impl Ord for PathKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        cmp_length_then_end(
            self.0.as_os_str().as_encoded_bytes(),
            other.0.as_os_str().as_encoded_bytes(),
        )
    }
}

impl Hash for PathKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write(self.0.as_os_str().as_encoded_bytes());
    }
}

impl PartialOrd for PathKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_ordered_by_length_and_then_in_some_order() {
        let mut all = [
            "",
            "a",
            "b",
            "abcdefgh",
            "abcdefgi",
            "abcdefghi",
            "abcdefgih",
            "bbcdefghi",
        ]
        .map(str::as_bytes);
        all.sort_by(|a, b| cmp_length_then_end(a, b));
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(cmp_length_then_end(a, b), i.cmp(&j), "{a:?} {b:?}");
                assert_eq!(are_equal(a, b), a == b);
            }
        }
        assert!(all.is_sorted_by_key(|it| it.len()));
    }
}
