//! Parsers for the values of options of `run`, and the texts that name the expected values.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use super::values::{NONE, Parsed, make_absolute, parse_duration, parse_path_or_none, parse_with};
use crate::config::{
    ApiSocket, DOWN_GRACE, Exec, LEAST_CSI_NODE_INFO, LEAST_MEMORY_BUDGET, LogFormat, OnDown,
    PinnedName, TrustMode, UnknownTypes,
};
use crate::daemon::group_id;

/// Parses the policy for a plugin that is down: `keep`, `deregister`, `deregister=30s`.
pub(super) fn parse_on_down(words: &str) -> Option<OnDown> {
    match words.split_once('=') {
        None if words == "keep" => Some(OnDown::Keep),
        None if words == "deregister" => Some(OnDown::Deregister(DOWN_GRACE)),
        Some(("deregister", grace)) => parse_duration(grace.as_ref()).ok().map(OnDown::Deregister),
        _ => None,
    }
}

/// Parses the name of a CSI driver, or `*`, and the period of its NodeGetInfo calls.
pub(super) fn parse_node_info(words: &str) -> Option<(String, Duration)> {
    let (driver, period) = words.split_once('=')?;
    let period = parse_duration(period.as_ref()).ok();
    let period = period.filter(|it| *it >= LEAST_CSI_NODE_INFO)?;
    (!driver.is_empty()).then(|| (driver.to_owned(), period))
}

/// Parses a memory budget of at least [`LEAST_MEMORY_BUDGET`]: octets, or mebibytes (`Mi`).
pub(super) fn parse_memory_budget(words: &str) -> Option<usize> {
    let (number, unit) = match words.strip_suffix("Mi") {
        Some(number) => (number, 1 << 20),
        None => (words, 1),
    };
    let size = number.parse::<usize>().ok()?.checked_mul(unit)?;
    (size >= LEAST_MEMORY_BUDGET).then_some(size)
}

/// Parses a plugin type. Rejects blanks, commas and quotes, which are probably a mistake.
pub(super) fn parse_plugin_type(words: &str) -> Option<String> {
    let is_odd = |c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\'');
    (!words.is_empty() && !words.contains(is_odd)).then(|| words.to_owned())
}

/// Parses a plugin type and its program.
pub(super) fn parse_exec(words: &str) -> Option<Exec> {
    let (kind, program) = words.split_once('=')?;
    Some(Exec {
        kind: parse_plugin_type(kind)?,
        program: make_absolute(program.as_ref())?,
    })
}

/// Parses a path mapping, FROM=TO: a path as plugins see it, and the path of the same directory in
/// this process.
pub(super) fn parse_path_mapping(words: &str) -> Option<(PathBuf, PathBuf)> {
    let (from, to) = words.split_once('=')?;
    let to = make_absolute(to.as_ref())?;
    from.starts_with('/').then(|| (from.into(), to))
}

/// Parses a user's id, and the type and the name, or pattern, of the plugins that are reserved for
/// that user.
pub(super) fn parse_pinned_name(words: &str) -> Option<PinnedName> {
    let (uid, plugin) = words.split_once('=')?;
    let (kind, pattern) = plugin.split_once('/')?;
    (!kind.is_empty() && !pattern.is_empty()).then_some(PinnedName {
        uid: uid.parse().ok()?,
        kind: kind.to_owned(),
        pattern: pattern.to_owned(),
    })
}

/// Parses the name of an existing group, or the id of any group.
pub(super) fn parse_group(value: &OsStr) -> Parsed<Option<u32>> {
    parse_with(value, GROUP, group_id).map(Some)
}

/// Parses the path of the API socket, or `none`.
pub(super) fn parse_api_socket(value: &OsStr) -> Parsed<ApiSocket> {
    let is_none = value == NONE;
    parse_path_or_none(value).map(|path| {
        if is_none {
            ApiSocket::None
        } else {
            ApiSocket::At(path)
        }
    })
}

pub(super) const TYPE: &str = "the name of one plugin type, without blanks, commas and quotes";

pub(super) const FROM_TO: &str = "FROM=TO, with FROM an absolute path";

pub(super) const USER: &str = "a user of /etc/passwd, or a user's id";

pub(super) const PINNED_NAME: &str = "UID=TYPE/NAME, such as 1000=CSIPlugin/nfs.example.com";

const GROUP: &str = "a group of /etc/group, or a group's id";

pub(super) const MEMORY_BUDGET: &str = "a size of at least 1Mi, such as 16Mi or 20000000";

pub(super) const ON_DOWN: &str = "keep, deregister or deregister=DURATION such as deregister=30s";

pub(super) const NODE_INFO: &str = "DRIVER=PERIOD of at least 10s, such as *=60s";

pub(super) const UNKNOWN_TYPES: &[(&str, UnknownTypes)] = &[
    ("reject", UnknownTypes::Reject),
    ("accept", UnknownTypes::Accept),
    ("ignore", UnknownTypes::Ignore),
];

pub(super) const TRUST: &[(&str, TrustMode)] =
    &[("warn", TrustMode::Warn), ("strict", TrustMode::Strict)];

/// The words, and whether they turn the sandbox off.
pub(super) const SANDBOX: &[(&str, bool)] = &[("on", false), ("off", true)];

pub(super) const LOG_FORMATS: &[(&str, LogFormat)] = &[
    ("text", LogFormat::Text),
    ("json", LogFormat::Json),
    ("journald", LogFormat::Journald),
];
