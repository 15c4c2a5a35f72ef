//! The known facts about a CSI driver on this node.
//!
//! Pure.

use std::fmt;
use std::sync::Arc;

use super::version::Version;
use crate::escape;
use crate::handler::{Plugin, Reason};
use crate::proto::csi_v1::node_service_capability::{Type, rpc};
use crate::proto::csi_v1::{
    GetPluginInfoResponse, NodeGetCapabilitiesResponse, NodeGetInfoResponse, Segment,
};

/// A capability of a driver on the node.
pub use crate::proto::csi_v1::node_service_capability::rpc::Type as Capability;

/// A registered driver, as it describes itself and its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The plugin; its endpoint serves CSI.
    pub plugin: Arc<Plugin>,
    /// The CSI version to use with the driver.
    pub version: Version,
    /// The driver's ID for this node; empty only if it is longer than CSI allows (256 octets) and
    /// was dropped because plugins have exhausted the memory budget.
    pub node_id: String,
    /// The most volumes of the driver on the node at a time; `None`: not stated.
    pub max_volumes: Option<u64>,
    /// The driver's topology of the node: a value for each kind of segment, such as a zone, sorted
    /// by kind.
    pub topology: Vec<(String, String)>,
    /// The version of the driver itself, in its vendor's spelling; `None`: not stated.
    pub vendor_version: Option<String>,
    /// The stated capabilities that are known, sorted.
    pub capabilities: Vec<Capability>,
}

impl Driver {
    /// Creates the driver of a plugin from the reply to its `NodeGetInfo` call.
    pub(super) fn new(
        plugin: &Arc<Plugin>,
        version: Version,
        node: NodeGetInfoResponse,
    ) -> Result<Self, Reason> {
        if node.node_id.is_empty() {
            return Err(Reason::new(NO_NODE_ID));
        }
        let topology = node.accessible_topology.unwrap_or_default();
        Ok(Self {
            plugin: plugin.clone(),
            version,
            node_id: node.node_id,
            max_volumes: u64::try_from(node.max_volumes_per_node)
                .ok()
                .filter(|most| *most > 0),
            topology: by_kind(topology.segments),
            vendor_version: None,
            capabilities: Vec::new(),
        })
    }

    /// Returns the octets that the driver has caused to be kept.
    pub(super) fn mem_used(&self) -> usize {
        let version = self.vendor_version.as_ref().map_or(0, String::len);
        let segments = self.topology.iter();
        let segments = segments.map(|(kind, place)| kind.len() + place.len() + SEGMENT);
        self.node_id.len() + version + segments.sum::<usize>()
    }

    /// Forgets what the driver has reported of any length.
    pub(super) fn forget_details(&mut self) {
        self.topology.clear();
        self.vendor_version = None;
        if self.node_id.len() > LONGEST_NODE_ID {
            self.node_id = String::new();
        }
    }

    pub(super) fn set_plugin_info(&mut self, info: GetPluginInfoResponse) {
        self.vendor_version = Some(info.vendor_version).filter(|version| !version.is_empty());
    }

    pub(super) fn set_capabilities(&mut self, response: NodeGetCapabilitiesResponse) {
        let numbers = response.capabilities.into_iter().filter_map(|capability| {
            let Type::Rpc(rpc) = capability.r#type?;
            Some(rpc.r#type)
        });
        let known = numbers.filter_map(|number| Capability::try_from(number).ok());
        let mut capabilities: Vec<_> = known
            .filter(|capability| *capability != rpc::Type::Unknown)
            .collect();
        capabilities.sort_unstable();
        capabilities.dedup();
        self.capabilities = capabilities;
    }
}

/// Returns the places by their kind; of several of one kind, the last.
fn by_kind(segments: Vec<Segment>) -> Vec<(String, String)> {
    let mut places: Vec<_> = segments.into_iter().map(|it| (it.key, it.value)).collect();
    places.reverse();
    places.sort_by(|(one, _), (other, _)| one.cmp(other));
    places.dedup_by(|(next, _), (kept, _)| next == kept);
    places
}

impl AsRef<Plugin> for Driver {
    fn as_ref(&self) -> &Plugin {
        &self.plugin
    }
}

/// Shows the facts for an operator, escaped: `node_id="n1" max_volumes=16 topology=zone=a`. The
/// topology comes last, because a plugin chooses its keys, too.
impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node_id={:?}", escape::text(&self.node_id))?;
        if let Some(most) = self.max_volumes {
            write!(f, " max_volumes={most}")?;
        }
        if let Some(version) = &self.vendor_version {
            write!(f, " vendor_version={:?}", escape::text(version))?;
        }
        for (at, (kind, place)) in self.topology.iter().take(SHOWN_SEGMENTS).enumerate() {
            f.write_str(if at == 0 { " topology=" } else { "," })?;
            write!(f, "{}={}", escape::text(kind), escape::text(place))?;
        }
        match self.topology.len().saturating_sub(SHOWN_SEGMENTS) {
            0 => Ok(()),
            more => write!(f, ",...({more} more)"),
        }
    }
}

