//! Finds the directories that other users can change, and the sockets that other users may serve.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::Uid;

use super::PluginManager;
use crate::config::{Config, Distrust, Mode, PLUGINS_DIR, RESYNC_INTERVAL, Trust};
use crate::daemon::SetupError;
use crate::daemon::fs::dial::{Opened, path_outside};
use crate::daemon::fs::open_path::open_path;
use crate::daemon::fs::permissions::{self, ProgramProblem};
use crate::daemon::fs::run_dir;
use crate::handler::Plugin;
use crate::manager;
use crate::time::Time;

impl PluginManager {
    /// Sets which plugins and endpoints are trusted. Registered plugins stay registered.
    pub fn set_trust(&mut self, trust: &Trust) {
        self.trust = Trust {
            own_uid: Uid::effective().as_raw(),
            ..trust.clone()
        };
        self.manager.set_trust(self.trust.clone());
        self.update_distrusted_directories();
        self.handle_input(manager::Input::Reconsider);
    }

    /// Fails in strict mode if other users can change a directory that this configuration relies
    /// on.
    pub(crate) fn require_trusted_directories(config: &Config) -> Result<(), SetupError> {
        if !config.trust.is_strict() {
            return Ok(());
        }
        let mut dirs = config.plugins_dirs.clone();
        dirs.extend(config.device_plugins_dir.clone());
        dirs.extend(resolve_own_dirs(config));
        permissions::require_trusted_directories(&dirs)
    }

    /// Checks the directories again if [`RESYNC_INTERVAL`] has passed since the last check.
    pub(super) fn update_distrusted_directories_if_due(&mut self, now: Time) {
        if self.directories_checked + RESYNC_INTERVAL <= now {
            self.update_distrusted_directories();
        }
    }

    /// Finds the directories that other users can change, and passes them on to the manager.
    /// Plugins in such a directory are not trusted. If it is the run directory or the directory of
    /// the state file, no plugin is trusted.
    pub(super) fn update_distrusted_directories(&mut self) {
        let (now, is_strict) = (self.clock.now(), self.trust.is_strict());
        self.directories_checked = now;
        let dirs = self.dirs.iter().map(PathBuf::as_path);
        let dirs = dirs.chain(self.device_plugins_dir());
        let own = self.own_dirs.iter().map(|dir| (&**dir, Path::new("/")));
        let found = dirs.map(|dir| (dir, dir)).chain(own);
        let found = found.filter_map(|(dir, above)| {
            // A file system that may not answer is not entered.
            open_path(dir, OFlag::empty(), &self.mounts).ok()?;
            let problem = permissions::resolve_trusted_directory(dir, !is_strict).err();
            let problem = problem.filter(|it| !matches!(it, ProgramProblem::NotFound(_)))?;
            let text = format!("{problem}; {}", problem.remedy());
            Some((above.to_owned(), Distrust::Directory(text.into())))
        });
        let found = found.collect();
        self.manager.set_distrusted_directories(found, now);
    }

    /// Returns the reasons why a socket is not trusted; `None` stands for an abstract socket.
    pub(super) fn distrust_reasons(&self, socket: Option<&Opened>) -> Vec<Distrust> {
        let trust = &self.trust;
        let Some(socket) = socket else {
            let why = (!trust.allows_abstract).then_some(Distrust::Abstract);
            return why.into_iter().collect();
        };
        let mut found = Vec::new();
        if !socket.is_direct {
            let roots = self.dirs.iter().filter(|dir| dir.ends_with(PLUGINS_DIR));
            let roots = roots.filter_map(|dir| dir.parent());
            let allowed = trust.endpoint_dirs.iter().map(PathBuf::as_path);
            let dirs = self.mounts.named_dirs().chain(allowed);
            let dirs = dirs.chain(self.device_plugins_dir()).chain(roots);
            let elsewhere = path_outside(socket, &dirs, &self.mounts);
            found.extend(elsewhere.map(|file| Distrust::Elsewhere(file.into())));
        }
        if trust.check_user(socket.found.uid).is_err() {
            found.push(Distrust::Owner(socket.found.uid));
        }
        found
    }

    /// Examines the endpoint of a plugin that would be registered, which a dry run does not connect
    /// to. If the endpoint is not trusted, makes the manager report why.
    pub(super) fn report_untrusted_endpoint(&mut self, plugin: &Plugin, now: Time) {
        if plugin.endpoint == plugin.socket {
            return;
        }
        let path = self.manager.path_map().translate(&plugin.endpoint);
        let found = if path.as_os_str().as_bytes().starts_with(b"@") {
            self.distrust_reasons(None)
        } else {
            // An endpoint that cannot be opened, such as one that does not exist yet, is not
            // examined.
            let Ok(socket) = Opened::follow(&path, &self.mounts) else {
                return;
            };
            self.distrust_reasons(Some(&socket))
        };
        for why in found {
            let socket = plugin.socket.clone();
            let distrusted = manager::Input::DistrustedEndpoint { socket, why };
            self.manager.handle_input(distrusted, now);
        }
    }
}

/// Returns the run directory, which is created if it is missing, and the directory of the state
/// file, as far as they are configured; none in a dry run.
pub(super) fn resolve_own_dirs(config: &Config) -> Vec<PathBuf> {
    if config.mode == Mode::Observe {
        return Vec::new();
    }
    let state = config.state_file.as_ref().and_then(|file| file.parent());
    let run_dir = config.run_dir.as_deref();
    let run_dir = run_dir.and_then(|dir| run_dir::open(Some(dir)).ok());
    let state = state.map(Path::to_owned);
    state.into_iter().chain(run_dir).collect()
}
