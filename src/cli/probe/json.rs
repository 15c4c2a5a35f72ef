//! A probe's report as JSON, for programs.
//!
//! Pure. The output is plain ASCII, so that a terminal can show it whatever the name of a plugin
//! is. Texts of the plugin are escaped only as JSON requires, so that a program reads exactly those
//! texts. A step that was not reached is left out; a step that failed has an `error`.

use std::path::Path;

use serde_json::{Value, json};

use super::outcome::describe;
use crate::cli::json::document;
use crate::daemon::probe::{File, FileKind, Found, Peer, Report};
use crate::http2::Settings;
use crate::manager::Verdict;
use crate::proto::pluginregistration::PluginInfo;
use crate::time;

/// Returns a report as JSON, in indented lines.
pub(super) fn show(report: &Report) -> String {
    let outcome = describe(report.outcome);
    let mut json = json!({
        "socket": report.socket.to_string_lossy(),
        "outcome": outcome.name,
        "exit_status": outcome.status,
    });
    for step in &report.steps {
        let (name, mut found) = finding(&step.found, &report.socket);
        found["took_us"] = time::micros(step.took).into();
        json[name] = found;
    }
    if !report.not_checked.is_empty() {
        json["not_checked"] = json!(report.not_checked);
    }
    document(&json)
}

/// Returns the name of a step, and its findings.
fn finding(found: &Found, socket: &Path) -> (&'static str, Value) {
    match found {
        Found::File(file) => ("file", shown(file, show_file)),
        Found::Peer(peer) => ("connect", shown(peer, |peer| show_peer(peer.as_ref()))),
        Found::Settings(settings) => ("http2", shown(settings, show_settings)),
        Found::Info(info) => ("get_info", shown(info, show_info)),
        Found::Verdict(verdict) => ("verdict", show_verdict(verdict, socket)),
        Found::Endpoint { path, answer } => {
            let mut json = match answer {
                Ok(()) => json!({}),
                Err(failure) => json!({"error": failure.error.to_string()}),
            };
            json["path"] = path.to_string_lossy().into();
            ("endpoint", json)
        }
    }
}

/// Returns what was found, or the error of a step that failed.
fn shown<T, E: ToString>(found: &Result<T, E>, show: impl FnOnce(&T) -> Value) -> Value {
    match found {
        Ok(found) => show(found),
        Err(error) => json!({"error": error.to_string()}),
    }
}

fn show_file(file: &File) -> Value {
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

fn show_peer(peer: Option<&Peer>) -> Value {
    let Some(Peer { pid, uid, name }) = peer else {
        return json!({});
    };
    let name = name.as_deref().map(String::from_utf8_lossy);
    json!({"pid": pid, "uid": uid, "name": name})
}

fn show_settings(settings: &Settings) -> Value {
    json!({
        "header_table_size": settings.header_table_size,
        "initial_window_size": settings.initial_window_size,
        "max_concurrent_streams": settings.max_concurrent_streams,
        "max_frame_size": settings.max_frame_size,
        "max_header_list_size": settings.max_header_list_size,
    })
}

fn show_info(info: &PluginInfo) -> Value {
    json!({
        "type": info.r#type,
        "name": info.name,
        "endpoint": info.endpoint,
        "supported_versions": info.supported_versions,
    })
}

fn show_verdict(verdict: &Verdict, socket: &Path) -> Value {
    let is_decided = !matches!(verdict, Verdict::Undecided(_));
    match verdict {
        Verdict::Refused(refusal) => json!({
            "accepted": false,
            "decided": true,
            "told": refusal.status_error(socket),
        }),
        Verdict::Accepted(_) | Verdict::Undecided(_) => json!({
            "accepted": true,
            "decided": is_decided,
        }),
    }
}
