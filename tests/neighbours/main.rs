//! The loop under attack: the built binary, an attacker, and an honest plugin beside it.
//!
//! The attacker is a plugin container that may write to its own part of the watched directory, or a
//! node in trouble. Each row is a test: the honest plugin registers again and again, first in peace
//! and then under attack, and the daemon is stopped while the attack continues. `make full
//! ONLY=neighbours` prints the rows as a table, beside what was measured before the daemon
//! withstood them.
//!
//! The rows run one at a time, and the daemon has a processor of its own if there is more than one.

mod churn;
mod daemon;
mod honest;
mod hung;
mod log;
mod memory;
mod programs;
mod readers;
mod row;
mod shares;
mod state_file;
#[path = "../support/mod.rs"]
mod support;
mod until;

use self::row::Row;

#[test]
fn in_peace_the_limits_hold() {
    Row::new("nothing", "").withstand(|_, _| ());
}
