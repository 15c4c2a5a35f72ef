//! The answers of the plugin to each call.
//!
//! A call is passed in as its method and its message, without the framing of gRPC. The answer is
//! returned together with a report for the user; the caller decides when to send it.

use std::path::Path;

use prost::Message as _;

use super::devices::Listing;
use super::kind::NODE_WATCH_RESOURCES_V1;
use super::profile::Profile;
use crate::escape;
use crate::grpc::{Code, Status};
use crate::proto::csi_v1::{NodeGetInfoResponse, ProbeResponse, Segment, Topology, identity, node};
use crate::proto::pluginregistration::{RegistrationStatus, registration};
use crate::proto::v1alpha1::dra_resource_health;
use crate::proto::v1beta1::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse, DevicePluginOptions,
    DeviceSpec, Mount, device_plugin,
};

/// The service of the plugin, and its count of simulated failures.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) profile: Profile,
    /// The number of GetInfo calls that have failed so far.
    failed: u32,
}

/// The answer to a call.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// A message, with the status OK.
    Reply(Vec<u8>),
    /// An error status, instead of a message.
    Refuse(Status),
    /// A stream: a list of the devices now, and another one after every change.
    List(Listing),
}

impl Service {
    /// Creates the service of a plugin with that profile.
    pub(super) fn new(profile: Profile) -> Self {
        Self { profile, failed: 0 }
    }

    /// Returns a report for the user and the answer to a call.
    pub(super) fn answer(&mut self, method: &'static str, request: &[u8]) -> (String, Answer) {
        match method {
            registration::GET_INFO => self.answer_get_info(),
            registration::NOTIFY_REGISTRATION_STATUS => self.answer_notify(request),
            device_plugin::LIST_AND_WATCH => answer_watch(Listing::Devices),
            dra_resource_health::NODE_WATCH_RESOURCES | NODE_WATCH_RESOURCES_V1 => {
                answer_watch(Listing::Health)
            }
            _ => (call_report(method), self.answer_service(method, request)),
        }
    }

    /// Answers GetInfo, or returns a simulated error.
    fn answer_get_info(&mut self) -> (String, Answer) {
        let fails = self.profile.faults.fail_get_info;
        if self.failed == fails {
            let reply = Answer::Reply(self.profile.info().encode_to_vec());
            return ("received GetInfo".to_owned(), reply);
        }
        self.failed += 1;
        let failed = self.failed;
        let report = format!("received GetInfo: returning error {failed} of {fails}");
        (
            report,
            error_answer(Code::Unavailable, "a simulated failure"),
        )
    }

    /// Answers NotifyRegistrationStatus.
    fn answer_notify(&self, request: &[u8]) -> (String, Answer) {
        let Ok(status) = RegistrationStatus::decode(request) else {
            let method = registration::NOTIFY_REGISTRATION_STATUS;
            return (call_report(method), decode_error_answer());
        };
        let result = match &*status.error {
            _ if status.plugin_registered => "registered".to_owned(),
            why => format!("not registered: {}", escape::text(why)),
        };
        let report = format!("received NotifyRegistrationStatus: {result}");
        if self.profile.faults.reject_notify {
            let answer = error_answer(Code::Unknown, "a simulated error");
            return (report + "; returning an error", answer);
        }
        (report, Answer::Reply(Vec::new())) // A RegistrationStatusResponse has no fields.
    }

    /// Answers a method of the plugin's own service.
    fn answer_service(&self, method: &'static str, request: &[u8]) -> Answer {
        let reply = match method {
            identity::PROBE => ProbeResponse { ready: Some(true) }.encode_to_vec(),
            node::NODE_GET_INFO => node_info().encode_to_vec(),
            device_plugin::GET_DEVICE_PLUGIN_OPTIONS => OPTIONS.encode_to_vec(),
            device_plugin::ALLOCATE if self.profile.faults.refuse_allocate => {
                return error_answer(Code::Unknown, "a simulated refusal");
            }
            device_plugin::ALLOCATE => return self.answer_allocate(request),
            // The empty replies to GetPreferredAllocation and PreStartContainer, which the plugin's
            // options do not ask for.
            _ => Vec::new(),
        };
        Answer::Reply(reply)
    }

    /// Answers Allocate with a response for each container.
    fn answer_allocate(&self, request: &[u8]) -> Answer {
        let Ok(request) = AllocateRequest::decode(request) else {
            return decode_error_answer();
        };
        let containers = request.container_requests.iter();
        let response = AllocateResponse {
            container_responses: containers
                .map(|it| self.container_response(&it.devices_ids))
                .collect(),
        };
        Answer::Reply(response.encode_to_vec())
    }

    /// Returns the response for a container: the names of CDI devices if the profile has any, else
    /// a node for each requested device, which is `/dev/null`, a mount of the socket's directory
    /// and an environment variable.
    fn container_response(&self, ids: &[String]) -> ContainerAllocateResponse {
        let names = self.profile.cdi_devices.iter().cloned();
        let cdi_devices: Vec<_> = names.map(|name| CdiDevice { name }).collect();
        if !cdi_devices.is_empty() {
            return ContainerAllocateResponse {
                cdi_devices,
                ..ContainerAllocateResponse::default()
            };
        }
        let nodes = ids.iter().map(|id| DeviceSpec {
            container_path: format!("/dev/{id}"),
            host_path: "/dev/null".to_owned(),
            permissions: "rw".to_owned(),
        });
        let dir = self.profile.socket.parent().and_then(Path::to_str);
        let mount = dir.map(|dir| Mount {
            container_path: "/run/simulated".to_owned(),
            host_path: dir.to_owned(),
            read_only: true,
        });
        ContainerAllocateResponse {
            envs: [("SIMULATED_DEVICES".to_owned(), ids.join(","))].into(),
            mounts: mount.into_iter().collect(),
            devices: nodes.collect(),
            ..ContainerAllocateResponse::default()
        }
    }
}

fn node_info() -> NodeGetInfoResponse {
    let zone = Segment {
        key: "zone".to_owned(),
        value: "a".to_owned(),
    };
    NodeGetInfoResponse {
        node_id: "simulated-node".to_owned(),
        max_volumes_per_node: 16,
        accessible_topology: Some(Topology {
            segments: vec![zone],
        }),
    }
}

/// Returns the report and the answer for a caller that watches the devices.
fn answer_watch(listing: Listing) -> (String, Answer) {
    ("device stream opened".to_owned(), Answer::List(listing))
}

/// Returns the report that a method was called.
fn call_report(method: &str) -> String {
    format!("received {}", short_path(method))
}

/// Returns the path of a method without the leading slash.
pub(super) fn short_path(method: &str) -> &str {
    method.strip_prefix('/').unwrap_or(method)
}

/// Returns an answer with an error status.
fn error_answer(code: Code, words: &str) -> Answer {
    Answer::Refuse(Status::new(code, words))
}

/// Returns the answer to a request that cannot be decoded.
fn decode_error_answer() -> Answer {
    error_answer(Code::Internal, "cannot decode the request")
}

/// The options of a device plugin that needs neither of the optional calls.
pub(super) const OPTIONS: DevicePluginOptions = DevicePluginOptions {
    pre_start_required: false,
    get_preferred_allocation_available: false,
};
