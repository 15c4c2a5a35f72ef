//! The commands that ask a running daemon: their daemon, and their ends.
//!
//! All of them find the daemon by `--socket`, else by the environment variable
//! `PLUGIND_API_SOCKET`, else in the default run directory. `PLUGIND_SOCKET` is the socket of a
//! plugin, in the environment of programs of `--exec`.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use super::client::Client;
use super::failure::{Kind, Result};
use super::options::{Formats, Options};
use crate::daemon::client::default_socket;
pub(super) use crate::daemon::client::time_of_day as now;

/// A command that asks a daemon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) formats: Formats,
    /// The kinds of target, as in an error message; empty if there is none.
    pub(super) target: &'static str,
    pub(super) run: Run,
}

/// The function that runs a command.
pub(super) type Run = fn(&Context<'_>) -> Result<()>;

/// What a command needs to run.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) options: &'a Options,
    pub(super) client: Client,
    pub(super) is_terminal: bool,
    pub(super) is_coloured: bool,
}

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
    match super::run_of(options.verb)(&context) {
        Err(failure) if failure.kind == Kind::OutputClosed => Ok(()),
        done => done,
    }
}

/// Prints a text on standard error without a prefix, as kubectl does if there is nothing to show.
pub(super) fn remark(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
