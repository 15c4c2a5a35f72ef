//! The valid names and versions of device plugins.
//!
//! Pure. The name is the one by which a pod requests devices, such as `vendor.example/gpu`:
//! Kubernetes calls it an extended resource.

use std::fmt;

use crate::handler::{Plugin, wording};

/// The reason why a device plugin is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unacceptable {
    /// It does not list the only supported version.
    Version,
    /// Its name is not that of an extended resource.
    Name(NotAResource),
}

/// The rule that the name of a resource breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAResource {
    /// It has no `/`, and so no vendor.
    NoPrefix,
    /// It contains `kubernetes.io/`, so its vendor is Kubernetes itself.
    Native,
    /// It begins with `requests.`, as in a quota.
    Quota,
    /// The part before the `/` is not a DNS subdomain, or is too long.
    Prefix,
    /// The part after the `/` is empty or too long, or has characters that a label may not have.
    Suffix,
}

/// Checks that a plugin of that name that lists these versions is acceptable.
pub(super) fn check(name: &str, versions: &[String]) -> Result<(), Unacceptable> {
    if !versions.iter().any(|version| version == VERSION) {
        return Err(Unacceptable::Version);
    }
    check_name(name).map_err(Unacceptable::Name)
}

/// Returns whether a name is that of an extended resource.
pub(crate) fn is_resource_name(name: &str) -> bool {
    check_name(name).is_ok()
}

/// Checks a name: "A device plugin's name contains `/`, does not contain `kubernetes.io/`, does not
/// begin with `requests.`, and is a qualified name with `requests.` in front of it"
/// ([R27](crate::guide::kubelet)).
fn check_name(name: &str) -> Result<(), NotAResource> {
    let (prefix, suffix) = name.split_once('/').ok_or(NotAResource::NoPrefix)?;
    if name.split_inclusive('/').any(|it| it.ends_with(NATIVE)) {
        Err(NotAResource::Native)
    } else if name.starts_with(QUOTA) {
        Err(NotAResource::Quota)
    } else if QUOTA.len() + prefix.len() > MAX_PREFIX || !prefix.split('.').all(is_dns_label) {
        Err(NotAResource::Prefix)
    } else if !is_qualified(suffix) {
        Err(NotAResource::Suffix)
    } else {
        Ok(())
    }
}

/// Returns whether a text consists of lower case letters, digits and, not at its ends, hyphens.
fn is_dns_label(label: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    is_enclosed(label, is_plain) && label.chars().all(|c| is_plain(c) || c == '-')
}

/// Returns whether the second part of a name is valid: "The part after the `/` has at most 63
/// characters and matches `[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?`"
/// ([R28](crate::guide::kubelet)).
fn is_qualified(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    name.len() <= MAX_SUFFIX
        && is_enclosed(name, is_plain)
        && name.chars().all(|c| is_plain(c) || "-_.".contains(c))
}

/// Returns whether a text's first and last characters are plain.
fn is_enclosed(text: &str, is_plain: impl Fn(char) -> bool) -> bool {
    text.starts_with(&is_plain) && text.ends_with(&is_plain)
}

impl Unacceptable {
    /// Returns the message of kubelet.
    pub(super) fn words(&self, plugin: &Plugin) -> String {
        match self {
            Self::Version => format!(
                "manager version, {VERSION}, is not among plugin supported versions {}",
                wording::list(&plugin.versions)
            ),
            Self::Name(_) => format!(
                "invalid name of device plugin socket: the ResourceName {:?} is invalid",
                plugin.name
            ),
        }
    }
}

/// Shows which rule is broken, which kubelet does not.
impl fmt::Display for Unacceptable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => write!(f, "the plugin does not list the version {VERSION}"),
            Self::Name(rule) => write!(f, "the name is not a valid extended resource name: {rule}"),
        }
    }
}

impl fmt::Display for NotAResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrefix => f.write_str("it has no \"/\""),
            Self::Native => write!(f, "it contains \"{NATIVE}\""),
            Self::Quota => write!(f, "it begins with \"{QUOTA}\""),
            Self::Prefix => f.write_str("the part before the \"/\" is not a DNS subdomain"),
            Self::Suffix => f.write_str("the part after the \"/\" is not a qualified name"),
        }
    }
}

impl std::error::Error for Unacceptable {}
impl std::error::Error for NotAResource {}

/// The version of the device plugin API (kubelet: the same).
pub(crate) const VERSION: &str = "v1beta1";

/// The domain of Kubernetes' own resources.
const NATIVE: &str = "kubernetes.io/";

/// The prefix of a resource's name in a quota.
const QUOTA: &str = "requests.";

/// The most octets before the `/` in a quota, its prefix included: as in a DNS name.
const MAX_PREFIX: usize = 253;

/// The most octets after the `/`: as in a DNS label.
const MAX_SUFFIX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_version_must_be_among_those_that_are_listed() {
        let check = |listed: &[&str]| {
            let listed: Vec<String> = listed.iter().map(|&text| text.to_owned()).collect();
            check("a.b/c", &listed)
        };
        assert_eq!(check(&["v1beta1"]), Ok(()));
        assert_eq!(check(&["v1", "v1beta1"]), Ok(()));
        for listed in [&[][..], &["v1"], &["v1beta1 "], &["V1BETA1"]] {
            assert_eq!(check(listed), Err(Unacceptable::Version), "{listed:?}");
        }
    }

    #[test]
    fn names_of_extended_resources_are_accepted() {
        let longest = format!("{}/{}", "a".repeat(244), "b".repeat(63));
        for name in [
            "nvidia.com/gpu",
            "example/x",
            "a-b.c/D_e.f-g",
            "0/1",
            &longest,
        ] {
            assert_eq!(check_name(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn every_other_name_breaks_one_rule() {
        use NotAResource::{Native, NoPrefix, Prefix, Quota, Suffix};
        let long_prefix = format!("{}/b", "a".repeat(245));
        let long_suffix = format!("a/{}", "b".repeat(64));
        for (name, rule) in [
            ("gpu", NoPrefix),
            ("", NoPrefix),
            ("kubernetes.io/gpu", Native),
            ("x.kubernetes.io/gpu", Native),
            ("requests.a/b", Quota),
            ("/gpu", Prefix),
            ("A.b/gpu", Prefix),
            ("-a/gpu", Prefix),
            ("a-/gpu", Prefix),
            ("a..b/gpu", Prefix),
            ("a_b/gpu", Prefix),
            ("größe/gpu", Prefix),
            (&long_prefix, Prefix),
            ("a/", Suffix),
            ("a/b/c", Suffix),
            ("a/-b", Suffix),
            ("a/b_", Suffix),
            ("a/b c", Suffix),
            (&long_suffix, Suffix),
        ] {
            assert_eq!(check_name(name), Err(rule), "{name:?}");
        }
    }
}
