//! Many plugins that do not answer, or whose program does not.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use nix::sys::resource::{Resource, getrlimit};
use plugind::proto::csi_v1::node;

use crate::programs::Hook;
use crate::row::Row;
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
        Steps::last(over);
        plugins.into_iter().for_each(Plugin::leave);
    });
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

/// The number of silent sockets.
const SILENT: usize = 640;

/// The number of operations at a time that are expected to be answered at once; there must be more
/// connections than that.
const BRISK: usize = plugind::config::SOFT_OPERATION_LIMIT;

/// The number of descriptors that a plugin takes.
pub(crate) const OF_PLUGIN: usize = 8;
