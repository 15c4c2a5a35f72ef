//! The messages that plugins and the daemon exchange, and the paths of their methods.
//!
//! Pure. One module per protobuf package, generated from `proto/*.proto` and checked in, so that a
//! build needs no generator. `make proto` writes them anew; `tests/proto.rs` fails when they are
//! not what the definitions say. Only this file is written by hand: a new package gets its line.

/// The service that every plugin serves on its registration socket.
// Generated code is held to the compiler's rules, not to this crate's taste.
#[allow(clippy::pedantic, unreachable_pub, unused_qualifications)]
#[rustfmt::skip]
pub mod pluginregistration;

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::pluginregistration::{PluginInfo, RegistrationStatus, registration};

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
}
