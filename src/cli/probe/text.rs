//! A probe's report as lines of text that can be pasted into a bug report.
//!
//! Pure. There is a line for each step, with the time that it took in front, as soon as its result
//! is known; text from outside is escaped.

use std::fmt::{Display, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::daemon::probe::{EndpointFailure, File, FileKind, Found, Outcome, Peer, Report, Step};
use crate::escape;
use crate::http2::Settings;
use crate::manager::Verdict;
use crate::proto::pluginregistration::PluginInfo;

/// Returns the first line, which precedes all results.
pub(super) fn head(socket: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("plugind {version} probes {}\n", escape::path(socket))
}

/// Returns the lines of a step.
pub(super) fn step(step: &Step, socket: &Path) -> String {
    let mut lines = Lines::default();
    lines.step(step, socket);
    lines.text
}

/// Returns the lines after the last step.
pub(super) fn end(report: &Report) -> String {
    let mut lines = Lines::default();
    for what in &report.not_checked {
        lines.line(None, "unchecked", what);
    }
    let (what, advice) = outcome(report.outcome);
    lines.line(None, "outcome", format_args!("{what}{advice}"));
    lines.text
}

/// Returns the lines after the last socket of a directory: the number of sockets for each outcome.
pub(super) fn summary(dir: &Path, outcomes: &[Outcome]) -> String {
    let (count, dir) = (outcomes.len(), escape::path(dir));
    let sockets = if count == 1 { "socket" } else { "sockets" };
    let before = if count == 0 { "" } else { "\n" };
    let mut text = format!("{before}{count} {sockets} in {dir}\n");
    let mut sorted = outcomes.to_vec();
    sorted.sort_unstable();
    for same in sorted.chunk_by(|one, other| one == other) {
        let (what, _) = outcome(same[0]);
        writeln!(text, "{:>11}  {what}", same.len()).expect("text has room");
    }
    text
}

/// Returns the description of an outcome, and the advice for it.
fn outcome(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::WouldRegister => ("the plugin would be registered", ""),
        Outcome::WouldRefuse => ("the plugin would be refused", ""),
        Outcome::NotARegistrationService => (
            "this is not a plugin registration service",
            "; probe the socket in the plugins directory",
        ),
        Outcome::Unreachable => (
            "the plugin does not answer",
            "; check that it is running and listens on this socket",
        ),
        Outcome::ClosedAtOnce => (
            "the connection was closed before any data was received",
            "; configure the plugin to serve this socket without TLS",
        ),
        Outcome::EndpointUnavailable => (
            "the plugin would be registered, but its endpoint does not answer",
            "; check that it listens there, and --map-path",
        ),
    }
}

/// The lines so far.
#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    /// Adds the lines of a step.
    fn step(&mut self, step: &Step, socket: &Path) {
        let took = Some(step.took);
        match &step.found {
            Found::File(Ok(file)) => self.line(took, "file", describe_file(file)),
            Found::File(Err(error)) => {
                self.failed(
                    took,
                    "file",
                    format_args!("cannot examine the file: {error}"),
                );
            }
            Found::Peer(Ok(peer)) => self.line(took, "connect", describe_peer(peer.as_ref())),
            Found::Peer(Err(error)) => self.failed(took, "connect", error),
            Found::Settings(Ok(settings)) => self.line(took, "HTTP/2", describe_settings(settings)),
            Found::Settings(Err(error)) => self.failed(took, "HTTP/2", error),
            Found::Info(Ok(info)) => self.info(took, info),
            Found::Info(Err(error)) => self.failed(took, "GetInfo", error),
            Found::Verdict(verdict) => self.verdict(took, verdict, socket),
            Found::Endpoint { path, answer } => self.endpoint(took, path, answer),
        }
    }

    /// Adds the contents of the plugin's `GetInfo` reply.
    fn info(&mut self, took: Option<Duration>, info: &PluginInfo) {
        self.line(took, "GetInfo", "OK");
        self.line(None, "  type", quoted(&info.r#type));
        self.line(None, "  name", quoted(&info.name));
        if info.endpoint.is_empty() {
            self.line(None, "  endpoint", "this socket");
        } else {
            self.line(None, "  endpoint", quoted(&info.endpoint));
        }
        for version in &info.supported_versions {
            self.line(None, "  version", quoted(version));
        }
    }

    /// Adds the daemon's verdict, and the notification that would be sent to the plugin.
    fn verdict(&mut self, took: Option<Duration>, verdict: &Verdict, socket: &Path) {
        match verdict {
            Verdict::Accepted(_) => self.line(took, "verdict", "accepted"),
            Verdict::Undecided(_) => self.line(
                took,
                "verdict",
                "accepted, but its handler has not decided yet",
            ),
            Verdict::Refused(refusal) => {
                self.line(took, "verdict", format_args!("refused: {refusal}"));
                match refusal.status_error(socket) {
                    Some(words) => self.line(None, "  notified", quoted(&words)),
                    None => self.line(None, "  notified", "no, plugins of this type are ignored"),
                }
            }
        }
    }

    /// Adds whether the plugin's endpoint answers.
    fn endpoint(
        &mut self,
        took: Option<Duration>,
        path: &Path,
        answer: &Result<(), EndpointFailure>,
    ) {
        match answer {
            Ok(()) => {
                let path = escape::path(path);
                self.line(took, "endpoint", format_args!("OK, HTTP/2 at {path}"));
            }
            Err(failure) => self.failed(took, "endpoint", failure),
        }
    }

    /// Adds a step that failed.
    fn failed(&mut self, took: Option<Duration>, label: &str, why: impl Display) {
        self.line(took, label, format_args!("FAILED: {why}"));
    }

    /// Adds one line.
    fn line(&mut self, took: Option<Duration>, label: &str, what: impl Display) {
        let took = took.map_or_else(String::new, |took| {
            let hundredths = took.as_secs() * 100_000 + u64::from(took.subsec_micros() + 5) / 10;
            format!("{}.{:02} ms", hundredths / 100, hundredths % 100)
        });
        writeln!(self.text, "{took:>11}  {label:<10}  {what}").expect("text has room");
    }
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
