//! The sandbox: drops privileges once the daemon has started, so that code which a malformed
//! message might inject can do little.
//!
//! Landlock restricts the daemon to the files in the table. The daemon may connect to every socket:
//! that is restricted by the checks of [`crate::config::Trust`]. A rule applies to an existing
//! directory, and not to another one that is created later at the same path. So for a directory
//! that the daemon may have to create again, the rule is for the directory two levels above.
//!
//! | allowed | below |
//! |---|---|
//! | list and create directories | the directory two levels above each plugins directory |
//! | list and create directories | the directory two levels above that of `kubelet.sock` |
//! | create sockets | the directory two levels above that of `kubelet.sock` |
//! | remove files | the parent of the directory of `kubelet.sock` |
//! | remove files | the directory of the API socket |
//! | list, read, write, create and remove files | the run directory; the directory of CDI files |
//! | list, read, write, create and remove files | the directory of the state file |
//! | create and remove directories, create symbolic links | the run directory |
//! | read files | the directory of the configuration file |
//! | list directories, read files | `/proc` |

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::config::{Config, DEFAULT_CONFIG_FILE, DaemonConfig, Trust};
use crate::daemon::PluginManager;
use crate::daemon::fs::permissions;

/// The sandbox that the process has entered, until a restart.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// The directories below which plugins directories may be; `None` for everywhere.
    roots: Option<Vec<PathBuf>>,
    /// The capabilities before any were dropped.
    had: CapabilitySet,
}

/// Restricts this thread, and all that it starts, to what the configuration needs. `manager` is the
/// configuration of the plugin manager, with the default run directory filled in. Returns the
/// sandbox, or `None` if it is off or if programs would inherit it, and its description for the
/// status.
pub(super) fn enter(
    config: &DaemonConfig,
    manager: &Config,
    plugins: &PluginManager,
) -> (Option<Sandbox>, String) {
    if !config.sandbox {
        return (None, "off".to_owned());
    }
    if !config.handlers.exec.is_empty() {
        return (None, "off, because programs would inherit it".to_owned());
    }
    permissions::preload_accounts();
    let dirs = plugins.directories().iter();
    let roots: Vec<PathBuf> = dirs.flat_map(|dir| ancestor_dirs(dir, 2)).collect();
    let had = capabilities(None).map_or(CapabilitySet::empty(), |it| it.permitted);
    drop_capabilities(&manager.trust);
    let (roots, text) = match restrict_thread(&rules(config, manager, plugins, &roots)) {
        Ok(Some(abi)) => (Some(roots), format!("on, Landlock ABI {abi}")),
        Ok(None) => (None, "on, without Landlock: it is not available".to_owned()),
        Err(error) => (None, format!("on, without Landlock: {error}")),
    };
    (Some(Sandbox { roots, had }), text)
}

impl Sandbox {
    /// Reverts the settings of a new configuration that the sandbox does not allow. Returns their
    /// keys.
    pub(super) fn revert_disallowed(
        &self,
        new: &mut DaemonConfig,
        plugins: &PluginManager,
    ) -> Vec<&'static str> {
        let mut keys = Vec::new();
        let is_allowed = |dir: &PathBuf| {
            let roots = self.roots.as_deref().unwrap_or(&[]);
            let is_below = |dir: PathBuf| roots.iter().any(|root| dir.starts_with(root));
            self.roots.is_none() || ancestor_dirs(dir, 1).into_iter().all(is_below)
        };
        let (manager, handlers) = (&mut new.manager, &mut new.handlers);
        if !manager.plugins_dirs.iter().all(is_allowed) {
            plugins.directories().clone_into(&mut manager.plugins_dirs);
            keys.push("plugins-dir");
        }
        if !handlers.exec.is_empty() {
            handlers.exec.clear();
            keys.push("exec");
        }
        keys
    }

    /// Drops the capabilities that `trust` does not need. If `trust` needs one that was dropped
    /// before, returns the key of the setting.
    pub(super) fn drop_unneeded_capabilities(&self, trust: &Trust) -> Option<&'static str> {
        drop_capabilities(trust);
        let left = capabilities(None).map_or(self.had, |it| it.permitted);
        let is_missing = !left.contains(self.had & needed_capabilities(trust));
        let key = match (trust.is_strict(), trust.uids.is_empty()) {
            (false, _) => "trust",
            (true, false) => "allow-uid",
            (true, true) => "allow-name",
        };
        is_missing.then_some(key)
    }
}

