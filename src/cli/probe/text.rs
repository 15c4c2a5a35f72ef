//! A probe's report as lines of text that can be pasted into a bug report.
//!
//! Pure. There is a line for each step, with the time that it took in front, as soon as its result
//! is known; text from outside is escaped.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use super::outcome::describe;
use crate::daemon::probe::{File, FileKind, Found, Outcome, Peer, Report, Step};
use crate::escape;
use crate::http2::Settings;
use crate::manager::Verdict;
use crate::proto::pluginregistration::PluginInfo;

/// Returns the first line, which precedes all results.
pub(super) fn head(socket: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("plugind {version} probes {}\n", escape::path(socket))
}

/// Returns the lines of a step. The first one has the time that the step took.
pub(super) fn step(step: &Step, socket: &Path) -> String {
    let mut took = Some(step.took);
    let facts = facts(&step.found, socket).into_iter();
    facts
        .map(|(label, what)| line(took.take(), label, &what))
        .collect()
}

/// Returns the lines after the last step.
pub(super) fn end(report: &Report) -> String {
    let unchecked = report.not_checked.iter();
    let unchecked: String = unchecked
        .map(|what| line(None, "unchecked", what))
        .collect();
    let outcome = describe(report.outcome);
    let outcome = [outcome.text, outcome.advice].concat();
    unchecked + &line(None, "outcome", &outcome)
}

/// Returns the lines after the last socket of a directory: the number of sockets for each outcome.
pub(super) fn summary(dir: &Path, outcomes: &[Outcome]) -> String {
    let (count, dir) = (outcomes.len(), escape::path(dir));
    let sockets = if count == 1 { "socket" } else { "sockets" };
    let before = if count == 0 { "" } else { "\n" };
    let mut sorted = outcomes.to_vec();
    sorted.sort_unstable();
    let groups = sorted.chunk_by(|one, other| one == other);
    let groups = groups.map(|same| format!("{:>11}  {}\n", same.len(), describe(same[0]).text));
    format!("{before}{count} {sockets} in {dir}\n") + &groups.collect::<String>()
}

/// Returns one line.
fn line(took: Option<Duration>, label: &str, what: &str) -> String {
    let took = took.map_or_else(String::new, |took| {
        let hundredths = took.as_secs() * 100_000 + u64::from(took.subsec_micros() + 5) / 10;
        format!("{}.{:02} ms", hundredths / 100, hundredths % 100)
    });
    format!("{took:>11}  {label:<10}  {what}\n")
}

/// What a step has found, with a label in front.
type Fact = (&'static str, String);

/// Returns what a step has found.
fn facts(found: &Found, socket: &Path) -> Vec<Fact> {
    match found {
        Found::File(Ok(file)) => vec![("file", describe_file(file))],
        Found::File(Err(error)) => {
            let why = format!("cannot examine the file: {error}");
            vec![("file", failed(&why))]
        }
        Found::Peer(Ok(peer)) => vec![("connect", describe_peer(peer.as_ref()))],
        Found::Peer(Err(error)) => vec![("connect", failed(error))],
        Found::Settings(Ok(settings)) => vec![("HTTP/2", describe_settings(settings))],
        Found::Settings(Err(error)) => vec![("HTTP/2", failed(error))],
        Found::Info(Ok(info)) => info_facts(info),
        Found::Info(Err(error)) => vec![("GetInfo", failed(error))],
        Found::Verdict(verdict) => verdict_facts(verdict, socket),
        Found::Endpoint { path, answer } => {
            let what = match answer {
                Ok(()) => format!("OK, HTTP/2 at {}", escape::path(path)),
                Err(failure) => failed(failure),
            };
            vec![("endpoint", what)]
        }
    }
}

fn failed(why: &dyn Display) -> String {
    format!("FAILED: {why}")
}

/// Returns the contents of the plugin's `GetInfo` reply.
fn info_facts(info: &PluginInfo) -> Vec<Fact> {
    let endpoint = match &*info.endpoint {
        "" => "this socket".to_owned(),
        endpoint => quoted(endpoint),
    };
    let mut facts = vec![
        ("GetInfo", "OK".to_owned()),
        ("  type", quoted(&info.r#type)),
        ("  name", quoted(&info.name)),
        ("  endpoint", endpoint),
    ];
    let versions = info.supported_versions.iter();
    facts.extend(versions.map(|version| ("  version", quoted(version))));
    facts
}

/// Returns the daemon's verdict, and the notification that would be sent to the plugin.
fn verdict_facts(verdict: &Verdict, socket: &Path) -> Vec<Fact> {
    let accepted = match verdict {
        Verdict::Accepted(_) => "accepted",
        Verdict::Undecided(_) => "accepted, but its handler has not decided yet",
        Verdict::Refused(refusal) => {
            let notified = refusal.status_error(socket).map_or_else(
                || "no, plugins of this type are ignored".to_owned(),
                |words| quoted(&words),
            );
            return vec![
                ("verdict", format!("refused: {refusal}")),
                ("  notified", notified),
            ];
        }
    };
    vec![("verdict", accepted.to_owned())]
}

/// Returns the type, owner and mode of a file.
fn describe_file(file: &File) -> String {
    let kind = match file.kind {
        FileKind::Socket => "socket",
        FileKind::Directory => "directory",
        FileKind::Regular => "regular file",
        FileKind::Special => "pipe or device",
    };
    let via = if file.is_link {
        ", through a symbolic link"
    } else {
        ""
    };
    let File { uid, gid, mode, .. } = file;
    format!("{kind}, owner {uid}:{gid}, mode {mode:04o}{via}")
}

/// Returns the description of the listening process.
fn describe_peer(peer: Option<&Peer>) -> String {
    let Some(Peer { pid, uid, name }) = peer else {
        return "OK, peer process unknown".to_owned();
    };
    match name {
        Some(name) => {
            let name = escape::bytes(name);
            format!("OK, peer process {pid} ({name:?}), uid {uid}")
        }
        None => format!("OK, peer process {pid}, uid {uid}"),
    }
}

/// Returns the description of the peer's SETTINGS.
fn describe_settings(settings: &Settings) -> String {
    let limit =
        |limit: Option<u32>| limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
    format!(
        "OK, streams {}, window {}, frame {}, header list {}, header table {}",
        limit(settings.max_concurrent_streams),
        settings.initial_window_size,
        settings.max_frame_size,
        limit(settings.max_header_list_size),
        settings.header_table_size,
    )
}

/// Returns a text of the plugin, escaped, and in quotes so that its ends are visible.
fn quoted(text: &str) -> String {
    format!("{:?}", escape::text(text))
}
