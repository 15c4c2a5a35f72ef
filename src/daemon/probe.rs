//! One look at a socket: what it is, who serves it, and what the daemon would say to the plugin.
//!
//! Shell. Climbs the daemon's own ladder with the daemon's own limits, and stops at the first rung
//! that does not hold. One connection, one `GetInfo`: the plugin is never told anything, so it can
//! be done to a plugin in service. Blocks until the outcome is known.
//!
//! ```text
//! file -> connect -> HTTP/2 -> GetInfo -> verdict
//! ```

mod call;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

use self::call::Call;
use super::clock::Clock;
use crate::grpc::{CallError, Code};
use crate::handler::{DialError, HandlerTable};
use crate::http2::{ConnectionError, Preamble, Settings};
use crate::manager::{Verdict, verdict};
use crate::proto::pluginregistration::PluginInfo;
use crate::time::Time;

/// Probes the registration socket at that path, as a daemon with these handlers would.
pub fn probe(socket: &Path, handlers: &mut HandlerTable) -> Report {
    let clock = Clock::start();
    let mut climb = Climb {
        socket,
        rungs: Vec::new(),
        clock,
        since: clock.now(),
    };
    let outcome = climb.climb(handlers).unwrap_or_else(|end| end);
    Report {
        socket: socket.to_owned(),
        rungs: climb.rungs,
        outcome,
    }
}

/// What was found out, in the order in which it was.
#[derive(Debug)]
pub struct Report {
    /// The path that was probed.
    pub socket: PathBuf,
    /// The ladder, as far as it went: only the last rung can be a failure.
    pub rungs: Vec<Rung>,
    /// What it comes to.
    pub outcome: Outcome,
}

/// One rung of the ladder.
#[derive(Debug)]
pub struct Rung {
    /// What was found out.
    pub found: Found,
    /// How long it took.
    pub took: Duration,
}

/// What one rung has found out.
#[derive(Debug)]
pub enum Found {
    /// What there is at the path.
    File(Result<File, io::Error>),
    /// Who listens; `None` when the system does not say.
    Peer(Result<Option<Peer>, DialError>),
    /// How the peer wants HTTP/2 to be spoken.
    Settings(Result<Settings, CallError>),
    /// Who the plugin says it is.
    Info(Result<PluginInfo, NoInfo>),
    /// What the daemon would say to it.
    Verdict(Verdict),
}

/// A file, as the system describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// What kind of file it is.
    pub kind: FileKind,
    /// Whether the path is a symbolic link to it.
    pub is_link: bool,
    /// Whose it is.
    pub uid: u32,
    /// Which group's it is.
    pub gid: u32,
    /// Who may do what: the lower twelve bits.
    pub mode: u32,
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A unix socket: what a plugin's path should be.
    Socket,
    /// A directory.
    Directory,
    /// A regular file.
    Regular,
    /// A pipe or a device.
    Special,
}

/// The process that listens on a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its id; 0 when it is in a namespace that we do not see into.
    pub pid: i32,
    /// Its user's id.
    pub uid: u32,
    /// What it calls itself, if the system tells us.
    pub name: Option<Vec<u8>>,
}

/// Why it is not known who the plugin is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoInfo {
    /// The call failed.
    Call(CallError),
    /// The reply is no `PluginInfo`.
    Undecodable(prost::DecodeError),
}

impl fmt::Display for NoInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Undecodable(error) => write!(f, "the reply is no PluginInfo: {error}"),
        }
    }
}

impl std::error::Error for NoInfo {}

/// What a probe comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The daemon would register the plugin.
    WouldRegister,
    /// The daemon would refuse the plugin, and tell it so.
    WouldRefuse,
    /// What answers is no registration service.
    NotARegistrationService,
    /// Nothing answers, or not in time.
    Unreachable,
}

impl File {
    /// The file at that path, or the one that a symbolic link there leads to.
    fn at(path: &Path) -> io::Result<Self> {
        let is_link = fs::symlink_metadata(path)?.is_symlink();
        let found = fs::metadata(path)?;
        Ok(Self {
            kind: FileKind::of(found.file_type()),
            is_link,
            uid: found.uid(),
            gid: found.gid(),
            mode: found.mode() & PERMISSIONS,
        })
    }
}

