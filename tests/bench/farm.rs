//! The process with the plugins, from the benchmark's side.

use std::env;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::order::{Life, Order};

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
        self.obey(&Order::OneByOne { pauses })
    }

    /// Has plugins appear at once, and stay.
    pub(crate) fn at_once(&mut self, plugins: usize) -> Result<Vec<Life>, Box<dyn Error>> {
        self.obey(&Order::AtOnce(plugins))
    }

    /// Has plugins appear, and stay. Returns when all listen.
    pub(crate) fn come(&mut self, plugins: usize) -> Result<(), Box<dyn Error>> {
        self.obey(&Order::Come(plugins)).map(drop)
    }

    /// Waits until the plugins that came have been notified.
    pub(crate) fn until_told(&mut self) -> Result<Vec<Life>, Box<dyn Error>> {
        self.obey(&Order::UntilTold)
    }

    /// Gives an order, and waits for the answer.
    fn obey(&mut self, order: &Order) -> Result<Vec<Life>, Box<dyn Error>> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        self.orders.write_all(line.as_bytes())?;
        line.clear();
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
