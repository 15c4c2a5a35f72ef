//! Device plugins that register themselves at `kubelet.sock`, on the `h2` crate.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use plugind::proto::v1beta1::{
    Device, DevicePluginOptions, Empty, ListAndWatchResponse, RegisterRequest, device_plugin,
    registration,
};
use prost::Message as _;
use tokio::net::{UnixListener, UnixStream};

use super::clock::Moment;
use super::grpc::{Service, Status, UNIMPLEMENTED};
use super::h2_client::call;
use super::order::Life;
use super::plugins::serve;

/// Starts the device plugin with this number, which stays, and has it register itself.
pub(crate) async fn register(dir: &Path, number: usize) -> Result<Life, Box<dyn Error>> {
    let endpoint = format!("device-{number:05}.sock");
    let listener = UnixListener::bind(dir.join(&endpoint))?;
    tokio::spawn(serve(listener, Arc::new(Answers)));
    let listened = Moment::now();
    let stream = UnixStream::connect(dir.join(KUBELET)).await?;
    let (mut client, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    let request = RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint,
        resource_name: format!("example.com/device-{number:05}"),
        options: Some(DevicePluginOptions::default()),
    };
    let _: Empty = call(&mut client, registration::REGISTER, &request).await?;
    let told = Moment::now();
    Ok(Life { listened, told })
}

/// The answers of every device plugin.
struct Answers;

impl Service for Answers {
    fn call(&self, path: &str, _: &[u8]) -> Result<Vec<u8>, Status> {
        match path {
            device_plugin::GET_DEVICE_PLUGIN_OPTIONS => {
                Ok(DevicePluginOptions::default().encode_to_vec())
            }
            device_plugin::LIST_AND_WATCH => Ok(list().encode_to_vec()),
            _ => Err(UNIMPLEMENTED),
        }
    }

    fn is_stream(&self, path: &str) -> bool {
        path == device_plugin::LIST_AND_WATCH
    }
}

/// Returns the devices of a plugin.
fn list() -> ListAndWatchResponse {
    let device = |number| Device {
        id: format!("GPU-{number:08x}-0000-4000-8000-000000000000"),
        health: "Healthy".to_owned(),
        topology: None,
    };
    let devices = (0..DEVICES).map(device).collect();
    ListAndWatchResponse { devices }
}

/// The name of the socket on which Register is served.
pub(crate) const KUBELET: &str = "kubelet.sock";

/// The number of devices of a plugin: as many as a machine for eight graphics cards has.
const DEVICES: u32 = 8;
