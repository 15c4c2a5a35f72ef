//! A device plugin's answer to `Allocate`: its checks, and its form as JSON.
//!
//! The answer decides which files a container may open, so an answer that a container runtime could
//! misread is rejected.

use prost::Message as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::resource;
use crate::config::MAX_SMALL_MESSAGE;
use crate::escape;
use crate::proto::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateRequest, ContainerAllocateResponse,
};

/// A valid answer to `Allocate`: the changes to a container that make some devices usable in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Allocation(pub(super) ContainerAllocateResponse);

/// Returns the encoded request to allocate these devices to one container.
pub(super) fn encode_request(devices_ids: Vec<String>) -> Vec<u8> {
    let container_requests = vec![ContainerAllocateRequest { devices_ids }];
    AllocateRequest { container_requests }.encode_to_vec()
}

impl Allocation {
    /// Decodes and checks a reply for one container. The error is the reason why the reply is
    /// invalid.
    pub(super) fn from_reply(reply: &[u8]) -> Result<Self, String> {
        if reply.len() > MAX_SMALL_MESSAGE {
            let octets = reply.len();
            return Err(format!(
                "the reply is too large octets={octets} limit={MAX_SMALL_MESSAGE}"
            ));
        }
        let reply = AllocateResponse::decode(reply).map_err(|_| "cannot decode the reply")?;
        let count = reply.container_responses.len();
        let Ok([response]) = <[_; 1]>::try_from(reply.container_responses) else {
            return Err(format!("the reply is for {count} containers instead of 1"));
        };
        check_response(&response).map(|()| Self(response))
    }

    /// Returns the answer as a CDI device with that name, or `None` if the answer has no variable,
    /// mount or device node: CDI does not allow a device without any of them.
    pub(super) fn cdi_device(&self, name: &str) -> Option<Value> {
        let Self(given) = self;
        if given.envs.is_empty() && given.mounts.is_empty() && given.devices.is_empty() {
            return None;
        }
        let envs = given.envs.iter();
        let envs = envs.map(|(key, value)| format!("{key}={value}"));
        let nodes = given.devices.iter().map(|device| {
            json!({
                "path": device.container_path,
                "hostPath": device.host_path,
                "permissions": device.permissions,
            })
        });
        let mounts = given.mounts.iter().map(|mount| {
            let access = if mount.read_only { "ro" } else { "rw" };
            json!({
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": ["rbind", "rprivate", access],
            })
        });
        let mut device = json!({
            "name": name,
            "containerEdits": {
                "env": envs.collect::<Value>(),
                "deviceNodes": nodes.collect::<Value>(),
                "mounts": mounts.collect::<Value>(),
            },
        });
        if !given.annotations.is_empty() {
            device["annotations"] = json!(given.annotations);
        }
        Some(device)
    }
}

/// Checks an answer. The error names the invalid value.
fn check_response(response: &ContainerAllocateResponse) -> Result<(), String> {
    let refuse = |what, text: &str, why| {
        let text = escape::text(text).at_most(256); // Enough to recognise it.
        Err(format!("the {what} {text} {why}"))
    };
    for (key, value) in &response.envs {
        if key.is_empty() || key.contains('=') {
            return refuse("variable", key, "is not a name");
        }
        if key.contains(char::is_control) || value.contains(char::is_control) {
            return refuse("variable", key, "contains a control character");
        }
    }
    let mounts = response.mounts.iter();
    let mounts = mounts.flat_map(|it| [&it.container_path, &it.host_path]);
    let nodes = response.devices.iter();
    let nodes = nodes.flat_map(|it| [&it.container_path, &it.host_path]);
    for path in mounts.chain(nodes) {
        let is_plain = path.len() <= MAX_PATH && !path.contains(char::is_control);
        if !is_plain || !path.starts_with('/') || path.split('/').any(|it| it == "..") {
            return refuse("path", path, "is not a plain absolute path");
        }
    }
    for device in &response.devices {
        let permissions = &*device.permissions;
        if permissions.len() > 3 || !permissions.chars().all(|it| "rwm".contains(it)) {
            return refuse("permission", permissions, "is not some of rwm");
        }
    }
    for (key, value) in &response.annotations {
        if !resource::is_annotation_key(key) || value.contains(char::is_control) {
            return refuse("annotation", key, "is not valid");
        }
    }
    for device in &response.cdi_devices {
        if !super::cdi::is_qualified_name(&device.name) {
            return refuse("CDI device", &device.name, "is not VENDOR/CLASS=NAME");
        }
    }
    Ok(())
}

