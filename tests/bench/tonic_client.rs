//! The same as the client on `h2`, on `tonic`: what a program would be that uses what there is.

use std::error::Error;
use std::path::Path;

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

/// Registers every plugin whose path comes in, all of them at once, until no more come.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    until_no_more_come(|socket| async move {
        let registered = register(&socket).await;
        registered.expect("the plugin answers");
    })
}

/// Asks a plugin who it is, and tells it that it is registered.
async fn register(socket: &Path) -> Result<PluginInfo, Box<dyn Error>> {
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

/// One unary call.
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
