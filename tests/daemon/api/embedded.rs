//! The API of a plugin manager in the loop of its embedder.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use plugind::config::{API_CLIENTS, ApiSocket, Config};

use crate::support::node::{Node, watching};

/// Returns a connection on which reading does not wait.
fn connect(socket: &Path) -> UnixStream {
    let client = UnixStream::connect(socket).unwrap();
    client.set_nonblocking(true).unwrap();
    client
}

/// Takes turns until the client has read what ends with `last`. Returns what it has read.
#[track_caller]
fn until_read(node: &mut Node, client: &mut UnixStream, last: &str) -> String {
    let mut seen = String::new();
    node.until(last, |_| {
        let _ = client.read_to_string(&mut seen); // Until there is nothing to read.
        seen.ends_with(last).then_some(())
    });
    seen
}

/// Returns a node that serves the API, and the API socket.
fn start_with_api() -> (Node, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().canonicalize().unwrap().join(".api.sock");
    let config = Config {
        api_socket: ApiSocket::At(socket.clone()),
        ..watching(dir.path())
    };
    (Node::start_with(dir, &config), socket)
}

#[test]
fn an_embedder_has_an_api_only_if_it_asks_for_one() {
    let node = Node::start();
    assert_eq!(node.plugins.api_socket(), None);
    assert!(!node.plugins.is_stopped());
}

#[test]
fn a_client_too_many_reads_its_refusal_to_the_end() {
    let (mut node, socket) = start_with_api();
    let served: Vec<_> = (0..API_CLIENTS).map(|_| connect(&socket)).collect();
    let mut refused = connect(&socket);
    let request = b"GET /v1/plugins HTTP/1.1\r\nHost: x\r\n\r\n";
    refused.write_all(request).unwrap();
    let mut seen = Vec::new();
    let end = node.until("the end of the connection", |_| {
        let end = refused.read_to_end(&mut seen);
        (!matches!(&end, Err(error) if error.kind() == ErrorKind::WouldBlock)).then_some(end)
    });
    end.expect("the connection is closed, not reset");
    assert!(seen.starts_with(b"HTTP/1.1 503 "), "{seen:?}");
    drop(served);
}

#[test]
fn an_embedder_serves_the_api_in_its_turns() {
    let (mut node, socket) = start_with_api();
    assert_eq!(node.plugins.api_socket(), Some(&*socket));
    let _plugin = node.register("a.sock", "a");
    let mut watch = connect(&socket);
    watch
        .write_all(b"GET /v1/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let seen = until_read(&mut node, &mut watch, "}\n");
    assert!(seen.contains("\"name\":\"a\""), "{seen}");

    // A change between two turns is seen, too.
    node.plugins.remove_directory(node.dir.path());
    for target in ["/v1/log?filter=debug", "/v1/reload"] {
        let mut client = connect(&socket);
        let request = format!("POST {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        let refused = until_read(&mut node, &mut client, "}\n");
        assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
    }
    let gone = until_read(&mut node, &mut watch, "}\n");
    assert!(
        gone.contains("Deregistering") || gone.contains("DELETED"),
        "{gone}"
    );

    node.plugins.stop();
    assert_eq!(node.plugins.api_socket(), None);
    assert!(!socket.exists());
    node.until("it has stopped", |node| {
        node.plugins.is_stopped().then_some(())
    });
    // Another test may just start a program, which has the connection, too, until it is executed.
    watch.set_nonblocking(false).unwrap();
    watch.read_to_string(&mut String::new()).expect("its end");
}
