//! The built binary, from a user's point of view: every suite that starts it. One suite:
//! `cargo test --test daemon kubelet_sock::`.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod api;
mod binary;
mod commands;
mod configuration;
mod containers;
mod crashes;
mod descriptors;
mod device_plugins;
mod doctor;
mod kubelet_sock;
mod log;
mod probe;
#[path = "../manager/rng.rs"]
mod rng;
mod service;
mod simulate;
mod soak;
mod trust;
