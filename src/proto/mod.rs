//! The messages that plugins and the daemon exchange, and the paths of their methods.
//!
//! Pure, as all of the folder. One module per protobuf package, generated from `proto/*.proto` and
//! checked in, so that a build needs no generator. `make generate` writes them anew;
//! `tests/tidy/proto.rs` fails when they are not what the definitions say. Only this file is
//! written by hand: a new package gets a line.

/// The part of a CSI driver's service that its registration needs.
// Generated code is held to the compiler's rules, not to this crate's taste.
#[allow(clippy::pedantic, unreachable_pub, unused_qualifications)]
#[rustfmt::skip]
pub mod csi_v1;

/// The service that every plugin serves on its registration socket.
// Generated code is held to the compiler's rules, not to this crate's taste.
#[allow(clippy::pedantic, unreachable_pub, unused_qualifications)]
#[rustfmt::skip]
pub mod pluginregistration;

/// What a DRA driver that watches the health of its devices serves on its endpoint.
// Generated code is held to the compiler's rules, not to this crate's taste.
#[allow(clippy::pedantic, unreachable_pub, unused_qualifications)]
#[rustfmt::skip]
pub mod v1alpha1;

/// What a device plugin serves on its endpoint, as far as watching its devices needs, and what it
/// calls to register itself.
// Generated code is held to the compiler's rules, not to this crate's taste.
#[allow(clippy::pedantic, unreachable_pub, unused_qualifications)]
#[rustfmt::skip]
pub mod v1beta1;

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::csi_v1::{NodeGetInfoResponse, ProbeResponse, Segment, Topology, identity, node};
    use super::pluginregistration::{PluginInfo, RegistrationStatus, registration};
    use super::v1alpha1::{DeviceHealth, DeviceIdentifier, dra_resource_health};
    use super::v1beta1::{
        self, Device, DevicePluginOptions, ListAndWatchResponse, RegisterRequest, device_plugin,
    };

    #[test]
    fn a_plugin_s_information_has_the_field_numbers_of_kubelet() {
        let info = PluginInfo {
            r#type: "T".to_owned(),
            name: "n".to_owned(),
            endpoint: "/e".to_owned(),
            supported_versions: vec!["1".to_owned(), "2".to_owned()],
        };
        let wire = b"\x0a\x01T\x12\x01n\x1a\x02/e\x22\x011\x22\x012";
        assert_eq!(info.encode_to_vec(), wire);
    }

    #[test]
    fn a_registration_status_has_the_field_numbers_of_kubelet() {
        let status = RegistrationStatus {
            plugin_registered: true,
            error: "e".to_owned(),
        };
        assert_eq!(status.encode_to_vec(), b"\x08\x01\x12\x01e");
    }

    #[test]
    fn the_methods_have_the_paths_of_kubelet() {
        assert_eq!(
            registration::GET_INFO,
            "/pluginregistration.Registration/GetInfo"
        );
        assert_eq!(
            registration::NOTIFY_REGISTRATION_STATUS,
            "/pluginregistration.Registration/NotifyRegistrationStatus"
        );
    }
    #[test]
    fn what_a_driver_knows_of_its_node_has_the_field_numbers_of_csi() {
        let info = NodeGetInfoResponse {
            node_id: "n".to_owned(),
            max_volumes_per_node: 7,
            accessible_topology: Some(Topology {
                segments: vec![Segment {
                    key: "k".to_owned(),
                    value: "v".to_owned(),
                }],
            }),
        };
        let wire = b"\x0a\x01n\x10\x07\x1a\x08\x0a\x06\x0a\x01k\x12\x01v";
        assert_eq!(info.encode_to_vec(), wire);
        let ready = ProbeResponse { ready: Some(true) };
        assert_eq!(ready.encode_to_vec(), b"\x0a\x02\x08\x01");
    }

    #[test]
    fn devices_and_their_health_have_the_field_numbers_of_kubelet() {
        let devices = ListAndWatchResponse {
            devices: vec![Device {
                id: "d".to_owned(),
                health: "Healthy".to_owned(),
                topology: None,
            }],
        };
        let wire = b"\x0a\x0c\x0a\x01d\x12\x07Healthy";
        assert_eq!(devices.encode_to_vec(), wire);
        let health = DeviceHealth {
            device: Some(DeviceIdentifier {
                pool_name: "p".to_owned(),
                device_name: "d".to_owned(),
            }),
            health: 2,
            last_updated_time: 3,
            health_check_timeout_seconds: 4,
            message: "m".to_owned(),
        };
        let wire = b"\x0a\x06\x0a\x01p\x12\x01d\x10\x02\x18\x03\x20\x04\x2a\x01m";
        assert_eq!(health.encode_to_vec(), wire);
    }

    #[test]
    fn a_device_plugin_registration_has_kubelets_field_numbers() {
        let request = RegisterRequest {
            version: "v".to_owned(),
            endpoint: "e".to_owned(),
            resource_name: "r".to_owned(),
            options: Some(DevicePluginOptions {
                pre_start_required: true,
                get_preferred_allocation_available: true,
            }),
        };
        let wire = b"\x0a\x01v\x12\x01e\x1a\x01r\x22\x04\x08\x01\x10\x01";
        assert_eq!(request.encode_to_vec(), wire);
    }

    #[test]
    fn the_methods_of_the_endpoints_have_the_paths_of_plugins() {
        let paths = [
            (identity::PROBE, "/csi.v1.Identity/Probe"),
            (node::NODE_GET_INFO, "/csi.v1.Node/NodeGetInfo"),
            (
                device_plugin::LIST_AND_WATCH,
                "/v1beta1.DevicePlugin/ListAndWatch",
            ),
            (
                v1beta1::registration::REGISTER,
                "/v1beta1.Registration/Register",
            ),
            (
                dra_resource_health::NODE_WATCH_RESOURCES,
                "/v1alpha1.DRAResourceHealth/NodeWatchResources",
            ),
        ];
        for (path, expected) in paths {
            assert_eq!(path, expected);
        }
    }
}
