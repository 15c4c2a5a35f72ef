//! The valid names and versions of device plugins.
//!
//! The name is the one by which a pod requests devices, such as `vendor.example/gpu`: Kubernetes
//! calls it an extended resource.

use crate::handler::{Plugin, Reason, wording};

/// Checks that a plugin is acceptable. The reason for a refusal is kubelet's message.
pub(super) fn check_plugin(plugin: &Plugin) -> Result<(), Reason> {
    let (name, listed) = (&plugin.name, &plugin.versions);
    if !listed.iter().any(|version| version == VERSION) {
        let listed = wording::list(listed);
        return Err(Reason::new(format!(
            "manager version, {VERSION}, is not among plugin supported versions {listed}"
        )));
    }
    check_name(name).map_err(|rule| {
        // Logged, because kubelet's message does not name the broken rule.
        log::debug!("{plugin}: the name is not a valid extended resource name: {rule}");
        Reason::new(format!(
            "invalid name of device plugin socket: the ResourceName {name:?} is invalid"
        ))
    })
}

/// Returns whether a name is that of an extended resource.
pub(crate) fn is_resource_name(name: &str) -> bool {
    check_name(name).is_ok()
}

/// Checks a name: "A device plugin's name contains `/`, does not contain `kubernetes.io/`, does not
/// begin with `requests.`, and is a qualified name with `requests.` in front of it"
/// ([R27](crate::guide::kubelet)). The error states how the name breaks one of these rules.
fn check_name(name: &str) -> Result<(), &'static str> {
    let (prefix, suffix) = name.split_once('/').ok_or("it has no \"/\"")?;
    if name
        .split_inclusive('/')
        .any(|it| it.ends_with("kubernetes.io/"))
    {
        Err("it contains \"kubernetes.io/\"")
    } else if name.starts_with(QUOTA) {
        Err("it begins with \"requests.\"")
    } else if QUOTA.len() + prefix.len() > MAX_PREFIX || !prefix.split('.').all(is_dns_label) {
        Err("the part before the \"/\" is not a DNS subdomain")
    } else if !is_qualified(suffix) {
        Err("the part after the \"/\" is not a qualified name")
    } else {
        Ok(())
    }
}

/// Returns whether a text is a valid key of an annotation: it is like the second part of a resource
/// name, and may have a DNS subdomain and a `/` in front.
pub(super) fn is_annotation_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => prefix.split('.').all(is_dns_label) && is_qualified(name),
        None => is_qualified(key),
    }
}

/// Returns whether a text consists of lowercase letters, digits and hyphens, and neither begins nor
/// ends with a hyphen.
fn is_dns_label(label: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    has_plain_ends(label, is_plain) && label.chars().all(|c| is_plain(c) || c == '-')
}

/// Returns whether the second part of a name is valid: "The part after the `/` has at most 63
/// characters and matches `[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?`"
/// ([R28](crate::guide::kubelet)).
fn is_qualified(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    name.len() <= 63
        && has_plain_ends(name, is_plain)
        && name.chars().all(|c| is_plain(c) || "-_.".contains(c))
}

/// Returns whether a text's first and last characters are plain.
fn has_plain_ends(text: &str, is_plain: impl Fn(char) -> bool) -> bool {
    text.starts_with(&is_plain) && text.ends_with(&is_plain)
}

/// The version of the device plugin API (kubelet: the same).
pub(crate) const VERSION: &str = "v1beta1";

/// The prefix that Kubernetes puts before a resource name in a quota.
const QUOTA: &str = "requests.";

/// The maximum number of octets before the `/`, including `requests.`: as in a DNS name.
const MAX_PREFIX: usize = 253;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_one_version_must_be_among_those_that_are_listed() {
        let is_accepted = |listed: &[&str]| {
            let plugin = Plugin {
                kind: "DevicePlugin".into(),
                name: "a.b/c".into(),
                endpoint: Path::new("/p/a.sock").into(),
                versions: listed.iter().map(|&text| text.to_owned()).collect(),
                socket: Path::new("/r/a.sock").into(),
            };
            check_plugin(&plugin).is_ok()
        };
        assert!(is_accepted(&["v1beta1"]) && is_accepted(&["v1", "v1beta1"]));
        for listed in [&[][..], &["v1"], &["v1beta1 "], &["V1BETA1"]] {
            assert!(!is_accepted(listed), "{listed:?}");
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
        let long_prefix = format!("{}/b", "a".repeat(245));
        let long_suffix = format!("a/{}", "b".repeat(64));
        for (name, rule) in [
            ("gpu", "no"),
            ("", "no"),
            ("kubernetes.io/gpu", "contains"),
            ("x.kubernetes.io/gpu", "contains"),
            ("requests.a/b", "begins"),
            ("/gpu", "before"),
            ("A.b/gpu", "before"),
            ("-a/gpu", "before"),
            ("a-/gpu", "before"),
            ("a..b/gpu", "before"),
            ("a_b/gpu", "before"),
            ("größe/gpu", "before"),
            (&long_prefix, "before"),
            ("a/", "after"),
            ("a/b/c", "after"),
            ("a/-b", "after"),
            ("a/b_", "after"),
            ("a/b c", "after"),
            (&long_suffix, "after"),
        ] {
            let broken = check_name(name).expect_err(name);
            assert!(broken.contains(rule), "{name:?}: {broken}");
        }
    }
}
