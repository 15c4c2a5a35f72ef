//! Both ends of `kubelet.sock`: a stand-in for the part of kubelet that registers device plugins,
//! and calls of plugins.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};

use plugind::grpc::{CallError, Client};
use plugind::http2::Endpoint as _;
use plugind::proto::v1beta1::{RegisterRequest, registration};
use plugind::time::Time;
use prost::Message as _;

use super::caller::{Caller, PATIENCE};
use super::grpc::{INVALID_ARGUMENT, Server, UNIMPLEMENTED};

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
        let register = move |path: &str, message: &[u8]| {
            if path != registration::REGISTER {
                return Err(UNIMPLEMENTED);
            }
            let request = RegisterRequest::decode(message).map_err(|_| INVALID_ARGUMENT)?;
            let (accepted, is_accepted) = mpsc::channel();
            let _ = caller.send(Registration { request, accepted });
            is_accepted.recv().map_err(|_| INVALID_ARGUMENT)?;
            Ok(Vec::new())
        };
        Self {
            calls,
            _server: Server::start(listener, register),
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

/// Returns the request of a plugin.
pub(crate) fn request(endpoint: &str, resource: &str) -> RegisterRequest {
    RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    }
}

/// Calls `Register` on a connection of its own.
pub(crate) fn register(kubelet: &Path, request: &RegisterRequest) -> Result<(), CallError> {
    let reply = Caller::connect(kubelet).unary(registration::REGISTER, request);
    reply.map(|reply| assert!(reply.is_empty(), "the reply has no fields"))
}

/// Returns the octets of a client that calls `Register`.
pub(crate) fn octets_of_call(request: &RegisterRequest) -> Vec<u8> {
    let mut client = Client::new(Time::ZERO);
    let (message, deadline) = (request.encode_to_vec(), Time::ZERO + PATIENCE);
    client.unary(registration::REGISTER, &message, 1024, deadline, Time::ZERO);
    let mut octets = Vec::new();
    while !client.transmit().is_empty() {
        octets.extend_from_slice(client.transmit());
        client.sent(client.transmit().len(), Time::ZERO);
    }
    octets
}
