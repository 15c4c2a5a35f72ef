//! The choice of the services of a DRA driver to call.
//!
//! Pure. A DRA driver lists its services where other plugins list versions. The order is the
//! driver's preference: the first known service is called.

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

    /// Returns the service to call. "The first service of a DRA driver's list that is known is the
    /// one to call; a list without one is refused" ([R31](crate::guide::kubelet)).
    pub(super) fn choose(listed: &[String]) -> Result<Self, NoService> {
        if listed.is_empty() {
            return Err(NoService::NothingListed);
        }
        first_known(listed, &[Self::V1, Self::V1Beta1], Self::as_str).ok_or(NoService::NothingKnown)
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

    /// Returns the first known health service in the list, or `None` if there is none.
    pub(super) fn choose(listed: &[String]) -> Option<Self> {
        first_known(listed, &[Self::V1, Self::V1Alpha1], Self::as_str)
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

fn first_known<T: Copy>(
    listed: &[String],
    known: &[T],
    name: impl Fn(T) -> &'static str,
) -> Option<T> {
    let find = |text: &String| known.iter().copied().find(|it| name(*it) == text);
    listed.iter().find_map(find)
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

/// The reason why none of the services can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoService {
    /// The driver lists no services.
    NothingListed,
    /// None of the listed services is known.
    NothingKnown,
}

impl NoService {
    /// Returns the message of kubelet.
    pub(super) fn words(self, plugin: &Plugin) -> String {
        let why = match self {
            Self::NothingListed => {
                "empty list of supported gRPC services (aka supported versions)".to_owned()
            }
            Self::NothingKnown => format!(
                "none of services supported by the plugin ({}) are supported by the kubelet ({})",
                wording::quoted_list(&plugin.versions),
                wording::quoted_list(&[Service::V1.as_str(), Service::V1Beta1.as_str()])
            ),
        };
        let (name, endpoint) = (&plugin.name, plugin.endpoint.display());
        format!(
            "invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: \
             {why}"
        )
    }
}

impl fmt::Display for NoService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingListed => f.write_str("the driver lists no services"),
            Self::NothingKnown => write!(
                f,
                "the driver lists neither {} nor {}",
                Service::V1,
                Service::V1Beta1
            ),
        }
    }
}

impl std::error::Error for NoService {}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(services: &[&str]) -> Vec<String> {
        services.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn dra1_no_services_are_refused() {
        assert_eq!(Service::choose(&[]), Err(NoService::NothingListed));
    }

    #[test]
    fn dra2_a_known_service_is_chosen_whatever_else_is_listed() {
        for services in [
            &["v1beta1.DRAPlugin"][..],
            &["v1beta1.DRAPlugin", "v1alpha1.NodeHealth"],
            &["v1alpha1.NodeHealth", "v1beta1.DRAPlugin"],
        ] {
            assert_eq!(Service::choose(&listed(services)), Ok(Service::V1Beta1));
        }
    }

    #[test]
    fn dra3_plain_version_numbers_are_refused() {
        for services in [&["1.0.0"][..], &["v1alpha1.NodeHealth"], &[""], &["v1"]] {
            let chosen = Service::choose(&listed(services));
            assert_eq!(chosen, Err(NoService::NothingKnown), "{services:?}");
        }
    }

    #[test]
    fn the_driver_s_order_decides() {
        let (v1, beta) = ("v1.DRAPlugin", "v1beta1.DRAPlugin");
        assert_eq!(Service::choose(&listed(&[v1, beta])), Ok(Service::V1));
        assert_eq!(Service::choose(&listed(&[beta, v1])), Ok(Service::V1Beta1));
    }

    #[test]
    fn health_is_watched_only_when_it_is_listed() {
        let choose = |services: &[&str]| HealthService::choose(&listed(services));
        assert_eq!(choose(&["v1.DRAPlugin"]), None);
        let alpha = choose(&["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]);
        assert_eq!(alpha, Some(HealthService::V1Alpha1));
        let first = choose(&["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]);
        assert_eq!(first, Some(HealthService::V1));
        for service in [HealthService::V1, HealthService::V1Alpha1] {
            let path = format!("/{service}/NodeWatchResources");
            assert_eq!(service.method(), path);
        }
    }
}
