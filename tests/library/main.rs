//! The library in loops of its own, with real directories, sockets, programs and plugins.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod examples;
mod exec;
mod flood;
mod integration;
mod kernel;
