//! Which handler to choose in a program that embeds the plugin manager.
//!
//! | the program | handler |
//! |---|---|
//! | only wants to know which plugins there are | [`AcceptHandler`], for any types |
//! | needs node IDs, devices and their health, as kubelet does | [`built_in`] |
//! | has a program or script that registers plugins | [`handlers`], with [`HandlerConfig::exec`] |
//! | decides itself, or calls the plugins | its own [`PluginHandler`] |
//!
//! They can be mixed: a [`HandlerTable`] has one handler for each type, and [`HandlerTable::add`]
//! replaces that of the types it is given.
//!
//! - [`AcceptHandler`] accepts every plugin, and calls none. [`Manager::registered`] lists them.
//! - [`built_in`] calls NodeGetInfo on CSI drivers, keeps ListAndWatch open for device plugins, and
//!   NodeWatchResources for DRA drivers, and accepts plugins of all other types that it is given.
//!   What it knows is in the [`Inventory`] that it returns; pass that to
//!   [`PluginManager::set_inventory`] to have the API show it.
//! - [`handlers`] returns the same for a whole [`HandlerConfig`], and refuses programs that other
//!   users could change.
//! - A [`PluginHandler`] of your own answers at once, or leaves its question open until it knows
//!   ([`Answer::Pending`]). It makes calls to plugins through its [`Context`], which never blocks.
//!   `tests/examples/simple_handler.rs` decides by a list; `tests/examples/calling_handler.rs`
//!   makes a call first.
//!
//! A type without a handler is refused in kubelet's words, unless [`HandlerTable`] is told to
//! accept or ignore it ([`UnknownTypes`]).
//!
//! [`AcceptHandler`]: crate::handler::AcceptHandler
//! [`Answer::Pending`]: crate::handler::Answer::Pending
//! [`Context`]: crate::handler::Context
//! [`HandlerConfig`]: crate::config::HandlerConfig
//! [`HandlerConfig::exec`]: crate::config::HandlerConfig::exec
//! [`HandlerTable`]: crate::handler::HandlerTable
//! [`HandlerTable::add`]: crate::handler::HandlerTable::add
//! [`Inventory`]: crate::handler::Inventory
//! [`Manager::registered`]: crate::manager::Manager::registered
//! [`PluginHandler`]: crate::handler::PluginHandler
//! [`PluginManager::set_inventory`]: crate::daemon::PluginManager::set_inventory
//! [`UnknownTypes`]: crate::config::UnknownTypes
//! [`built_in`]: crate::handler::built_in
//! [`handlers`]: crate::daemon::handlers
