//! A custom handler that answers at once: it accepts toasters, as many as there are sockets.
//!
//! `cargo run --example simple-handler -- DIRECTORY` runs until it is killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::{env, error};

use plugind::config::Config;
use plugind::daemon::PluginManager;
use plugind::handler::{Answer, Context, HandlerTable, Plugin, PluginHandler};

/// A handler that gives each toaster a socket in the wall.
struct ToasterHandler {
    free_sockets: usize,
}

impl PluginHandler for ToasterHandler {
    /// Judges by what the plugin reports, which is all that is known here. After a no, the plugin
    /// is notified of the reason once, and asked again with backoff.
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        if plugin.versions.iter().any(|version| version == "v1") {
            Answer::YES
        } else {
            Answer::no("only version v1 is supported")
        }
    }

    /// Registers the plugin, or rejects it for now: after a no, registration is retried with
    /// backoff, so nothing may be left of it.
    fn register(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        if self.free_sockets == 0 {
            return Answer::no("every socket is in use");
        }
        self.free_sockets -= 1;
        println!("{plugin} is plugged in");
        Answer::YES
    }

    /// Deregisters the plugin, which has gone: it cannot be called, and the answer changes nothing.
    /// With a state file it may also be a plugin that an earlier process registered.
    fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.free_sockets += 1;
        println!("{plugin} is unplugged");
        Answer::YES
    }
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let dir = env::args_os().nth(1).ok_or("name a directory")?;
    let config = Config {
        plugins_dirs: vec![PathBuf::from(dir)],
        ..Config::default()
    };
    let mut handlers = HandlerTable::new();
    handlers.add(["Toaster"], ToasterHandler { free_sockets: 2 });
    let mut plugins = PluginManager::new(&config, handlers)?;
    loop {
        plugins.turn(None)?;
    }
}
