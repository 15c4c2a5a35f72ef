//! Counts lookups: an event of a connection costs two, of its owner and of the owner's socket.
//!
//! Pure. Only in tests.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

use super::{Change, ChangeCursor, ConnectionId, Input, Manager, Output};
use crate::grpc::{Incoming, Server};
use crate::handler::{AcceptHandler, HandlerTable};
use crate::http2::carry;
use crate::proto::pluginregistration::{PluginInfo, registration};
use crate::time::Time;
use crate::watch::Identity;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Counts a lookup.
pub(super) fn count() {
    COUNT.set(COUNT.get() + 1);
}

/// Calls the function. Returns the number of lookups in it.
fn lookups_of(function: impl FnOnce()) -> usize {
    COUNT.set(0);
    function();
    COUNT.get()
}

const NOW: Time = Time::ZERO;

/// A plugin in memory that answers the calls of its registration.
struct Peer(Server);

impl Peer {
    fn new() -> Self {
        let methods = &[
            registration::GET_INFO,
            registration::NOTIFY_REGISTRATION_STATUS,
        ];
        Self(Server::new(methods, 1024, NOW))
    }

    /// Exchanges octets with the manager, and answers a call.
    fn serve(&mut self, manager: &mut Manager, conn: ConnectionId) {
        let Some(end) = manager.endpoint(conn) else {
            return;
        };
        carry(end, &mut self.0, NOW);
        while let Some(incoming) = self.0.poll_event(NOW) {
            if let Incoming::Called { call, method, .. } = incoming {
                let reply = if method == registration::GET_INFO {
                    let (kind, name) = ("CSIPlugin".into(), "disk".into());
                    let info = PluginInfo {
                        r#type: kind,
                        name,
                        supported_versions: vec!["1.0.0".into()],
                        ..PluginInfo::default()
                    };
                    info.encode_to_vec()
                } else {
                    Vec::new()
                };
                self.0.reply(call, &reply, NOW);
            }
        }
        let end = manager.endpoint(conn).expect("the connection is open");
        carry(&mut self.0, end, NOW);
    }
}

#[test]
fn an_event_of_a_connection_costs_two_lookups_and_its_last_one_another() {
    let mut handlers = HandlerTable::new();
    handlers.add(["CSIPlugin"], AcceptHandler::default());
    let mut manager = Manager::new(handlers);
    let mut peer = Peer::new();
    let identity = Identity {
        device: 1,
        inode: 1,
        btime: (0, 0),
    };
    let path: Arc<Path> = Path::new("/r/a.sock").into();
    let found = Input::Found { path, identity };
    manager.handle_input(found, NOW);
    let mut counts = Vec::new();
    while let Some(output) = manager.poll_output() {
        match output {
            Output::Dial { conn, .. } => counts.push(lookups_of(|| {
                let process = None;
                manager.handle_input(Input::Connected { conn, process }, NOW);
            })),
            Output::Transmit { conn } => {
                peer.serve(&mut manager, conn);
                counts.push(lookups_of(|| manager.handle_io(conn, NOW)));
            }
            _ => {}
        }
    }
    assert_eq!(manager.registered().count(), 1);
    assert_eq!(
        counts,
        [2, 2, 3],
        "the last one gives the connection to another owner"
    );
}

#[test]
fn a_reader_of_changes_looks_at_each_of_them_once() {
    let mut manager = Manager::new(HandlerTable::new());
    let found = |manager: &mut Manager, path: &str, inode| {
        let found = Input::Found {
            path: Path::new(path).into(),
            identity: Identity {
                device: 1,
                inode,
                btime: (0, 0),
            },
        };
        manager.handle_input(found, NOW);
    };
    for n in 0..100 {
        found(&mut manager, &format!("/r/{n}"), n);
    }
    let lasting = manager.generation();
    for n in 100..150 {
        found(&mut manager, "/r/flaps", n);
        let path = Path::new("/r/flaps").into();
        manager.handle_input(Input::Lost { path }, NOW);
    }
    let mut cursor = ChangeCursor::after(lasting);
    let mut removed = 0;
    let lookups = lookups_of(|| {
        while let Ok(Some(change)) = manager.next_change(&mut cursor) {
            removed += usize::from(matches!(change, Change::Removed { .. }));
        }
    });
    assert_eq!(removed, 50);
    assert!((1..=4 * removed).contains(&lookups), "{lookups}");
}