/// Returns the directory `levels` levels above `dir`, counting only directories that exist. If that
/// is `/`, returns a lower one above `dir` instead, if there is one. The first result is for the
/// path as given, the second for the path with symbolic links resolved.
fn ancestor_dirs(dir: &Path, levels: usize) -> [PathBuf; 2] {
    let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    [dir, &real].map(|dir| {
        let mut above = dir.ancestors().skip(1).filter(|it| it.exists());
        let nearest = above.next().unwrap_or(dir);
        let further = above.take(levels - 1).filter(|it| it.parent().is_some());
        further.last().unwrap_or(nearest).to_owned()
    })
}

/// Returns the directories of a configuration, each with what is allowed below it. `roots` are
/// those above the plugins directories.
fn rules(
    config: &DaemonConfig,
    manager: &Config,
    plugins: &PluginManager,
    roots: &[PathBuf],
) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    use AccessFs::{MakeDir, MakeReg, MakeSock, MakeSym, ReadDir, ReadFile, RemoveDir, RemoveFile};
    let written = ReadDir | ReadFile | AccessFs::WriteFile | AccessFs::Truncate | MakeReg;
    let written = written | RemoveFile;
    let parent = |file: &Path| file.parent().map(Path::to_owned);
    let mut rules = vec![(PathBuf::from("/proc"), ReadDir | ReadFile)];
    rules.extend(roots.iter().map(|dir| (dir.clone(), ReadDir | MakeDir)));
    if let Some(dir) = &manager.device_plugins_dir {
        let made = ReadDir | MakeDir | MakeSock;
        rules.extend(ancestor_dirs(dir, 2).map(|dir| (dir, made)));
        rules.extend(ancestor_dirs(dir, 1).map(|dir| (dir, RemoveFile.into())));
    }
    let run_dir = manager.run_dir.clone();
    rules.extend(run_dir.map(|dir| (dir, written | MakeDir | MakeSym | RemoveDir)));
    let state = manager.state_file.as_deref().and_then(parent);
    rules.extend(state.map(|dir| (dir, written)));
    rules.extend(manager.cdi_dir.clone().map(|dir| (dir, written)));
    let socket = plugins.api_socket().and_then(parent);
    rules.extend(socket.map(|dir| (dir, RemoveFile.into())));
    let file = config.file.as_deref();
    let file = file.unwrap_or_else(|| Path::new(DEFAULT_CONFIG_FILE));
    let real = file.canonicalize().ok();
    let files = [Some(file), real.as_deref()].into_iter().flatten();
    rules.extend(files.filter_map(parent).map(|dir| (dir, ReadFile.into())));
    rules
}

/// Restricts this thread to these rules and, if the kernel supports it, forbids TCP and signals to
/// processes outside the sandbox. From now on the thread and its children cannot gain privileges.
/// Returns the ABI version of Landlock that is in force; `None` if the kernel lacks or disables
/// Landlock.
fn restrict_thread(rules: &[(PathBuf, BitFlags<AccessFs>)]) -> Result<Option<i32>, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
        .handle_access(AccessNet::from_all(LANDLOCK_ABI))?
        .scope(Scope::Signal)?
        .create()?;
    for (dir, allowed) in rules {
        // A directory that does not exist, such as that of the configuration file, needs no rule.
        if let Ok(dir) = PathFd::new(dir) {
            ruleset = ruleset.add_rule(PathBeneath::new(dir, *allowed))?;
        }
    }
    let status = ruleset.restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. }
            if status.ruleset != RulesetStatus::NotEnforced =>
        {
            Some(effective_abi as i32)
        }
        _ => None,
    })
}

/// Drops the capabilities that are not needed. Logs a warning if that fails.
fn drop_capabilities(trust: &Trust) {
    let Ok(sets) = capabilities(None) else { return };
    let kept = sets.permitted & needed_capabilities(trust);
    if sets.permitted == kept {
        return;
    }
    let kept = CapabilitySets {
        effective: sets.effective & kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    if let Err(error) = set_capabilities(None, kept) {
        log::warn!("cannot drop capabilities, keeping them: {error}");
    }
}

/// Returns the capabilities that are needed: CAP_DAC_OVERRIDE for connecting to the sockets of
/// other users, whose mode is usually 0755, unless strict mode refuses all other users.
fn needed_capabilities(trust: &Trust) -> CapabilitySet {
    if trust.is_strict() && trust.uids.is_empty() && trust.names.is_empty() {
        CapabilitySet::empty()
    } else {
        CapabilitySet::DAC_OVERRIDE
    }
}

/// The version of Landlock whose access rights are restricted (Linux 6.10). Later versions can also
/// restrict connections to Unix sockets, which plugins may have anywhere.
const LANDLOCK_ABI: ABI = ABI::V5;

#[cfg(test)]
mod tests;
