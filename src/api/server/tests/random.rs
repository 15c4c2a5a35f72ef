//! Clients that send requests, read and leave at random, while sockets appear and disappear.

use std::collections::BTreeMap;

use super::*;
use crate::manager;

/// A client with a watch, and the state that the client has derived from it.
struct Reader {
    id: ClientId,
    /// The last line, which is incomplete.
    read: String,
    /// The generations of the records, by socket.
    records: BTreeMap<String, u64>,
    /// Whether all records were listed: the watch has sent BOOKMARK.
    is_listed: bool,
    has_expired: bool,
}

/// A pseudo-random number generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

impl Reader {
    /// Applies the complete lines that were read to the records.
    fn apply_lines(&mut self) {
        let Some(end) = self.read.rfind('\n') else {
            return;
        };
        let rest = self.read.split_off(end + 1);
        let lines = std::mem::replace(&mut self.read, rest);
        for line in lines.lines().filter(|line| line.starts_with('{')) {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let socket = line["record"]["socket"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let generation = line["generation"].as_u64().unwrap_or_default();
            match line["event"].as_str() {
                Some("ADDED" | "MODIFIED") => {
                    self.records.insert(socket, generation);
                }
                Some("DELETED") => {
                    self.records.remove(&socket);
                }
                Some("BOOKMARK") => self.is_listed = true,
                Some("EXPIRED") => self.has_expired = true,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_watch_results_in_the_records_of_the_manager() {
    for seed in 1..40_u64 {
        run_clients(Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed)));
    }
}

fn run_clients(mut random: Random) {
    let mut world = World::with_sockets(20);
    let mut readers: Vec<Reader> = (0..3)
        .map(|_| Reader {
            id: world.add_client(),
            read: String::new(),
            records: BTreeMap::new(),
            is_listed: false,
            has_expired: false,
        })
        .collect();
    for reader in &readers {
        world
            .server
            .receive(reader.id, b"GET /v1/watch HTTP/1.0\r\n\r\n", world.now);
    }
    for _ in 0..300 {
        let path = format!("/r/{}.sock", random.below(40));
        match random.below(8) {
            0 | 1 => world.add_socket(&path),
            2 => world.remove_socket(&path),
            3 => {
                let at = usize::try_from(random.below(3)).expect("it is small");
                let octets = usize::try_from(random.below(3000)).expect("it is small");
                read(&mut world, &mut readers[at], octets);
            }
            4 => request_and_leave(&mut world, &mut random),
            _ => world.run_turn(),
        }
    }
    let mut read_all = |world: &mut World| {
        for reader in &mut readers {
            read(world, reader, usize::MAX);
        }
    };
    read_all(&mut world);
    while world.has_work() {
        world.run_turn();
        read_all(&mut world);
    }
    let record = |it: manager::Record<'_>| (it.socket.to_string_lossy().into(), it.generation);
    let listed: BTreeMap<String, u64> = world.manager.records().iter().map(record).collect();
    for reader in readers {
        assert!(reader.is_listed && !reader.has_expired);
        assert_eq!(reader.records, listed);
    }
}

fn read(world: &mut World, reader: &mut Reader, octets: usize) {
    let pending = world.server.pending_output(reader.id);
    assert!(pending.len() < MAX_UNSENT_OCTETS + 1024);
    let octets = octets.min(pending.len());
    reader
        .read
        .push_str(&String::from_utf8_lossy(&pending[..octets]));
    world.server.sent(reader.id, octets, world.now);
    reader.apply_lines();
}

/// Adds a client that sends a request and leaves, whether or not the response was read.
fn request_and_leave(world: &mut World, random: &mut Random) {
    let targets = [
        "/v1/plugins",
        "/v1/devices",
        "/v1/status",
        "/v1/watch",
        "/v1/events",
        "/metrics",
        "/x",
    ];
    let at = usize::try_from(random.below(7)).expect("it is small");
    let id = world.request("GET", targets[at]);
    if random.below(2) == 0 {
        let _ = world.read(id);
        world.run_turn();
        let _ = world.read(id);
    }
    world.server.remove(id);
}
