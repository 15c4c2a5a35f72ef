//! The plugin manager of a Kubernetes node, on its own.

pub mod config;
pub mod escape;
pub mod time;

pub mod hpack;
pub mod http2;

pub mod grpc;

pub mod proto;

pub mod handler;
pub mod watch;

pub mod manager;

pub mod cli;
pub mod daemon;
