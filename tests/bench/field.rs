//! A directory of its own, plugins in it, and the subject that registers them.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::farm::Farm;
use super::process::Process;
use super::subject::{API, Subject};

/// The place where a subject is measured.
pub(crate) struct Field {
    pub(crate) subject: Subject,
    pub(crate) farm: Farm,
    /// The socket from which a subject that does not watch reads each path as soon as the plugin
    /// listens: as early as the others can see it.
    announcements: Option<UnixStream>,
    registry: PathBuf,
    _dir: TempDir,
}

impl Field {
    /// Starts the process of the plugins, without a subject that registers them.
    pub(crate) fn new(subject: Subject) -> Result<Self, Box<dyn Error>> {
        let dir = new_dir()?;
        let registry = dir.path().join(REGISTRY);
        fs::create_dir(&registry)?;
        let (read, write) = UnixStream::pair()?;
        let (announcements, output) = if subject.watches() {
            (None, Stdio::null())
        } else {
            (Some(read), Stdio::from(OwnedFd::from(write)))
        };
        Ok(Self {
            subject,
            farm: Farm::start(&registry, output)?,
            announcements,
            registry,
            _dir: dir,
        })
    }

    /// Returns the directory with the sockets.
    pub(crate) fn registry(&self) -> &Path {
        &self.registry
    }

    /// Returns the API socket of this program.
    pub(crate) fn api(&self) -> PathBuf {
        self.registry.with_file_name(API)
    }

    /// Starts the subject.
    pub(crate) fn start(&mut self) -> Result<Process, Box<dyn Error>> {
        let command = self.subject.command(&self.registry)?;
        self.spawn(command)
    }

    /// Starts the subject, or this program in its place, through a command that runs another one.
    pub(crate) fn start_under(
        &mut self,
        mut outer: Command,
        program: Option<&OsStr>,
    ) -> Result<Process, Box<dyn Error>> {
        let command = self.subject.command(&self.registry)?;
        let program = program.unwrap_or_else(|| command.get_program());
        outer.arg(program).args(command.get_args());
        self.spawn(outer)
    }

    fn spawn(&mut self, mut command: Command) -> Result<Process, Box<dyn Error>> {
        if let Some(announcements) = self.announcements.take() {
            command.stdin(OwnedFd::from(announcements));
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Process::new(command.spawn()?))
    }

    /// Starts plugins and a subject, and waits until that has registered one plugin.
    pub(crate) fn with_subject(subject: Subject) -> Result<(Self, Process), Box<dyn Error>> {
        let mut field = Self::new(subject)?;
        let process = field.start()?;
        field.farm.one_by_one(vec![Duration::ZERO])?;
        process.until_quiet()?;
        Ok((field, process))
    }
}

/// Creates a directory in memory if possible: on a disk, creating, removing and connecting to
/// thousands of sockets waits for the journal, which does not depend on the subject.
pub(crate) fn new_dir() -> io::Result<TempDir> {
    tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir())
}

/// The directory in which Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";

/// The name of the directory with the sockets.
///
/// kubelet sends the path of the socket as `:authority`, percent-encoded, which `h2` refuses. If
/// the path begins like this, its gRPC takes that for a scheme and sends `localhost`.
const REGISTRY: &str = "unix:registry";
