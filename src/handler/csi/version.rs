//! Which versions of CSI a driver says it speaks, and what follows from that.
//!
//! Pure.

use std::fmt;

/// A version as drivers write them: `v1.2.3`, `1.0`, `1.2.3-rc1`.
///
/// Zeros at the end make no difference: 1.0 and 1.0.0 are the same version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The numbers, without zeros at the end.
    parts: Vec<u64>,
}

impl Version {
    /// Reads a version: "optional leading `v`, at least two dotted numeric parts, no leading zero
    /// in the first, trailing text allowed".
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let text = text.strip_prefix('v').unwrap_or(text);
        let is_part_of_it = |c: char| c.is_ascii_digit() || c == '.';
        let end = text.find(|c| !is_part_of_it(c)).unwrap_or(text.len());
        // What is left over is trailing text, a dot without a number after it included.
        let numbers = text[..end].split('.').take_while(|part| !part.is_empty());
        let numbers: Vec<&str> = numbers.collect();
        let first = *numbers.first()?;
        if numbers.len() < 2 || (first.starts_with('0') && first != "0") {
            return None;
        }
        let parts: Result<Vec<u64>, _> = numbers.iter().map(|part| part.parse()).collect();
        let mut parts = parts.ok()?;
        while parts.last() == Some(&0) {
            parts.pop();
        }
        Some(Self { parts })
    }

    /// The first number.
    pub fn major(&self) -> u64 {
        self.parts.first().copied().unwrap_or_default()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |at: usize| self.parts.get(at).copied().unwrap_or_default();
        write!(f, "{}.{}", number(0), number(1))?;
        self.parts
            .iter()
            .skip(2)
            .try_for_each(|part| write!(f, ".{part}"))
    }
}

/// The version of CSI to speak with a driver that lists these.
///
/// "Ignore what does not parse and what is above major 1; the highest of the rest must be major 1."
pub(super) fn highest_supported(listed: &[String]) -> Result<Version, Unsupported> {
    if listed.is_empty() {
        return Err(Unsupported::NothingListed);
    }
    let highest = listed
        .iter()
        .filter_map(|text| Version::parse(text))
        .filter(|version| version.major() <= MAJOR)
        .max();
    match highest {
        Some(version) if version.major() == MAJOR => Ok(version),
        Some(version) => Err(Unsupported::TooOld(version)),
        None => Err(Unsupported::NothingKnown),
    }
}

/// Why there is no version to speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The driver lists no versions.
    NothingListed,
    /// It lists only what is no version, or is too new.
    NothingKnown,
    /// The highest that could be spoken is this one, which is not spoken any more.
    TooOld(Version),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingListed => f.write_str("the driver lists no supported versions"),
            Self::NothingKnown => write!(
                f,
                "none of the driver's supported versions is a version {MAJOR}"
            ),
            Self::TooOld(version) => write!(
                f,
                "the driver's highest supported version is {version}, and it must be a version {MAJOR}"
            ),
        }
    }
}

impl std::error::Error for Unsupported {}

/// The first number of the versions that are spoken (kubelet: the same).
const MAJOR: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn highest(listed: &[&str]) -> Result<String, Unsupported> {
        let listed: Vec<String> = listed.iter().map(|&text| text.to_owned()).collect();
        highest_supported(&listed).map(|version| version.to_string())
    }

    #[test]
    fn csi1_versions_that_have_a_highest_of_major_one_are_accepted() {
        for (listed, expected) in [
            (&["v1.0.0"][..], "1.0"),
            (&["0.2.0", "v1.0.0"], "1.0"),
            (&["0.2.0", "v1.2.3"], "1.2.3"),
            (&["v1.2.3", "v0.3.0"], "1.2.3"),
            (&["v1.2.3", "v0.3.0", "2.0.1"], "1.2.3"),
            (&["v1.2.3", "4.9.12", "v0.3.0", "2.0.1"], "1.2.3"),
            (&["v1.2.3", "boo", "v0.3.0", "2.0.1"], "1.2.3"),
        ] {
            assert_eq!(highest(listed).as_deref(), Ok(expected), "{listed:?}");
        }
    }

    #[test]
    fn csi2_versions_that_have_none_are_refused() {
        for listed in [
            &["0.3.0"][..],
            &["0.2.0"],
            &["0.2.0", "v0.3.0"],
            &["4.9.12", "2.0.1"],
            &[],
            &["var", "boo", "foo"],
        ] {
            assert!(highest(listed).is_err(), "{listed:?}");
        }
        assert_eq!(highest(&[]), Err(Unsupported::NothingListed));
        assert_eq!(highest(&["2.0"]), Err(Unsupported::NothingKnown));
    }

    #[test]
    fn a_version_is_read_as_generously_as_drivers_write_them() {
        for (text, expected) in [
            ("1.0", "1.0"),
            ("v1.0.0", "1.0"),
            (" 1.2", "1.2"),
            ("1.2.3-rc1", "1.2.3"),
            ("1.2+build", "1.2"),
            ("1.2.", "1.2"),
            ("1.02", "1.2"),
            ("0.3.0", "0.3"),
            ("1.0.0.7", "1.0.0.7"),
        ] {
            let version = Version::parse(text).map(|it| it.to_string());
            assert_eq!(version.as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_version_is_not_read() {
        for text in [
            "",
            "v",
            "1",
            "1.",
            ".1",
            "v1",
            "01.0",
            "V1.0",
            "vv1.0",
            "1.x",
            "-1.0",
            "99999999999999999999.0",
        ] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn versions_are_ordered_by_number() {
        let version = |text| Version::parse(text).expect("a version");
        assert!(version("1.10") > version("1.9"));
        assert!(version("1.0.1") > version("1.0"));
        assert!(version("1.0") > version("0.9"));
        assert_eq!(version("1.0"), version("v1.0.0"));
    }
}
