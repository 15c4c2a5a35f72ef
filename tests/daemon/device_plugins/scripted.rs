//! A device plugin that does what a test demands, and records the calls that it receives.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use plugind::proto::v1beta1::{Device, DevicePluginOptions, ListAndWatchResponse, device_plugin};
use prost::Message;
use tokio::net::UnixStream;
use tokio::sync::watch;

use crate::support::caller::PATIENCE;

/// A device plugin that serves until it is dropped, and leaves its socket behind.
pub(crate) struct Scripted {
    script: watch::Sender<Script>,
    calls: Receiver<String>,
    thread: JoinHandle<()>,
}

/// The answers of a plugin to calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// The devices, and whether they are healthy.
    pub(crate) devices: Vec<(&'static str, bool)>,
    /// The method that fails, with the status INTERNAL and [`MESSAGE`].
    pub(crate) fails: Option<&'static str>,
}

impl Scripted {
    /// Serves a plugin on a socket, which listens when this returns.
    pub(crate) fn serve(socket: &Path, script: Script) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (script, current) = watch::channel(script);
        let (caller, calls) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(accept(listener, current, caller));
        });
        Self {
            script,
            calls,
            thread,
        }
    }

    /// Lists healthy devices.
    pub(crate) fn listing(socket: &Path, devices: &[&'static str]) -> Self {
        let script = Script {
            devices: devices.iter().map(|id| (*id, true)).collect(),
            ..Script::default()
        };
        Self::serve(socket, script)
    }

    /// Sends a list.
    pub(crate) fn list(&self, devices: &[(&'static str, bool)]) {
        let devices = devices.to_vec();
        self.script.send_modify(|script| script.devices = devices);
    }

    /// Lets calls of a method fail, also those in progress.
    pub(crate) fn fail(&self, method: &'static str) {
        self.script
            .send_modify(|script| script.fails = Some(method));
    }

    /// Ends the plugin, whose connections are closed when this returns.
    pub(crate) fn stop(self) {
        drop(self.script);
        self.thread.join().unwrap();
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

/// Serves connections until the plugin is dropped.
async fn accept(listener: UnixListener, script: watch::Receiver<Script>, caller: Sender<String>) {
    let listener = tokio::net::UnixListener::from_std(listener).unwrap();
    let mut changes = script.clone();
    let serve = async {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, script.clone(), caller.clone()));
        }
    };
    tokio::select! {
        () = serve => {}
        () = async { while changes.changed().await.is_ok() {} } => {}
    }
}

/// Serves a connection. A caller that breaks the rules harms only itself.
async fn serve(stream: UnixStream, script: watch::Receiver<Script>, caller: Sender<String>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let method = request.uri().path().to_owned();
        let _ = caller.send(method.clone());
        let script = script.clone();
        tokio::spawn(async move {
            // The caller has ended the call if this fails.
            let _ = answer(&method, respond, script).await;
        });
    }
}

async fn answer(
    method: &str,
    mut respond: SendResponse<Bytes>,
    mut script: watch::Receiver<Script>,
) -> Result<(), h2::Error> {
    let head = Response::builder().header("content-type", "application/grpc");
    let mut stream = respond.send_response(head.body(()).unwrap(), false)?;
    loop {
        let now = script.borrow_and_update().clone();
        if now.fails == Some(method) {
            return stream.send_trailers(trailers(INTERNAL));
        }
        match method {
            device_plugin::LIST_AND_WATCH => stream.send_data(list(&now.devices), false)?,
            device_plugin::GET_DEVICE_PLUGIN_OPTIONS => {
                stream.send_data(framed(&DevicePluginOptions::default()), false)?;
                return stream.send_trailers(trailers(OK));
            }
            _ => return stream.send_trailers(trailers(UNIMPLEMENTED)),
        }
        if script.changed().await.is_err() {
            return stream.send_trailers(trailers(OK));
        }
    }
}

/// Returns a list of devices as the body of a reply.
fn list(devices: &[(&'static str, bool)]) -> Bytes {
    let devices = devices.iter().map(|(id, is_healthy)| Device {
        id: (*id).to_owned(),
        health: if *is_healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
        ..Device::default()
    });
    framed(&ListAndWatchResponse {
        devices: devices.collect(),
    })
}

/// Returns a message as the body of a reply.
fn framed(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.put_slice(&message);
    framed.freeze()
}

fn trailers(status: u16) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(HeaderName::from_static("grpc-status"), status.into());
    if status != OK {
        let message = HeaderValue::from_static(MESSAGE);
        trailers.insert(HeaderName::from_static("grpc-message"), message);
    }
    trailers
}

/// The message of every status but OK.
pub(crate) const MESSAGE: &str = "out of order";

const OK: u16 = 0;
const UNIMPLEMENTED: u16 = 12;
const INTERNAL: u16 = 13;
