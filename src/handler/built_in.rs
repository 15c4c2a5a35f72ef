//! The table of the handlers that come with the program, and their inventory.
//!
//! Pure.

use super::csi::{self, CsiHandler};
use super::device::{self, DeviceHandler};
use super::dra::{self, DraHandler};
use super::{GenericHandler, HandlerTable, Plugin, Store, Unknown};
use crate::config::UnknownTypes;

/// The plugins that the built-in handlers have registered. Clones share the same data.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The CSI drivers, by name.
    pub csi_drivers: Store<csi::Driver>,
    /// The device plugins, by the names of their resources.
    pub device_plugins: Store<device::DevicePlugin>,
    /// The DRA drivers, by name.
    pub dra_drivers: dra::Drivers,
    /// The plugins of every other type, by name.
    pub others: Store<Plugin>,
}

/// Returns the built-in handlers for plugins of these types, and the inventory that they fill.
pub fn built_in(types: &[String], unknown: UnknownTypes) -> (HandlerTable, Inventory) {
    let mut table = HandlerTable::new();
    let (csi, device, dra) = (
        CsiHandler::default(),
        DeviceHandler::default(),
        DraHandler::default(),
    );
    let generic = GenericHandler::default();
    let inventory = Inventory {
        csi_drivers: csi.drivers(),
        device_plugins: device.plugins(),
        dra_drivers: dra.drivers(),
        others: generic.plugins(),
    };
    let is_built_in =
        |kind: &&String| [csi::TYPE, device::TYPE, dra::TYPE].contains(&kind.as_str());
    let others = types.iter().filter(|kind| !is_built_in(kind));
    let generic = table.add(others, generic);
    let is_wanted = |kind: &str| types.iter().any(|wanted| wanted == kind);
    if is_wanted(csi::TYPE) {
        table.add([csi::TYPE], csi);
    }
    if is_wanted(device::TYPE) {
        table.add([device::TYPE], device);
    }
    if is_wanted(dra::TYPE) {
        table.add([dra::TYPE], dra);
    }
    table.set_unknown(match unknown {
        UnknownTypes::Reject => Unknown::Refused,
        UnknownTypes::Accept => Unknown::GivenTo(generic),
        UnknownTypes::Ignore => Unknown::Ignored,
    });
    (table, inventory)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::DEFAULT_TYPES;

    #[test]
    fn each_type_has_its_handler_and_what_a_dry_run_leaves_out_of_it() {
        let types = [&DEFAULT_TYPES[..], &["Toaster"]].concat();
        let types: Vec<String> = types.into_iter().map(str::to_owned).collect();
        let (table, _) = built_in(&types, UnknownTypes::Reject);
        assert_eq!(
            table.types().collect::<Vec<_>>(),
            ["CSIPlugin", "DRAPlugin", "DevicePlugin", "Toaster"]
        );
        for (kind, expected) in [
            (csi::TYPE, "NodeGetInfo was not called"),
            (dra::TYPE, "no method of the DRA services was called"),
        ] {
            let plugin = Plugin {
                kind: kind.to_owned(),
                name: "a".to_owned(),
                endpoint: Path::new("/r/a").into(),
                versions: Vec::new(),
                socket: Path::new("/r/a").into(),
            };
            let left_out: Vec<_> = table.not_checked(&plugin).collect();
            assert_eq!(left_out, [expected]);
        }
    }
}
