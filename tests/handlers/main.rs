//! The built-in handlers in virtual time, behind a real manager: what they know of plugins that
//! behave, and what becomes of those that are slow, silent, wrong, too large or gone. Rows of
//! kubelet's own tests carry their names.

mod csi;
mod device;
mod dra;
mod log;
mod node;
#[path = "../manager/script.rs"]
mod script;
mod takeover;
mod unknown;
#[path = "../manager/world.rs"]
mod world;
