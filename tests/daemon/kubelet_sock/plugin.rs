//! A device plugin on threads of its own, which sends prepared lists of devices.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::sys::socket;
use plugind::grpc::{Incoming, Server};
use plugind::http2::Endpoint as _;
use plugind::proto::v1beta1::{Device, DevicePluginOptions, ListAndWatchResponse, device_plugin};
use plugind::time::Time;
use prost::Message as _;

/// A device plugin that serves its socket until it is dropped, and then leaves it behind.
pub(crate) struct DevicePlugin {
    listener: UnixListener,
    served: Arc<Served>,
    thread: Option<JoinHandle<()>>,
}

/// What the threads of a plugin share.
#[derive(Default)]
struct Served {
    /// The message of each stream.
    list: Vec<u8>,
    /// The connections that were accepted.
    connections: Mutex<Vec<UnixStream>>,
    /// The number of streams that were opened.
    streams: AtomicUsize,
}

impl DevicePlugin {
    /// Serves a plugin with one healthy device.
    pub(crate) fn serve(socket: &Path) -> Self {
        Self::serve_list(socket, list([("device", "Healthy")]))
    }

    /// Serves a plugin that sends this message as its list of devices.
    pub(crate) fn serve_list(socket: &Path, list: Vec<u8>) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let served = Arc::new(Served {
            list,
            ..Served::default()
        });
        let (accepting, shared) = (listener.try_clone().unwrap(), served.clone());
        let thread = Some(thread::spawn(move || accept(&accepting, &shared)));
        Self {
            listener,
            served,
            thread,
        }
    }

    /// Returns the number of streams of devices that were opened.
    pub(crate) fn streams(&self) -> usize {
        self.served.streams.load(Ordering::Relaxed)
    }

    /// Closes all connections, as the end of a plugin does, and goes on listening.
    pub(crate) fn hang_up(&self) {
        for connection in self.served.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for DevicePlugin {
    fn drop(&mut self) {
        socket::shutdown(self.listener.as_raw_fd(), socket::Shutdown::Both).unwrap();
        self.hang_up();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|it| it.is_ok()));
    }
}

/// Returns the message with these devices: their names and their health.
pub(crate) fn list<'a>(devices: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let devices = devices.into_iter().map(|(id, health)| Device {
        id: id.to_owned(),
        health: health.to_owned(),
        topology: None,
    });
    let devices = devices.collect();
    ListAndWatchResponse { devices }.encode_to_vec()
}

/// Serves every connection on a thread of its own, until the listener is shut down.
fn accept(listener: &UnixListener, served: &Arc<Served>) {
    let mut threads = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        let kept = stream.try_clone().unwrap();
        served.connections.lock().unwrap().push(kept);
        let served = served.clone();
        threads.push(thread::spawn(move || serve(stream, &served)));
    }
    // A connection may have been accepted after the others were closed.
    for connection in served.connections.lock().unwrap().drain(..) {
        let _ = connection.shutdown(Shutdown::Both);
    }
    for thread in threads {
        thread.join().expect("the connection is served");
    }
}

/// Serves a connection until its end.
fn serve(mut stream: UnixStream, served: &Served) {
    let mut server = Server::new(METHODS, 1 << 16, Time::ZERO);
    loop {
        while let Some(event) = server.poll_event(Time::ZERO) {
            if let Incoming::Called { call, method, .. } = event {
                if method == device_plugin::LIST_AND_WATCH {
                    served.streams.fetch_add(1, Ordering::Relaxed);
                    server.send(call, &served.list, Time::ZERO).unwrap();
                } else {
                    let options = DevicePluginOptions::default().encode_to_vec();
                    server.reply(call, &options, Time::ZERO);
                }
            }
        }
        while !server.transmit().is_empty() {
            let Ok(count) = stream.write(server.transmit()) else {
                return;
            };
            server.sent(count, Time::ZERO);
        }
        match stream.read(server.recv_buf()) {
            Ok(0) | Err(_) => return,
            Ok(count) => server.received(count, Time::ZERO),
        }
    }
}

const METHODS: &[&str] = &[
    device_plugin::GET_DEVICE_PLUGIN_OPTIONS,
    device_plugin::LIST_AND_WATCH,
];
