//! A stand-in for the part of kubelet that registers device plugins which call it.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};

use plugind::proto::v1beta1::{RegisterRequest, registration};
use prost::Message as _;

use super::caller::PATIENCE;
use super::grpc::{INVALID_ARGUMENT, Server, Service, Status, UNIMPLEMENTED};

/// A kubelet that runs, and leaves its socket behind when it is dropped.
pub(crate) struct Kubelet {
    calls: Receiver<Registration>,
    _server: Server,
}

/// A call of a plugin that is not answered yet.
pub(crate) struct Registration {
    pub(crate) request: RegisterRequest,
    accepted: Sender<()>,
}

impl Kubelet {
    /// Starts on a directory as kubelet does: removes all sockets, and creates `kubelet.sock`.
    pub(crate) fn start(dir: &Path) -> Self {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_socket() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let listener = UnixListener::bind(dir.join("kubelet.sock")).unwrap();
        let (caller, calls) = mpsc::channel();
        Self {
            calls,
            _server: Server::start(listener, Registrar(caller)),
        }
    }

    /// Waits for the next call of a plugin.
    #[track_caller]
    pub(crate) fn called(&self) -> Registration {
        self.calls.recv_timeout(PATIENCE).expect("a plugin calls")
    }
}

impl Registration {
    /// Registers the plugin.
    pub(crate) fn accept(self) {
        self.accepted.send(()).unwrap();
    }
}

struct Registrar(Sender<Registration>);

impl Service for Registrar {
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status> {
        if path != registration::REGISTER {
            return Err(UNIMPLEMENTED);
        }
        let request = RegisterRequest::decode(message).map_err(|_| INVALID_ARGUMENT)?;
        let (accepted, is_accepted) = mpsc::channel();
        let _ = self.0.send(Registration { request, accepted });
        is_accepted.recv().map_err(|_| INVALID_ARGUMENT)?;
        Ok(Vec::new())
    }
}
