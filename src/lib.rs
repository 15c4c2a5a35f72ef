//! The plugin manager of a Kubernetes node, as a crate of its own.
//!
//! CSI, device and DRA plugins make themselves known by a Unix socket in a directory that the node
//! agent watches. This crate finds those sockets, calls GetInfo on each plugin over gRPC, lets a
//! handler validate and register the plugin, notifies the plugin of the outcome, and deregisters
//! the plugin when its socket is removed: what kubelet's plugin manager does inside kubelet.
//!
//! ```text
//! inotify -> daemon -> watch -> Found, Lost -> manager: sockets -> router -> visit -> operation
//!              ^                                                                        |
//!              |     Dial, Transmit, Hangup          hpack <- http2 <- grpc <-----------+
//!              +------------------------------------          bytes                     |
//!                                                                  handler <------------+
//! ```
//!
//! # Layers
//!
//! Everything but [`daemon`] and [`cli`] is pure: bytes, times ([`time::Time`]) and events are
//! passed in as arguments, and requests are returned as values. So a test can run thousands of
//! plugin lives in a second, and replay any of them from a seed. `daemon` is the shell: the one
//! layer that uses descriptors, the file system and the clock.
//!
//! A layer uses only those below it, from `cli` and `daemon` down to `hpack`, as
//! [`guide::decisions`] lists them. The modules below are declared in reading order, from the
//! innermost outward.
//!
//! # Embedding
//!
//! [`daemon::PluginManager`] is driven by the caller's event loop, whatever that loop is: it has
//! one descriptor to wait for, one deadline, and a turn to call when either is ready. It starts no
//! thread, installs no signal handler, and does not block after the start.
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
//! handlers.add(DEFAULT_TYPES, AcceptHandler);
//! let mut plugins = PluginManager::new(&config, handlers)?;
//! loop {
//!     // With poll(2), epoll, io_uring, mio or tokio. The timeout may change in every turn.
//!     wait_until_readable(&plugins, plugins.poll_timeout());
//!     plugins.turn(Some(Duration::ZERO))?;
//! }
//! # }
//! ```
//!
//! - A [`handler::PluginHandler`] of your own, instead of [`handler::AcceptHandler`], decides which
//!   plugins are accepted and sets them up. A handler that cannot answer at once leaves its
//!   question open, and the caller answers it later with [`daemon::PluginManager::answer`].
//! - [`daemon::PluginManager::add_directory`] and [`daemon::PluginManager::remove_directory`]
//!   change the watched directories at run time. The plugins of a removed one are deregistered.
//!   [`daemon::PluginManager::set_on_down`] and its neighbours change other settings.
//! - [`daemon::PluginManager::manager`] returns the core, which lists the registered plugins.
//! - [`daemon::PluginManager::poll_event`] returns what has happened, as values, of which the
//!   newest are kept; the crate `log` gets the same as text. A failed registration is a
//!   [`daemon::Event::Plugin`] with [`AttemptFailed`](manager::event::EventKind::AttemptFailed).
//! - [`config::Config::run_dir`] names a directory for locks, which keep two plugin managers from
//!   using one plugins directory. Without it, nothing is locked. By default, nothing is created in
//!   `/run`.
//! - With [`config::Config::api_socket`], the API ([`guide::api`]) is served in the same turns. By
//!   default, the plugin manager does not listen on any socket.
//! - To stop, call [`daemon::PluginManager::stop`] and continue until
//!   [`daemon::PluginManager::is_stopped`]; then [`daemon::PluginManager::save`] writes the state
//!   file, if there is one.
//!
//! The examples `poll-loop` and `in-tokio` in `tests/examples/` are complete programs.
//!
//! The feature `cli`, which is enabled by default, contains the daemon as a process: the commands,
//! `simulate`, signals and the log. Without default features, three packages and a fifth of the
//! code are left out. [`guide::handlers`] helps to choose a handler.
//!
//! # What is promised
//!
//! The documented items are what an embedder needs. Those that are hidden, such as `http2`, `grpc`
//! and the limits in [`config`], are public for the tests, benchmarks and fuzz targets of this
//! project, and may change with every version. `make doc` documents them as well.
//!
//! # Changing it
//!
//! [`guide`] explains the terms, the contract with plugins, the decisions, the style and the tests.
//!
//! # Where to look
//!
//! | subject | files in `src/`, or in `tests/` where it is named |
//! |---|---|
//! | from Found to Registered | `manager/`: sockets, router, visit, operation, actions, outcomes |
//! | a socket replaced during an operation | `manager/operation/mod.rs`, `manager/sockets.rs` |
//! | several plugins of one name | `manager/names.rs`, `manager/outcomes.rs` |
//! | backoff | `manager/desired.rs`, `backoff.rs` |
//! | dialing again | `manager/visit.rs`, `manager/limiter.rs`, `manager/operation/steps.rs` |
//! | a handler's open calls | `handler/mod.rs`, `manager/host/call.rs`, `manager/host/effects.rs` |
//! | programs (`--exec`), also after a restart | `guide/operator.rs`, `handler/exec.rs` |
//! | plugins from before a restart | `manager/saved_state.rs`, `watch/mod.rs` (`expect`) |
//! | what is on disk before a program runs | `daemon/event_loop/plugin_manager/outputs.rs` |
//! | how many plugins are asked at once | `manager/limiter.rs`, `config/limits.rs` |
//! | a plugin dies: checks | `manager/visit.rs`, `manager/outcomes.rs`, `manager/registered.rs` |
//! | a plugin is deregistered | `manager/registered.rs`, `manager/router.rs`, `manager/visit.rs` |
//! | the words that a refused plugin gets | `manager/failure.rs` (`Refusal::status_error`) |
//! | inotify overflow, and other reasons to scan | `watch/rounds.rs`, `watch/mod.rs` |
//! | limits and timeouts, each with its reason | `config/limits.rs`, `config/protocol.rs` |
//! | a peer that floods its connection | `http2/flood.rs` |
//! | what operators see of a plugin, and its changes | `manager/records.rs`, `manager/changes.rs` |
//! | a request to the API, and its response | `api/route.rs`, `api/answer.rs`, `guide/api.rs` |
//! | which users may read or change what by the API | `api/server.rs`, `daemon/api/server.rs` |
//! | a client of the API socket that misbehaves | `api/connection.rs`, `config/limits.rs` |
//! | memory for all plugins together | `budget.rs` |
//! | metrics | `manager/messages.rs`, `api/counters.rs`, `api/metrics.rs` |
//! | links to endpoints by plugin name | `daemon/fs/by_name.rs`, `daemon/fs/link_name.rs` |
//! | commands that query the daemon; their columns | `cli/list.rs`, `cli/client.rs`, `cli/age.rs` |
//! | an option of `run`, and how to add one | `cli/settings.rs` |
//! | a type of plugins, and how to add one | `handler/built_in.rs`, `handler/mod.rs`, `config.rs` |
//! | the configuration file; a reload | `cli/command_line.rs`, `daemon/service/reload.rs` |
//! | device plugins that dial `kubelet.sock` | `registration/mod.rs`, `manager/announced.rs` |
//! | systemd: notifications, passed sockets | `daemon/service/`, `daemon/process/passed.rs` |
//! | events, their log lines, and how to add one | `manager/event.rs`, `manager/context.rs` |
//! | manual pages, completions, log lines | `dist/man/`, `guide/log.rs`, `tests/tidy/manual/` |
//! | a directory removed at run time | `daemon/event_loop/`, `watch/roots.rs` |
//!
//! # What is deliberately absent
//!
//! An async runtime, threads, a general gRPC or HTTP/2 library (TLS, compression, server push and
//! prioritisation), and any knowledge of pods, containers or the Kubernetes API.

#![cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "cli uses it")
)]

#[cfg(not(target_os = "linux"))]
compile_error!("plugind needs Linux: inotify, epoll and pidfd");

#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod backoff;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod budget;
pub mod config;
pub mod escape;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod octets;
pub mod time;

#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod hpack;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod http2;

#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod grpc;

#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod proto;

pub mod handler;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod watch;

pub mod manager;

#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod api;

#[cfg_attr(not(plugind_internals), doc(hidden))]
pub mod registration;

#[cfg_attr(not(plugind_internals), doc(hidden))]
#[cfg(feature = "cli")]
pub mod simulate;

pub mod daemon;

#[cfg_attr(not(plugind_internals), doc(hidden))]
#[cfg(feature = "cli")]
pub mod cli;

pub mod guide;

#[cfg(test)]
#[path = "../tests/support/bind.rs"]
mod bind;
#[cfg(test)]
#[path = "../tests/support/inside.rs"]
mod inside;
#[cfg(test)]
#[path = "../tests/support/skip.rs"]
mod skip;