/// The maximum length of a path on Linux in octets, without the terminating NUL (`PATH_MAX` - 1).
const MAX_PATH: usize = 4095;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1beta1::{CdiDevice, DeviceSpec, Mount};

    fn entry(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    fn mount(container_path: &str, host_path: &str) -> Mount {
        Mount {
            container_path: container_path.to_owned(),
            host_path: host_path.to_owned(),
            read_only: true,
        }
    }

    fn device(path: &str, permissions: &str) -> DeviceSpec {
        DeviceSpec {
            container_path: path.to_owned(),
            host_path: "/dev/null".to_owned(),
            permissions: permissions.to_owned(),
        }
    }

    fn cdi(name: &str) -> CdiDevice {
        let name = name.to_owned();
        CdiDevice { name }
    }

    fn read(responses: Vec<ContainerAllocateResponse>) -> Result<Allocation, String> {
        let container_responses = responses;
        Allocation::from_reply(
            &AllocateResponse {
                container_responses,
            }
            .encode_to_vec(),
        )
    }

    #[test]
    fn an_answer_becomes_a_cdi_device_unless_it_is_empty() {
        let answer = ContainerAllocateResponse {
            envs: [entry("B", ""), entry("A", "1=2")].into(),
            mounts: vec![
                mount("/in", "/out"),
                Mount {
                    read_only: false,
                    ..mount("/b", "/c")
                },
            ],
            devices: vec![device("/dev/a", "rw")],
            annotations: [entry("example.com/a", "b")].into(),
            cdi_devices: vec![cdi("vendor.com/class=all")],
        };
        let answer = read(vec![answer]).unwrap();
        let expected = json!({
            "name": "n",
            "annotations": { "example.com/a": "b" },
            "containerEdits": {
                "env": ["A=1=2", "B="],
                "deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/null", "permissions": "rw"}],
                "mounts": [
                    {"hostPath": "/out", "containerPath": "/in",
                     "options": ["rbind", "rprivate", "ro"]},
                    {"hostPath": "/c", "containerPath": "/b",
                     "options": ["rbind", "rprivate", "rw"]},
                ],
            },
        });
        assert_eq!(answer.cdi_device("n"), Some(expected));
        let nothing = read(vec![ContainerAllocateResponse::default()]).unwrap();
        assert_eq!(nothing.cdi_device("n"), None);
    }

    #[test]
    fn an_answer_for_fewer_or_more_containers_is_refused() {
        for count in [0, 2, 3] {
            let error = read(vec![ContainerAllocateResponse::default(); count]).unwrap_err();
            let expected = format!("the reply is for {count} containers instead of 1");
            assert_eq!(error, expected);
        }
        assert_eq!(
            Allocation::from_reply(b"\x0a\x07").unwrap_err(),
            "cannot decode the reply"
        );
        let large = [entry("A", &"x".repeat(MAX_SMALL_MESSAGE))];
        let large = ContainerAllocateResponse {
            envs: large.into(),
            ..Default::default()
        };
        assert!(read(vec![large]).unwrap_err().contains("too large"));
    }

    #[test]
    fn what_a_runtime_could_misread_is_refused_by_name() {
        type Change = fn(&mut ContainerAllocateResponse);
        let cases: &[(&str, Change)] = &[
            ("the variable A=B is not a name", |it| {
                it.envs = [entry("A=B", "")].into();
            }),
            ("the variable  is not a name", |it| {
                it.envs = [entry("", "a")].into();
            }),
            ("the variable A contains a control character", |it| {
                it.envs = [entry("A", "b\n")].into();
            }),
            ("the path a/b is not a plain absolute path", |it| {
                it.mounts = vec![mount("a/b", "/c")];
            }),
            ("the path /a/../b is not a plain absolute path", |it| {
                it.mounts = vec![mount("/b", "/a/../b")];
            }),
            ("the path /a/.. is not a plain absolute path", |it| {
                it.devices = vec![device("/a/..", "r")];
            }),
            (r"the path /a\n is not a plain absolute path", |it| {
                it.devices = vec![device("/a\n", "r")];
            }),
            ("the path  is not a plain absolute path", |it| {
                it.mounts = vec![mount("/a", "")];
            }),
            ("the permission rx is not some of rwm", |it| {
                it.devices = vec![device("/a", "rx")];
            }),
            ("the annotation a b is not valid", |it| {
                it.annotations = [entry("a b", "")].into();
            }),
            ("the annotation a/b/c is not valid", |it| {
                it.annotations = [entry("a/b/c", "")].into();
            }),
            ("the CDI device a/b is not VENDOR/CLASS=NAME", |it| {
                it.cdi_devices = vec![cdi("a/b")];
            }),
        ];
        for (expected, change) in cases {
            let mut answer = ContainerAllocateResponse::default();
            change(&mut answer);
            assert_eq!(read(vec![answer]).unwrap_err(), *expected);
        }
        let long = ["/", &"a".repeat(MAX_PATH)].concat();
        let answer = ContainerAllocateResponse {
            mounts: vec![mount("/a", &long)],
            ..Default::default()
        };
        assert!(read(vec![answer]).is_err());
    }
}
