//! The built-in handlers: their table, its update when the configuration changes, and the inventory
//! of their plugins.
//!
//! Another type needs a folder beside `csi` with a [`PluginHandler`](super::PluginHandler), a
//! variant of `Target` and its arms in `target` and `change_handlers`, a field of [`Inventory`],
//! and a name in [`DEFAULT_TYPES`](crate::config::DEFAULT_TYPES) and in the help texts of `--type`
//! (`run`, `probe`, `simulate`). What the API and the metrics show of it is in `api/json.rs`,
//! `api/answer.rs` (devices) and `api/metrics.rs`. A type without a handler of its own needs
//! `--type` only.

use std::path::Path;
use std::time::Duration;

use super::csi::{self, CsiHandler};
use super::device::{self, DeviceHandler};
use super::dra::{self, DraHandler};
use super::{AcceptHandler, ExecHandler, HandlerId, HandlerTable, Store, Unknown};
use crate::config::{HandlerConfig, UnknownTypes};

/// The plugins that the built-in handlers have registered. Clones share the same data.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The CSI drivers, by name.
    pub csi_drivers: Store<csi::Driver>,
    /// The device plugins, by the names of their resources.
    pub device_plugins: Store<device::DevicePlugin>,
    /// The clients that use devices of device plugins, or wait for some, and the CDI files that
    /// describe these devices to container runtimes.
    pub leases: device::Leases,
    /// The DRA drivers, by name.
    pub dra_drivers: dra::Drivers,
}

/// Returns the built-in handlers for plugins of these types, and the inventory that they fill.
pub fn built_in<T: Into<String>>(
    types: impl IntoIterator<Item = T>,
    unknown: UnknownTypes,
) -> (HandlerTable, Inventory) {
    let (mut table, mut inventory) = <(HandlerTable, Inventory)>::default();
    let after = HandlerConfig {
        types: types.into_iter().map(Into::into).collect(),
        unknown_types: unknown,
        ..NO_HANDLERS
    };
    change_handlers(&mut table, &mut inventory, &NO_HANDLERS, &after);
    (table, inventory)
}

/// The configuration of a table without handlers.
pub(crate) const NO_HANDLERS: HandlerConfig = HandlerConfig {
    types: Vec::new(),
    unknown_types: UnknownTypes::Reject,
    exec: Vec::new(),
    csi_node_info: Vec::new(),
};

/// Changes a table from one configuration to another. A type with the same settings in both keeps
/// its handler, and the handler its plugins. A new handler replaces the data of its type in the
/// inventory.
pub(crate) fn change_handlers(
    table: &mut HandlerTable,
    inventory: &mut Inventory,
    before: &HandlerConfig,
    after: &HandlerConfig,
) {
    let changed = |kind: &&str| target(kind, before) != target(kind, after);
    let mut others = None;
    for kind in configured_types(before) {
        if target(kind, before) == Some(Target::Others) {
            others = table.find(kind);
        }
    }
    if before.unknown_types == UnknownTypes::Accept {
        others = table.find(NO_TYPE);
    }
    configured_types(before)
        .filter(changed)
        .for_each(|kind| table.unassign(kind));
    for kind in configured_types(after).filter(changed) {
        if table.is_assigned(kind) {
            continue; // The type is named twice.
        }
        match target(kind, after) {
            Some(Target::Program(program, periods)) => {
                table.add(
                    [kind],
                    ExecHandler::new(program).with_node_info_periods(periods),
                );
            }
            Some(Target::Csi(periods)) => {
                let csi = CsiHandler::new(periods);
                inventory.csi_drivers = csi.drivers();
                table.add([kind], csi);
            }
            Some(Target::Device) => {
                let device = DeviceHandler::new(inventory.leases.clone());
                inventory.device_plugins = device.plugins();
                table.add([kind], device);
            }
            Some(Target::Dra) => {
                let dra = DraHandler::default();
                inventory.dra_drivers = dra.drivers();
                table.add([kind], dra);
            }
            Some(Target::Others) => {
                let id = *others.get_or_insert_with(|| add_accept_handler(table));
                table.assign(kind, id);
            }
            None => {}
        }
    }
    if before.unknown_types != after.unknown_types {
        let unknown = match after.unknown_types {
            UnknownTypes::Reject => Unknown::Refused,
            UnknownTypes::Accept => {
                Unknown::GivenTo(others.unwrap_or_else(|| add_accept_handler(table)))
            }
            UnknownTypes::Ignore => Unknown::Ignored,
        };
        table.set_unknown(unknown);
    }
}

/// Adds the handler that accepts every plugin, for all types without a handler of their own.
fn add_accept_handler(table: &mut HandlerTable) -> HandlerId {
    table.add([""; 0], AcceptHandler)
}

/// The handler for the plugins of a type, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'a> {
    /// The handler of CSI drivers, with the periods of NodeGetInfo.
    Csi(&'a [(String, Duration)]),
    Device,
    Dra,
    /// The handler that accepts every plugin.
    Others,
    /// The handler that runs this program, with the periods of NodeGetInfo.
    Program(&'a Path, &'a [(String, Duration)]),
}

