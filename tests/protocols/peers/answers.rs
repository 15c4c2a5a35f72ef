//! Servers that answer, well or not: their answers arrive, and the connection stays usable.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plugind::grpc::{CallError, Code, Status};
use plugind::http2::Endpoint as _;
use plugind::proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use prost::Message as _;

use super::{h2_plugin, info};
use crate::support::caller::Caller;
use crate::support::server::{Call, Server};
use crate::support::tonic_plugin::Plugin;

fn status(code: Code, message: &str) -> CallError {
    CallError::Status(Status::new(code, message))
}

#[test]
fn an_h2_server_is_asked_and_told_on_one_connection() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let server = Server::h2({
        let told = Arc::clone(&told);
        move |call: Call| {
            if call.path == registration::GET_INFO {
                return call.reply(&info().encode_to_vec());
            }
            let status = RegistrationStatus::decode(&*call.message).unwrap();
            told.lock().unwrap().push(status);
            call.reply(&RegistrationStatusResponse {}.encode_to_vec());
        }
    });
    let mut caller = Caller::connect(server.socket());
    assert_eq!(caller.get_info(), Ok(info()));
    assert_eq!(caller.notify(), Ok(RegistrationStatusResponse {}));
    assert!(told.lock().unwrap()[0].plugin_registered);
}

#[test]
fn a_tonic_server_is_asked_and_told_on_one_connection() {
    let plugin = Plugin::answering(Ok(info()));
    let server = plugin.serve();
    let mut caller = Caller::connect(server.socket());
    assert_eq!(caller.get_info(), Ok(info()));
    assert_eq!(caller.notify(), Ok(RegistrationStatusResponse {}));
    assert!(plugin.notified.lock().unwrap()[0].plugin_registered);
}

#[test]
fn the_request_has_the_fields_that_every_server_wants() {
    let server = Server::h2(|call: Call| {
        let field = |name: &str| call.headers[name].to_str().unwrap().to_owned();
        let told = ["te", "content-type", "user-agent", "grpc-timeout"].map(field);
        call.reply(told.join(" ").as_bytes());
    });
    let mut caller = Caller::connect(server.socket());
    let call = caller.begin("/any", &InfoRequest {}, 1000, Duration::from_secs(20));
    let fields = String::from_utf8(caller.end(call).unwrap()).unwrap();
    let (agreed, timeout) = fields.rsplit_once(' ').unwrap();
    let agent = format!("plugind/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(agreed, format!("trailers application/grpc {agent}"));
    let digits = timeout.trim_end_matches(char::is_alphabetic);
    assert!((1..=8).contains(&digits.len()), "{timeout}");
}

#[test]
fn hundreds_of_calls_follow_each_other_on_one_connection() {
    for server in [h2_plugin(), Plugin::answering(Ok(info())).serve()] {
        let mut caller = Caller::connect(server.socket());
        caller.get_info().unwrap();
        let before = caller.client.mem_used();
        for _ in 0..300 {
            assert_eq!(caller.get_info(), Ok(info()));
        }
        assert!(
            caller.client.mem_used() <= before + 4096,
            "memory grows with calls"
        );
    }
}

#[test]
fn a_large_reply_of_tonic_arrives_whole() {
    let large = PluginInfo {
        supported_versions: (0..20_000).map(|number| format!("1.0.{number}")).collect(),
        ..info()
    };
    let server = Plugin::answering(Ok(large.clone())).serve();
    assert!(Caller::connect(server.socket()).get_info() == Ok(large));
}

#[test]
fn a_request_larger_than_a_frame_and_a_window_arrives_whole() {
    let server = Server::h2(|call: Call| {
        let length = call.message.len();
        call.reply(&length.to_be_bytes());
    });
    let mut caller = Caller::connect(server.socket());
    let request = RegistrationStatus {
        plugin_registered: false,
        error: "x".repeat(300_000),
    };
    let reply = caller.unary("/any", &request).unwrap();
    assert_eq!(reply, request.encoded_len().to_be_bytes());
}

#[test]
fn the_status_of_a_tonic_server_says_what_it_was_given() {
    let message = "größe: 100 % 大\nand \"more\"";
    let server = Plugin::answering(Err(tonic::Status::failed_precondition(message))).serve();
    let mut caller = Caller::connect(server.socket());
    let refused = status(Code::FailedPrecondition, message);
    assert_eq!(caller.get_info(), Err(refused));
    assert_eq!(caller.notify(), Ok(RegistrationStatusResponse {}));
}

#[test]
fn the_details_of_a_tonic_servers_status_arrive_as_octets() {
    for length in 0..10 {
        let details = pattern(length);
        let given = tonic::Status::with_details(tonic::Code::Aborted, "no", details.clone().into());
        let server = Plugin::answering(Err(given)).serve();
        let expected = Status {
            details,
            ..Status::new(Code::Aborted, "no")
        };
        let mut caller = Caller::connect(server.socket());
        assert_eq!(caller.get_info(), Err(CallError::Status(expected)));
    }
}

#[test]
fn a_server_of_something_else_says_that_the_method_is_unknown() {
    let server = Plugin::answering(Ok(info())).serve();
    let mut caller = Caller::connect(server.socket());
    let error = caller.unary("/csi.v1.Node/NodeGetInfo", &InfoRequest {});
    assert_eq!(error.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(caller.get_info(), Ok(info()));
}

/// Returns octets that are not all the same, so that a missing part is noticed.
fn pattern(size: usize) -> Vec<u8> {
    (0..=250).cycle().take(size).collect()
}
