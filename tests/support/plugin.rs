//! A plugin on a thread of its own, for tests against real sockets. Its HTTP/2 is the `h2` crate's.

#![allow(dead_code, reason = "each test needs a part of it")]

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plugind::proto::pluginregistration::{
    PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use prost::Message as _;
use tokio::sync::oneshot;

use self::grpc::{INVALID_ARGUMENT, Service, Status, UNIMPLEMENTED};

#[path = "../peers/grpc.rs"]
mod grpc;

/// A plugin that serves its registration socket until it is stopped.
pub(crate) struct Plugin {
    socket: PathBuf,
    told: Receiver<RegistrationStatus>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Plugin {
    /// A CSI plugin of that name, which listens when this returns.
    pub(crate) fn serve(socket: &Path, name: &str) -> Self {
        Self::serve_type(socket, "CSIPlugin", name)
    }

    /// A plugin of that type and name, which listens when this returns.
    pub(crate) fn serve_type(socket: &Path, kind: &str, name: &str) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (answers, told) = Answers::new(kind, name);
        let (stop, stopped) = oneshot::channel();
        Self {
            socket: socket.to_owned(),
            told,
            stop,
            thread: thread::spawn(move || serve(listener, answers, stopped)),
        }
    }

    /// What the plugin was told next of its registration, if it was told something already.
    pub(crate) fn try_told(&self) -> Option<RegistrationStatus> {
        self.told.try_recv().ok()
    }

    /// What the plugin is told next of its registration.
    pub(crate) fn until_told(&self) -> RegistrationStatus {
        let told = self.told.recv_timeout(PATIENCE);
        told.expect("the plugin is told how its registration ended")
    }

    /// Ends as a plugin does that is asked to: the socket is removed, then nobody listens.
    pub(crate) fn stop(self) {
        fs::remove_file(&self.socket).unwrap();
        drop(self.stop);
        self.thread.join().unwrap();
    }
}

/// What the plugin says when it is called.
struct Answers {
    info: PluginInfo,
    told: Sender<RegistrationStatus>,
}

impl Answers {
    fn new(kind: &str, name: &str) -> (Self, Receiver<RegistrationStatus>) {
        let info = PluginInfo {
            r#type: kind.to_owned(),
            name: name.to_owned(),
            endpoint: String::new(),
            supported_versions: vec!["1.0.0".to_owned()],
        };
        let (told, receiver) = mpsc::channel();
        (Self { info, told }, receiver)
    }
}

impl Service for Answers {
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status> {
        match path {
            registration::GET_INFO => Ok(self.info.encode_to_vec()),
            registration::NOTIFY_REGISTRATION_STATUS => {
                let status = RegistrationStatus::decode(message).map_err(|_| INVALID_ARGUMENT)?;
                let _ = self.told.send(status);
                Ok(RegistrationStatusResponse {}.encode_to_vec())
            }
            _ => Err(UNIMPLEMENTED),
        }
    }
}

/// Serves every connection until `stopped` resolves, which it does when its sender is dropped.
fn serve(listener: UnixListener, answers: Answers, mut stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answers = Arc::new(answers);
    runtime.block_on(async {
        let listener = tokio::net::UnixListener::from_std(listener).unwrap();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted.unwrap();
                    tokio::spawn(grpc::serve(Arc::clone(&answers), stream));
                }
                _ = &mut stopped => break,
            }
        }
    });
}

/// How long a plugin waits to be told something: a hundred times what it takes.
const PATIENCE: Duration = Duration::from_secs(20);
