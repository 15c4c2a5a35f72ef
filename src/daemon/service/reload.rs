//! A reload: the configuration is read again, and what has changed is applied to the running
//! daemon.
//!
//! Every step that can fail is taken first. If one fails, nothing has changed, except that
//! directories that were created stay.

use std::mem;

use log::LevelFilter;
use serde_json::json;

use super::handlers::resolve_programs;
use crate::api::{Response, Status};
use crate::config::DaemonConfig;
use crate::daemon::Daemon;
use crate::daemon::Load;
use crate::daemon::PluginManager;
use crate::daemon::SetupError;
use crate::manager::event::EventKind;

/// The keys of the settings that differ.
#[derive(Debug, Default)]
struct Difference {
    changed: Vec<String>,
    needs_restart: Vec<String>,
}

impl Daemon {
    /// Makes [`Daemon::run`] read the configuration again with `load` on SIGHUP, and when a client
    /// of the API requests that. `level` is that of the log; `needs_restart` returns the keys of
    /// the settings that differ and are read only at the start.
    #[must_use]
    pub fn with_reload(
        mut self,
        load: Load,
        level: LevelFilter,
        needs_restart: fn(&DaemonConfig, &DaemonConfig) -> Vec<String>,
    ) -> Self {
        self.plugins.api.offer_reload();
        (self.load, self.level, self.needs_restart) = (Some(load), level, needs_restart);
        self
    }

    /// Reads the configuration again and applies it, and responds to the clients that asked for
    /// that. Does nothing while the daemon is stopping.
    pub(crate) fn reload(&mut self) {
        if self.is_stopping() {
            return;
        }
        self.service.notify_reloading(self.plugins.now());
        let outcome = self.reload_config();
        match outcome {
            Ok(Difference {
                changed,
                needs_restart,
            }) => {
                let keys = |name: &str, keys: &[String]| match keys {
                    [] => String::new(),
                    keys => [" ", name, "=", &keys.join(",")].concat(),
                };
                let mut text = keys("changed", &changed) + &keys("needs-restart", &needs_restart);
                if text.is_empty() {
                    text.push_str(" nothing has changed");
                }
                let text = "reloaded the configuration:".to_owned() + &text;
                let event = EventKind::ConfigReloaded(text);
                let done = json!({ "changed": changed, "needsRestart": needs_restart });
                self.plugins.finish_reload(event, &Response::json(&done));
            }
            Err(problems) => {
                let text = [REJECTED, &problems.join("; ")].concat();
                let event = EventKind::ConfigRejected(text);
                let status = Status::UNPROCESSABLE_CONTENT;
                let refused = Response::error(status, &problems.join("\n"));
                self.plugins.finish_reload(event, &refused);
            }
        }
        self.service.queue_ready();
    }

    /// Reads the configuration again and applies it. Returns what has changed, or the problems
    /// because of which nothing has.
    fn reload_config(&mut self) -> Result<Difference, Vec<String>> {
        let Some(load) = &self.load else {
            return Ok(Difference::default());
        };
        let (mut new, level) = load()?;
        self.apply_config(&mut new, level)
            .map_err(|error| vec![error.to_string()])
    }

    fn apply_config(
        &mut self,
        new: &mut DaemonConfig,
        level: LevelFilter,
    ) -> Result<Difference, SetupError> {
        let sandbox = self.sandbox.as_ref();
        let reverted = sandbox.map(|it| it.revert_disallowed(new, &self.plugins));
        let is_strict = new.manager.trust.is_strict();
        resolve_programs(&mut new.handlers, is_strict)?;
        PluginManager::require_trusted_directories(&new.manager)?;
        let mut keys = Vec::new();
        let (config, old) = (&new.manager, &mut self.config.manager);
        let plugins = &mut self.plugins;
        let is_changed = plugins.set_directories(&config.plugins_dirs)?;
        push_if(&mut keys, "plugins-dir", is_changed);
        if push_if(&mut keys, "map-path", config.path_map != old.path_map) {
            plugins.set_path_map(&config.path_map);
            old.path_map = config.path_map.clone();
        }
        if push_if(&mut keys, "on-down", config.on_down != old.on_down) {
            plugins.set_on_down(config.on_down);
            old.on_down = config.on_down;
        }
        let (new_trust, trust) = (&config.trust, &mut old.trust);
        push_if(&mut keys, "trust", new_trust.mode != trust.mode);
        let is_changed = new_trust.endpoint_dirs != trust.endpoint_dirs
            || new_trust.allows_abstract != trust.allows_abstract;
        push_if(&mut keys, "endpoint-dir", is_changed);
        push_if(&mut keys, "allow-uid", new_trust.uids != trust.uids);
        push_if(&mut keys, "allow-name", new_trust.names != trust.names);
        if new_trust != trust {
            plugins.set_trust(new_trust);
            *trust = new_trust.clone();
        }
        let is_changed = config.memory_budget != old.memory_budget;
        if push_if(&mut keys, "memory-budget", is_changed) {
            plugins.set_memory_budget(config.memory_budget);
            old.memory_budget = config.memory_budget;
        }
        if push_if(&mut keys, "verbose", level != self.level) {
            self.level = level;
            if let Some(log) = self.log {
                log.set_level(level);
            }
        }
        let (before, after) = (&mut self.config.handlers, &mut new.handlers);
        let is_type = push_if(&mut keys, "type", before.types != after.types);
        let is_changed = before.unknown_types != after.unknown_types;
        let is_unknown = push_if(&mut keys, "unknown-types", is_changed);
        let is_exec = push_if(&mut keys, "exec", before.exec != after.exec);
        let is_changed = before.csi_node_info != after.csi_node_info;
        let is_period = push_if(&mut keys, "csi-node-info", is_changed);
        if is_type || is_unknown || is_exec || is_period {
            plugins.change_handlers(&mut self.inventory, before, after);
            mem::swap(before, after);
        }
        let mut needs_restart = (self.needs_restart)(&self.config, new);
        let narrowed = sandbox.and_then(|it| it.drop_unneeded_capabilities(&config.trust));
        let unchanged = reverted.into_iter().flatten().chain(narrowed);
        needs_restart.extend(unchanged.map(str::to_owned));
        Ok(Difference {
            needs_restart,
            changed: keys,
        })
    }
}

/// Adds a key if its setting has changed. Returns whether it has.
fn push_if(keys: &mut Vec<String>, key: &str, is_changed: bool) -> bool {
    if is_changed {
        keys.push(key.to_owned());
    }
    is_changed
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
        let daemon = Daemon::new(&config).unwrap();
        for signal in signals {
            raise(*signal).unwrap();
        }
        let daemon = daemon.with_reload(Box::new(load), LevelFilter::Info, |_, _| Vec::new());
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
