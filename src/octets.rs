//! Comparing octets eight at a time.
//!
//! musl's `memcmp` compares one octet at a time, and the paths of sockets have long beginnings in
//! common.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// Compares octets in the order of slices.
pub fn compare(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some((x, rest_of_a)), Some((y, rest_of_b))) =
        (a.split_first_chunk(), b.split_first_chunk())
    {
        let (x, y) = (u64::from_be_bytes(*x), u64::from_be_bytes(*y));
        if x != y {
            return x.cmp(&y);
        }
        (a, b) = (rest_of_a, rest_of_b);
    }
    a.cmp(b)
}

/// A path as a key, sorted by its octets: `Path` is compared by component, which takes ten times as
/// long.
#[derive(Clone, Debug)]
pub struct PathKey(pub Arc<Path>);

impl Ord for PathKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let [a, b] = [self, other].map(|it| it.0.as_os_str().as_encoded_bytes());
        compare(a, b)
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
    fn octets_are_in_the_order_of_slices() {
        let all = [
            "",
            "a",
            "abcdefg",
            "abcdefgh",
            "abcdefgi",
            "abcdefghi",
            "bbcdefgh",
            "\u{ff}bcdefgh",
        ];
        for a in all {
            for b in all {
                let (a, b) = (a.as_bytes(), b.as_bytes());
                assert_eq!(compare(a, b), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
