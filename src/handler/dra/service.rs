//! The choice of the services of a DRA driver to call.
//!
//! A DRA driver lists its services where other plugins list versions. The order is the driver's
//! preference: the first known service is called. Only of the services for health, the newest is.

use std::fmt;

use crate::handler::{Plugin, wording};
use crate::proto::v1alpha1::dra_resource_health;

/// A version of the service that prepares claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// `v1.DRAPlugin`
    V1,
    /// `v1beta1.DRAPlugin`
    V1Beta1,
}

/// A version of the service that reports the health of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthService {
    /// `v1.DRAResourceHealth`
    V1,
    /// `v1alpha1.DRAResourceHealth`
    V1Alpha1,
}

impl Service {
    /// Returns the name that drivers list.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1.DRAPlugin",
            Self::V1Beta1 => "v1beta1.DRAPlugin",
        }
    }

    /// Returns the service to call, or the message of kubelet for a refusal. "The first service of
    /// a DRA driver's list that is known is the one to call; a list without one is refused"
    /// ([R31](crate::guide::kubelet)).
    pub(super) fn choose(plugin: &Plugin) -> Result<Self, String> {
        let (listed, known) = (&plugin.versions, [Self::V1, Self::V1Beta1]);
        let find = |text: &String| known.into_iter().find(|it| it.as_str() == text);
        if let Some(service) = listed.iter().find_map(find) {
            return Ok(service);
        }
        let why = if listed.is_empty() {
            "empty list of supported gRPC services (aka supported versions)".to_owned()
        } else {
            format!(
                "none of services supported by the plugin ({}) are supported by the kubelet ({})",
                wording::quoted_list(listed),
                wording::quoted_list(&known.map(Self::as_str))
            )
        };
        let (name, endpoint) = (&plugin.name, plugin.endpoint.display());
        Err(format!(
            "invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: \
             {why}"
        ))
    }
}

impl HealthService {
    /// Returns the name that drivers list.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1.DRAResourceHealth",
            Self::V1Alpha1 => "v1alpha1.DRAResourceHealth",
        }
    }

    /// Returns the health service to call, the newest first (kubelet: the same), or `None` if none
    /// is listed.
    pub(super) fn choose(listed: &[String]) -> Option<Self> {
        let is_listed = |it: &Self| listed.iter().any(|text| text == it.as_str());
        [Self::V1, Self::V1Alpha1].into_iter().find(is_listed)
    }

    /// Returns the path of the method that streams the health of all devices.
    pub(super) const fn method(self) -> &'static str {
        match self {
            // The messages are those of `v1alpha1`; only the name of the package differs.
            Self::V1 => "/v1.DRAResourceHealth/NodeWatchResources",
            Self::V1Alpha1 => dra_resource_health::NODE_WATCH_RESOURCES,
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for HealthService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn choose(services: &[&str]) -> Result<Service, String> {
        Service::choose(&Plugin {
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
            assert_eq!(choose(services), Ok(Service::V1Beta1));
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
        assert_eq!(choose(&[v1, beta]), Ok(Service::V1));
        assert_eq!(choose(&[beta, v1]), Ok(Service::V1Beta1));
    }

    #[test]
    fn health_is_watched_only_when_it_is_listed() {
        let choose = |services: &[&str]| {
            let listed: Vec<_> = services.iter().map(|&text| text.to_owned()).collect();
            HealthService::choose(&listed)
        };
        assert_eq!(choose(&["v1.DRAPlugin"]), None);
        let alpha = choose(&["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]);
        assert_eq!(alpha, Some(HealthService::V1Alpha1));
        let newest = choose(&["v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"]);
        assert_eq!(newest, Some(HealthService::V1));
        for service in [HealthService::V1, HealthService::V1Alpha1] {
            let path = format!("/{service}/NodeWatchResources");
            assert_eq!(service.method(), path);
        }
    }
}
