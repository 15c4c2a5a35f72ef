//! How long plugins wait until they are registered, and what registering them costs a node:
//! `plugind`, and beside it in the same run what any program needs that makes the same two calls.
//!
//! This program runs as several processes. Without an argument it measures, and prints. `plugins`
//! makes it the plugins that are registered, `client h2` and `client tonic` a client that registers
//! the plugins it is told of: the floor. What is measured is therefore never in one process with
//! what measures.
//!
//! ```text
//!            orders                        sockets, or their paths
//! benchmark --------> plugins: a server on h2 -----------------> plugind, a client, kubelet
//!           <--------  when each listened     <-----------------  GetInfo, then
//!            answers   and when it was told                       NotifyRegistrationStatus
//! ```

mod at_once;
mod clock;
mod cost;
mod farm;
mod field;
mod h2_client;
mod held;
mod instructions;
mod machine;
mod observers;
mod one_by_one;
mod order;
mod plugins;
mod process;
mod report;
mod rest;
mod spread;
mod start;
mod subject;
mod tonic_client;

#[path = "../support/grpc.rs"]
mod grpc;

use std::env;
use std::error::Error;

use self::subject::Subject;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["plugins", dir] => plugins::run(dir.into()),
        ["client", "h2"] => h2_client::run(),
        ["client", "tonic"] => tonic_client::run(),
        ["cost", ..] => cost::run(),
        // The arguments that `cargo bench` adds by itself.
        _ => benchmark(),
    }
}

fn benchmark() -> Result<(), Box<dyn Error>> {
    let subjects = Subject::all();
    machine::table().print();
    one_by_one::measure(&subjects)?.print();
    at_once::measure(&subjects)?.print();
    start::measure(&subjects)?.print();
    observers::beside()?.print();
    observers::answers()?.print();
    held::measure(&subjects)?.print();
    rest::measure(&subjects)?.print();
    Ok(())
}
