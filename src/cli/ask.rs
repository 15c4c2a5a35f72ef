//! The commands that ask a running daemon: their daemon, and their ends.
//!
//! All of them find the daemon by `--socket`, else by the environment variable
//! `PLUGIND_API_SOCKET`, else in the default run directory. `PLUGIND_SOCKET` is the socket of a
//! plugin, in the environment of programs of `--exec`.

use std::env;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use super::client::Client;
use super::failure::{Kind, Result};
use super::options::{Context, Options, Verb};
use super::{change, describe, devices, events, list, status, wait, watch};
use crate::daemon::client::default_socket;

/// Returns the path in the environment variable `PLUGIND_API_SOCKET`, unless that is empty.
pub(super) fn named_socket() -> Option<PathBuf> {
    let named = env::var_os("PLUGIND_API_SOCKET");
    named.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Runs the command. A closed output is not a failure.
pub fn run(options: &Options) -> Result<()> {
    let socket = options.socket.clone().or_else(named_socket);
    let is_terminal = io::stdout().is_terminal();
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let context = Context {
        options,
        client: Client {
            socket: socket.unwrap_or_else(default_socket),
        },
        is_terminal,
        is_coloured: is_terminal && !is_dumb && !is_set("NO_COLOR"),
    };
    let done = match options.verb {
        Verb::List if options.follows => watch::run(&context),
        Verb::List => list::run(&context),
        Verb::Devices => devices::run(&context),
        Verb::Watch => watch::run(&context),
        Verb::Describe => describe::run(&context),
        Verb::Events => events::run(&context),
        Verb::Wait => wait::run(&context),
        Verb::Status => status::run(&context),
        Verb::Metrics => status::metrics(&context),
        Verb::Retry | Verb::Forget | Verb::Rescan | Verb::Reload | Verb::Log => {
            change::run(&context)
        }
    };
    match done {
        Err(failure) if failure.kind == Kind::OutputClosed => Ok(()),
        done => done,
    }
}