/// The reason for refusing a driver without a node ID: kubelet's words.
const NO_NODE_ID: &str = "error adding CSI driver node info: driverNodeID must not be empty";

/// The octets that a segment takes besides its texts: two strings and their allocations.
const SEGMENT: usize = 112;

/// The longest node ID that CSI allows (octets).
const LONGEST_NODE_ID: usize = 256;

/// The number of topology segments shown in one line: honest drivers have one to three.
const SHOWN_SEGMENTS: usize = 8;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::proto::csi_v1::node_service_capability::Rpc;
    use crate::proto::csi_v1::{NodeServiceCapability, Topology};
    use crate::proto::pluginregistration::PluginInfo;

    fn driver(node: NodeGetInfoResponse) -> Result<Driver, Reason> {
        let info = PluginInfo {
            name: "a".into(),
            ..PluginInfo::default()
        };
        let plugin = Plugin::from_info(info, Path::new("/r/a-reg.sock").into());
        let version = Version::parse("1.0").expect("a version");
        Driver::new(&Arc::new(plugin.expect("it has a name")), version, node)
    }

    fn segment(key: &str, value: &str) -> Segment {
        let (key, value) = (key.into(), value.into());
        Segment { key, value }
    }

    fn node(node_id: &str) -> NodeGetInfoResponse {
        NodeGetInfoResponse {
            node_id: node_id.into(),
            ..NodeGetInfoResponse::default()
        }
    }

    #[test]
    fn a_line_shows_what_an_operator_wants_to_see_and_nothing_of_the_plugin_s_as_it_is() {
        let segments = vec![
            segment("zone", "b"),
            segment("rack\n", "7"),
            segment("zone", "a"),
        ];
        let mut driver = driver(NodeGetInfoResponse {
            max_volumes_per_node: 16,
            accessible_topology: Some(Topology { segments }),
            ..node("n\x1b1")
        })
        .expect("it has a node id");
        driver.set_plugin_info(GetPluginInfoResponse {
            vendor_version: "2.0\"".into(),
            ..GetPluginInfoResponse::default()
        });
        assert_eq!(
            driver.to_string(),
            "node_id=\"n\\u{1b}1\" max_volumes=16 vendor_version=\"2.0\\\"\" \
             topology=rack\\n=7,zone=a"
        );
    }

    #[test]
    fn a_driver_without_limits_and_places_says_its_node_id_only() {
        for most in [0, -1] {
            let driver = driver(NodeGetInfoResponse {
                max_volumes_per_node: most,
                ..node("n")
            });
            let driver = driver.expect("it has a node id");
            assert_eq!(
                (driver.max_volumes, driver.to_string().as_str()),
                (None, "node_id=\"n\"")
            );
        }
    }

    #[test]
    fn many_topology_segments_do_not_fill_the_log() {
        let segments = (0..100).map(|at| segment(&format!("{at:02}"), "x"));
        let topology = Topology {
            segments: segments.collect(),
        };
        let driver = driver(NodeGetInfoResponse {
            accessible_topology: Some(topology),
            ..node("n")
        });
        let shown = driver.expect("it has a node id").to_string();
        assert!(shown.ends_with(",07=x,...(92 more)"), "{shown}");
    }

    #[test]
    fn abilities_that_nobody_knows_are_left_out() {
        let mut driver = driver(node("n")).expect("it has a node id");
        let capabilities = [3, 1, 3, 0, 99, -1].map(|number| NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: number })),
        });
        let mut capabilities = capabilities.to_vec();
        capabilities.push(NodeServiceCapability { r#type: None });
        driver.set_capabilities(NodeGetCapabilitiesResponse { capabilities });
        assert_eq!(
            driver.capabilities,
            [Capability::StageUnstageVolume, Capability::ExpandVolume]
        );
    }

    #[test]
    fn a_driver_needs_a_node_id() {
        let reason = driver(node("")).expect_err("it is empty");
        assert_eq!(reason.as_str(), NO_NODE_ID);
    }
}
