//! The gRPC client against peers of other implementations, over real unix sockets.
//!
//! One file per kind of peer: those that answer, those that disconnect, those that are not gRPC
//! servers. `replay` feeds the recorded octets of a real server to a client in memory, split in
//! every way.

mod answers;
mod disconnects;
mod not_grpc;
mod replay;

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
