//! A handler of one's own that answers at once: it takes toasters, as many as there are sockets.
//!
//! `cargo run --example simple-handler -- DIRECTORY` works until it is killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::{env, error};

use plugind::config::Config;
use plugind::daemon::PluginManager;
use plugind::handler::{Answer, Context, HandlerTable, Plugin, PluginHandler};

/// Gives each toaster a socket in the wall.
struct ToasterHandler {
    free_sockets: usize,
}

impl PluginHandler for ToasterHandler {
    /// What the plugin says of itself is all there is to judge by. A no is final: it is told the
    /// reason, and asked again only when something has changed.
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        if plugin.versions.iter().any(|version| version == "v1") {
            Answer::YES
        } else {
            Answer::no("only toasters of version v1 fit")
        }
    }

    /// A no here is for now: it is tried again with backoff. Nothing may be left of it.
    fn register(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        if self.free_sockets == 0 {
            return Answer::no("every socket is in use");
        }
        self.free_sockets -= 1;
        println!("{plugin} is plugged in");
        Answer::YES
    }

    /// The plugin has gone: it can't be asked any more, and what is said here changes nothing. With
    /// a state file it may also be one that an earlier process registered.
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
