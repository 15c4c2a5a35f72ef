//! Plugin types and names as file names: `CSIPlugin/disk.example.sock`,
//! `DevicePlugin/example.com%2Fgpu.sock`.
//!
//! ASCII letters, digits and `-`, `.`, `_`, `+`, `@`, `:` stand for themselves, except for a
//! dot at the beginning. Every other octet is `%` and two hexadecimal digits in capitals, as in a
//! URL, so that each file name has one meaning. No name is hidden, is `.` or `..`, or contains a
//! slash.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::config::MAX_FILE_NAME;

/// Returns the path of the link to the plugins of a type and name, in the directory of all links:
/// `DIR/TYPE/NAME.sock`. Returns `None` if the type or the name is empty, or is too long for a file
/// name ([`MAX_FILE_NAME`]).
pub(super) fn link_path(dir: &Path, kind: &str, name: &str) -> Option<PathBuf> {
    let dir_len = dir.as_os_str().len() + 1;
    let mut path = OsString::with_capacity(dir_len + kind.len() + 1 + name.len() + SUFFIX.len());
    path.push(dir);
    path.push("/");
    push_encoded(&mut path, kind);
    let kind_len = path.len() - dir_len;
    path.push("/");
    push_encoded(&mut path, name);
    path.push(SUFFIX);
    let name_len = path.len() - dir_len - kind_len - 1;
    if kind.is_empty() || name.is_empty() || kind_len > MAX_FILE_NAME || name_len > MAX_FILE_NAME {
        return None;
    }
    Some(path.into())
}

/// Appends a type or a name to a path, encoded.
fn push_encoded(path: &mut OsString, text: &str) {
    if !text.starts_with('.') && text.bytes().all(is_plain) {
        return path.push(text);
    }
    for (at, byte) in text.bytes().enumerate() {
        if is_plain(byte) && (at, byte) != (0, b'.') {
            path.push(char::from(byte).encode_utf8(&mut [0]));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'+' | b'@' | b':')
}

/// The end of the name of every link.
const SUFFIX: &str = ".sock";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the path of a link relative to the directory of all links.
    fn relative_path(kind: &str, name: &str) -> Option<String> {
        let path = link_path(Path::new("/by-name"), kind, name)?;
        let path = path.strip_prefix("/by-name").unwrap();
        Some(path.to_str().unwrap().to_owned())
    }

    #[test]
    fn safe_names_stand_for_themselves_and_others_are_encoded() {
        for (kind, name, expected) in [
            (
                "CSIPlugin",
                "ebs.csi.aws.com",
                "CSIPlugin/ebs.csi.aws.com.sock",
            ),
            (
                "DevicePlugin",
                "example.com/gpu",
                "DevicePlugin/example.com%2Fgpu.sock",
            ),
            ("..", ".", "%2E./%2E.sock"),
            ("/etc", "../../passwd", "%2Fetc/%2E.%2F..%2Fpasswd.sock"),
            ("a b", "50%", "a%20b/50%25.sock"),
            ("T", "größe", "T/gr%C3%B6%C3%9Fe.sock"),
            ("T", "a_b-c+d@e:f~", "T/a_b-c+d@e:f%7E.sock"),
            ("\u{1b}", "a\nb\\", "%1B/a%0Ab%5C.sock"),
            ("T", "a.sock", "T/a.sock.sock"),
        ] {
            let path = relative_path(kind, name).unwrap();
            assert_eq!(path, expected);
        }
    }

    #[test]
    fn each_ascii_octet_has_its_own_name_and_none_is_hidden() {
        let texts = (0..=0x7f_u8).map(|byte| char::from(byte).to_string());
        let all = texts.flat_map(|text| [text.clone(), format!("a{text}"), format!("{text}a")]);
        let names: BTreeSet<String> = all.collect();
        let paths = names.iter().filter_map(|name| relative_path(name, "x"));
        let paths: BTreeSet<String> = paths.collect();
        assert_eq!(paths.len(), names.len());
        for path in paths {
            assert!(
                !path.starts_with('.') && path.matches('/').count() == 1,
                "{path}"
            );
        }
    }

    #[test]
    fn a_name_may_be_as_long_as_a_file_name() {
        let name = |length| "n".repeat(length);
        assert!(
            relative_path("T", &name(250)).is_some() && relative_path("T", &name(251)).is_none()
        );
        assert!(
            relative_path(&name(255), "n").is_some() && relative_path(&name(256), "n").is_none()
        );
        assert!(relative_path("T", &"/".repeat(84)).is_none());
        assert!(relative_path("", "n").is_none() && relative_path("T", "").is_none());
    }
}
