//! The client on `h2`, written on `tonic` instead: a program made of existing crates.

use std::error::Error;
use std::path::PathBuf;

use http::uri::PathAndQuery;
use plugind::proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use prost::Message;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::h2_client::until_no_more_come;

/// Registers every plugin whose path is read from standard input, concurrently, until its end.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    until_no_more_come(register)
}

/// Calls `GetInfo`, and notifies the plugin that it is registered.
async fn register(socket: PathBuf) -> Result<PluginInfo, Box<dyn Error>> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))?;
    let mut client = Grpc::new(endpoint.connect().await?);
    let info = call(&mut client, registration::GET_INFO, InfoRequest {}).await?;
    let status = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    let method = registration::NOTIFY_REGISTRATION_STATUS;
    let _: RegistrationStatusResponse = call(&mut client, method, status).await?;
    Ok(info)
}

/// Makes one unary call.
async fn call<Q, R>(
    client: &mut Grpc<Channel>,
    method: &'static str,
    message: Q,
) -> Result<R, Box<dyn Error>>
where
    Q: Message + Send + Sync + 'static,
    R: Message + Default + Send + Sync + 'static,
{
    client.ready().await?;
    let method = PathAndQuery::from_static(method);
    let codec = ProstCodec::default();
    let reply = client.unary(Request::new(message), method, codec).await?;
    Ok(reply.into_inner())
}
