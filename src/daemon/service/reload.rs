//! A reload: the configuration is read again, and what has changed is applied to the running
//! daemon.
//!
//! Every step that can fail is taken first. If one fails, nothing has changed, except that
//! directories that were created stay.

use log::LevelFilter;
use serde_json::json;

use super::handlers::resolve_programs;
use crate::api::{Response, Status};
use crate::config::DaemonConfig;
use crate::daemon::{Daemon, PluginManager, SetupError};
use crate::manager::event::EventKind;

/// A function that reads the configuration. Returns the configuration and the log level, or a line
/// for each problem.
pub type Load = Box<dyn Fn() -> Result<(DaemonConfig, LevelFilter), Vec<String>>>;

/// The keys of the settings that were changed, and of those that need a restart.
type Difference = (Vec<&'static str>, Vec<String>);

impl Daemon {
    /// Reads the configuration again and applies it, and responds to the clients that asked for
    /// that. Does nothing while the daemon is stopping.
    pub(super) fn reload_and_answer(&mut self) {
        if self.is_stopping() {
            return;
        }
        self.service.notify_reloading(self.plugins.clock.now());
        let reloaded = (self.load)().and_then(|(new, level)| {
            let applied = self.apply_config(new, level);
            applied.map_err(|error| vec![error.to_string()])
        });
        let (event, response) = match reloaded {
            Ok((changed, needs_restart)) => {
                let done = json!({ "changed": changed, "needsRestart": needs_restart });
                let keys = |name: &str, keys: &str| match keys {
                    "" => String::new(),
                    keys => [" ", name, "=", keys].concat(),
                };
                let mut text = keys("changed", &changed.join(","));
                text += &keys("needs-restart", &needs_restart.join(","));
                if text.is_empty() {
                    text.push_str(" nothing has changed");
                }
                let text = "reloaded the configuration:".to_owned() + &text;
                let event = EventKind::ConfigReloaded(text);
                (event, Response::json(&done))
            }
            Err(problems) => {
                let text = [REJECTED, &problems.join("; ")].concat();
                let status = Status::UNPROCESSABLE_CONTENT;
                let refused = Response::error(status, &problems.join("\n"));
                (EventKind::ConfigRejected(text), refused)
            }
        };
        self.plugins.finish_reload(event, &response);
        self.service.queue_ready();
    }

    /// Applies a configuration. Returns what has changed, or why nothing has.
    fn apply_config(
        &mut self,
        mut new: DaemonConfig,
        level: LevelFilter,
    ) -> Result<Difference, SetupError> {
        let sandbox = self.sandbox.as_ref();
        let reverted = sandbox.map(|it| it.revert_disallowed(&mut new, &self.plugins));
        resolve_programs(&mut new.handlers, new.manager.trust.is_strict())?;
        PluginManager::require_trusted_directories(&new.manager)?;
        let has_other_dirs = self.plugins.set_directories(&new.manager.plugins_dirs)?;
        let mut changed = Vec::from_iter(has_other_dirs.then_some("plugins-dir"));
        let mut needs_restart = (self.needs_restart)(&self.config, &new);
        changed.extend(self.apply_changes(&new, level));
        let sandbox = self.sandbox.as_ref();
        let narrowed = sandbox.and_then(|it| it.drop_unneeded_capabilities(&new.manager.trust));
        let unchanged = reverted.into_iter().flatten().chain(narrowed);
        needs_restart.extend(unchanged.map(str::to_owned));
        Ok((changed, needs_restart))
    }

    /// Applies the settings that differ, except for the directories and for those that are read
    /// only at the start. Returns their keys.
    fn apply_changes(&mut self, new: &DaemonConfig, level: LevelFilter) -> Vec<&'static str> {
        let mut changed = Vec::new();
        let mut note = |key, is_changed: bool| {
            changed.extend(is_changed.then_some(key));
            is_changed
        };
        let (plugins, config) = (&mut self.plugins, &new.manager);
        let old = &mut self.config.manager;
        if note("map-path", config.path_map != old.path_map) {
            plugins.set_path_map(&config.path_map);
            old.path_map = config.path_map.clone();
        }
        if note("on-down", config.on_down != old.on_down) {
            plugins.set_on_down(config.on_down);
            old.on_down = config.on_down;
        }
        let (trust, old_trust) = (&config.trust, &old.trust);
        let has_other_endpoints = trust.endpoint_dirs != old_trust.endpoint_dirs
            || trust.allows_abstract != old_trust.allows_abstract;
        note("trust", trust.mode != old_trust.mode);
        note("endpoint-dir", has_other_endpoints);
        note("allow-uid", trust.uids != old_trust.uids);
        note("allow-name", trust.names != old_trust.names);
        if trust != old_trust {
            plugins.set_trust(trust);
            old.trust = trust.clone();
        }
        if note("memory-budget", config.memory_budget != old.memory_budget) {
            plugins.set_memory_budget(config.memory_budget);
            old.memory_budget = config.memory_budget;
        }
        let has_other_level = note("verbose", level != self.level);
        if let Some(log) = self.log.filter(|_| has_other_level) {
            log.set_level(level);
        }
        self.level = level;
        let (handlers, old) = (&new.handlers, &self.config.handlers);
        note("type", handlers.types != old.types);
        note("unknown-types", handlers.unknown_types != old.unknown_types);
        note("exec", handlers.exec != old.exec);
        note("csi-node-info", handlers.csi_node_info != old.csi_node_info);
        if handlers != old {
            plugins.change_handlers(&mut self.inventory, old, handlers);
            self.config.handlers = handlers.clone();
        }
        changed
    }
}

const REJECTED: &str = "cannot reload the configuration, so the one before stays in force: ";

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use nix::sys::signal::{Signal, raise};

    use super::*;
    use crate::config::Config;

    /// Runs a daemon for which these signals are pending before its first turn. A reload ends the
    /// daemon. Returns how often the configuration was read.
    fn count_reloads(signals: &[Signal]) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let config = DaemonConfig {
            manager: Config {
                plugins_dirs: vec![dir.path().join("plugins")],
                run_dir: Some(dir.path().join("run")),
                ..Config::default()
            },
            ..DaemonConfig::default()
        };
        let count = Rc::new(Cell::new(0));
        let counted = count.clone();
        let same = config.clone();
        let load = move || {
            counted.set(counted.get() + 1);
            raise(Signal::SIGTERM).unwrap();
            Ok((same.clone(), LevelFilter::Info))
        };
        let level = LevelFilter::Info;
        let daemon = Daemon::new(&config, None, level, Box::new(load), |_, _| Vec::new()).unwrap();
        for signal in signals {
            raise(*signal).unwrap();
        }
        daemon.run().unwrap();
        count.get()
    }

    #[test]
    fn signals_during_the_start_reload_once() {
        assert_eq!(count_reloads(&[Signal::SIGHUP; 3]), 1);
    }

    #[test]
    fn a_daemon_that_stops_does_not_reload() {
        assert_eq!(count_reloads(&[Signal::SIGHUP, Signal::SIGTERM]), 0);
    }
}
