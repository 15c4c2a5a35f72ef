//! The client: what calls a simulated plugin, or kubelet.sock.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};
use tower::service_fn;

use crate::message::field;
use crate::raw::Raw;

/// Calls a simulated plugin, and prints what it has listed.
pub(crate) async fn call(path: &str) {
    let mut client = connect(path.to_owned()).await;
    let registration = "/pluginregistration.Registration/";
    let info = unary(&mut client, &[registration, "GetInfo"].concat(), vec![]).await;
    let notify = [registration, "NotifyRegistrationStatus"].concat();
    unary(&mut client, &notify, vec![8, 1])
        .await
        .expect("notified");
    let devices = field(1, field(1, "device-0"));
    let allocated = unary(&mut client, "/v1beta1.DevicePlugin/Allocate", devices).await;
    allocated.expect("allocated");
    client.ready().await.expect("a channel");
    let path = "/v1beta1.DevicePlugin/ListAndWatch"
        .parse()
        .expect("a path");
    let stream = client.server_streaming(Request::new(Bytes::new()), path, Raw);
    let mut stream = stream.await.expect("a stream").into_inner();
    let list = stream.message().await.expect("a message").expect("a list");
    println!(
        "called {}",
        !info.expect("a reply").is_empty() && !list.is_empty()
    );
}

/// Calls Register on the kubelet.sock beside the plugin's socket.
pub(crate) async fn register(path: String) {
    let socket = Path::new(&path).with_file_name("kubelet.sock");
    let file = Path::new(&path).file_name().expect("a file");
    let mut client = connect(socket.to_str().expect("a path in UTF-8").to_owned()).await;
    let fields = [
        field(1, "v1beta1"),
        field(2, file.to_str().expect("a name in UTF-8")),
        field(3, "example.com/peer"),
    ];
    let registered = unary(
        &mut client,
        "/v1beta1.Registration/Register",
        fields.concat(),
    )
    .await;
    registered.expect("registered");
    println!("notified true");
}

async fn connect(path: String) -> Grpc<Channel> {
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost").timeout(Duration::from_secs(20));
    let channel = endpoint.connect_with_connector(connector).await;
    Grpc::new(channel.expect("a connection"))
}

async fn unary(
    client: &mut Grpc<Channel>,
    method: &str,
    request: Vec<u8>,
) -> Result<Bytes, Status> {
    client.ready().await.expect("a channel");
    let path = method.parse().expect("a path");
    let response = client
        .unary(Request::new(Bytes::from(request)), path, Raw)
        .await?;
    Ok(response.into_inner())
}
