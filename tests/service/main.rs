//! The built binary under a service manager: what it is notified of, the sockets it passes in, the
//! formats of its log, and its unit files.

#[path = "../support/binary.rs"]
mod binary;
#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../support/plugin.rs"]
mod plugin;
#[path = "../support/skip.rs"]
mod skip;
#[path = "../support/timed.rs"]
mod timed;

mod formats;
mod notified;
mod passed;
mod units;
