//! The gRPC client against peers of other implementations, over real unix sockets.
//!
//! One file per kind of peer: those that answer, those that disconnect, those that are not gRPC
//! servers. What each end requires of the other is in `src/grpc/tests` and in the fuzz targets,
//! where the peer is the `h2` crate in memory.

mod answers;
mod disconnects;
mod not_grpc;

use crate::support::server::{Call, Server};
use plugind::proto::pluginregistration::{PluginInfo, RegistrationStatusResponse, registration};
use prost::Message as _;

/// Returns the info that the plugins here report.
fn info() -> PluginInfo {
    PluginInfo {
        r#type: "CSIPlugin".to_owned(),
        name: "peer.example".to_owned(),
        endpoint: "/run/peer.sock".to_owned(),
        supported_versions: vec!["1.0.0".to_owned()],
    }
}

/// Returns a plugin on the `h2` crate that answers correctly.
fn h2_plugin() -> Server {
    Server::h2(|call: Call| match &*call.path {
        registration::GET_INFO => call.reply(&info().encode_to_vec()),
        _ => call.reply(&RegistrationStatusResponse {}.encode_to_vec()),
    })
}
