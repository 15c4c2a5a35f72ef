//! The floor: a client that only makes the two calls, on the `h2` crate and one thread.

use std::error::Error;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use plugind::proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use prost::Message;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;

/// Registers every plugin whose path is read from standard input, concurrently, until its end.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    until_no_more_come(|socket| async move {
        let registered = register(&socket).await;
        registered.expect("the plugin answers");
    })
}

/// Runs `register` with each path from standard input, until its end.
pub(crate) fn until_no_more_come<F: Future<Output = ()> + 'static>(
    register: impl Fn(PathBuf) -> F,
) -> Result<(), Box<dyn Error>> {
    let news = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    news.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let mut paths = BufReader::new(UnixStream::from_std(news)?).lines();
        while let Some(path) = paths.next_line().await? {
            tokio::task::spawn_local(register(path.into()));
        }
        Ok(())
    })
}

/// Calls `GetInfo`, and notifies the plugin that it is registered.
async fn register(socket: &Path) -> Result<PluginInfo, Box<dyn Error>> {
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
    body.send_data(frame(message)?, true)?;
    let mut reply = reply.await?.into_body();
    let mut octets = BytesMut::new();
    while let Some(part) = reply.data().await {
        let part = part?;
        reply.flow_control().release_capacity(part.len())?;
        octets.extend_from_slice(&part);
    }
    let trailers = reply.trailers().await?.ok_or("no trailers")?;
    if trailers.get("grpc-status").is_none_or(|code| code != "0") {
        return Err("refused".into());
    }
    let message = octets.get(PREFIX..).ok_or("no message")?;
    Ok(R::decode(message)?)
}

/// Returns a message behind its length, as gRPC sends it.
fn frame(message: &impl Message) -> Result<Bytes, Box<dyn Error>> {
    let length = message.encoded_len();
    let mut octets = BytesMut::with_capacity(PREFIX + length);
    octets.put_u8(0);
    octets.put_u32(u32::try_from(length)?);
    message.encode(&mut octets)?;
    Ok(octets.freeze())
}

/// The size of the prefix of a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
