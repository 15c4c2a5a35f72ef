//! Device plugins that have the daemon keep as much as it allows to each, all at a time.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use plugind::config::{MAX_DEVICES, MAX_REPLY, MEMORY_BUDGET};
use plugind::proto::v1beta1::{Device, ListAndWatchResponse};
use prost::Message as _;

use crate::daemon::Daemon;
use crate::honest::register;
use crate::hung::{OF_PLUGIN, descriptors_are_enough_or_skip};
use crate::row::{MAX_TURN, alone, is_measured, leniency};
use crate::support::plugin::Plugin;
use crate::until::Steps;

/// Returns a list of this many devices.
pub(crate) fn list(devices: usize) -> Vec<u8> {
    let devices = (0..devices).map(|n| Device {
        id: format!("device-{n:06}"),
        health: "Healthy".to_owned(),
        topology: None,
    });
    let devices = devices.collect();
    ListAndWatchResponse { devices }.encode_to_vec()
}

/// Has this many device plugins send `octets`, of which `missing` octets never follow, and honest
/// plugins register meanwhile. Checks that the daemon keeps to its budget and to `slack`, a number
/// of KiB, and that none but the greedy plugins is refused anything.
#[track_caller]
fn withstand(name: &str, plugins: usize, octets: &[u8], missing: usize, slack: u64) {
    if !descriptors_are_enough_or_skip(plugins * OF_PLUGIN) {
        return;
    }
    let _alone = alone();
    let daemon = Daemon::start(&[]);
    let never = AtomicBool::new(false);
    let steps = Steps::new(&never);
    let serve = |name: &str, octets: &[u8], missing| {
        let socket = daemon.root().join(format!("{name}.sock"));
        Plugin::serve_devices(&socket, &format!("example.com/{name}"), octets, missing)
    };
    let gpu = || {
        let gpu = serve("honest-gpu", &list(8), 0);
        steps.until_registered(&gpu).unwrap();
        gpu
    };
    let mut honest = gpu();
    let base = daemon.resident();
    let greedy = |n| serve(&format!("greedy-{n}"), octets, missing);
    let greedy: Vec<_> = (0..plugins).map(greedy).collect();
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < TIME {
        register(daemon.root(), &format!("honest-{rounds}"));
        honest.stop();
        honest = gpu();
        rounds += 1;
        assert!(steps.next());
    }
    let (peak, full) = (daemon.peak(), daemon.resident());
    for plugin in greedy {
        plugin.stop();
    }
    register(daemon.root(), "last");
    let after = daemon.resident();
    println!(
        "| {name} | {rounds} honest restarts | base {base} KiB, peak {peak} KiB, at the budget \
         {full} KiB, afterwards {after} KiB |"
    );
    let refused = daemon.lines_with("memory budget");
    assert!(!refused.is_empty(), "none was refused");
    let others = refused.iter().filter(|line| !line.contains("greedy-"));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0]);
    let budget = MEMORY_BUDGET as u64 / 1024;
    assert!(peak <= base + budget + slack, "{base} {peak}");
    assert!(after <= base + budget / 2 + slack, "{base} {after}");
    daemon.end_with(Signal::SIGTERM);
    honest.leave();
}

#[test]
fn device_plugins_with_as_many_devices_as_they_may_have() {
    withstand(
        "40 lists of 16,384 devices",
        40,
        &list(MAX_DEVICES),
        0,
        LIST,
    );
}

#[test]
fn device_plugins_that_never_complete_their_lists() {
    let octets = vec![0x0a; MAX_REPLY - 1];
    withstand("60 lists of 4 MiB without an end", 60, &octets, 1, LIST);
}

/// One list is applied in one turn, which is [`MAX_TURN`] long at most.
#[test]
fn a_list_of_as_many_devices_as_there_may_be_takes_a_short_turn() {
    let _alone = alone();
    let daemon = Daemon::start(&[]);
    if is_measured() {
        daemon.run_before_all_others();
    }
    daemon.longest_turn();
    let (base, delay) = (daemon.resident(), daemon.delay());
    let plugin = Plugin::serve_devices(
        &daemon.root().join("gpu.sock"),
        "example.com/gpu",
        &list(MAX_DEVICES),
        0,
    );
    daemon.until_logged(&format!("devices={MAX_DEVICES}"));
    let (turn, held) = (daemon.longest_turn(), daemon.resident() - base);
    println!("| one list of {MAX_DEVICES} devices | longest turn {turn:?} | {held} KiB held |");
    let excused = daemon.delay().saturating_sub(delay);
    assert!(turn <= MAX_TURN * leniency() + excused, "{turn:?}");
    daemon.end_with(Signal::SIGTERM);
    plugin.leave();
}

/// The time of an attack: plugins that are refused try again several times.
const TIME: Duration = Duration::from_secs(5);

/// The memory for one list while it is handled, besides what counts (KiB).
const LIST: u64 = 16 * 1024;
