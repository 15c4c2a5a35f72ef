//! The plugin manager in a program's own loop, with nothing but `poll(2)`.
//!
//! `cargo run --example poll-loop -- DIRECTORY` registers what appears there until it is killed.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, error, io};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use plugind::config::{Config, DEFAULT_TYPES};
use plugind::daemon::PluginManager;
use plugind::handler::{AcceptHandler, HandlerTable};

fn main() -> Result<(), Box<dyn error::Error>> {
    let dir = env::args_os().nth(1).ok_or("name a directory")?;
    let config = Config {
        plugins_dirs: vec![PathBuf::from(dir)],
        ..Config::default()
    };
    let mut handlers = HandlerTable::new();
    handlers.add(DEFAULT_TYPES, AcceptHandler);
    let mut plugins = PluginManager::new(&config, handlers)?;
    loop {
        wait(&plugins)?;
        plugins.turn(Some(Duration::ZERO))?;
        println!("{} plugins", plugins.manager().registered().count());
    }
}

/// Waits until there is something to do. Other descriptors would be polled beside this one.
fn wait(plugins: &PluginManager) -> io::Result<()> {
    let mut descriptors = [PollFd::new(plugins.as_fd(), PollFlags::POLLIN)];
    match poll(&mut descriptors, timeout(plugins.poll_timeout())) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the timeout in whole milliseconds, for `poll`: a little late is better than often and
/// too early.
fn timeout(left: Option<Duration>) -> PollTimeout {
    let Some(left) = left else {
        return PollTimeout::NONE;
    };
    let millis = left.as_micros().div_ceil(1000);
    PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
}
