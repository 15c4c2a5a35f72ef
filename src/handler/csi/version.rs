//! CSI versions: those that a driver lists, and the one to use.

use std::fmt;

use crate::handler::wording;

/// The numbers of a version, which drivers write as `v1.2.3`, `1.0` or `1.2.3-rc1`.
///
/// Trailing zeros matter to `==`, but not to [`Version::rank`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The numbers, at least two.
    parts: Vec<u64>,
}

impl Version {
    /// Parses a version: "an optional leading `v`, at least two numbers with dots in between, no
    /// leading zero in the first, and any text after them" ([R22](crate::guide::kubelet)). White
    /// space before the version is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let text = text.strip_prefix('v').unwrap_or(text);
        let is_part_of_it = |c: char| c.is_ascii_digit() || c == '.';
        let end = text.find(|c| !is_part_of_it(c)).unwrap_or(text.len());
        // The rest is trailing text, including a dot without a number after it.
        let numbers = text[..end].split('.').take_while(|part| !part.is_empty());
        let numbers: Vec<&str> = numbers.collect();
        let first = *numbers.first()?;
        if numbers.len() < 2 || (first.starts_with('0') && first != "0") {
            return None;
        }
        let parts: Result<Vec<u64>, _> = numbers.iter().map(|part| part.parse()).collect();
        let parts = parts.ok()?;
        Some(Self { parts })
    }

    /// Returns the first number.
    pub fn major(&self) -> u64 {
        self.parts.first().copied().unwrap_or_default()
    }

    /// Returns the numbers without trailing zeros, by which versions are compared.
    pub fn rank(&self) -> &[u64] {
        let end = self.parts.iter().rposition(|part| *part != 0);
        &self.parts[..end.map_or(0, |last| last + 1)]
    }
}

/// Shows all numbers that the driver wrote, as kubelet does: `1.0.0`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "." })?;
            write!(f, "{part}")?;
        }
        Ok(())
    }
}

/// Returns the CSI version to use with a driver that lists these versions, or the reason why there
/// is none, in kubelet's words.
///
/// Of the listed versions, "what does not parse and what is above major version 1 is ignored; the
/// highest of the rest must have major version 1" ([R23](crate::guide::kubelet)).
pub(super) fn highest_supported(listed: &[String]) -> Result<Version, String> {
    let highest = listed
        .iter()
        .filter_map(|text| Version::parse(text))
        .filter(|version| version.major() <= MAJOR)
        .max_by(|one, other| one.rank().cmp(other.rank()));
    match highest {
        Some(version) if version.major() == MAJOR => Ok(version),
        Some(version) => Err(format!(
            "highest supported version reported by driver is {version}, must be v{MAJOR}.x"
        )),
        None => {
            let unreadable = listed.iter().find_map(|text| parse_error(text));
            Err(format!(
                "could not find a highest supported version from versions ({}) reported by this \
                 driver: {}",
                wording::list(listed),
                unreadable.as_deref().unwrap_or("<nil>")
            ))
        }
    }
}

/// Returns why a text is not a version, in the words of kubelet's parser, or `None` if it is one.
fn parse_error(text: &str) -> Option<String> {
    if Version::parse(text).is_some() {
        return None;
    }
    let trimmed = text.trim_start();
    let numbers = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let is_digit = |c: char| c.is_ascii_digit();
    let end = numbers.find(|c| !is_digit(c));
    let (first, rest) = numbers.split_at(end.unwrap_or(numbers.len()));
    let second = rest.strip_prefix('.');
    Some(if first.is_empty() {
        format!("could not parse {text:?} as version")
    } else if !second.is_some_and(|it| it.starts_with(is_digit)) {
        format!("illegal version string {text:?}")
    } else if first.starts_with('0') && first != "0" {
        format!("illegal zero-prefixed version component {first:?} in {text:?}")
    } else {
        format!("illegal non-numeric version component in {text:?}: value out of range")
    })
}

/// The major version that is supported (kubelet: the same).
const MAJOR: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn highest(listed: &[&str]) -> Result<String, String> {
        let listed: Vec<String> = listed.iter().map(|&text| text.to_owned()).collect();
        highest_supported(&listed).map(|version| version.to_string())
    }

    #[test]
    fn csi1_versions_that_have_a_highest_of_major_one_are_accepted() {
        for (listed, expected) in [
            (&["v1.0.0"][..], "1.0.0"),
            (&["0.2.0", "v1.0.0"], "1.0.0"),
            (&["0.2.0", "v1.2.3"], "1.2.3"),
            (&["v1.2.3", "v0.3.0"], "1.2.3"),
            (&["v1.2.3", "v0.3.0", "2.0.1"], "1.2.3"),
            (&["v1.2.3", "4.9.12", "v0.3.0", "2.0.1"], "1.2.3"),
            (&["v1.2.3", "boo", "v0.3.0", "2.0.1"], "1.2.3"),
        ] {
            assert_eq!(highest(listed), Ok(expected.to_owned()), "{listed:?}");
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
    }

    #[test]
    fn the_reason_why_there_is_no_version_has_kubelet_s_words() {
        let none = "could not find a highest supported version from versions";
        for (listed, why) in [
            (
                &["4.9.12", "2.0.1"][..],
                "([4.9.12 2.0.1]) reported by this driver: <nil>",
            ),
            (
                &["boo", "2.0"],
                "([boo 2.0]) reported by this driver: could not parse \"boo\" as version",
            ),
            (
                &["1"],
                "([1]) reported by this driver: illegal version string \"1\"",
            ),
            (
                &["01.2"],
                "([01.2]) reported by this driver: \
                 illegal zero-prefixed version component \"01\" in \"01.2\"",
            ),
            (
                &["99999999999999999999.0"],
                "([99999999999999999999.0]) reported by this driver: illegal non-numeric version \
                 component in \"99999999999999999999.0\": value out of range",
            ),
        ] {
            let unsupported = highest(listed).expect_err("it is refused");
            assert_eq!(unsupported, format!("{none} {why}"));
        }
        let too_old = highest(&["0.2.0", "v0.3.0"]).expect_err("it is refused");
        let words = "highest supported version reported by driver is 0.3.0, must be v1.x";
        assert_eq!(too_old, words);
    }

    #[test]
    fn a_version_may_have_a_prefix_and_a_suffix() {
        for (text, expected) in [
            ("1.0", "1.0"),
            ("v1.0.0", "1.0.0"),
            (" 1.2", "1.2"),
            ("1.2.3-rc1", "1.2.3"),
            ("1.2+build", "1.2"),
            ("1.2.", "1.2"),
            ("1.02", "1.2"),
            ("0.3.0", "0.3.0"),
            ("1.0.0.7", "1.0.0.7"),
        ] {
            let version = Version::parse(text).map(|it| it.to_string());
            assert_eq!(version.as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_version_is_rejected() {
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
        let version = |text| Version::parse(text).expect("a version").rank().to_vec();
        assert!(version("1.10") > version("1.9"));
        assert!(version("1.0.1") > version("1.0"));
        assert!(version("1.0") > version("0.9"));
        assert_eq!(version("1.0"), version("v1.0.0"));
    }
}
