//! A probe's report as JSON, for programs.
//!
//! Pure. The output is plain ASCII, so that a terminal can show it whatever the name of a plugin
//! is. Texts of the plugin are escaped only as JSON requires, so that a program reads exactly those
//! texts. A step that was not reached is left out; a step that failed has an `error`.

use std::path::Path;

use super::exit_status;
use crate::cli::json::Json;
use crate::daemon::probe::{File, FileKind, Found, Outcome, Peer, Report};
use crate::http2::Settings;
use crate::json::Writer;
use crate::manager::Verdict;
use crate::proto::pluginregistration::PluginInfo;
use crate::time;

/// Returns a report as JSON, in indented lines.
pub(super) fn show(report: &Report) -> String {
    let mut line = Vec::new();
    let mut json = Writer(&mut line);
    json.open(b'{');
    json.key("socket").path(&report.socket);
    for step in &report.steps {
        finding(&mut json, &step.found, &report.socket);
        json.key("took_us").number(time::micros(step.took));
        json.close(b'}');
    }
    if !report.not_checked.is_empty() {
        json.key("not_checked").open(b'[');
        for left_out in &report.not_checked {
            json.text(left_out);
        }
        json.close(b']');
    }
    json.key("outcome").text(outcome(report.outcome));
    let status = exit_status(report.outcome);
    json.key("exit_status").number(status.into());
    json.close(b'}');
    Json::parse(&line).map_or_else(String::new, |json| json.document())
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

/// Begins the object of a step, with its findings.
fn finding(json: &mut Writer<'_>, found: &Found, socket: &Path) {
    match found {
        Found::File(Ok(file)) => show_file(begin(json, "file"), file),
        Found::File(Err(error)) => failed(begin(json, "file"), error),
        Found::Peer(Ok(peer)) => show_peer(begin(json, "connect"), peer.as_ref()),
        Found::Peer(Err(error)) => failed(begin(json, "connect"), error),
        Found::Settings(Ok(settings)) => show_settings(begin(json, "http2"), settings),
        Found::Settings(Err(error)) => failed(begin(json, "http2"), error),
        Found::Info(Ok(info)) => show_info(begin(json, "get_info"), info),
        Found::Info(Err(error)) => failed(begin(json, "get_info"), error),
        Found::Verdict(verdict) => show_verdict(begin(json, "verdict"), verdict, socket),
        Found::Endpoint { path, answer } => {
            let json = begin(json, "endpoint");
            json.key("path").path(path);
            if let Err(failure) = answer {
                failed(json, &failure.error);
            }
        }
    }
}

fn begin<'a, 'b>(json: &'a mut Writer<'b>, step: &str) -> &'a mut Writer<'b> {
    json.key(step).open(b'{');
    json
}

/// Shows the error of a step that failed.
fn failed(json: &mut Writer<'_>, why: &dyn ToString) {
    json.key("error").text(&why.to_string());
}

fn show_file(json: &mut Writer<'_>, file: &File) {
    json.key("kind").text(match file.kind {
        FileKind::Socket => "socket",
        FileKind::Directory => "directory",
        FileKind::Regular => "regular",
        FileKind::Special => "special",
    });
    json.key("symbolic_link").boolean(file.is_link);
    json.key("uid").number(file.uid.into());
    json.key("gid").number(file.gid.into());
    json.key("mode").text(&format!("{:04o}", file.mode));
}

fn show_peer(json: &mut Writer<'_>, peer: Option<&Peer>) {
    let Some(peer) = peer else {
        return;
    };
    json.key("pid").raw(peer.pid.to_string().as_bytes());
    json.key("uid").number(peer.uid.into());
    match peer.name.as_deref() {
        Some(name) => json.key("name").text(&String::from_utf8_lossy(name)),
        None => json.key("name").raw(b"null"),
    }
}

fn show_settings(json: &mut Writer<'_>, settings: &Settings) {
    for (key, value) in [
        ("header_table_size", Some(settings.header_table_size)),
        ("initial_window_size", Some(settings.initial_window_size)),
        ("max_concurrent_streams", settings.max_concurrent_streams),
        ("max_frame_size", Some(settings.max_frame_size)),
        ("max_header_list_size", settings.max_header_list_size),
    ] {
        match value {
            Some(value) => json.key(key).number(value.into()),
            None => json.key(key).raw(b"null"),
        }
    }
}

fn show_info(json: &mut Writer<'_>, info: &PluginInfo) {
    json.key("type").text(&info.r#type);
    json.key("name").text(&info.name);
    json.key("endpoint").text(&info.endpoint);
    json.key("supported_versions")
        .texts(&info.supported_versions);
}

fn show_verdict(json: &mut Writer<'_>, verdict: &Verdict, socket: &Path) {
    let refusal = match verdict {
        Verdict::Refused(refusal) => Some(refusal),
        Verdict::Accepted(_) | Verdict::Undecided(_) => None,
    };
    let is_decided = !matches!(verdict, Verdict::Undecided(_));
    json.key("accepted").boolean(refusal.is_none());
    json.key("decided").boolean(is_decided);
    if let Some(refusal) = refusal {
        match refusal.status_error(socket) {
            Some(error) => json.key("told").text(&error),
            None => json.key("told").raw(b"null"),
        }
    }
}
