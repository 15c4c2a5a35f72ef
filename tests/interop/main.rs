//! Every gRPC stack with every case: a small plugin on each as a server beside the daemon, and a
//! client on each that calls a simulated plugin. The plugins are in `tests/peers/stacks`.
//!
//! `make full ONLY=interop` builds those whose tools the machine has, and prints the table:
//!
//! | in a cell | meaning |
//! |---|---|
//! | ok | what the case asks for happened |
//! | - | the stack cannot do what the case asks for |
//! | FAILED | it did not happen; the reason is below the table |
//!
//! A plugin prints `watched` when the daemon follows its devices and `notified` with the outcome.
//! On its standard input, `change` breaks a device and `stop` ends the plugin in order.

mod cases;
mod stack;
mod stories;
#[path = "../support/mod.rs"]
mod support;
mod tools;

use std::panic;
use std::thread;

use self::cases::{CASES, Outcome};
use self::stack::Stack;
use self::support::skip::skip;

#[test]
fn every_stack_passes_every_case() {
    let names: Vec<&str> = CASES.iter().map(|it| it.name).collect();
    println!("| stack | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(CASES.len()));
    let rows = thread::scope(|threads| {
        let rows = Stack::ALL.map(|stack| threads.spawn(move || row(stack)));
        rows.map(|row| row.join().expect("cases that fail are caught"))
    });
    for (row, _) in &rows {
        println!("{row}");
    }
    for missing in Stack::ALL.into_iter().filter(|it| it.runner().is_none()) {
        skip(missing.missing);
    }
    let failed: Vec<&String> = rows.iter().flat_map(|(_, failed)| failed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Plays every case with a stack. Returns its row, and the cases that failed.
fn row(stack: Stack) -> (String, Vec<String>) {
    let Some(runner) = stack.runner() else {
        let missing = stack.missing;
        return (format!("| {stack} | skipped: {missing} |"), Vec::new());
    };
    let (mut row, mut failed) = (format!("| {stack} |"), Vec::new());
    for case in CASES {
        row += match panic::catch_unwind(|| case.play(&runner)) {
            Ok(Outcome::Passed) => " ok |",
            Ok(Outcome::NotSupported) => " - |",
            Err(_) => {
                failed.push(format!("{stack}: {}", case.name));
                " FAILED |"
            }
        };
    }
    (row, failed)
}