impl FileKind {
    fn of(found: fs::FileType) -> Self {
        if found.is_socket() {
            Self::Socket
        } else if found.is_dir() {
            Self::Directory
        } else if found.is_file() {
            Self::Regular
        } else {
            Self::Special
        }
    }
}

/// The way up the ladder. Each step leaves a rung, and ends the climb when that does not hold.
struct Climb<'a> {
    socket: &'a Path,
    rungs: Vec<Rung>,
    clock: Clock,
    /// When the step that is being done began.
    since: Time,
}

impl Climb<'_> {
    fn climb(&mut self, handlers: &mut HandlerTable) -> Result<Outcome, Outcome> {
        self.look()?;
        let mut call = self.connect()?;
        let info = self.ask(&mut call);
        call.hang_up();
        Ok(self.judge(info?, handlers))
    }

    /// Looks at what there is at the path.
    fn look(&mut self) -> Result<(), Outcome> {
        let file = File::at(self.socket);
        let end = match &file {
            Ok(file) if file.kind == FileKind::Socket => Ok(()),
            Ok(_) => Err(Outcome::NotARegistrationService),
            Err(_) => Err(Outcome::Unreachable),
        };
        self.leave(Found::File(file));
        end
    }

    /// Connects to the socket.
    fn connect(&mut self) -> Result<Call, Outcome> {
        let (call, peer) = Call::dial(self.socket, self.clock).map_err(|error| {
            self.leave(Found::Peer(Err(error)));
            Outcome::Unreachable
        })?;
        self.leave(Found::Peer(Ok(peer)));
        Ok(call)
    }

    /// Asks the plugin who it is, and hears how it speaks and what it says.
    fn ask(&mut self, call: &mut Call) -> Result<PluginInfo, Outcome> {
        call.ask();
        let settings = call.settings();
        let spoke = settings.as_ref().map(|_| ()).map_err(outcome_of);
        self.leave(Found::Settings(settings));
        spoke?;

        let info = call
            .reply()
            .map_err(NoInfo::Call)
            .and_then(|reply| PluginInfo::decode(&*reply).map_err(NoInfo::Undecodable));
        let said = match &info {
            Ok(info) => Ok(info.clone()),
            Err(NoInfo::Call(error)) => Err(outcome_of(error)),
            Err(NoInfo::Undecodable(_)) => Err(Outcome::NotARegistrationService),
        };
        self.leave(Found::Info(info));
        said
    }

    /// Asks the handlers what they would say.
    fn judge(&mut self, info: PluginInfo, handlers: &mut HandlerTable) -> Outcome {
        let verdict = verdict(handlers, info, Arc::from(self.socket), self.clock.now());
        let outcome = match &verdict {
            Verdict::Accepted(_) | Verdict::Undecided(_) => Outcome::WouldRegister,
            Verdict::Refused(_) => Outcome::WouldRefuse,
        };
        self.leave(Found::Verdict(verdict));
        outcome
    }

    /// Writes down what a step has found out.
    fn leave(&mut self, found: Found) {
        let now = self.clock.now();
        let took = now.saturating_since(self.since);
        self.since = now;
        self.rungs.push(Rung { found, took });
    }
}

/// What a failed call says about the plugin: one that may work later is told from one that is none.
fn outcome_of(error: &CallError) -> Outcome {
    if is_foreign(error) {
        return Outcome::NotARegistrationService;
    }
    match error.code() {
        Code::Unavailable | Code::DeadlineExceeded => Outcome::Unreachable,
        _ => Outcome::NotARegistrationService,
    }
}

/// Whether the peer speaks something else than HTTP/2, or speaks it wrongly.
fn is_foreign(error: &CallError) -> bool {
    let CallError::Connection { error, .. } = error else {
        return false;
    };
    match error {
        ConnectionError::NotHttp2(instead) => *instead != Preamble::Nothing,
        ConnectionError::Violation(_) => true,
        _ => false,
    }
}

/// The bits of a file's mode that are permissions, not its kind.
const PERMISSIONS: u32 = 0o7777;
