//! The plugin manager of a Kubernetes node, on its own.
//!
//! CSI, device and DRA plugins announce themselves by a unix socket in a directory that the node
//! agent watches. This crate finds those sockets, asks each plugin over gRPC who it is, has a
//! handler validate and register it, tells the plugin the outcome, and deregisters it when its
//! socket goes: what kubelet's plugin manager does inside kubelet.
//!
//! ```text
//! inotify -> daemon -> watch -> Found, Lost -> manager: desired -> reconcile -> operation
//!              ^                                                                  |
//!              |     Dial, Transmit, Hangup          grpc -> http2 -> hpack <-----+
//!              +------------------------------------   bytes                      |
//!                                                                    handler <----+
//! ```
//!
//! # Layers
//!
//! Everything but [`daemon`] and [`cli`] is pure: bytes, moments ([`time::Time`]) and events come
//! in as arguments, and what is to be done goes out as values. So a test can run thousands of
//! plugin lives in a second, and replay any of them from a seed. `daemon` is the shell: the one
//! place that names a descriptor, the file system or the clock.
//!
//! A layer knows only those below it: `cli`, `daemon`, `manager`, `grpc`, `http2`, `hpack`; beside
//! them `manager` knows `watch` and `handler`, and `daemon` also knows `simulate`, a plugin to try
//! all this with. The modules below stand in reading order, from the innermost outward.
//!
//! # Embedding
//!
//! [`daemon::PluginManager`] is a part of somebody's loop, whatever that loop is: one descriptor to
//! wait for, one deadline, and a turn when either comes. It starts no thread, installs no signal
//! handler and never blocks.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use plugind::config::{Config, DEFAULT_TYPES};
//! use plugind::daemon::PluginManager;
//! use plugind::handler::{AcceptHandler, HandlerTable};
//!
//! # fn wait_until_readable(_: &impl std::os::fd::AsFd, _: Option<Duration>) {}
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::default();
//! let mut handlers = HandlerTable::new();
//! handlers.add(DEFAULT_TYPES, AcceptHandler::default());
//! let mut plugins = PluginManager::new(&config, handlers)?;
//! loop {
//!     // poll(2), epoll, io_uring, mio, tokio: whatever there is. Asked anew every time.
//!     wait_until_readable(&plugins, plugins.poll_timeout());
//!     plugins.turn(Some(Duration::ZERO))?;
//! }
//! # }
//! ```
//!
//! - Which plugins are accepted, and what becomes of them, is up to a [`handler::PluginHandler`] of
//!   one's own in the place of the [`handler::AcceptHandler`]. A handler that cannot answer at once
//!   leaves its question open and has it answered by [`daemon::PluginManager::answer`].
//! - What is registered stands in [`daemon::PluginManager::manager`].
//! - To end, call [`daemon::PluginManager::stop`] and go on until
//!   [`daemon::PluginManager::is_stopped`]; then [`daemon::PluginManager::save`] brings the
//!   state file up to date, if there is one.
//!
//! The examples `poll-loop` and `in-tokio` in `tests/examples/` are whole programs.
//!
//! [`http2`] and [`grpc`] can also be used for themselves, as a client and as a server; each says
//! how it is driven.
//!
//! # Changing it
//!
//! [`guide`] explains the words, the contract with plugins, the decisions, the style and the tests.
//!
//! # What is deliberately absent
//!
//! An async runtime, threads, a general gRPC or HTTP/2 library (TLS, compression, server push and
//! prioritisation), and any knowledge of pods, containers or the Kubernetes API.

pub mod config;
pub mod escape;
mod few;
pub mod time;

pub mod hpack;
pub mod http2;

pub mod grpc;

pub mod proto;

pub mod handler;
pub mod watch;

pub mod manager;

pub mod simulate;

pub mod cli;
pub mod daemon;

pub mod guide;

#[cfg(test)]
#[path = "../tests/support/inside.rs"]
mod inside;
#[cfg(test)]
#[path = "../tests/support/skip.rs"]
mod skip;
