//! How long plugins wait until they are registered, and what registering them costs a node:
//! `plugind`, and beside it in the same run what any program needs that makes the same two calls.
//!
//! This program runs as several processes. Without an argument it measures, and prints. `plugins`
//! makes it the plugins that are registered, `client h2` and `client tonic` a client that registers
//! the plugins it is told of: the floor. `registrar h2` makes it the floor for device plugins that
//! register themselves. What is measured is therefore never in one process with what measures.
//!
//! ```text
//!            orders                        sockets, or their paths
//! benchmark --------> plugins: a server on h2 -----------------> plugind, a client, kubelet
//!           <--------  when each listened     <-----------------  GetInfo, then
//!            answers   and when it was told                       NotifyRegistrationStatus
//! ```
//!
//! It does not judge: goals and results stand beside each other at the end.

mod asked;
mod at_once;
mod clock;
mod cost;
mod device_plugin;
mod farm;
mod field;
mod h2_client;
mod h2_registrar;
mod held;
mod instructions;
mod list;
mod machine;
mod one_by_one;
mod order;
mod plugins;
mod process;
mod readers;
mod register;
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

use self::asked::Measured;
use self::report::Report;
use self::subject::Subject;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["plugins", dir] => plugins::run(dir.into()),
        ["client", "h2"] => h2_client::run(),
        ["client", "tonic"] => tonic_client::run(),
        ["registrar", "h2", dir] => h2_registrar::run(dir.into()),
        ["cost", ..] => cost::run(),
        // The arguments that `cargo bench` adds by itself.
        _ => benchmark(),
    }
}

fn benchmark() -> Result<(), Box<dyn Error>> {
    let subjects = Subject::all();
    let mut report = Report::default();
    report.add(machine::table());
    let one_by_one = one_by_one::measure(&subjects)?;
    report.add(one_by_one.table());
    let at_once = at_once::measure(&subjects)?;
    report.add(at_once.table());
    let start = start::measure(&subjects)?;
    report.add(start.table());
    let held = held::measure(&subjects)?;
    report.add(held.table());
    let rest = rest::measure(&subjects)?;
    report.add(rest.table());
    let list = list::measure()?;
    report.add(list.table());
    let readers = readers::measure()?;
    report.add(readers.table());
    let register = register::measure()?;
    report.add(register.table());
    let instructions = instructions::measure(&subjects)?;
    report.add(instructions.table());
    let measured = Measured {
        one_by_one,
        at_once,
        start,
        held,
        rest,
        list,
        readers,
        register,
        instructions,
    };
    report.add(measured.table());
    report.save()
}
