//! What the server answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};
use tower::service_fn;

use crate::message::field;
use crate::raw::Raw;

pub(crate) struct Plugin {
    case: String,
    info: Vec<u8>,
    count: usize,
    asked: AtomicU32,
    /// Whether a device is broken, and whether the plugin has to end.
    state: watch::Sender<(bool, bool)>,
}

impl Plugin {
    pub(crate) fn new(case: &str) -> Self {
        let health = "v1alpha1.DRAResourceHealth";
        let (kind, name, versions): (_, _, &[&str]) = match case {
            "csi" => ("CSIPlugin", "csi.example.com", &["1.0.0"]),
            "dra" => ("DRAPlugin", "dra.example.com", &["v1.DRAPlugin", health]),
            _ => ("DevicePlugin", "example.com/peer", &["v1beta1"]),
        };
        let mut info = [field(1, kind), field(2, name)].concat();
        for version in versions {
            info.extend(field(4, version));
        }
        let is_long = ["many", "windows-small", "windows-large"].contains(&case);
        Self {
            case: case.to_owned(),
            info,
            count: if is_long { 10_000 } else { 2 },
            asked: AtomicU32::new(0),
            state: watch::Sender::new((false, false)),
        }
    }

    pub(crate) fn change(&self) {
        self.state.send_modify(|(is_changed, _)| *is_changed = true);
    }

    pub(crate) fn stop(&self) {
        self.state.send_modify(|(_, is_stopped)| *is_stopped = true);
    }

    pub(crate) async fn until_stopped(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|(_, is_stopped)| *is_stopped).await;
    }

    /// Responds to a call.
    pub(crate) async fn handle(self: Arc<Self>, call: http::Request<Body>) -> http::Response<Body> {
        let method = call.uri().path().to_owned();
        let mut grpc = Grpc::new(Raw);
        if method.ends_with("/ListAndWatch") || method.ends_with("/NodeWatchResources") {
            let service = service_fn(move |_: Request<Bytes>| {
                let (plugin, method) = (self.clone(), method.clone());
                async move { Ok::<_, Status>(Response::new(plugin.watch(&method))) }
            });
            return grpc.server_streaming(service, call).await;
        }
        let service = service_fn(move |request: Request<Bytes>| {
            let answer = self.answer(&method, &request.into_inner());
            async move { answer }
        });
        grpc.unary(service, call).await
    }

    fn answer(&self, method: &str, request: &[u8]) -> Result<Response<Bytes>, Status> {
        let method = method.rsplit('/').next().unwrap_or_default();
        let answer = match method {
            "GetInfo" => {
                let is_first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
                if is_first && self.case == "details" {
                    let details = Bytes::from_static(&[8, 14]);
                    return Err(Status::with_details(
                        tonic::Code::Unavailable,
                        "not yet",
                        details,
                    ));
                }
                self.info.clone()
            }
            "NotifyRegistrationStatus" => {
                println!("notified {}", request.starts_with(&[8, 1]));
                Vec::new()
            }
            "Probe" => field(1, [8, 1]),
            "NodeGetInfo" => [field(1, "node-1"), vec![16, 8]].concat(),
            "Allocate" => field(1, field(1, [field(1, "PEER"), field(2, "1")].concat())),
            _ => Vec::new(),
        };
        let mut response = Response::new(Bytes::from(answer));
        if self.case == "metadata" {
            let large = "m".repeat(20 << 10).parse().expect("a value");
            response.metadata_mut().insert("x-large", large);
        }
        Ok(response)
    }

    /// Returns the stream of lists: another one when a device breaks.
    fn watch(self: Arc<Self>, method: &str) -> ReceiverStream<Result<Bytes, Status>> {
        println!("watched");
        let is_health = method.ends_with("/NodeWatchResources");
        let (lists, stream) = mpsc::channel(2);
        tokio::spawn(async move {
            let mut state = self.state.subscribe();
            loop {
                let (is_changed, is_stopped) = *state.borrow_and_update();
                if is_stopped {
                    return Ok::<_, Infallible>(());
                }
                let list = self.list(is_health, !is_changed);
                if lists.send(Ok(list)).await.is_err() || state.changed().await.is_err() {
                    return Ok(());
                }
            }
        });
        ReceiverStream::new(stream)
    }

    fn list(&self, is_health: bool, is_healthy: bool) -> Bytes {
        if is_health {
            let device = [field(1, "pool"), field(2, "device-1")].concat();
            let health = vec![16, if is_healthy { 1 } else { 2 }];
            return field(1, [field(1, device), health].concat()).into();
        }
        let devices = (0..self.count).map(|at| {
            let is_healthy = is_healthy || at != 1;
            let word = if is_healthy { "Healthy" } else { "Unhealthy" };
            field(
                1,
                [field(1, format!("device-{at}")), field(2, word)].concat(),
            )
        });
        devices.collect::<Vec<_>>().concat().into()
    }
}
