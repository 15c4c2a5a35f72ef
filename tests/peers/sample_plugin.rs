//! A plugin as small as one can be, to try the daemon with and to read as an example.
//!
//! It does what plugins in the field do: it removes a socket that a predecessor left behind,
//! listens on its own, answers `GetInfo`, prints what `NotifyRegistrationStatus` tells it, answers
//! what a CSI driver or a device plugin must to be registered, and takes its socket along when it
//! is asked to end. Its HTTP/2 is the `h2` crate's (see [`grpc`]), so that the daemon is tried
//! against framing that is not its own.

mod grpc;

use std::error::Error;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::stat::{Mode, umask};
use plugind::escape;
use plugind::proto::csi_v1::{NodeGetInfoResponse, Topology, node};
use plugind::proto::pluginregistration::{
    PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use plugind::proto::v1beta1::{Device, DevicePluginOptions, ListAndWatchResponse, device_plugin};
use prost::Message;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::grpc::{INVALID_ARGUMENT, Service, Status, UNIMPLEMENTED};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let plugin = match Plugin::from_arguments(lexopt::Parser::from_env()) {
        Ok(Some(plugin)) => plugin,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("sample-plugin: {error}; see --help");
            return ExitCode::from(2);
        }
    };
    match run(plugin).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sample-plugin: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What this plugin is and how it behaves.
struct Plugin {
    /// What it says of itself when it is asked.
    info: PluginInfo,
    /// Where it listens.
    socket: PathBuf,
    /// Whether it ends in the middle of the call that tells it that it was refused.
    exit_on_refusal: bool,
    /// The list of its devices, encoded.
    devices: watch::Sender<Vec<u8>>,
}

impl Plugin {
    /// Reads the command line; `None` when help is asked for.
    fn from_arguments(mut arguments: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        use lexopt::prelude::*;

        let (mut dir, mut socket, mut versions) = (None, None, None);
        let mut exit_on_refusal = false;
        let mut info = PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: "sample.plugin.example".to_owned(),
            ..PluginInfo::default()
        };
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("dir") => dir = Some(PathBuf::from(arguments.value()?)),
                Long("socket") => socket = Some(PathBuf::from(arguments.value()?)),
                Long("type") => info.r#type = arguments.value()?.string()?,
                Long("name") => info.name = arguments.value()?.string()?,
                Long("endpoint") => info.endpoint = arguments.value()?.string()?,
                Long("versions") => versions = Some(arguments.value()?.string()?),
                Long("exit-on-refusal") => exit_on_refusal = true,
                Short('h') | Long("help") => return Ok(None),
                _ => return Err(argument.unexpected()),
            }
        }
        let versions = versions.unwrap_or_else(|| usual_versions(&info.r#type).to_owned());
        info.supported_versions = versions.split_terminator(',').map(str::to_owned).collect();
        let socket = match (socket, dir) {
            (Some(socket), _) => socket,
            (None, Some(dir)) => dir.join(format!("{}-reg.sock", info.name.replace('/', "_"))),
            (None, None) => return Err("--dir or --socket is needed".into()),
        };
        Ok(Some(Self {
            info,
            socket,
            exit_on_refusal,
            devices: watch::Sender::new(devices(true)),
        }))
    }

    /// Learns how the registration ended.
    fn told(&self, status: &RegistrationStatus) {
        let name = &self.info.name;
        if status.plugin_registered {
            println!("{name}: told that it is registered");
        } else {
            println!(
                "{name}: told that it is refused: {}",
                escape::text(&status.error)
            );
            if self.exit_on_refusal {
                std::process::exit(1);
            }
        }
    }
}

impl Service for Plugin {
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status> {
        match path {
            registration::GET_INFO => Ok(self.info.encode_to_vec()),
            registration::NOTIFY_REGISTRATION_STATUS => {
                let status = RegistrationStatus::decode(message).map_err(|_| INVALID_ARGUMENT)?;
                self.told(&status);
                Ok(RegistrationStatusResponse {}.encode_to_vec())
            }
            node::NODE_GET_INFO => Ok(NodeGetInfoResponse {
                node_id: "sample-node".to_owned(),
                accessible_topology: Some(Topology {
                    segments: [("zone".to_owned(), "a".to_owned())].into(),
                }),
                ..NodeGetInfoResponse::default()
            }
            .encode_to_vec()),
            device_plugin::GET_DEVICE_PLUGIN_OPTIONS => {
                Ok(DevicePluginOptions::default().encode_to_vec())
            }
            _ => Err(UNIMPLEMENTED),
        }
    }

    fn watch(&self, path: &str) -> Option<watch::Receiver<Vec<u8>>> {
        (path == device_plugin::LIST_AND_WATCH).then(|| self.devices.subscribe())
    }
}

/// The list of a plugin's two devices, of which the second may be broken.
fn devices(is_second_healthy: bool) -> Vec<u8> {
    let health = |is_healthy| if is_healthy { "Healthy" } else { "Unhealthy" };
    let devices = [("device-0", true), ("device-1", is_second_healthy)];
    let devices = devices.map(|(id, is_healthy)| Device {
        id: id.to_owned(),
        health: health(is_healthy).to_owned(),
        topology: None,
    });
    let devices = devices.to_vec();
    ListAndWatchResponse { devices }.encode_to_vec()
}

/// What a plugin of the type usually says it can speak.
fn usual_versions(r#type: &str) -> &'static str {
    match r#type {
        "DevicePlugin" => "v1beta1",
        "DRAPlugin" => "v1.DRAPlugin",
        _ => "1.0.0",
    }
}

/// Serves the plugin until it is asked to end; its socket is there exactly as long.
async fn run(plugin: Plugin) -> Result<(), Box<dyn Error>> {
    let plugin = Arc::new(plugin);
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut hit = signal(SignalKind::user_defined1())?;
    let mut is_healthy = true;
    let listener = listen(&plugin.socket)?;
    println!(
        "{}: listening on {}",
        plugin.info.name,
        plugin.socket.display()
    );
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                tokio::spawn(grpc::serve(Arc::clone(&plugin), stream));
            }
            _ = hit.recv() => {
                is_healthy = !is_healthy;
                plugin.devices.send_replace(devices(is_healthy));
            }
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        }
    }
    fs::remove_file(&plugin.socket)?;
    println!("{}: ended, its socket is removed", plugin.info.name);
    Ok(())
}

/// Listens on a socket that is only its user's, in place of one that was left behind.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(socket)?;
    }
    umask(Mode::from_bits_truncate(0o077));
    UnixListener::bind(socket)
}

/// What `--help` prints.
const HELP: &str = "\
A plugin to try a plugin manager with.

Usage: sample-plugin (--dir DIR | --socket PATH) [OPTIONS]

Options:
  --dir DIR          listen on DIR/NAME-reg.sock
  --socket PATH      listen on PATH
  --type TYPE        CSIPlugin (default), DevicePlugin, DRAPlugin or one of your own
  --name NAME        the driver's or resource's name (default: sample.plugin.example)
  --endpoint PATH    the socket of its own services (default: the one it listens on)
  --versions V,V..   what it can speak (default: what plugins of its type usually say)
  --exit-on-refusal  exit in the middle of the call that says no, as node-driver-registrar does
  -h, --help         this text

It prints what it is told. SIGUSR1 breaks one of its devices, or repairs it; SIGTERM and SIGINT
end it and remove its socket.
";
