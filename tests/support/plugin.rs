//! A plugin on a thread of its own, for tests with real sockets. Its HTTP/2 is the `h2` crate's.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use nix::fcntl::AT_FDCWD;
use nix::sys::socket::{Backlog, listen};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use plugind::proto::csi_v1::{NodeGetInfoResponse, node};
use plugind::proto::pluginregistration::{
    PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use plugind::proto::v1beta1::device_plugin;
use prost::Message as _;
use tokio::sync::watch;

use super::grpc::{self, INVALID_ARGUMENT, Server, Service, Status, Stream, UNIMPLEMENTED};

/// A plugin that serves its registration socket until it is stopped.
pub(crate) struct Plugin {
    socket: PathBuf,
    asked: Receiver<String>,
    notified: Receiver<RegistrationStatus>,
    server: Server,
    /// When this is dropped, every unanswered call ends.
    patience: Sender<()>,
}

/// A flaw of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The plugin refuses the first call of this method.
    Refuses(&'static str),
    /// The plugin never answers calls of this method.
    Ignores(&'static str),
}

impl Plugin {
    /// Serves a CSI plugin with this name, which listens when this returns.
    pub(crate) fn serve(socket: &Path, name: &str) -> Self {
        Self::serve_type(socket, "CSIPlugin", name)
    }

    /// Serves a plugin with this type and name, which listens when this returns.
    pub(crate) fn serve_type(socket: &Path, kind: &str, name: &str) -> Self {
        Self::bind(socket, Behavior::of(kind, name))
    }

    /// Serves a CSI plugin with a flaw.
    pub(crate) fn serve_flawed(socket: &Path, name: &str, flaw: Flaw) -> Self {
        let mut behavior = Behavior::of("CSIPlugin", name);
        behavior.flaw = Some(flaw);
        Self::bind(socket, behavior)
    }

    /// Serves a CSI plugin on a bound socket, on which it begins to listen here.
    pub(crate) fn listen_on(bound: OwnedFd, socket: &Path, name: &str) -> Self {
        listen(&bound, Backlog::MAXALLOWABLE).unwrap();
        Self::start(bound.into(), socket, Behavior::of("CSIPlugin", name))
    }

    /// Serves a CSI plugin that reports this endpoint.
    pub(crate) fn serve_elsewhere(socket: &Path, name: &str, endpoint: &Path) -> Self {
        let mut behavior = Behavior::of("CSIPlugin", name);
        behavior.info.endpoint = endpoint.display().to_string();
        Self::bind(socket, behavior)
    }

    /// Serves a device plugin with this name whose list of devices is this, which is `missing`
    /// octets shorter than announced.
    pub(crate) fn serve_devices(socket: &Path, name: &str, list: &[u8], missing: usize) -> Self {
        let mut behavior = Behavior::of("DevicePlugin", name);
        behavior.info.supported_versions = vec!["v1beta1".to_owned()];
        behavior.devices = grpc::frame(list, missing);
        Self::bind(socket, behavior)
    }

    fn bind(socket: &Path, behavior: Behavior) -> Self {
        Self::start(UnixListener::bind(socket).unwrap(), socket, behavior)
    }

    fn start(listener: UnixListener, socket: &Path, behavior: Behavior) -> Self {
        let (asked_by, asked) = mpsc::channel();
        let (notifier, notified) = mpsc::channel();
        let (patience, patient) = mpsc::channel();
        let answers = Answers {
            devices: watch::Sender::new(Ok(behavior.devices.clone())),
            behavior,
            asked: asked_by,
            notified: notifier,
            is_refused: AtomicBool::new(false),
            patient: Mutex::new(patient),
        };
        Self {
            socket: socket.to_owned(),
            asked,
            notified,
            server: Server::start(listener, answers),
            patience,
        }
    }

    /// Returns the next status that the plugin was notified of, or `None` if there is none yet.
    pub(crate) fn try_notified(&self) -> Option<RegistrationStatus> {
        self.notified.try_recv().ok()
    }

    /// Waits for the next status that the plugin is notified of.
    pub(crate) fn until_notified(&self) -> RegistrationStatus {
        let notified = self.notified.recv_timeout(PATIENCE);
        notified.expect("the plugin is notified of a status")
    }

    /// Returns the method of the next call, or `None` if there is none yet.
    pub(crate) fn try_asked(&self) -> Option<String> {
        self.asked.try_recv().ok()
    }

    /// Waits for a call of this method.
    pub(crate) fn until_asked(&self, method: &str) {
        while self.asked.recv_timeout(PATIENCE).expect("a call") != method {}
    }

    /// Ends the plugin as on a regular stop: the socket is removed before it is closed.
    pub(crate) fn stop(self) {
        fs::remove_file(&self.socket).unwrap();
        self.leave();
    }

    /// Ends the plugin, which leaves its socket behind.
    pub(crate) fn leave(self) {
        drop(self.patience);
        self.server.stop();
    }
}

/// Returns the info that a plugin with this type and name reports.
pub(crate) fn info(kind: &str, name: &str) -> PluginInfo {
    PluginInfo {
        r#type: kind.to_owned(),
        name: name.to_owned(),
        endpoint: String::new(),
        supported_versions: vec!["1.0.0".to_owned()],
    }
}

/// Sets the access and modification times of a file to an hour ago.
pub(crate) fn set_times(path: &Path) {
    let earlier = SystemTime::now() - Duration::from_secs(3600);
    let since = earlier.duration_since(UNIX_EPOCH).unwrap();
    let time = TimeSpec::from_duration(since);
    utimensat(AT_FDCWD, path, &time, &time, UtimensatFlags::FollowSymlink).unwrap();
}

/// What a plugin does.
struct Behavior {
    info: PluginInfo,
    flaw: Option<Flaw>,
    /// Its list of devices, as the body of a reply.
    devices: Bytes,
}

impl Behavior {
    /// Returns the behavior of a plugin with this type and name.
    fn of(kind: &str, name: &str) -> Self {
        Self {
            info: info(kind, name),
            flaw: None,
            devices: grpc::frame(&[], 0),
        }
    }
}

/// The answers of the plugin to calls.
struct Answers {
    behavior: Behavior,
    asked: Sender<String>,
    notified: Sender<RegistrationStatus>,
    /// The list of devices, which stays the same.
    devices: watch::Sender<Result<Bytes, Status>>,
    is_refused: AtomicBool,
    patient: Mutex<Receiver<()>>,
}

impl Service for Answers {
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status> {
        let _ = self.asked.send(path.to_owned());
        match self.behavior.flaw {
            Some(Flaw::Refuses(method))
                if method == path && !self.is_refused.swap(true, Ordering::Relaxed) =>
            {
                return Err(UNAVAILABLE);
            }
            Some(Flaw::Ignores(method)) if method == path => {
                let _over = self.patient.lock().unwrap().recv();
            }
            _ => {}
        }
        match path {
            registration::GET_INFO => Ok(self.behavior.info.encode_to_vec()),
            registration::NOTIFY_REGISTRATION_STATUS => {
                let status = RegistrationStatus::decode(message).map_err(|_| INVALID_ARGUMENT)?;
                let _ = self.notified.send(status);
                Ok(RegistrationStatusResponse {}.encode_to_vec())
            }
            node::NODE_GET_INFO => Ok(NodeGetInfoResponse {
                node_id: "sample-node".to_owned(),
                ..NodeGetInfoResponse::default()
            }
            .encode_to_vec()),
            SERVICE | device_plugin::GET_DEVICE_PLUGIN_OPTIONS | device_plugin::LIST_AND_WATCH => {
                Ok(Vec::new())
            }
            _ => Err(UNIMPLEMENTED),
        }
    }

    fn stream(&self, path: &str) -> Option<Stream> {
        (path == device_plugin::LIST_AND_WATCH).then(|| self.devices.subscribe())
    }
}

/// A method of the plugin's own service, on the same socket.
pub(crate) const SERVICE: &str = "/csi.v1.Identity/GetPluginInfo";

/// The plugin cannot answer now.
const UNAVAILABLE: Status = Status(14, "not now");

/// The time limit for what a plugin waits for, a hundred times what it takes.
const PATIENCE: Duration = Duration::from_secs(60);
