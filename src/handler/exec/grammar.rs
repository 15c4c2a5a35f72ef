//! The grammar of the values that a program receives as arguments and in its environment.
//!
//! A plugin chooses its name, its endpoint and its versions, and the file name of its socket. The
//! program is likely to be a script that passes these values on: to other programs, where a leading
//! `-` is an option; into paths, where `..` leads elsewhere; into lists and files, where a newline
//! or a comma begins the next entry; and to terminals. If the script lacks quotes, more characters
//! become special. So a plugin with such values is refused, and no program receives them.
//!
//! ```text
//! type, version = word
//! name          = word, or word "/" word
//! endpoint      = path          (socket likewise)
//! word          = letter or digit, then letters, digits and . _ - + :
//! path          = one or more of: "/" and a component that is neither "." nor ".."
//! component     = letters, digits and . _ - + : @ = , % ~
//! ```
//!
//! Letters and digits are those of ASCII. The grammar covers all names that Kubernetes accepts for
//! drivers and resources, and the paths that kubelet makes.

use std::fmt;
use std::path::Path;

use crate::handler::{Plugin, Reason};

/// Checks the values of a plugin that a program would receive. The reason names the invalid value.
pub(super) fn check_values(plugin: &Plugin) -> Result<(), Reason> {
    check_word("type", &plugin.kind)?;
    check_name(&plugin.name)?;
    check_path("endpoint", &plugin.endpoint)?;
    check_path("socket", &plugin.socket)?;
    let mut versions = plugin.versions.iter();
    versions.try_for_each(|version| check_word("version", version))
}

fn check_name(name: &str) -> Result<(), Reason> {
    let (first, second) = name.split_once('/').unwrap_or((name, "0"));
    if is_word(first) && is_word(second) {
        return Ok(());
    }
    let expected = "one or two words with a slash in between, each of which begins with a letter \
                    or a digit and holds only letters, digits and . _ - + :";
    Err(invalid_value("name", name, expected))
}

fn check_word(what: &str, word: &str) -> Result<(), Reason> {
    if is_word(word) {
        return Ok(());
    }
    let expected = "a letter or a digit, then letters, digits and . _ - + :";
    Err(invalid_value(what, word, expected))
}

fn check_path(what: &str, path: &Path) -> Result<(), Reason> {
    let components = path.to_str().and_then(|path| path.strip_prefix('/'));
    if components.is_some_and(|path| path.split('/').all(is_component)) {
        return Ok(());
    }
    let expected = "an absolute path without . or .. that holds only letters, digits and \
                    . _ - + : @ = , % ~";
    Err(invalid_value(what, path.display(), expected))
}

fn is_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(is_word_char)
}

fn is_component(component: &str) -> bool {
    let is_allowed = |c| is_word_char(c) || "@=,%~".contains(c);
    !["", ".", ".."].contains(&component) && component.chars().all(is_allowed)
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-+:".contains(c)
}

/// Returns the reason for refusing a value. The value is not escaped: the reason is sent to the
/// plugin that chose the value, and the log escapes it.
fn invalid_value(what: &str, found: impl fmt::Display, expected: &str) -> Reason {
    Reason::new(format!(
        "plugin {what} \"{found}\" cannot be passed to a program: expected {expected}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a plugin whose type, name, endpoint, socket and version are valid.
    fn valid_plugin() -> Plugin {
        Plugin {
            kind: "CSIPlugin".into(),
            name: "disk.example".into(),
            endpoint: Path::new("/run/disk/csi.sock").into(),
            versions: vec!["1.0.0".into()],
            socket: Path::new("/r/disk-reg.sock").into(),
        }
    }

    fn check_with_name(name: &str) -> Result<(), Reason> {
        check_values(&Plugin {
            name: name.into(),
            ..valid_plugin()
        })
    }

    fn check_with_endpoint(path: &str) -> Result<(), Reason> {
        check_values(&Plugin {
            endpoint: Path::new(path).into(),
            ..valid_plugin()
        })
    }

    /// Texts that neither a word nor a path may contain.
    const HOSTILE: [&str; 16] = [
        "\n", "\r", "\0", "\x1b[2J", "\u{7f}", "\u{9b}", "\u{202e}", "\u{2066}", "\u{200b}",
        "\u{feff}", " ", "$(x)", "`x`", "*", "'", "\\",
    ];

    #[test]
    fn names_that_kubernetes_accepts_are_passed_on() {
        for name in [
            "hostpath.csi.k8s.io",
            "example.com/gpu",
            "gpu.nvidia.com",
            "a",
            "0",
            "vendor.example/device_type-1",
        ] {
            assert_eq!(check_with_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn paths_that_kubelet_makes_are_passed_on() {
        for path in [
            "/var/lib/kubelet/plugins/hostpath.csi.k8s.io/csi.sock",
            "/var/lib/kubelet/pods/0a1b-2c/volumes/kubernetes.io~empty-dir/socket-dir/csi.sock",
            "/a/..b/c",
        ] {
            assert_eq!(check_with_endpoint(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_name_that_is_an_option_or_leads_elsewhere_is_refused() {
        for name in [
            "-rf", "--help", ".", "..", "../x", "x/../y", "/etc", "a/", "a//b", "a/b/c", "a/-b", "",
        ] {
            assert!(check_with_name(name).is_err(), "{name}");
        }
        for hostile in HOSTILE {
            assert!(
                check_with_name(&format!("a{hostile}b")).is_err(),
                "{hostile:?}"
            );
        }
    }

    #[test]
    fn an_endpoint_that_leads_elsewhere_is_refused() {
        for path in ["csi.sock", "-x", "/a/../b", "/a/./b", "//a", "/a/", "/"] {
            assert!(check_with_endpoint(path).is_err(), "{path}");
        }
        for hostile in HOSTILE {
            assert!(check_with_endpoint(&format!("/a{hostile}b")).is_err());
        }
    }

    #[test]
    fn a_socket_and_a_type_are_held_to_the_same_grammar() {
        for hostile in HOSTILE {
            let socket = Path::new(&format!("/r/a{hostile}.sock")).into();
            let plugin = valid_plugin();
            assert!(check_values(&Plugin { socket, ..plugin }).is_err());
            let kind = format!("a{hostile}b");
            let plugin = valid_plugin();
            assert!(check_values(&Plugin { kind, ..plugin }).is_err());
        }
    }

    #[test]
    fn a_version_that_is_not_a_word_is_refused() {
        let with = |version: &str| {
            let versions = vec!["1.0.0".into(), version.into()];
            check_values(&Plugin {
                versions,
                ..valid_plugin()
            })
        };
        assert_eq!(with("v1beta1.DRAPlugin"), Ok(()));
        for version in ["", "1,2", "1 2", "-1", "v1/x"] {
            assert!(with(version).is_err(), "{version}");
        }
        for hostile in HOSTILE {
            assert!(with(&format!("1{hostile}")).is_err(), "{hostile:?}");
        }
    }

    #[test]
    fn the_reason_names_what_is_wrong_and_what_is_accepted() {
        let reason = check_with_name("-rf\n").unwrap_err();
        let words = reason.as_str();
        assert!(words.starts_with("plugin name \"-rf\n\" cannot be passed to a program"));
        assert!(words.ends_with("letters, digits and . _ - + :"), "{words}");
    }
}
