//! Many plugins that do not answer, or whose program does not.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::Signal;
use plugind::config::STALLED_AFTER;
use plugind::proto::csi_v1::node;

use crate::daemon::Daemon;
use crate::honest::register;
use crate::programs::Hook;
use crate::row::{Row, alone, leniency};
use crate::support::plugin::{Flaw, Plugin};
use crate::support::skip::{programs_can_be_trusted_or_skip, skip};
use crate::until::Steps;

#[test]
fn csi_drivers_that_hang_in_node_get_info() {
    const DRIVERS: usize = 70;
    if !descriptors_are_enough_or_skip(DRIVERS * OF_PLUGIN) {
        return;
    }
    Row::new("70 drivers that hang in NodeGetInfo", "").withstand(|dir, over| {
        let flaw = Flaw::Ignores(node::NODE_GET_INFO);
        let serve = |n| {
            let name = format!("hung-{n}");
            Plugin::serve_flawed(&dir.join(format!("{name}.sock")), &name, flaw)
        };
        let drivers: Vec<_> = (0..DRIVERS).map(serve).collect();
        let steps = Steps::new(over);
        for driver in &drivers {
            let asked = steps.until(|| driver.try_asked().filter(|it| it == node::NODE_GET_INFO));
            if asked.is_none() {
                break; // The daemon has ended.
            }
        }
        while steps.next() {}
        drivers.into_iter().for_each(Plugin::leave);
    });
}

#[test]
fn sockets_that_accept_and_say_nothing() {
    if !descriptors_are_enough_or_skip(2 * SILENT) {
        return;
    }
    let row = Row::new("640 silent sockets", "");
    row.long().withstand(be_silent);
}

#[test]
fn sockets_in_the_honest_plugin_s_directory_say_nothing() {
    if !descriptors_are_enough_or_skip(2 * SILENT) {
        return;
    }
    let row = Row::new("640 silent sockets beside the plugin", "");
    row.long()
        .withstand(|dir, over| be_silent(dir.parent().unwrap(), over));
}

/// Listens on many sockets, accepts every connection and keeps it, until the attack is over.
fn be_silent(dir: &Path, over: &AtomicBool) {
    let bind = |n| {
        let listener = UnixListener::bind(dir.join(format!("silent-{n}"))).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    };
    let listeners: Vec<UnixListener> = (0..SILENT).map(bind).collect();
    let mut accepted: Vec<Option<UnixStream>> = (0..SILENT).map(|_| None).collect();
    let steps = Steps::new(over);
    while steps.next() {
        for (listener, accepted) in listeners.iter().zip(&mut accepted) {
            match listener.accept() {
                // The daemon has given up the previous connection.
                Ok((stream, _)) => *accepted = Some(stream),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }
    let count = accepted.iter().flatten().count();
    assert!(count > BRISK, "only {count} are connected");
}

#[test]
fn plugins_of_a_program_that_is_slow() {
    const PLUGINS: usize = 400;
    if !programs_can_be_trusted_or_skip() || !descriptors_are_enough_or_skip(PLUGINS * OF_PLUGIN) {
        return;
    }
    let hook = Hook::new("exec sleep 1000");
    let row = Row::new("400 plugins of a program that is slow", "");
    row.options(hook.options()).withstand(|dir, over| {
        let serve = |n| {
            let name = format!("slow-{n}");
            Plugin::serve_type(&dir.join(format!("{name}.sock")), "Hooked", &name)
        };
        let plugins: Vec<_> = (0..PLUGINS).map(serve).collect();
        let steps = Steps::new(over);
        while steps.next() {}
        plugins.into_iter().for_each(Plugin::leave);
    });
}

/// Not a row: measures how long one plugin waits that appears behind all silent sockets.
#[test]
fn a_plugin_waits_for_silent_sockets_of_its_directory_alone() {
    if !descriptors_are_enough_or_skip(2 * SILENT) {
        return;
    }
    let _alone = alone();
    let behind = |is_beside: bool| {
        let mut daemon = Daemon::start(&[]);
        let [hidden, crowd] = [".crowd", "crowd"].map(|name| daemon.root().join(name));
        fs::create_dir(&hidden).unwrap();
        let bind = |n| UnixListener::bind(hidden.join(format!("silent-{n}"))).unwrap();
        let silent: Vec<_> = (0..SILENT).map(bind).collect();
        register(daemon.root(), "before");
        fs::rename(hidden, &crowd).unwrap(); // All appear at once.
        let place = if is_beside { &crowd } else { daemon.root() };
        let waited = register(place, "honest");
        daemon.end_with(Signal::SIGTERM);
        drop(silent);
        waited
    };
    let [elsewhere, beside] = [false, true].map(behind);
    println!(
        "| a plugin behind 640 silent sockets | | told after {:.0} ms, in their directory {:.0} |",
        elsewhere.as_secs_f64() * 1e3,
        beside.as_secs_f64() * 1e3
    );
    let most = MOST_WAITED * leniency();
    assert!(elsewhere.max(beside) < most, "{elsewhere:?}, {beside:?}");
}

/// Not a row: the limits of rows are for a plugin that shares nothing with the attacker.
#[test]
fn a_plugin_whose_name_two_silent_ones_have_waits_for_both() {
    let _alone = alone();
    let mut daemon = Daemon::start(&[]);
    let flaw = Flaw::Ignores(node::NODE_GET_INFO);
    let silent = ["a", "b"].map(|socket| {
        let plugin = Plugin::serve_flawed(&daemon.root().join(socket), "disk", flaw);
        register(daemon.root(), &format!("beside-{socket}")); // The plugin has been called by now.
        plugin
    });
    let start = Instant::now();
    register(daemon.root(), "disk");
    let waited = start.elapsed();
    println!(
        "| two silent plugins of the same name | | told after {:.1} s |",
        waited.as_secs_f64()
    );
    assert!(
        waited < 2 * STALLED_AFTER + Duration::from_secs(1),
        "{waited:?}"
    );
    daemon.end_with(Signal::SIGTERM);
    silent.into_iter().for_each(Plugin::leave);
}

/// Returns whether this process may have `count` descriptors.
pub(crate) fn descriptors_are_enough_or_skip(count: usize) -> bool {
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let are_enough = limit >= (count + 100) as u64;
    if !are_enough {
        skip("more descriptors are needed than this process may have");
    }
    are_enough
}

/// The longest wait of a plugin behind [`SILENT`] sockets of its own directory, each of which gets
/// [`PERMIT_TIME`](plugind::config::BRISK_TIME): 200 ms on a machine that does nothing else.
const MOST_WAITED: Duration = Duration::from_millis(500);

/// The number of silent sockets.
const SILENT: usize = 640;

/// The number of operations at a time that are expected to be answered at once; there must be more
/// connections than that.
const BRISK: usize = plugind::config::SOFT_OPERATION_LIMIT;

/// The number of descriptors that a plugin takes.
pub(crate) const OF_PLUGIN: usize = 8;
