//! The answers of the plugin to each call.
//!
//! A call is passed in as its method and its message, without the framing of gRPC. The answer is
//! returned together with its news; the time at which it is sent is not decided here.

use prost::Message as _;

use super::devices::Listing;
use super::event::Event;
use super::kind::NODE_WATCH_RESOURCES_V1;
use super::profile::Profile;
use crate::grpc::{Code, Status};
use crate::proto::csi_v1::{NodeGetInfoResponse, ProbeResponse, Segment, Topology, identity, node};
use crate::proto::pluginregistration::{PluginInfo, RegistrationStatus, registration};
use crate::proto::v1alpha1::dra_resource_health;
use crate::proto::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateResponse, DevicePluginOptions,
    device_plugin,
};

/// The service of the plugin, and its count of simulated failures.
#[derive(Debug)]
pub(super) struct Service {
    info: PluginInfo,
    /// The number of GetInfo calls that have failed.
    failed: u32,
    /// The number of GetInfo calls that are to fail.
    fails: u32,
    /// Whether NotifyRegistrationStatus fails.
    rejects: bool,
}

/// The answer to a call.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// A message, and success.
    Reply(Vec<u8>),
    /// A status without a message.
    Refuse(Status),
    /// The devices, now and after every change.
    List(Listing),
}

impl Service {
    /// Creates the service of a plugin with that profile.
    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            info: profile.info(),
            failed: 0,
            fails: profile.faults.fail_get_info,
            rejects: profile.faults.reject_notify,
        }
    }

    /// Returns the answer to a call, and its news.
    pub(super) fn answer(&mut self, method: &'static str, request: &[u8]) -> (Event, Answer) {
        match method {
            registration::GET_INFO => self.get_info(),
            registration::NOTIFY_REGISTRATION_STATUS => self.notify(request),
            device_plugin::LIST_AND_WATCH => (Event::StreamOpened, Answer::List(Listing::Devices)),
            dra_resource_health::NODE_WATCH_RESOURCES | NODE_WATCH_RESOURCES_V1 => {
                (Event::StreamOpened, Answer::List(Listing::Health))
            }
            _ => (Event::Called(method), Self::serve(method, request)),
        }
    }

    /// Answers GetInfo, or fails.
    fn get_info(&mut self) -> (Event, Answer) {
        if self.failed == self.fails {
            return (Event::GetInfo, Answer::Reply(self.info.encode_to_vec()));
        }
        self.failed += 1;
        let event = Event::GetInfoFailed {
            times: self.failed,
            of: self.fails,
        };
        (event, refuse(Code::Unavailable, "a simulated failure"))
    }

    /// Answers NotifyRegistrationStatus.
    fn notify(&self, request: &[u8]) -> (Event, Answer) {
        let Ok(status) = RegistrationStatus::decode(request) else {
            let method = registration::NOTIFY_REGISTRATION_STATUS;
            return (Event::Called(method), undecodable());
        };
        let result = if status.plugin_registered {
            Ok(())
        } else {
            Err(status.error)
        };
        let answer = if self.rejects {
            refuse(Code::Unknown, "a simulated error")
        } else {
            Answer::Reply(Vec::new()) // A RegistrationStatusResponse has no fields.
        };
        let rejects = self.rejects;
        (Event::Notified { result, rejects }, answer)
    }

    /// Answers a method of the plugin's own service.
    fn serve(method: &'static str, request: &[u8]) -> Answer {
        let reply = match method {
            identity::PROBE => ProbeResponse { ready: Some(true) }.encode_to_vec(),
            node::NODE_GET_INFO => node_info().encode_to_vec(),
            device_plugin::GET_DEVICE_PLUGIN_OPTIONS => OPTIONS.encode_to_vec(),
            device_plugin::ALLOCATE => return allocate(request),
            // The plugin prefers no devices, and is not called before a container starts.
            _ => Vec::new(),
        };
        Answer::Reply(reply)
    }
}

fn node_info() -> NodeGetInfoResponse {
    let zone = Segment {
        key: "zone".to_owned(),
        value: "a".to_owned(),
    };
    NodeGetInfoResponse {
        node_id: "simulated-node".to_owned(),
        max_volumes_per_node: MAX_VOLUMES,
        accessible_topology: Some(Topology {
            segments: vec![zone],
        }),
    }
}

/// Returns an empty response for each container: the devices need no preparation.
fn allocate(request: &[u8]) -> Answer {
    let Ok(request) = AllocateRequest::decode(request) else {
        return undecodable();
    };
    let containers = request.container_requests.len();
    let response = AllocateResponse {
        container_responses: vec![ContainerAllocateResponse {}; containers],
    };
    Answer::Reply(response.encode_to_vec())
}

/// Returns an answer without a message.
fn refuse(code: Code, words: &str) -> Answer {
    Answer::Refuse(Status::new(code, words))
}

/// Returns the answer to a message that cannot be decoded.
fn undecodable() -> Answer {
    refuse(Code::Internal, "cannot decode the request")
}

/// The options of a device plugin that wants neither of the optional calls.
pub(super) const OPTIONS: DevicePluginOptions = DevicePluginOptions {
    pre_start_required: false,
    get_preferred_allocation_available: false,
};

/// The number of volumes of a driver that the node may have.
const MAX_VOLUMES: i64 = 16;
