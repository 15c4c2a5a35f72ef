//! The devices of one plugin, and the changes of their list.
//!
//! Pure.

use std::sync::Arc;
use std::{fmt, mem};

use prost::Message as _;

use crate::config::{MAX_DEVICES, MAX_REPLY};
use crate::escape;
use crate::handler::Plugin;
use crate::handler::reply::count_fields;
use crate::proto::v1beta1::{self, DevicePluginOptions, ListAndWatchResponse};

/// A registered device plugin: its options and its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlugin {
    /// The plugin, with its name and its endpoint.
    pub plugin: Arc<Plugin>,
    /// Whether the plugin has to be called before a container with its devices starts.
    pub pre_start_required: bool,
    /// Whether the plugin can state which devices it prefers to allocate.
    pub preferred_allocation: bool,
    /// Whether the plugin lists its devices at the moment. If not, all of them are unhealthy.
    pub is_connected: bool,
    /// The devices as last listed, sorted by ID. No two have the same.
    pub devices: Vec<Device>,
}

/// A device of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The ID, which is unique among the devices of the plugin.
    pub id: String,
    /// Whether the device can be used.
    pub is_healthy: bool,
    /// The NUMA nodes that are close to the device.
    pub numa_nodes: Vec<i64>,
}

/// The reason why a list of devices is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlistable {
    /// The message is not a `ListAndWatchResponse`.
    Undecodable,
    /// The list has more than [`MAX_DEVICES`] devices.
    TooMany {
        /// The number of listed devices.
        listed: usize,
    },
    /// The message is larger than [`MAX_REPLY`].
    TooLarge {
        /// The length of the message in octets.
        octets: u32,
    },
}

impl DevicePlugin {
    /// Creates a plugin with these options that has not listed its devices yet.
    pub(super) fn new(plugin: &Arc<Plugin>, options: DevicePluginOptions) -> Self {
        Self {
            plugin: plugin.clone(),
            pre_start_required: options.pre_start_required,
            preferred_allocation: options.get_preferred_allocation_available,
            is_connected: false,
            devices: Vec::new(),
        }
    }

    /// Applies a message of the stream, which REPLACES the whole previous list.
    pub(super) fn replace(&mut self, message: &[u8]) -> Result<Changes, Unlistable> {
        let devices = read(message)?;
        let before = mem::replace(&mut self.devices, devices);
        let was_connected = mem::replace(&mut self.is_connected, true);
        Ok(Changes::between(&before, self, !was_connected))
    }

    /// Marks all devices as unhealthy because the stream has ended. Returns whether the plugin was
    /// connected until now.
    pub(super) fn disconnect(&mut self) -> bool {
        for device in &mut self.devices {
            device.is_healthy = false;
        }
        mem::replace(&mut self.is_connected, false)
    }

    /// Returns the number of devices that can be used.
    pub fn healthy(&self) -> usize {
        let healthy = self.devices.iter().filter(|device| device.is_healthy);
        healthy.count()
    }
}

impl AsRef<Plugin> for DevicePlugin {
    fn as_ref(&self) -> &Plugin {
        &self.plugin
    }
}

/// Returns the devices that a message lists, by ID; of several with one ID, the last.
fn read(message: &[u8]) -> Result<Vec<Device>, Unlistable> {
    let listed = count_fields(message).ok_or(Unlistable::Undecodable)?;
    if listed > MAX_DEVICES {
        return Err(Unlistable::TooMany { listed });
    }
    let response = ListAndWatchResponse::decode(message).map_err(|_| Unlistable::Undecodable)?;
    let devices = response.devices.into_iter();
    let mut devices: Vec<Device> = devices.map(Device::from).collect();
    devices.sort_by(|one, other| one.id.cmp(&other.id));
    devices.dedup_by(|next, kept| {
        let is_same = next.id == kept.id;
        if is_same {
            mem::swap(next, kept);
        }
        is_same
    });
    Ok(devices)
}

/// Returns the device with an ID, of devices that are sorted by it.
fn find<'a>(devices: &'a [Device], id: &str) -> Option<&'a Device> {
    let at = devices.binary_search_by(|device| (*device.id).cmp(id));
    Some(&devices[at.ok()?])
}

impl From<v1beta1::Device> for Device {
    fn from(listed: v1beta1::Device) -> Self {
        let near = listed.topology.unwrap_or_default();
        Self {
            id: listed.id,
            is_healthy: listed.health == HEALTHY,
            numa_nodes: near.nodes.into_iter().map(|node| node.id).collect(),
        }
    }
}

