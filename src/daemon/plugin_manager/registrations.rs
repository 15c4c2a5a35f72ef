//! Device plugins that announce themselves: their directory, and their calls.

use std::path::PathBuf;

use super::PluginManager;
use crate::config::{Config, Mode};
use crate::daemon::{DevicePluginsProblem, SetupError, roots, scan};
use crate::escape;
use crate::time::Time;

impl PluginManager {
    /// Serves the clients of `kubelet.sock` for a moment.
    pub(super) fn serve_registrations(&mut self, now: Time) {
        let Some(device_plugins) = &mut self.device_plugins else {
            return;
        };
        for announced in device_plugins.serve(self.poll.registry(), now) {
            self.manager.handle_input(announced, now);
            self.drain_manager(now);
        }
    }
}

/// Returns the directory in which device plugins register, if there is one. It must not overlap
/// with a plugins directory, in which every socket would be asked for its plugin.
pub(super) fn dir(config: &Config, dirs: &[PathBuf]) -> Result<Option<PathBuf>, SetupError> {
    let Some(dir) = &config.device_plugins_dir else {
        return Ok(None);
    };
    let dir = roots::absolute(dir);
    if config.mode == Mode::Observe {
        log::info!(
            "dry run: device plugins cannot register in {}",
            escape::path(&dir)
        );
        return Ok(None);
    }
    let _ = scan::create(&dir);
    let real = dir.canonicalize().unwrap_or_else(|_| dir.clone());
    let overlapping = dirs.iter().find(|other| {
        let other = other.canonicalize().unwrap_or_else(|_| (*other).clone());
        other.starts_with(&real) || real.starts_with(&other)
    });
    match overlapping {
        Some(other) => {
            let problem = DevicePluginsProblem::Overlaps(other.clone());
            Err(SetupError::DevicePlugins { dir, problem })
        }
        None => Ok(Some(dir)),
    }
}
