//! Clients of the API that read as fast as they can.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plugind::config::API_CLIENTS;

use crate::hung::{OF_PLUGIN, descriptors_are_enough_or_skip};
use crate::row::Row;

#[test]
fn readers_of_many_plugins() {
    const PLUGINS: usize = 500; // A directory may have 512.
    if !descriptors_are_enough_or_skip(PLUGINS * OF_PLUGIN) {
        return;
    }
    let run = tempfile::tempdir().unwrap();
    let socket = &run.path().join("plugind.sock");
    let row = Row::new("lists, scrapes and watches of many plugins", "");
    let row = row.options(api_at(socket)).registered(PLUGINS);
    row.restless().withstand(|_, over| {
        let targets = ["/v1/plugins", "/metrics", "/v1/watch", "/v1/events"];
        let octets: u64 = thread::scope(|scope| {
            let targets = targets.into_iter().cycle().take(API_CLIENTS);
            let read = |target| scope.spawn(move || read_again_and_again(socket, target, over));
            let readers: Vec<_> = targets.map(read).collect();
            readers.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert!(octets > LEAST_READ, "too few octets: {octets}");
    });
}

/// Returns the options of a daemon that has its API at this path.
pub(crate) fn api_at(socket: &Path) -> [OsString; 2] {
    ["--socket".into(), socket.into()]
}

/// Reads responses, each on a connection of its own, until the attack is over or the daemon has
/// ended. Returns the number of octets.
fn read_again_and_again(socket: &Path, target: &str, over: &AtomicBool) -> u64 {
    let mut octets = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok(stream) = UnixStream::connect(socket) else {
            break; // The daemon has ended.
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        // A client that is refused may not be able to write, but it can read the reason.
        let _ = (&stream).write_all(request.as_bytes());
        // A response that takes too long does not count.
        octets += io::copy(&mut &stream, &mut io::sink()).unwrap_or(0);
    }
    octets
}

/// The least number of octets that are read, several times what the daemon renders for a client at
/// once: otherwise it was not an attack.
const LEAST_READ: u64 = 64 * 1024;

/// The time limit for a response.
const PATIENCE: Duration = Duration::from_secs(5);
