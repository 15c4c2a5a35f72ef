//! Device plugins that announce themselves: their directory, and their calls.

use std::path::{Path, PathBuf};

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

    /// Fails if a directory overlaps with the one in which device plugins register.
    pub(super) fn check_apart(&self, dir: &Path) -> Result<(), SetupError> {
        let registrations = self.device_plugins.as_ref().map(|it| &**it.dir());
        match registrations.filter(|registrations| overlaps(registrations, dir)) {
            Some(registrations) => Err(overlap(registrations.to_owned(), dir)),
            None => Ok(()),
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
    match dirs.iter().find(|other| overlaps(&dir, other)) {
        Some(other) => Err(overlap(dir, other)),
        None => Ok(Some(dir)),
    }
}

/// Returns whether one of two directories is the other one, or is inside it.
fn overlaps(a: &Path, b: &Path) -> bool {
    let [a, b] = [a, b].map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.to_owned()));
    a.starts_with(&b) || b.starts_with(&a)
}

fn overlap(dir: PathBuf, other: &Path) -> SetupError {
    let problem = DevicePluginsProblem::Overlaps(other.to_owned());
    SetupError::DevicePlugins { dir, problem }
}
