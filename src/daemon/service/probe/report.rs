//! The findings of a probe.
//!
//! Plain values, and how they are read from the file system.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::escape;
use crate::grpc::CallError;
use crate::handler::{CallFailure, DialError};
use crate::http2::{ConnectionError, OtherProtocol, Settings};
use crate::manager::Verdict;
use crate::proto::pluginregistration::PluginInfo;

/// The findings of a probe, in the order of its steps.
#[derive(Debug)]
pub struct Report {
    /// The path that was probed.
    pub socket: PathBuf,
    /// The steps that were taken: only the last step can be a failure.
    pub steps: Vec<Step>,
    /// What the daemon would do for the plugin, or depends on, and the probe did not check.
    pub not_checked: Vec<&'static str>,
    /// The conclusion.
    pub outcome: Outcome,
}

/// One step of a probe.
#[derive(Debug)]
pub struct Step {
    /// The finding.
    pub found: Found,
    /// The duration of the step.
    pub took: Duration,
}

/// The finding of one step.
#[derive(Debug)]
pub enum Found {
    /// The file at the path.
    File(Result<File, io::Error>),
    /// The process that listens; `None` if the kernel does not name it.
    Peer(Result<Option<Peer>, DialError>),
    /// The SETTINGS of the peer.
    Settings(Result<Settings, NoSettings>),
    /// The reply to GetInfo.
    Info(Result<PluginInfo, NoInfo>),
    /// The outcome of validation.
    Verdict(Verdict),
    /// Whether an HTTP/2 server answers at the plugin's endpoint.
    Endpoint {
        /// The path of the endpoint in this mount namespace.
        path: Arc<Path>,
        /// Success, or the reason why the endpoint does not answer.
        answer: Result<(), EndpointFailure>,
    },
}

/// The reason why nothing can be called at a plugin's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointFailure {
    /// Whether the plugin would be registered all the same.
    pub is_registered: bool,
    /// The path of the endpoint, as the plugin reported it.
    pub endpoint: Arc<Path>,
    /// The path at which the daemon dials the endpoint.
    pub path: Arc<Path>,
    /// The error of the call.
    pub error: CallFailure,
}

impl fmt::Display for EndpointFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its endpoint {}", escape::path(&self.endpoint))?;
        if self.path != self.endpoint {
            write!(f, " (mapped to {})", escape::path(&self.path))?;
        }
        write!(f, " does not answer: {}", self.error)
    }
}

/// A file, as the system describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The kind of the file.
    pub kind: FileKind,
    /// Whether the path is a symbolic link to the file.
    pub is_link: bool,
    /// The user that owns the file.
    pub uid: u32,
    /// The group that owns the file.
    pub gid: u32,
    /// The permissions: the lower twelve bits of the mode.
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
    /// The process id; 0 if the process is in a PID namespace that is not visible here.
    pub pid: i32,
    /// The id of the user that the process runs as.
    pub uid: u32,
    /// The name of the process, if the system provides it.
    pub name: Option<Vec<u8>>,
}

/// The reason why a peer has not sent SETTINGS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSettings(pub CallError);

impl NoSettings {
    /// Returns whether the peer accepted the connection and closed it without a byte.
    pub fn is_closed_at_once(&self) -> bool {
        let CallError::Connection { error, .. } = &self.0 else {
            return false;
        };
        *error == ConnectionError::NotHttp2(OtherProtocol::Nothing)
    }
}

impl fmt::Display for NoSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_closed_at_once() {
            f.write_str(
                "the connection was accepted and closed before any data was received; \
                 a server that requires TLS does this",
            )
        } else {
            self.0.fmt(f)
        }
    }
}

impl std::error::Error for NoSettings {}

/// The reason why there is no `PluginInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoInfo {
    /// The call failed.
    Call(CallError),
    /// The reply is not a `PluginInfo`.
    Undecodable(prost::DecodeError),
}

impl fmt::Display for NoInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Undecodable(error) => write!(f, "cannot decode the GetInfo reply: {error}"),
        }
    }
}

impl std::error::Error for NoInfo {}

/// The conclusion of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The daemon would register the plugin.
    WouldRegister,
    /// The daemon would refuse the plugin, and send the reason to it.
    WouldRefuse,
    /// What answers is not a registration service.
    NotARegistrationService,
    /// Nothing answers, or not in time.
    Unreachable,
    /// The connection was accepted and closed before any data was received.
    ClosedAtOnce,
    /// The daemon would register the plugin, but nothing can be called at its endpoint.
    EndpointUnavailable,
}

impl File {
    /// Returns the properties of the file at that path, following a symbolic link.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
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

/// The bits of a file's mode that are permissions, not the kind of the file.
const PERMISSIONS: u32 = 0o7777;
