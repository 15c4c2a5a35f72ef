//! The handlers that come with the program, in one table, and what they know.
//!
//! Pure.

use super::csi::{self, CsiHandler};
use super::{GenericHandler, HandlerTable, Plugin, Store, Unknown};
use crate::config::UnknownTypes;

/// What the built-in handlers know of the registered plugins. Clones show the same plugins.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The CSI drivers, by name.
    pub csi_drivers: Store<csi::Driver>,
    /// The plugins of every other type, by name.
    pub others: Store<Plugin>,
}

/// The built-in handlers for plugins of these types, and what they will know.
pub fn built_in(types: &[String], unknown: UnknownTypes) -> (HandlerTable, Inventory) {
    let mut table = HandlerTable::new();
    let csi = CsiHandler::default();
    let generic = GenericHandler::default();
    let inventory = Inventory {
        csi_drivers: csi.drivers(),
        others: generic.plugins(),
    };
    let generic = table.add(types, generic);
    if types.iter().any(|kind| kind == csi::TYPE) {
        table.add([csi::TYPE], csi);
    }
    table.set_unknown(match unknown {
        UnknownTypes::Reject => Unknown::Refused,
        UnknownTypes::Accept => Unknown::GivenTo(generic),
        UnknownTypes::Ignore => Unknown::Ignored,
    });
    (table, inventory)
}
