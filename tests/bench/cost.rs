//! The manager's cost of one more plugin when ten are registered, and when two thousand are: in
//! instructions, which do not depend on how busy the machine is.
//!
//! Runs itself under `valgrind --tool=callgrind`, which counts while the manager works, and takes
//! the difference between a run with [`MORE`] additional plugins and one without. Without valgrind,
//! prints that and succeeds. Fails if the cost with two thousand exceeds [`MOST`] thousandths of
//! the cost with ten. `make full ONLY=cost` builds it with symbols and without LTO, so that its
//! functions are found by name.

#[path = "../manager/script.rs"]
mod script;
#[path = "../manager/world/mod.rs"]
mod world;

use std::env;
use std::io::ErrorKind;
use std::process::{Command, ExitCode};

use self::script::Script;
use self::world::World;

fn main() -> ExitCode {
    if let Some(registered) = number(REGISTERED) {
        work(registered, number(AND_MORE).unwrap_or_default());
        return ExitCode::SUCCESS;
    }
    let (Some(few), Some(many)) = (cost_of_one(FEW), cost_of_one(MANY)) else {
        println!("skipped: valgrind is not there or did not count");
        return ExitCode::SUCCESS;
    };
    for (registered, count) in [(FEW, few), (MANY, many)] {
        println!("one more with {registered:>6} registered: {count:>9} instructions");
    }
    let ratio = many * 1000 / few;
    println!("ratio: {}.{:03}", ratio / 1000, ratio % 1000);
    if ratio <= MOST {
        ExitCode::SUCCESS
    } else {
        println!("too much: at most {}.{:03}", MOST / 1000, MOST % 1000);
        ExitCode::FAILURE
    }
}

/// Registers `registered` plugins, and then `more` that are spread over all the others.
fn work(registered: usize, more: usize) {
    let mut world = World::new();
    for n in 0..registered {
        appear(&mut world, &socket(n));
    }
    for n in 0..more {
        let beside = socket(n * registered / more);
        appear(&mut world, &format!("{beside}-more"));
    }
    let all = registered + more;
    assert_eq!(world.counts(), (all, all));
}

/// Registers a plugin whose name is its socket.
fn appear(world: &mut World, socket: &str) {
    world.appear(socket, Script::good("CSIPlugin", socket));
    world.handler.take();
}

fn socket(n: usize) -> String {
    format!("/var/lib/kubelet/plugins_registry/{n:05}.csi.example.com-reg.sock")
}

/// Returns the instructions for one more plugin, or `None` if they cannot be counted.
fn cost_of_one(registered: usize) -> Option<u64> {
    let more = u64::try_from(MORE).ok()?;
    Some((count(registered, MORE)? - count(registered, 0)?) / more)
}

/// Returns the manager's instructions in a run of [`work`], or `None` if they cannot be counted.
fn count(registered: usize, more: usize) -> Option<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    for verb in VERBS {
        command.arg(format!(
            "--toggle-collect=plugind::manager::Manager::{verb}"
        ));
    }
    command
        .arg(env::current_exe().ok()?)
        .env(REGISTERED, registered.to_string())
        .env(AND_MORE, more.to_string());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => panic!("valgrind: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    collected?.1.trim().parse().ok()
}

fn number(variable: &str) -> Option<usize> {
    env::var(variable).ok()?.parse().ok()
}

/// The manager's methods that are counted, none of which calls another.
const VERBS: [&str; 4] = ["handle_input", "handle_timeout", "received", "sent"];

/// The number of plugins when few are registered.
const FEW: usize = 10;

/// The number of plugins when many are registered: nearly as many as there may be.
const MANY: usize = 2_000;

/// The number of plugins over which the cost of one is averaged.
const MORE: usize = 10;

/// The limit of the ratio, in thousandths: sockets are found in ordered maps.
const MOST: u64 = 1350;

/// The environment variable for the number of registered plugins: it makes this the counted
/// process.
const REGISTERED: &str = "PLUGIND_BENCH_REGISTERED";

/// The environment variable for the number of further plugins.
const AND_MORE: &str = "PLUGIND_BENCH_MORE";
