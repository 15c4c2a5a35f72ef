//! The known facts about one device plugin.

use std::mem;
use std::sync::Arc;

use super::changes;
use super::devices::Devices;
use crate::handler::Plugin;
use crate::proto::v1beta1::DevicePluginOptions;

/// A registered device plugin: its options and its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlugin {
    /// The plugin, with its name and its endpoint.
    pub plugin: Arc<Plugin>,
    /// Whether the plugin has to be called before a container with its devices starts.
    pub pre_start_required: bool,
    /// Whether the plugin can state which devices it prefers to allocate.
    pub preferred_allocation: bool,
    /// Whether a list of devices is in force: from the first list of a stream until the loss of
    /// that stream. If not, all devices are unhealthy.
    pub is_connected: bool,
    /// The devices as last listed.
    pub devices: Devices,
    /// A number that is greater than those of the older plugins of the same name.
    pub(crate) order: u64,
}

impl DevicePlugin {
    /// Creates a plugin with these options that has not listed its devices yet.
    pub(super) fn new(plugin: &Arc<Plugin>, options: DevicePluginOptions) -> Self {
        Self {
            plugin: plugin.clone(),
            pre_start_required: options.pre_start_required,
            preferred_allocation: options.get_preferred_allocation_available,
            is_connected: false,
            devices: Devices::default(),
            order: 0,
        }
    }

    /// Replaces all devices by those of a new list. Returns the changes as text, or `None` if there
    /// are none and the list is not the first one of its stream.
    pub(super) fn replace_devices(&mut self, devices: Devices) -> Option<String> {
        let is_first = !mem::replace(&mut self.is_connected, true);
        let (changes, are_any) = changes::between(&self.devices, &devices);
        self.devices = devices;
        (is_first || are_any).then_some(changes)
    }

    /// Marks all devices as unhealthy because the stream has ended. Returns whether the plugin was
    /// connected before.
    pub(super) fn mark_disconnected(&mut self) -> bool {
        self.devices.mark_unhealthy();
        mem::replace(&mut self.is_connected, false)
    }

    /// Returns the number of devices that can be used.
    pub fn count_healthy(&self) -> usize {
        self.devices.count_healthy()
    }
}

impl AsRef<Plugin> for DevicePlugin {
    fn as_ref(&self) -> &Plugin {
        &self.plugin
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prost::Message as _;

    use super::super::Unlistable;
    use super::*;
    use crate::config::MAX_DEVICES;
    use crate::proto::pluginregistration::PluginInfo;
    use crate::proto::v1beta1::{self, ListAndWatchResponse, NumaNode, TopologyInfo};

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

    fn apply_message(plugin: &mut DevicePlugin, list: &[u8]) -> Result<Option<String>, Unlistable> {
        Devices::from_message(list).map(|devices| plugin.replace_devices(devices))
    }

    /// Applies a list. Returns its changes, or an empty text if they are not logged.
    fn apply_list(plugin: &mut DevicePlugin, devices: &[(&str, &str)]) -> String {
        let news = apply_message(plugin, &message(devices)).expect("a good message");
        news.unwrap_or_default()
    }

    #[test]
    fn a_message_replaces_all_devices_and_returns_the_changes() {
        let mut plugin = plugin();
        let change = apply_list(&mut plugin, &[("a", "Healthy"), ("b", "Healthy")]);
        assert_eq!(change, "devices=2 healthy=2 new=a,b");
        let change = apply_list(&mut plugin, &[("a", "Unhealthy"), ("c", "Healthy")]);
        let line = "devices=2 healthy=1 now_unhealthy=a new=c gone=b";
        assert_eq!(change, line);
        let change = apply_list(&mut plugin, &[("a", "Healthy"), ("c", "Healthy")]);
        assert_eq!(change, "devices=2 healthy=2 now_healthy=a");
        let change = apply_list(&mut plugin, &[("a", "Healthy"), ("c", "Healthy")]);
        assert_eq!(change, "");
    }

    #[test]
    fn any_other_word_than_healthy_means_unhealthy() {
        let mut plugin = plugin();
        let listed = [("a", ""), ("b", "healthy"), ("c", "Healthy"), ("d", "ok")];
        apply_list(&mut plugin, &listed);
        assert_eq!(
            (
                plugin.count_healthy(),
                plugin.devices.get("c").map(|it| it.is_healthy)
            ),
            (1, Some(true))
        );
    }

    #[test]
    fn devices_are_sorted_by_id_and_the_last_duplicate_counts() {
        let mut plugin = plugin();
        let listed = [
            ("b", "Healthy"),
            ("a", "Healthy"),
            ("b", "Unhealthy"),
            ("", "Healthy"),
            ("b", "Healthy"),
            ("a", "Unhealthy"),
        ];
        let change = apply_list(&mut plugin, &listed);
        assert_eq!(change, "devices=3 healthy=2 new=,a,b");
        let kept = plugin.devices.iter().map(|it| (&*it.id, it.is_healthy));
        let kept: Vec<_> = kept.collect();
        assert_eq!(kept, [("", true), ("a", false), ("b", true)]);
    }

    #[test]
    fn the_end_of_the_stream_makes_all_unhealthy_once() {
        let mut plugin = plugin();
        apply_list(&mut plugin, &[("a", "Healthy")]);
        assert!(plugin.mark_disconnected());
        assert_eq!((plugin.devices.len(), plugin.count_healthy()), (1, 0));
        assert!(!plugin.mark_disconnected());
        let change = apply_list(&mut plugin, &[("a", "Unhealthy")]);
        assert_eq!(change, "devices=1 healthy=0", "it is connected again");
    }

    #[test]
    fn numa_nodes_are_kept() {
        let near = TopologyInfo {
            nodes: vec![NumaNode { id: 1 }, NumaNode { id: 0 }],
        };
        let listed = v1beta1::Device {
            id: "a".into(),
            health: "Healthy".into(),
            topology: Some(near),
        };
        let devices = vec![listed];
        let mut plugin = plugin();
        let list = ListAndWatchResponse { devices }.encode_to_vec();
        apply_message(&mut plugin, &list).expect("a good message");
        let device = plugin.devices.get("a").expect("a device");
        assert_eq!(*device.numa_nodes, [1, 0]);
    }

    #[test]
    fn an_undecodable_or_too_long_list_changes_nothing() {
        let mut plugin = plugin();
        apply_list(&mut plugin, &[("a", "Healthy")]);
        let before = plugin.clone();
        let too_many = [0x0a, 0].repeat(MAX_DEVICES + 1);
        let listed = MAX_DEVICES + 1;
        assert_eq!(
            apply_message(&mut plugin, &too_many),
            Err(Unlistable::TooMany { listed })
        );
        assert_eq!(
            apply_message(&mut plugin, b"\x0a\x07"),
            Err(Unlistable::Undecodable)
        );
        assert_eq!(plugin, before);
    }

    #[test]
    fn the_changes_name_a_limited_number_of_devices_escaped() {
        let mut plugin = plugin();
        let ids: Vec<String> = (0..10).map(|at| format!("gpu\n{at}")).collect();
        let listed: Vec<_> = ids.iter().map(|id| (id.as_str(), "Healthy")).collect();
        let line = apply_list(&mut plugin, &listed);
        assert!(
            line.starts_with("devices=10 healthy=10 new=gpu\\n0,"),
            "{line}"
        );
        assert!(line.ends_with(",gpu\\n7,...(2 more)"), "{line}");
    }
}
