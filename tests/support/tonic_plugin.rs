//! A plugin's registration service as a `tonic` server.
//!
//! Written by hand, because `tonic-build`, which would generate it, needs `protoc`.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use plugind::proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::server::Server;

/// The answer to `GetInfo`, and the statuses that were received.
#[derive(Debug, Clone)]
pub(crate) struct Plugin {
    pub(crate) info: Result<PluginInfo, Status>,
    pub(crate) notified: Arc<Mutex<Vec<RegistrationStatus>>>,
}

impl Plugin {
    /// Returns a plugin that answers `GetInfo` with `info`.
    pub(crate) fn answering(info: Result<PluginInfo, Status>) -> Self {
        Self {
            info,
            notified: Arc::default(),
        }
    }

    /// Serves the plugin.
    pub(crate) fn serve(&self) -> Server {
        let plugin = self.clone();
        Server::run(async move |listener| {
            tonic::transport::Server::builder()
                .add_service(Registration(plugin))
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await
                .expect("the server serves");
        })
    }
}

/// The service `pluginregistration.Registration`.
#[derive(Debug, Clone)]
struct Registration(Plugin);

impl NamedService for Registration {
    const NAME: &'static str = "pluginregistration.Registration";
}

impl Service<http::Request<Body>> for Registration {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let plugin = self.0.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                registration::GET_INFO => {
                    let mut grpc = Grpc::new(ProstCodec::default());
                    grpc.unary(GetInfo(plugin), request).await
                }
                registration::NOTIFY_REGISTRATION_STATUS => {
                    let mut grpc = Grpc::new(ProstCodec::default());
                    grpc.unary(Notify(plugin), request).await
                }
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// The method `GetInfo`.
struct GetInfo(Plugin);

impl Service<Request<InfoRequest>> for GetInfo {
    type Response = Response<PluginInfo>;
    type Error = Status;
    type Future = BoxFuture<Self::Response, Status>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<InfoRequest>) -> Self::Future {
        let info = self.0.info.clone();
        Box::pin(async move { info.map(Response::new) })
    }
}

/// The method `NotifyRegistrationStatus`.
struct Notify(Plugin);

impl Service<Request<RegistrationStatus>> for Notify {
    type Response = Response<RegistrationStatusResponse>;
    type Error = Status;
    type Future = BoxFuture<Self::Response, Status>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RegistrationStatus>) -> Self::Future {
        let notified = Arc::clone(&self.0.notified);
        Box::pin(async move {
            notified
                .lock()
                .expect("the lock is not poisoned")
                .push(request.into_inner());
            Ok(Response::new(RegistrationStatusResponse {}))
        })
    }
}
