//! The request of `Register`, and its checks.
//!
//! The version and the name of the resource are checked as in kubelet, with kubelet's messages.

use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

use crate::config::MAX_FILE_NAME;
use crate::grpc::Code;
use crate::handler::{Plugin, device};
use crate::proto::v1beta1::RegisterRequest;

/// The reason why a call is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) code: Code,
    pub(super) reason: String,
}

/// Parses a request, and returns the plugin that it describes, whose endpoint is a socket in `dir`.
///
/// kubelet appends the endpoint to the directory, whatever the endpoint contains. Here the endpoint
/// must be the name of a file in that directory, perhaps after `./`. The options in the request are
/// ignored, as in kubelet: the handler asks the plugin for them.
pub(super) fn parse_request(request: &[u8], dir: &Path) -> Result<Plugin, Rejected> {
    let request = RegisterRequest::decode(request).map_err(|error| Rejected {
        code: Code::Internal,
        reason: format!("cannot decode the RegisterRequest: {error}"),
    })?;
    let RegisterRequest {
        version,
        endpoint,
        resource_name: name,
        ..
    } = request;
    // The code that grpc-go sends for an error that is not a status.
    let unknown = |reason| Rejected {
        code: Code::Unknown,
        reason,
    };
    if version != device::VERSION {
        let supported = device::VERSION;
        return Err(unknown(format!(
            "requested API version {} is not supported by kubelet. Supported version is \
             [{supported:?}]",
            quoted(&version)
        )));
    }
    if !device::is_resource_name(&name) {
        let name = quoted(&name);
        return Err(unknown(format!("the ResourceName {name} is invalid")));
    }
    let name_in_dir = endpoint.trim_start_matches("./");
    if !is_file_name(name_in_dir) || name_in_dir == SOCKET {
        let (dir, endpoint) = (dir.display(), quoted(&endpoint));
        return Err(Rejected {
            code: Code::InvalidArgument,
            reason: format!(
                "the endpoint {endpoint} is not the name of a plugin's socket in {dir}"
            ),
        });
    }
    let endpoint: Arc<Path> = dir.join(name_in_dir).into();
    Ok(Plugin {
        kind: device::TYPE.to_owned(),
        name,
        socket: endpoint.clone(),
        endpoint,
        versions: vec![version],
    })
}

/// Returns a text in quotation marks, escaped much as by Go's `%q`; a long one is cut.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTED) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", &text[..end]),
    }
}

/// Returns whether a text is a file name, and not a path with several components.
fn is_file_name(text: &str) -> bool {
    let is_special = text.is_empty() || text == "." || text == "..";
    !is_special && text.len() <= MAX_FILE_NAME && !text.contains(['/', '\0'])
}

/// The name of the service's socket in its directory (kubelet: the end of `KubeletSocket`).
pub(crate) const SOCKET: &str = "kubelet.sock";

/// The number of characters after which a text is cut in a reason: the names of files and resources
/// are rarely as long (kubelet: no limit).
const LONGEST_QUOTED: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_plugin(version: &str, endpoint: &str, name: &str) -> Result<Plugin, String> {
        let request = RegisterRequest {
            version: version.to_owned(),
            endpoint: endpoint.to_owned(),
            resource_name: name.to_owned(),
            options: None,
        };
        let read = parse_request(&request.encode_to_vec(), Path::new("/d"));
        read.map_err(|rejected| rejected.reason)
    }

    #[test]
    fn an_endpoint_may_begin_with_the_directory_itself() {
        let plugin = parse_plugin("v1beta1", "./a.sock", "example.com/gpu").unwrap();
        assert_eq!(*plugin.endpoint, *Path::new("/d/a.sock"));
    }

    #[test]
    fn an_acceptable_request_becomes_a_plugin_with_a_socket() {
        let plugin = parse_plugin("v1beta1", "gdp-dg==-1.sock", "example.com/gpu").unwrap();
        let key = (&*plugin.kind, &*plugin.name);
        assert_eq!(key, ("DevicePlugin", "example.com/gpu"));
        assert_eq!(&*plugin.endpoint, Path::new("/d/gdp-dg==-1.sock"));
        assert_eq!(plugin.socket, plugin.endpoint);
        assert_eq!(plugin.versions, ["v1beta1"]);
    }

    #[test]
    fn a_version_and_a_name_are_rejected_in_kubelets_words() {
        assert_eq!(
            parse_plugin("v1", "a.sock", "example.com/gpu").unwrap_err(),
            "requested API version \"v1\" is not supported by kubelet. Supported version is \
             [\"v1beta1\"]"
        );
        for name in ["", "gpu", "kubernetes.io/gpu", "requests.a.b/c", "a b/c"] {
            assert_eq!(
                parse_plugin("v1beta1", "a.sock", name).unwrap_err(),
                format!("the ResourceName {name:?} is invalid")
            );
        }
    }

    #[test]
    fn an_endpoint_that_is_not_a_file_name_is_rejected() {
        let long = "x".repeat(256);
        let endpoints = [
            "",
            ".",
            "..",
            "a/b",
            "/a",
            "../a",
            "a\0b",
            "kubelet.sock",
            &long,
        ];
        for endpoint in endpoints {
            let reason = parse_plugin("v1beta1", endpoint, "example.com/gpu").unwrap_err();
            let expected = "is not the name of a plugin's socket in /d";
            assert!(reason.contains(expected), "{reason}");
        }
        assert!(parse_plugin("v1beta1", "...", "example.com/gpu").is_ok());
    }

    #[test]
    fn the_rest_of_a_long_text_is_left_out_of_the_reason() {
        let long = "ü".repeat(LONGEST_QUOTED);
        let reason = parse_plugin(&long, "a.sock", "example.com/gpu").unwrap_err();
        let start = format!("requested API version \"{long}\" is not");
        assert!(reason.starts_with(&start), "{reason}");
        let longer = format!("{long}x");
        assert_eq!(
            parse_plugin("v1beta1", "a.sock", &longer).unwrap_err(),
            format!("the ResourceName \"{long}\"... is invalid")
        );
    }

    #[test]
    fn octets_that_are_not_a_request_are_rejected() {
        let rejected = parse_request(&[0x0a, 0xff], Path::new("/d")).unwrap_err();
        assert_eq!(rejected.code, Code::Internal);
    }
}
