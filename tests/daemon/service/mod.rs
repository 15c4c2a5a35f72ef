//! The built binary under a service manager: what it is notified of, the sockets it passes in, the
//! formats of its log, and its unit files.

mod formats;
mod notified;
mod passed;
mod takeover;
mod units;
