//! A probe's report as a ladder that can be pasted into a bug report.
//!
//! Pure. A line for each rung, with the time it took in front of it; what came from outside is
//! escaped.

use std::fmt::{Display, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::daemon::probe::{File, FileKind, Found, Outcome, Peer, Report, Rung};
use crate::escape;
use crate::http2::Settings;
use crate::manager::Verdict;
use crate::proto::pluginregistration::PluginInfo;

/// Shows a report.
pub(super) fn show(report: &Report) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let socket = escape::path(&report.socket);
    let mut ladder = Ladder {
        text: format!("plugind {version} probes {socket}\n"),
    };
    for rung in &report.rungs {
        ladder.rung(rung, &report.socket);
    }
    ladder.line(None, "outcome", outcome(report.outcome));
    ladder.text
}

/// What a probe comes to, in words.
fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::WouldRegister => "the plugin would be registered",
        Outcome::WouldRefuse => "the plugin would be refused",
        Outcome::NotARegistrationService => "this is no registration service",
        Outcome::Unreachable => "nothing answers",
    }
}

/// The lines so far.
struct Ladder {
    text: String,
}

impl Ladder {
    /// Adds the lines of a rung.
    fn rung(&mut self, rung: &Rung, socket: &Path) {
        let took = Some(rung.took);
        match &rung.found {
            Found::File(Ok(file)) => self.line(took, "file", describe_file(file)),
            Found::File(Err(error)) => self.failed(took, "file", error),
            Found::Peer(Ok(peer)) => self.line(took, "connect", describe_peer(peer.as_ref())),
            Found::Peer(Err(error)) => self.failed(took, "connect", error),
            Found::Settings(Ok(settings)) => self.line(took, "HTTP/2", describe_settings(settings)),
            Found::Settings(Err(error)) => self.failed(took, "HTTP/2", error),
            Found::Info(Ok(info)) => self.info(took, info),
            Found::Info(Err(error)) => self.failed(took, "GetInfo", error),
            Found::Verdict(verdict) => self.verdict(took, verdict, socket),
        }
    }

    /// Adds what the plugin says of itself.
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

    /// Adds what the daemon would say to the plugin.
    fn verdict(&mut self, took: Option<Duration>, verdict: &Verdict, socket: &Path) {
        match verdict {
            Verdict::Accepted(_) => self.line(took, "verdict", "accepted"),
            Verdict::Undecided(_) => self.line(took, "verdict", "accepted so far"),
            Verdict::Refused(refusal) => {
                self.line(took, "verdict", refusal);
                match refusal.status_error(socket) {
                    Some(words) => self.line(None, "  told", quoted(&words)),
                    None => self.line(None, "  told", "nothing"),
                }
            }
        }
    }

    /// Adds a rung that does not hold.
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

/// What kind of file it is, whose, and who may use it.
fn describe_file(file: &File) -> String {
    let kind = match file.kind {
        FileKind::Socket => "a socket",
        FileKind::Directory => "a directory",
        FileKind::Regular => "a regular file",
        FileKind::Special => "a pipe or device",
    };
    let via = if file.is_link {
        ", behind a symbolic link"
    } else {
        ""
    };
    let File { uid, gid, mode, .. } = file;
    format!("{kind}, owner {uid}:{gid}, mode {mode:04o}{via}")
}

/// Which process listens.
fn describe_peer(peer: Option<&Peer>) -> String {
    let Some(Peer { pid, uid, name }) = peer else {
        return "OK, to a process that the system does not tell".to_owned();
    };
    match name {
        Some(name) => format!("to pid {pid} ({:?}), uid {uid}", escape::bytes(name)),
        None => format!("to pid {pid}, uid {uid}"),
    }
}

/// What the peer lets us do, where it says more than the standard.
fn describe_settings(settings: &Settings) -> String {
    let limit = |limit: Option<u32>| limit.map_or_else(|| "any".to_owned(), |n| n.to_string());
    format!(
        "streams {}, window {}, frame {}, header list {}, header table {}",
        limit(settings.max_concurrent_streams),
        settings.initial_window_size,
        settings.max_frame_size,
        limit(settings.max_header_list_size),
        settings.header_table_size,
    )
}

/// Text from the plugin: escaped, and in quotes so that its ends are seen.
fn quoted(text: &str) -> String {
    format!("{:?}", escape::text(text))
}
