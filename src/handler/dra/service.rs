//! The choice of the services of a DRA driver to call.
//!
//! A DRA driver lists its services where other plugins list versions. The order is the driver's
//! preference: the first known service is called. Of the listed health services, the newest is
//! called.

use crate::handler::{Plugin, wording};
use crate::proto::v1alpha1::dra_resource_health;

/// The services that prepare claims.
const SERVICES: [&str; 2] = ["v1.DRAPlugin", "v1beta1.DRAPlugin"];

/// The services that report the health of devices, the newest first, each with the path of its
/// method that streams the health of all devices.
const HEALTH: [(&str, &str); 2] = [
    // The messages are those of `v1alpha1`; only the name of the package differs.
    (
        "v1.DRAResourceHealth",
        "/v1.DRAResourceHealth/NodeWatchResources",
    ),
    (
        "v1alpha1.DRAResourceHealth",
        dra_resource_health::NODE_WATCH_RESOURCES,
    ),
];

/// Returns the service to call, or kubelet's message for a refusal. "The first service of a
/// DRA driver's list that is known is the one to call; a list without one is refused"
/// ([R31](crate::guide::kubelet)).
pub(super) fn choose_service(plugin: &Plugin) -> Result<&'static str, String> {
    let listed = &plugin.versions;
    let find = |text: &String| SERVICES.into_iter().find(|it| it == text);
    if let Some(service) = listed.iter().find_map(find) {
        return Ok(service);
    }
    let why = if listed.is_empty() {
        "empty list of supported gRPC services (aka supported versions)".to_owned()
    } else {
        format!(
            "none of services supported by the plugin ({}) are supported by the kubelet ({})",
            wording::quoted_list(listed),
            wording::quoted_list(&SERVICES)
        )
    };
    let (name, endpoint) = (&plugin.name, plugin.endpoint.display());
    Err(format!(
        "invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {why}"
    ))
}

/// Returns the path of the method that streams the health of all devices, for the newest health
/// service that is listed (kubelet: the same), or `None` if none is listed.
pub(super) fn health_method(listed: &[String]) -> Option<&'static str> {
    let is_listed = |(service, _): &&(&str, &str)| listed.iter().any(|text| text == service);
    HEALTH.iter().find(is_listed).map(|(_, method)| *method)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn choose(services: &[&str]) -> Result<&'static str, String> {
        choose_service(&Plugin {
            kind: "DRAPlugin".into(),
            name: "a".into(),
            endpoint: Path::new("/p/a.sock").into(),
            versions: services.iter().map(|&text| text.to_owned()).collect(),
            socket: Path::new("/r/a.sock").into(),
        })
    }

    #[test]
    fn dra1_no_services_are_refused() {
        let why = choose(&[]).expect_err("it is refused");
        assert!(why.ends_with(": empty list of supported gRPC services (aka supported versions)"));
    }

    #[test]
    fn dra2_a_known_service_is_chosen_whatever_else_is_listed() {
        for services in [
            &["v1beta1.DRAPlugin"][..],
            &["v1beta1.DRAPlugin", "v1alpha1.NodeHealth"],
            &["v1alpha1.NodeHealth", "v1beta1.DRAPlugin"],
        ] {
            assert_eq!(choose(services), Ok("v1beta1.DRAPlugin"));
        }
    }

    #[test]
    fn dra3_plain_version_numbers_are_refused() {
        for services in [&["1.0.0"][..], &["v1alpha1.NodeHealth"], &[""], &["v1"]] {
            let why = choose(services).expect_err("it is refused");
            assert!(
                why.contains("none of services supported by the plugin"),
                "{why}"
            );
        }
    }

    #[test]
    fn the_driver_s_order_decides() {
        let (v1, beta) = ("v1.DRAPlugin", "v1beta1.DRAPlugin");
        assert_eq!(choose(&[v1, beta]), Ok(v1));
        assert_eq!(choose(&[beta, v1]), Ok(beta));
    }

    #[test]
    fn health_is_watched_only_when_it_is_listed() {
        let method = |services: &[&str]| {
            let listed: Vec<_> = services.iter().map(|&text| text.to_owned()).collect();
            health_method(&listed)
        };
        assert_eq!(method(&["v1.DRAPlugin"]), None);
        let alpha = method(&["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]);
        assert_eq!(
            alpha,
            Some("/v1alpha1.DRAResourceHealth/NodeWatchResources")
        );
        let newest = method(&["v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"]);
        assert_eq!(newest, Some("/v1.DRAResourceHealth/NodeWatchResources"));
    }
}
