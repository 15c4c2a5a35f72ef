//! A probe's report as JSON, for programs.
//!
//! Pure. The output is plain ASCII, so that a terminal can show it whatever the name of a plugin
//! is. Texts of the plugin are escaped only as JSON requires, so that a program reads exactly those
//! texts. A step that was not reached is left out; a step that failed has an `error`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::exit_status;
use crate::daemon::probe::{File, FileKind, Found, Outcome, Peer, Report};
use crate::http2::Settings;
use crate::manager::Verdict;
use crate::proto::pluginregistration::PluginInfo;

/// Returns a report as JSON.
pub(super) fn show(report: &Report) -> String {
    // Text and numbers only: encoding them as JSON cannot fail.
    let json = serde_json::to_string_pretty(&Shown(report)).unwrap_or_default();
    ascii(&json) + "\n"
}

/// The serialized form of a report.
struct Shown<'a>(&'a Report);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("socket", &report.socket.to_string_lossy())?;
        for step in &report.steps {
            let (name, found) = finding(&step.found, &report.socket);
            let took_us = u64::try_from(step.took.as_micros()).unwrap_or(u64::MAX);
            map.serialize_entry(name, &Timed { found, took_us })?;
        }
        if !report.not_checked.is_empty() {
            map.serialize_entry("not_checked", &report.not_checked)?;
        }
        map.serialize_entry("outcome", outcome(report.outcome))?;
        map.serialize_entry("exit_status", &exit_status(report.outcome))?;
        map.end()
    }
}

/// A step, and the time that it took.
#[derive(serde::Serialize)]
struct Timed<'a> {
    #[serde(flatten)]
    found: Finding<'a>,
    took_us: u64,
}

/// The findings of a step.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Finding<'a> {
    Failed {
        error: String,
    },
    File {
        kind: &'static str,
        symbolic_link: bool,
        uid: u32,
        gid: u32,
        mode: String,
    },
    Peer {
        pid: i32,
        uid: u32,
        name: Option<Cow<'a, str>>,
    },
    UnknownPeer {},
    Settings {
        header_table_size: u32,
        initial_window_size: u32,
        max_concurrent_streams: Option<u32>,
        max_frame_size: u32,
        max_header_list_size: Option<u32>,
    },
    Info {
        r#type: &'a str,
        name: &'a str,
        endpoint: &'a str,
        supported_versions: &'a [String],
    },
    Endpoint {
        path: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    Accepted {
        accepted: bool,
        decided: bool,
    },
    /// A plugin that is refused, and the error that would be sent to it.
    Refused {
        accepted: bool,
        decided: bool,
        told: Option<String>,
    },
}

/// Returns the name of an outcome.
fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::WouldRegister => "would_register",
        Outcome::WouldRefuse => "would_refuse",
        Outcome::NotARegistrationService => "not_a_registration_service",
        Outcome::Unreachable => "unreachable",
        Outcome::ClosedAtOnce => "closed_at_once",
        Outcome::EndpointUnavailable => "endpoint_unavailable",
    }
}

/// Returns the name of a step, and its findings.
fn finding<'a>(found: &'a Found, socket: &Path) -> (&'static str, Finding<'a>) {
    match found {
        Found::File(Ok(file)) => ("file", describe_file(file)),
        Found::File(Err(error)) => ("file", failed(error)),
        Found::Peer(Ok(peer)) => ("connect", describe_peer(peer.as_ref())),
        Found::Peer(Err(error)) => ("connect", failed(error)),
        Found::Settings(Ok(settings)) => ("http2", describe_settings(settings)),
        Found::Settings(Err(error)) => ("http2", failed(error)),
        Found::Info(Ok(info)) => ("get_info", describe_info(info)),
        Found::Info(Err(error)) => ("get_info", failed(error)),
        Found::Verdict(verdict) => ("verdict", describe_verdict(verdict, socket)),
        Found::Endpoint { path, answer } => {
            let error = answer
                .as_ref()
                .err()
                .map(|failure| failure.error.to_string());
            let path = path.to_string_lossy();
            ("endpoint", Finding::Endpoint { path, error })
        }
    }
}

/// Returns the findings of a step that failed.
fn failed<'a>(why: &impl ToString) -> Finding<'a> {
    let error = why.to_string();
    Finding::Failed { error }
}

fn describe_file<'a>(file: &File) -> Finding<'a> {
    Finding::File {
        kind: match file.kind {
            FileKind::Socket => "socket",
            FileKind::Directory => "directory",
            FileKind::Regular => "regular",
            FileKind::Special => "special",
        },
        symbolic_link: file.is_link,
        uid: file.uid,
        gid: file.gid,
        mode: format!("{:04o}", file.mode),
    }
}

fn describe_peer(peer: Option<&Peer>) -> Finding<'_> {
    match peer {
        Some(peer) => Finding::Peer {
            pid: peer.pid,
            uid: peer.uid,
            name: peer.name.as_deref().map(String::from_utf8_lossy),
        },
        None => Finding::UnknownPeer {},
    }
}

fn describe_settings<'a>(settings: &Settings) -> Finding<'a> {
    Finding::Settings {
        header_table_size: settings.header_table_size,
        initial_window_size: settings.initial_window_size,
        max_concurrent_streams: settings.max_concurrent_streams,
        max_frame_size: settings.max_frame_size,
        max_header_list_size: settings.max_header_list_size,
    }
}

fn describe_info(info: &PluginInfo) -> Finding<'_> {
    Finding::Info {
        r#type: &info.r#type,
        name: &info.name,
        endpoint: &info.endpoint,
        supported_versions: &info.supported_versions,
    }
}

fn describe_verdict<'a>(verdict: &Verdict, socket: &Path) -> Finding<'a> {
    let decided = !matches!(verdict, Verdict::Undecided(_));
    match verdict {
        Verdict::Refused(refusal) => Finding::Refused {
            accepted: false,
            decided,
            told: refusal.status_error(socket),
        },
        Verdict::Accepted(_) | Verdict::Undecided(_) => Finding::Accepted {
            accepted: true,
            decided,
        },
    }
}

/// Returns the JSON with all characters escaped that are not visible ASCII, which only occur in
/// strings.
fn ascii(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~' | '\n') {
            plain.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(plain, "\\u{unit:04x}").expect("text has room");
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_plain_ascii_and_says_the_same() {
        let said = "größe \u{7f}\u{9b}31m \u{202e}\u{1f600}\n\"";
        let plain = ascii(&serde_json::to_string(said).expect("it is text"));
        assert!(
            plain
                .bytes()
                .all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
        );
        let read: String = serde_json::from_str(&plain).expect("it is JSON");
        assert_eq!(read, said);
    }
}
