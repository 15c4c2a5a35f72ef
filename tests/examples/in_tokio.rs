//! The plugin manager inside a program that runs on tokio: a task among others.
//!
//! `cargo run --example in-tokio -- DIRECTORY` registers what appears there until Ctrl-C.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, error, io};

use plugind::config::{Config, DEFAULT_TYPES};
use plugind::daemon::PluginManager;
use plugind::handler::{AcceptHandler, HandlerTable};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn error::Error>> {
    let dir = env::args_os().nth(1).ok_or("name a directory")?;
    let config = Config {
        plugins_dirs: vec![PathBuf::from(dir)],
        ..Config::default()
    };
    let mut handlers = HandlerTable::new();
    handlers.add(DEFAULT_TYPES, AcceptHandler);
    let plugins = PluginManager::new(&config, handlers)?;
    tokio::select! {
        ended = serve(plugins) => ended?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(())
}

/// Runs the plugin manager's turns until it has stopped.
async fn serve(plugins: PluginManager) -> io::Result<()> {
    let mut plugins = register(plugins)?;
    while !plugins.get_ref().is_stopped() {
        let longest = plugins.get_ref().poll_timeout().unwrap_or(Duration::MAX);
        // Either the descriptor is ready or the time is up: a turn finds out what there is to do.
        if let Ok(ready) = timeout(longest, plugins.readable_mut()).await {
            // The turn below reads all that made it readable, or leaves a timeout of zero.
            ready?.clear_ready();
        }
        plugins.get_mut().turn(Some(Duration::ZERO))?;
        println!(
            "{} plugins",
            plugins.get_ref().manager().registered().count()
        );
    }
    Ok(())
}

/// Registers the plugin manager's only descriptor with tokio.
#[allow(unsafe_code, reason = "tokio has no safe way to watch a descriptor")]
fn register(plugins: PluginManager) -> io::Result<AsyncFd<PluginManager>> {
    // SAFETY: a plugin manager keeps its descriptor open for as long as it lives, never has another
    // one, and is owned by what is returned.
    let registered = unsafe { AsyncFd::register_with_interest(plugins, Interest::READABLE) };
    registered.map_err(|error| error.into_parts().1)
}