/// The changes by one message, for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    total: usize,
    healthy: usize,
    /// Whether the message is the first one of its stream.
    is_first: bool,
    now_unhealthy: Vec<String>,
    now_healthy: Vec<String>,
    come: Vec<String>,
    gone: Vec<String>,
}

impl Changes {
    fn between(before: &[Device], after: &DevicePlugin, is_first: bool) -> Self {
        let mut changes = Self {
            total: after.devices.len(),
            healthy: after.healthy(),
            is_first,
            ..Self::default()
        };
        for device in &after.devices {
            let before = find(before, &device.id);
            let list = match before.map(|before| before.is_healthy) {
                Some(same) if same == device.is_healthy => continue,
                Some(true) => &mut changes.now_unhealthy,
                Some(false) => &mut changes.now_healthy,
                None => &mut changes.come,
            };
            list.push(device.id.clone());
        }
        for device in before {
            if find(&after.devices, &device.id).is_none() {
                changes.gone.push(device.id.clone());
            }
        }
        changes
    }

    /// Returns whether the changes are to be logged.
    pub(super) fn are_news(&self) -> bool {
        let lists = [
            &self.now_unhealthy,
            &self.now_healthy,
            &self.come,
            &self.gone,
        ];
        self.is_first || lists.iter().any(|list| !list.is_empty())
    }
}

/// Shows `devices=2 healthy=1 now_unhealthy=gpu-1`, escaped.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "devices={} healthy={}", self.total, self.healthy)?;
        for (key, ids) in [
            ("now_unhealthy", &self.now_unhealthy),
            ("now_healthy", &self.now_healthy),
            ("new", &self.come),
            ("gone", &self.gone),
        ] {
            if !ids.is_empty() {
                write!(f, " {key}=")?;
                show_some(ids, f)?;
            }
        }
        Ok(())
    }
}

fn show_some(ids: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, id) in ids.iter().take(SHOWN_IDS).enumerate() {
        f.write_str(if at == 0 { "" } else { "," })?;
        write!(f, "{}", escape::text(id).at_most(SHOWN_ID))?;
    }
    match ids.len().saturating_sub(SHOWN_IDS) {
        0 => Ok(()),
        more => write!(f, ",...({more} more)"),
    }
}

impl fmt::Display for Unlistable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable => f.write_str("cannot decode the ListAndWatch message"),
            Self::TooMany { listed } => write!(
                f,
                "too many devices in the ListAndWatch message devices={listed} limit={MAX_DEVICES}"
            ),
            Self::TooLarge { octets } => write!(
                f,
                "the ListAndWatch message is too large octets={octets} limit={MAX_REPLY}"
            ),
        }
    }
}

impl std::error::Error for Unlistable {}

impl Unlistable {
    /// Returns what the plugin's author can do about it.
    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Self::Undecodable => "make it send a v1beta1 ListAndWatchResponse",
            Self::TooMany { .. } | Self::TooLarge { .. } => "make it list fewer devices",
        }
    }
}

/// The health of a usable device; any other value means unhealthy (kubelet: the same).
const HEALTHY: &str = "Healthy";

/// The number of device IDs of one kind that are shown in a line.
const SHOWN_IDS: usize = 8;

