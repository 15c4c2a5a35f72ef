//! The floor: a client that only makes the two calls, on the `h2` crate and one thread.

use std::error::Error;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use plugind::proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use prost::Message;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;

use super::grpc;

/// Registers every plugin whose path is read from standard input, concurrently, until its end.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    until_no_more_come(register)
}

/// Runs `register`, which must succeed, with each path from standard input, until its end.
pub(crate) fn until_no_more_come<F>(register: impl Fn(PathBuf) -> F) -> Result<(), Box<dyn Error>>
where
    F: Future<Output = Result<PluginInfo, Box<dyn Error>>> + 'static,
{
    let news = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    news.set_nonblocking(true)?;
    grpc::block_on(tokio::task::LocalSet::new().run_until(async {
        let mut paths = BufReader::new(UnixStream::from_std(news)?).lines();
        while let Some(path) = paths.next_line().await? {
            let registered = register(path.into());
            tokio::task::spawn_local(async { registered.await.expect("the plugin answers") });
        }
        Ok(())
    }))
}

/// Calls `GetInfo`, and notifies the plugin that it is registered.
async fn register(socket: PathBuf) -> Result<PluginInfo, Box<dyn Error>> {
    let stream = UnixStream::connect(socket).await?;
    let (mut client, connection) = h2::client::handshake(stream).await?;
    tokio::task::spawn_local(connection);
    let info = call(&mut client, registration::GET_INFO, &InfoRequest {}).await?;
    let status = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    let method = registration::NOTIFY_REGISTRATION_STATUS;
    let _: RegistrationStatusResponse = call(&mut client, method, &status).await?;
    Ok(info)
}

/// Makes one unary call.
async fn call<Q: Message, R: Message + Default>(
    client: &mut SendRequest<Bytes>,
    method: &str,
    message: &Q,
) -> Result<R, Box<dyn Error>> {
    let request = Request::post(format!("http://localhost{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let (reply, mut body) = client.send_request(request, false)?;
    body.send_data(grpc::frame(&message.encode_to_vec(), 0), true)?;
    let mut reply = reply.await?.into_body();
    let octets = grpc::read_to_end(&mut reply, LARGEST_REPLY).await?;
    let trailers = reply.trailers().await?.ok_or("no trailers")?;
    if trailers.get("grpc-status").is_none_or(|code| code != "0") {
        return Err("refused".into());
    }
    let message = grpc::unframe(&octets).ok_or("no message")?;
    Ok(R::decode(message)?)
}

/// The largest reply (octets).
const LARGEST_REPLY: usize = 64 * 1024;