/// Returns the handler for the plugins of a type, or `None` if the type is not configured.
fn target<'a>(kind: &str, config: &'a HandlerConfig) -> Option<Target<'a>> {
    let mut programs = config.exec.iter();
    if let Some(exec) = programs.find(|exec| exec.kind == kind) {
        let periods = match kind {
            csi::TYPE => &config.csi_node_info[..],
            _ => &[],
        };
        return Some(Target::Program(&exec.program, periods));
    }
    let is_accepted = config.types.iter().any(|it| it == kind);
    is_accepted.then_some(match kind {
        csi::TYPE => Target::Csi(&config.csi_node_info),
        device::TYPE => Target::Device,
        dra::TYPE => Target::Dra,
        _ => Target::Others,
    })
}

/// Returns the types that the configuration names.
fn configured_types(config: &HandlerConfig) -> impl Iterator<Item = &str> {
    let programs = config.exec.iter().map(|exec| &*exec.kind);
    config.types.iter().map(|kind| &**kind).chain(programs)
}

/// A text that is not the name of a plugin type: a look-up finds the handler for unknown types.
const NO_TYPE: &str = "";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::{DEFAULT_TYPES, Exec};
    use crate::handler::{Answer, Context, EffectIds, Plugin};
    use crate::time::Time;

    fn config(types: &[&str], unknown: UnknownTypes, exec: &[(&str, &str)]) -> HandlerConfig {
        let exec = exec.iter().map(|&(kind, program)| Exec {
            kind: kind.to_owned(),
            program: program.into(),
        });
        HandlerConfig {
            types: types.iter().map(|&kind| kind.to_owned()).collect(),
            unknown_types: unknown,
            exec: exec.collect(),
            ..NO_HANDLERS
        }
    }

    #[test]
    fn each_type_has_a_handler_that_names_what_a_dry_run_omits() {
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
            assert_eq!(table.not_checked(kind), Some(expected));
        }
    }

    #[test]
    fn a_type_with_the_same_settings_keeps_its_handler() {
        use UnknownTypes::{Accept, Ignore, Reject};
        let steps = [
            config(&["CSIPlugin", "A", "A"], Reject, &[]),
            config(
                &["A", "B", "CSIPlugin"],
                Reject,
                &[("X", "/x"), ("Y", "/y")],
            ),
            config(&["B", "CSIPlugin"], Accept, &[("Y", "/y"), ("X", "/z")]),
            config(&["CSIPlugin"], Accept, &[("B", "/b"), ("Y", "/y")]),
            config(
                &["DRAPlugin", "DevicePlugin", "X"],
                Ignore,
                &[("CSIPlugin", "/c")],
            ),
            config(&["CSIPlugin"], Reject, &[]),
            config(&[], Accept, &[("A", "/a")]),
        ];
        let kinds = [
            "A",
            "B",
            "X",
            "Y",
            "CSIPlugin",
            "DRAPlugin",
            "DevicePlugin",
            "other",
        ];
        let (mut table, mut inventory) = <(HandlerTable, Inventory)>::default();
        let mut before = &NO_HANDLERS;
        for after in &steps {
            let found = kinds.map(|kind| table.find(kind));
            change_handlers(&mut table, &mut inventory, before, after);
            for (kind, old) in kinds.into_iter().zip(found) {
                let new = table.find(kind);
                let is_accepted = target(kind, after).is_some() || after.unknown_types == Accept;
                assert_eq!(new.is_some(), is_accepted, "{kind} in {after:?}");
                // An unknown type that is accepted has the fallback handler.
                let of = |config| {
                    let is_unknown_accepted = accepts_unknown_types(config);
                    target(kind, config).or_else(|| is_unknown_accepted.then_some(Target::Others))
                };
                let is_same = of(before) == of(after) && of(after).is_some();
                assert_eq!(old == new && new.is_some(), is_same, "{kind} in {after:?}");
            }
            assert_eq!(table.ignores_unknown(), after.unknown_types == Ignore);
            before = after;
        }
    }

    fn accepts_unknown_types(config: &HandlerConfig) -> bool {
        config.unknown_types == UnknownTypes::Accept
    }

    #[test]
    fn the_inventory_is_that_of_the_handlers_in_force() {
        let (mut table, mut inventory) = <(HandlerTable, Inventory)>::default();
        let dra = config(&[dra::TYPE], UnknownTypes::Reject, &[]);
        for (before, after) in [
            (&NO_HANDLERS, &dra),
            (&dra, &NO_HANDLERS),
            (&NO_HANDLERS, &dra),
        ] {
            change_handlers(&mut table, &mut inventory, before, after);
        }
        let mut plugin = Plugin::named(dra::TYPE, "a");
        plugin.versions.push("v1.DRAPlugin".to_owned());
        let (mut ids, mut effects) = (EffectIds::default(), Vec::new());
        let mut context = Context::new(Time::ZERO, None, &mut ids, &mut effects);
        let id = table.find(dra::TYPE).expect("a handler");
        let handler = table.get_mut(id).expect("it is in use");
        let answer = handler.register(&Arc::new(plugin), &mut context);
        assert_eq!(answer, Answer::YES);
        assert!(inventory.dra_drivers.get("a").is_some());
    }
}
