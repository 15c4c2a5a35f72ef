//! A device plugin that does what a test demands, and records the calls that it receives.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};

use bytes::Bytes;
use plugind::proto::v1beta1::{Device, ListAndWatchResponse, device_plugin};
use prost::Message as _;
use tokio::sync::watch;

use crate::support::caller::PATIENCE;
use crate::support::grpc::{self, Server, Service, Status, Stream, UNIMPLEMENTED};

/// A device plugin that serves until it is dropped, and leaves its socket behind.
pub(crate) struct Scripted {
    lists: watch::Sender<Result<Bytes, Status>>,
    calls: Receiver<String>,
    server: Server,
}

/// The answers of a plugin to calls.
struct Script {
    lists: watch::Receiver<Result<Bytes, Status>>,
    /// The method that fails from the beginning, with the status [`OUT_OF_ORDER`].
    fails: Option<&'static str>,
    calls: Sender<String>,
}

impl Scripted {
    /// Serves a plugin with these healthy devices, which listens when this returns.
    pub(crate) fn listing(socket: &Path, devices: &[&'static str]) -> Self {
        let devices: Vec<_> = devices.iter().map(|id| (*id, true)).collect();
        Self::serve(socket, &devices, None)
    }

    /// Serves a plugin one of whose methods fails.
    pub(crate) fn failing(socket: &Path, method: &'static str) -> Self {
        Self::serve(socket, &[], Some(method))
    }

    fn serve(socket: &Path, devices: &[(&str, bool)], fails: Option<&'static str>) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let (lists, current) = watch::channel(Ok(list(devices)));
        let (caller, calls) = mpsc::channel();
        let script = Script {
            lists: current,
            fails,
            calls: caller,
        };
        Self {
            lists,
            calls,
            server: Server::start(listener, script),
        }
    }

    /// Sends a list.
    pub(crate) fn list(&self, devices: &[(&str, bool)]) {
        self.lists.send(Ok(list(devices))).unwrap();
    }

    /// Ends the streams of lists with an error.
    pub(crate) fn fail(&self) {
        self.lists.send(Err(OUT_OF_ORDER)).unwrap();
    }

    /// Ends the plugin, whose connections are closed when this returns.
    pub(crate) fn stop(self) {
        self.server.stop();
    }

    /// Waits for the next call, and returns its method.
    #[track_caller]
    pub(crate) fn until_called(&self) -> String {
        self.calls.recv_timeout(PATIENCE).expect("a call")
    }

    /// Returns the methods of the calls that were received meanwhile.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.try_iter().collect()
    }
}

impl Service for Script {
    fn call(&self, path: &str, _: &[u8]) -> Result<Vec<u8>, Status> {
        let _ = self.calls.send(path.to_owned());
        match path {
            _ if self.fails == Some(path) => Err(OUT_OF_ORDER),
            device_plugin::LIST_AND_WATCH | device_plugin::GET_DEVICE_PLUGIN_OPTIONS => {
                Ok(Vec::new())
            }
            _ => Err(UNIMPLEMENTED),
        }
    }

    fn stream(&self, path: &str) -> Option<Stream> {
        (path == device_plugin::LIST_AND_WATCH).then(|| self.lists.clone())
    }
}

/// Returns a list of devices, and whether they are healthy, as the body of a reply.
fn list(devices: &[(&str, bool)]) -> Bytes {
    let devices = devices.iter().map(|(id, is_healthy)| Device {
        id: (*id).to_owned(),
        health: if *is_healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
        ..Device::default()
    });
    let devices = devices.collect();
    grpc::frame(&ListAndWatchResponse { devices }.encode_to_vec(), 0)
}

/// The status of what fails: INTERNAL.
pub(crate) const OUT_OF_ORDER: Status = Status(13, "out of order");
