//! The known facts about a CSI driver on this node.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::version::Version;
use crate::escape;
use crate::handler::{Plugin, Reason, list};
use crate::proto::csi_v1::NodeGetInfoResponse;

/// A registered driver: what it reports about itself and about the node. As JSON, for the API and
/// for programs, what it reports about the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Driver {
    /// The plugin; its endpoint serves CSI.
    #[serde(skip)]
    pub plugin: Arc<Plugin>,
    /// The CSI version to use with the driver.
    #[serde(skip)]
    pub version: Version,
    /// The driver's ID for this node; never empty.
    pub node_id: String,
    /// The maximum number of volumes of the driver on the node at a time; `None`: not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_volumes: Option<u64>,
    /// The driver's topology of the node: the key and the value of each segment, such as a zone,
    /// sorted by key.
    #[serde(serialize_with = "serialize_map")]
    pub topology: Vec<(String, String)>,
}

impl Driver {
    /// Creates the driver of a plugin from its reply to `NodeGetInfo`.
    pub(super) fn new(
        plugin: &Arc<Plugin>,
        version: Version,
        node: NodeGetInfoResponse,
    ) -> Result<Self, Reason> {
        if node.node_id.is_empty() {
            return Err(Reason::new(NO_NODE_ID));
        }
        let segments = node.accessible_topology.unwrap_or_default().segments;
        let mut topology: Vec<_> = segments.into_iter().map(|it| (it.key, it.value)).collect();
        list::sort_and_dedup(&mut topology, |(key, _)| key);
        topology.shrink_to_fit();
        Ok(Self {
            plugin: plugin.clone(),
            version,
            node_id: node.node_id,
            max_volumes: u64::try_from(node.max_volumes_per_node)
                .ok()
                .filter(|most| *most > 0),
            topology,
        })
    }
}

fn serialize_map<S: Serializer>(entries: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(entries.iter().map(|(key, value)| (key, value)))
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
        if self.topology.is_empty() {
            return Ok(());
        }
        let segments = self.topology.iter().map(|(kind, place)| {
            let (kind, place) = (escape::text(kind), escape::text(place));
            format!("{kind}={place}")
        });
        write!(f, " topology={}", escape::list(segments))
    }
}

/// The reason for refusing a driver without a node ID, in kubelet's words.
const NO_NODE_ID: &str = "error adding CSI driver node info: driverNodeID must not be empty";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::proto::csi_v1::{Segment, Topology};
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
    fn a_driver_is_shown_escaped_with_its_topology_sorted() {
        let segments = vec![
            segment("zone", "b"),
            segment("rack\n", "7"),
            segment("zone", "a"),
        ];
        let driver = driver(NodeGetInfoResponse {
            max_volumes_per_node: 16,
            accessible_topology: Some(Topology { segments }),
            ..node("n\x1b1")
        })
        .expect("it has a node id");
        assert_eq!(
            driver.to_string(),
            "node_id=\"n\\u{1b}1\" max_volumes=16 topology=rack\\n=7,zone=a"
        );
    }

    #[test]
    fn a_driver_without_limit_and_topology_shows_its_node_id_only() {
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
    fn a_driver_needs_a_node_id() {
        let reason = driver(node("")).expect_err("it is empty");
        assert_eq!(reason.as_str(), NO_NODE_ID);
    }
}
