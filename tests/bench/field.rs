//! A directory of its own, plugins in it, and somebody who registers them.

use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::farm::Farm;
use super::process::Process;
use super::subject::Subject;

/// Where a subject is measured.
pub(crate) struct Field {
    pub(crate) subject: Subject,
    pub(crate) farm: Farm,
    /// Where the plugins say at once which socket listens, to a subject that does not watch: it
    /// learns of each as early as the others can.
    announcements: Option<UnixStream>,
    registry: PathBuf,
    _dir: TempDir,
}

impl Field {
    /// Plugins that wait for orders; nobody registers them yet.
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

    /// Starts the subject.
    pub(crate) fn start(&mut self) -> Result<Process, Box<dyn Error>> {
        let command = self.subject.command(&self.registry)?;
        self.spawn(command)
    }

    /// Starts the subject as the program of a command that runs another.
    pub(crate) fn start_under(&mut self, mut outer: Command) -> Result<Process, Box<dyn Error>> {
        let command = self.subject.command(&self.registry)?;
        outer.arg(command.get_program()).args(command.get_args());
        self.spawn(outer)
    }

    fn spawn(&mut self, mut command: Command) -> Result<Process, Box<dyn Error>> {
        if let Some(announcements) = self.announcements.take() {
            command.stdin(OwnedFd::from(announcements));
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Process::new(command.spawn()?))
    }

    /// Plugins and a subject that has started, and has registered one plugin already.
    pub(crate) fn with_subject(subject: Subject) -> Result<(Self, Process), Box<dyn Error>> {
        let mut field = Self::new(subject)?;
        let process = field.start()?;
        field.farm.one_by_one(vec![Duration::ZERO])?;
        process.until_quiet()?;
        Ok((field, process))
    }
}

/// A directory in memory where there is one: a disk has whoever makes and removes thousands of
/// sockets wait for its journal, and whoever connects to them, and that is no subject's doing.
pub(crate) fn new_dir() -> io::Result<TempDir> {
    tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir())
}

/// Where Linux has files in memory.
const MEMORY: &str = "/dev/shm";

/// What the directory with the sockets is called.
///
/// kubelet says the path of the socket as `:authority`, percent-encoded, and `h2` refuses that. In
/// front of a path that begins like this its gRPC sees a scheme, and says `localhost`.
const REGISTRY: &str = "unix:registry";
