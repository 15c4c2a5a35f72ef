//! A probe's report as JSON, for programs.
//!
//! Pure. Plain ASCII, so that a terminal can show it whatever a plugin calls itself; but what the
//! plugin says of itself is escaped as JSON has it and in no other way, so that a program reads
//! exactly that. A step of the ladder that was not reached is not there; one that failed has an
//! `error`.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::exit_code;
use crate::daemon::probe::{File, FileKind, Found, Outcome, Peer, Report};
use crate::http2::Settings;
use crate::manager::Verdict;
use crate::proto::pluginregistration::PluginInfo;

/// Shows a report.
pub(super) fn show(report: &Report) -> String {
    let mut json = Map::new();
    json.insert("socket".into(), report.socket.to_string_lossy().into());
    json.insert("outcome".into(), outcome(report.outcome).into());
    json.insert("exit_status".into(), exit_code(report.outcome).into());
    for rung in &report.rungs {
        let (name, mut step) = step(&rung.found, &report.socket);
        let took = u64::try_from(rung.took.as_micros()).unwrap_or(u64::MAX);
        step["took_us"] = took.into();
        json.insert(name.into(), step);
    }
    ascii(&format!("{:#}\n", Value::Object(json)))
}

/// What a probe comes to, in a word.
fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::WouldRegister => "would_register",
        Outcome::WouldRefuse => "would_refuse",
        Outcome::NotARegistrationService => "not_a_registration_service",
        Outcome::Unreachable => "unreachable",
    }
}

/// The name of a step, and what it has found out.
fn step(found: &Found, socket: &Path) -> (&'static str, Value) {
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
    }
}

/// What a step that failed has found out.
fn failed(why: &impl ToString) -> Value {
    json!({ "error": why.to_string() })
}

fn describe_file(file: &File) -> Value {
    let kind = match file.kind {
        FileKind::Socket => "socket",
        FileKind::Directory => "directory",
        FileKind::Regular => "regular",
        FileKind::Special => "special",
    };
    json!({
        "kind": kind,
        "symbolic_link": file.is_link,
        "uid": file.uid,
        "gid": file.gid,
        "mode": format!("{:04o}", file.mode),
    })
}

fn describe_peer(peer: Option<&Peer>) -> Value {
    let Some(peer) = peer else {
        return json!({});
    };
    let name = peer.name.as_deref().map(String::from_utf8_lossy);
    json!({ "pid": peer.pid, "uid": peer.uid, "name": name })
}

fn describe_settings(settings: &Settings) -> Value {
    json!({
        "header_table_size": settings.header_table_size,
        "initial_window_size": settings.initial_window_size,
        "max_concurrent_streams": settings.max_concurrent_streams,
        "max_frame_size": settings.max_frame_size,
        "max_header_list_size": settings.max_header_list_size,
    })
}

fn describe_info(info: &PluginInfo) -> Value {
    json!({
        "type": info.r#type,
        "name": info.name,
        "endpoint": info.endpoint,
        "supported_versions": info.supported_versions,
    })
}

/// The verdict; for a plugin that is refused, also what it would be told.
fn describe_verdict(verdict: &Verdict, socket: &Path) -> Value {
    match verdict {
        Verdict::Accepted(_) => json!({ "accepted": true, "decided": true }),
        Verdict::Undecided(_) => json!({ "accepted": true, "decided": false }),
        Verdict::Refused(refusal) => json!({
            "accepted": false,
            "decided": true,
            "told": refusal.status_error(socket),
        }),
    }
}

/// The JSON with everything that is not visible ASCII, and so can only be in a string, escaped.
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
        let plain = ascii(&format!("{:#}\n", json!({ "said": said })));
        assert!(
            plain
                .bytes()
                .all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
        );
        let read: Value = serde_json::from_str(&plain).unwrap();
        assert_eq!(read["said"], said);
    }
}