/// The number of octets of a device ID that are shown: a UUID and some room.
const SHOWN_ID: usize = 64;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::proto::pluginregistration::PluginInfo;
    use crate::proto::v1beta1::{NumaNode, TopologyInfo};

    fn plugin() -> DevicePlugin {
        let info = PluginInfo {
            name: "example.com/gpu".into(),
            ..PluginInfo::default()
        };
        let plugin = Plugin::from_info(info, Path::new("/r/gpu-reg.sock").into());
        let plugin = Arc::new(plugin.expect("it has a name"));
        DevicePlugin::new(&plugin, DevicePluginOptions::default())
    }

    fn message(devices: &[(&str, &str)]) -> Vec<u8> {
        let devices = devices.iter().map(|(id, health)| v1beta1::Device {
            id: (*id).into(),
            health: (*health).into(),
            topology: None,
        });
        let devices = devices.collect();
        ListAndWatchResponse { devices }.encode_to_vec()
    }

    fn changes(plugin: &mut DevicePlugin, devices: &[(&str, &str)]) -> Changes {
        plugin.replace(&message(devices)).expect("a good message")
    }

    #[test]
    fn every_message_replaces_the_whole_set_and_says_what_changed() {
        let mut plugin = plugin();
        let change = changes(&mut plugin, &[("a", "Healthy"), ("b", "Healthy")]);
        assert_eq!(change.to_string(), "devices=2 healthy=2 new=a,b");
        let change = changes(&mut plugin, &[("a", "Unhealthy"), ("c", "Healthy")]);
        let line = "devices=2 healthy=1 now_unhealthy=a new=c gone=b";
        assert_eq!(change.to_string(), line);
        let change = changes(&mut plugin, &[("a", "Healthy"), ("c", "Healthy")]);
        assert_eq!(change.to_string(), "devices=2 healthy=2 now_healthy=a");
        let change = changes(&mut plugin, &[("a", "Healthy"), ("c", "Healthy")]);
        assert!(!change.are_news());
    }

    #[test]
    fn any_other_word_than_healthy_means_unhealthy() {
        let mut plugin = plugin();
        let listed = [("a", ""), ("b", "healthy"), ("c", "Healthy"), ("d", "ok")];
        changes(&mut plugin, &listed);
        assert_eq!(
            (
                plugin.healthy(),
                find(&plugin.devices, "c").map(|it| it.is_healthy)
            ),
            (1, Some(true))
        );
    }

    #[test]
    fn devices_are_sorted_by_id_and_the_last_of_several_with_one_id_counts() {
        let mut plugin = plugin();
        let listed = [
            ("b", "Healthy"),
            ("a", "Healthy"),
            ("b", "Unhealthy"),
            ("", "Healthy"),
            ("b", "Healthy"),
            ("a", "Unhealthy"),
        ];
        let change = changes(&mut plugin, &listed);
        assert_eq!(change.to_string(), "devices=3 healthy=2 new=,a,b");
        let kept = plugin.devices.iter().map(|it| (&*it.id, it.is_healthy));
        let kept: Vec<_> = kept.collect();
        assert_eq!(kept, [("", true), ("a", false), ("b", true)]);
    }

    #[test]
    fn the_end_of_the_stream_makes_all_unhealthy_and_is_news_once() {
        let mut plugin = plugin();
        changes(&mut plugin, &[("a", "Healthy")]);
        assert!(plugin.disconnect());
        assert_eq!((plugin.devices.len(), plugin.healthy()), (1, 0));
        assert!(!plugin.disconnect());
        let change = changes(&mut plugin, &[("a", "Unhealthy")]);
        assert!(change.are_news(), "it is connected again");
    }

    #[test]
    fn numa_nodes_are_kept() {
        let near = TopologyInfo {
            nodes: vec![NumaNode { id: 1 }, NumaNode { id: 0 }],
        };
        let listed = v1beta1::Device {
            id: "a".into(),
            health: HEALTHY.into(),
            topology: Some(near),
        };
        let devices = vec![listed];
        let mut plugin = plugin();
        plugin
            .replace(&ListAndWatchResponse { devices }.encode_to_vec())
            .expect("a good message");
        assert_eq!(plugin.devices[0].numa_nodes, [1, 0]);
    }

    #[test]
    fn a_message_that_is_no_list_or_too_long_a_one_changes_nothing() {
        let mut plugin = plugin();
        changes(&mut plugin, &[("a", "Healthy")]);
        let before = plugin.clone();
        let too_many = [0x0a, 0].repeat(MAX_DEVICES + 1);
        let listed = MAX_DEVICES + 1;
        assert_eq!(
            plugin.replace(&too_many),
            Err(Unlistable::TooMany { listed })
        );
        assert_eq!(plugin.replace(b"\x0a\x07"), Err(Unlistable::Undecodable));
        assert_eq!(plugin, before);
    }

    #[test]
    fn a_line_names_some_devices_and_escapes_them() {
        let mut plugin = plugin();
        let ids: Vec<String> = (0..10).map(|at| format!("gpu\n{at}")).collect();
        let listed: Vec<_> = ids.iter().map(|id| (id.as_str(), HEALTHY)).collect();
        let line = changes(&mut plugin, &listed).to_string();
        assert!(
            line.starts_with("devices=10 healthy=10 new=gpu\\n0,"),
            "{line}"
        );
        assert!(line.ends_with(",gpu\\n7,...(2 more)"), "{line}");
    }
}
