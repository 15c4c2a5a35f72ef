//! A plugin that follows a script, on a thread of its own.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use plugind::proto::pluginregistration::{
    PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use prost::Message as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use crate::grpc::{self, INVALID_ARGUMENT, Service, Status, UNIMPLEMENTED};
use crate::subject::TYPE;

/// The answers of a plugin.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// The replies to GetInfo, in order; the last one is repeated.
    info: Vec<Reply>,
    /// The reply to NotifyRegistrationStatus.
    notify: Result<(), Status>,
    /// What the plugin does with a connection instead of gRPC.
    raw: Option<Raw>,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Message(Vec<u8>),
    Status(Status),
    /// Does not reply until the plugin ends.
    Never,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw {
    /// Closes the connection.
    Close,
    /// Sends nothing.
    Mute,
    /// Sends these octets.
    Say(&'static [u8]),
}

impl Script {
    /// Returns the script of a plugin that is registered.
    pub(crate) fn named(name: &str) -> Self {
        Self::info(&info(TYPE, name))
    }

    pub(crate) fn info(info: &PluginInfo) -> Self {
        Self::replies(vec![Reply::Message(info.encode_to_vec())])
    }

    pub(crate) fn replies(info: Vec<Reply>) -> Self {
        Self {
            info,
            notify: Ok(()),
            raw: None,
        }
    }

    pub(crate) fn raw(raw: Raw) -> Self {
        Self {
            raw: Some(raw),
            ..Self::replies(Vec::new())
        }
    }

    /// Adds a reply before the others.
    pub(crate) fn after(mut self, first: Reply) -> Self {
        self.info.insert(0, first);
        self
    }

    /// Returns the first reply.
    pub(crate) fn first(&self) -> Reply {
        self.info[0].clone()
    }

    /// Makes the plugin answer NotifyRegistrationStatus with an error.
    pub(crate) fn refusing_notify(mut self, status: Status) -> Self {
        self.notify = Err(status);
        self
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

/// A plugin that serves until this is dropped.
pub(crate) struct ScriptedPlugin {
    notified: Arc<Mutex<Vec<String>>>,
    _stop: oneshot::Sender<()>,
    _patience: Sender<()>,
}

impl ScriptedPlugin {
    pub(crate) fn serve(socket: &Path, script: Script) -> Self {
        Self::serve_on(UnixListener::bind(socket).unwrap(), script)
    }

    pub(crate) fn serve_on(listener: UnixListener, script: Script) -> Self {
        listener.set_nonblocking(true).unwrap();
        let notified = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = oneshot::channel();
        let (patience, patient) = mpsc::channel();
        let answers = Answers {
            script: Mutex::new(script),
            notified: Arc::clone(&notified),
            patient: Mutex::new(patient),
        };
        thread::spawn(move || serve(listener, answers, stopped));
        Self {
            notified,
            _stop: stop,
            _patience: patience,
        }
    }

    /// Returns the statuses that the plugin was notified of so far.
    pub(crate) fn notified(&self) -> Vec<String> {
        self.notified.lock().unwrap().clone()
    }
}

struct Answers {
    script: Mutex<Script>,
    notified: Arc<Mutex<Vec<String>>>,
    patient: Mutex<Receiver<()>>,
}

impl Answers {
    fn next_info(&self) -> Reply {
        let mut script = self.script.lock().unwrap();
        if script.info.len() > 1 {
            script.info.remove(0)
        } else {
            script.info[0].clone()
        }
    }
}

impl Service for Answers {
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status> {
        match path {
            registration::GET_INFO => match self.next_info() {
                Reply::Message(message) => Ok(message),
                Reply::Status(status) => Err(status),
                Reply::Never => {
                    let _over = self.patient.lock().unwrap().recv();
                    Err(UNIMPLEMENTED)
                }
            },
            registration::NOTIFY_REGISTRATION_STATUS => {
                let status = RegistrationStatus::decode(message).map_err(|_| INVALID_ARGUMENT)?;
                let words = if status.plugin_registered {
                    "registered".to_owned()
                } else {
                    format!("not registered: {}", status.error)
                };
                self.notified.lock().unwrap().push(words);
                let notify = self.script.lock().unwrap().notify;
                notify.map(|()| RegistrationStatusResponse {}.encode_to_vec())
            }
            _ => Err(UNIMPLEMENTED),
        }
    }
}

fn serve(listener: UnixListener, answers: Answers, mut stopped: oneshot::Receiver<()>) {
    let raw = answers.script.lock().unwrap().raw;
    let answers = Arc::new(answers);
    grpc::block_on(async {
        let listener = tokio::net::UnixListener::from_std(listener).unwrap();
        let mut open = Vec::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, _) = accepted.unwrap();
                    match raw {
                        None => drop(tokio::spawn(grpc::serve(Arc::clone(&answers), stream))),
                        Some(raw) => open.extend(misbehave(raw, stream).await),
                    }
                }
                _ = &mut stopped => break,
            }
        }
    });
}

/// Handles a connection without gRPC. Returns the connection if it stays open.
async fn misbehave(raw: Raw, mut stream: UnixStream) -> Option<UnixStream> {
    match raw {
        Raw::Close => None,
        Raw::Mute => Some(stream),
        Raw::Say(octets) => {
            let _ = stream.write_all(octets).await;
            None
        }
    }
}
