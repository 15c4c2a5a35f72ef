//! The built-in handlers in virtual time, behind a real manager: their inventory of plugins that
//! behave, and how they treat plugins that are slow, silent, wrong, too large or gone. Tests of
//! kubelet's own rows are named after them.

pub(crate) mod csi;
mod device;
mod device_lists;
mod dra;
mod memory;
pub(crate) mod node;
mod takeover;
mod unknown;
