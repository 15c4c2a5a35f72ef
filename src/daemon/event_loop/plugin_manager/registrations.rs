//! The directory in which device plugins register.

use std::path::{Path, PathBuf};

use crate::config::{Config, Mode, PathMap};
use crate::daemon::fs::{roots, scan};
use crate::daemon::{SetupError, SocketProblem};
use crate::escape;

/// Returns the directory in which device plugins register, if one is configured, and creates it if
/// it is missing. Returns `None` in a dry run. Fails if the directory overlaps with a plugins
/// directory, where GetInfo would be called on every socket.
pub(super) fn resolve_dir(
    config: &Config,
    dirs: &[PathBuf],
) -> Result<Option<PathBuf>, SetupError> {
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
    let _ = scan::create_dir(&dir);
    reject_overlap(&dir, dirs)?;
    Ok(Some(dir))
}

/// Fails if the directory in which device plugins register overlaps with a plugins directory.
pub(super) fn reject_overlap(dir: &Path, dirs: &[PathBuf]) -> Result<(), SetupError> {
    match dirs.iter().find(|other| roots::overlap(dir, other)) {
        Some(other) => Err(SetupError::DevicePlugins {
            dir: dir.to_owned(),
            problem: SocketProblem::Overlaps(other.clone()),
        }),
        None => Ok(()),
    }
}

/// Returns the path map with a rule that maps the directory in which device plugins register to
/// itself: device plugins report names of files in that directory, which need no mapping.
pub(super) fn map_to_itself(path_map: &PathMap, dir: Option<&Path>) -> PathMap {
    let mut path_map = path_map.clone();
    if let Some(dir) = dir {
        path_map.add(dir, dir);
    }
    path_map
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::daemon::PluginManager;
    use crate::handler::HandlerTable;

    #[test]
    fn the_path_map_does_not_apply_to_sockets_of_device_plugins() {
        let mut config = Config::default();
        config.path_map.add("/", "/host");
        let path_map = map_to_itself(&config.path_map, Some(Path::new("/d")));
        assert_eq!(
            path_map.translate(Path::new("/d/a.sock")),
            Path::new("/d/a.sock")
        );
        assert_eq!(
            path_map.translate(Path::new("/e/a.sock")),
            Path::new("/host/e/a.sock")
        );
    }

    #[test]
    fn rs2_the_service_is_stopped_twice_and_started_again() {
        let root = tempfile::tempdir().unwrap();
        let device_plugins_dir = root.path().join("device-plugins");
        let socket = device_plugins_dir.join("kubelet.sock");
        let config = Config {
            plugins_dirs: vec![root.path().join("plugins")],
            device_plugins_dir: Some(device_plugins_dir),
            run_dir: Some(root.path().join("run")),
            ..Config::default()
        };
        for _ in 0..2 {
            let mut plugins = PluginManager::new(&config, HandlerTable::new()).unwrap();
            assert!(socket.exists());
            plugins.stop();
            plugins.stop();
            assert!(plugins.is_stopped() && !socket.exists());
            plugins.turn(Some(Duration::ZERO)).unwrap();
            let service = plugins.device_plugins.as_mut().unwrap();
            service.is_check_due = true;
            assert_eq!(service.poll_timeout(), None, "nothing is left to do");
        }
    }
}
