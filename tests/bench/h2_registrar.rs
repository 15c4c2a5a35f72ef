//! The floor for device plugins that register themselves: a server of Register that only makes the
//! two calls before and after its reply, on the `h2` crate and one thread.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Response};
use plugind::proto::v1beta1::{
    Device, DevicePluginOptions, Empty, ListAndWatchResponse, RegisterRequest, device_plugin,
    registration,
};
use prost::Message as _;
use tokio::net::{UnixListener, UnixStream};

use super::device_plugin::KUBELET;
use super::h2_client::{PREFIX, begin, call, frame};
use super::register::LISTED;

/// Serves Register on `kubelet.sock` in `dir`, until it is killed.
pub(crate) fn run(dir: PathBuf) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let dir: Rc<Path> = dir.into();
    local.block_on(&runtime, async {
        let listener = UnixListener::bind(dir.join(KUBELET))?;
        loop {
            let (stream, _) = listener.accept().await?;
            let dir = dir.clone();
            tokio::task::spawn_local(async move {
                let served = serve(&dir, stream).await;
                served.expect("the plugin registers");
            });
        }
    })
}

/// Serves one connection until it ends.
async fn serve(dir: &Path, stream: UnixStream) -> Result<(), Box<dyn Error>> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(called) = connection.accept().await {
        let (request, mut respond) = called?;
        let dir = dir.to_owned();
        tokio::task::spawn_local(async move {
            let registered = async {
                assert_eq!(request.uri().path(), registration::REGISTER);
                let message = next_message(&mut request.into_body()).await?;
                let RegisterRequest {
                    endpoint,
                    resource_name,
                    ..
                } = RegisterRequest::decode(message)?;
                let mut plugin = dial(&dir.join(endpoint)).await?;
                let method = device_plugin::GET_DEVICE_PLUGIN_OPTIONS;
                let _: DevicePluginOptions = call(&mut plugin, method, &Empty {}).await?;
                let head = Response::builder().header("content-type", "application/grpc");
                let mut reply = respond.send_response(head.body(())?, false)?;
                reply.send_data(frame(&Empty {})?, false)?;
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                reply.send_trailers(trailers)?;
                watch(&mut plugin, &resource_name).await
            };
            registered.await.expect("the plugin is registered");
        });
    }
    Ok(())
}

/// Opens a connection to a plugin.
async fn dial(endpoint: &Path) -> Result<SendRequest<Bytes>, Box<dyn Error>> {
    let stream = UnixStream::connect(endpoint).await?;
    let (client, connection) = h2::client::handshake(stream).await?;
    tokio::task::spawn_local(connection);
    Ok(client)
}

/// Keeps the devices that a plugin lists, until its end. Reports the first list.
async fn watch(plugin: &mut SendRequest<Bytes>, name: &str) -> Result<(), Box<dyn Error>> {
    let method = device_plugin::LIST_AND_WATCH;
    let mut lists = begin(plugin, method, &Empty {})?.await?.into_body();
    let list = ListAndWatchResponse::decode(next_message(&mut lists).await?)?;
    let devices = list.devices.into_iter();
    let devices: BTreeMap<String, Device> =
        devices.map(|device| (device.id.clone(), device)).collect();
    eprintln!("{name}: {LISTED} devices={}", devices.len());
    // The plugin ends without trailers.
    while lists.data().await.is_some_and(|part| part.is_ok()) {}
    Ok(())
}

/// Returns the next message of a body.
async fn next_message(body: &mut RecvStream) -> Result<Bytes, Box<dyn Error>> {
    let mut octets = BytesMut::new();
    loop {
        if let Some((prefix, message)) = octets.split_at_checked(PREFIX) {
            let length = u32::from_be_bytes(prefix[1..].try_into()?);
            if message.len() == usize::try_from(length)? {
                return Ok(octets.freeze().slice(PREFIX..));
            }
        }
        let part = body.data().await.ok_or("the message is not whole")??;
        body.flow_control().release_capacity(part.len())?;
        octets.extend_from_slice(&part);
    }
}
