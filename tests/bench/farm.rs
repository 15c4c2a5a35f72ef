//! The process with the plugins, from the benchmark's side.

use std::env;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::order::{Answer, Life, Order};

/// Plugins in a process of their own, which ends when this is dropped.
pub(crate) struct Farm {
    child: Child,
    orders: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Farm {
    /// Starts plugins with their sockets in `dir`, which write the path of each listening socket to
    /// `announcements`.
    pub(crate) fn start(dir: &Path, announcements: Stdio) -> Result<Self, Box<dyn Error>> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let child = Command::new(env::current_exe()?)
            .arg("plugins")
            .arg(dir)
            .stdin(OwnedFd::from(theirs))
            .stdout(announcements)
            .spawn()?;
        Ok(Self {
            child,
            orders: ours.try_clone()?,
            answers: BufReader::new(ours),
        })
    }

    /// Has plugins appear one after the other, each after its pause, and end that long after
    /// they were registered.
    pub(crate) fn one_by_one(
        &mut self,
        pauses: Vec<Duration>,
    ) -> Result<Vec<Life>, Box<dyn Error>> {
        self.order(&Order::OneByOne { pauses })?;
        self.told()
    }

    /// Has plugins appear at once, and stay.
    pub(crate) fn at_once(&mut self, live: usize) -> Result<Vec<Life>, Box<dyn Error>> {
        self.listen(live, 0)?;
        self.told()
    }

    /// Has a device plugin register itself, and stay. [`Farm::told`] waits for the reply.
    pub(crate) fn register(&mut self) -> Result<(), Box<dyn Error>> {
        self.order(&Order::Register)
    }

    /// Has plugins listen, beside sockets on which nothing listens.
    pub(crate) fn listen(&mut self, live: usize, dead: usize) -> Result<(), Box<dyn Error>> {
        self.order(&Order::AtOnce { live, dead })?;
        match self.answer()? {
            Answer::Listening => Ok(()),
            Answer::Told(_) => Err("told before the sockets were there".into()),
        }
    }

    /// Waits until every plugin that appeared has been notified that it is registered.
    pub(crate) fn told(&mut self) -> Result<Vec<Life>, Box<dyn Error>> {
        match self.answer()? {
            Answer::Told(lives) => Ok(lives),
            Answer::Listening => Err("only the sockets are there".into()),
        }
    }

    fn order(&mut self, order: &Order) -> Result<(), Box<dyn Error>> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        Ok(self.orders.write_all(line.as_bytes())?)
    }

    fn answer(&mut self) -> Result<Answer, Box<dyn Error>> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time limit for an order: several times what the longest takes, with kubelet or valgrind.
const PATIENCE: Duration = Duration::from_secs(120);
