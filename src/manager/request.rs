//! The requests of an operator: to try plugins again, and to forget one that is down.
//!
//! Pure.

use std::fmt;

use super::Manager;
use super::event::{EventKind, PluginEvent};
use super::record::Record;
use super::state::State;
use crate::time::Time;

/// The reason why a plugin cannot be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetError {
    /// No plugin of that type and name is known.
    NotFound,
    /// No plugin of that type and name is down.
    NotDown,
}

impl fmt::Display for ForgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such plugin",
            Self::NotDown => "the plugin is not down",
        })
    }
}

impl Manager {
    /// Emits an event of the daemon.
    pub(crate) fn report(&mut self, kind: EventKind) {
        self.context.emit(PluginEvent::of_daemon(kind));
    }

    /// Tries the selected plugins again at once, as if none of their attempts had failed: those
    /// that were refused or wait for their backoff are registered, and those that are down are
    /// checked. Returns their number, or `None` if no record was selected.
    pub fn retry(&mut self, is_selected: &dyn Fn(&Record<'_>) -> bool, now: Time) -> Option<usize> {
        self.context.now = now;
        let mut is_any_selected = false;
        let mut selected = Vec::new();
        for socket in self.sockets.iter() {
            let record = self.record_of(socket);
            if is_selected(&record) {
                is_any_selected = true;
                if matches!(record.state, State::Backoff | State::Rejected | State::Down) {
                    selected.push((socket.id, record.state));
                }
            }
        }
        for (id, state) in &selected {
            match state {
                State::Down => self.turn(*id, |turn| {
                    turn.check();
                }),
                _ => self.sockets.retry_now(*id, &mut self.context),
            }
        }
        self.run_until_idle();
        is_any_selected.then_some(selected.len())
    }

    /// Deregisters the plugins of a type and name that are down. Their sockets are then tried again
    /// like new ones. Returns the number of plugins.
    pub fn forget(&mut self, kind: &str, name: &str, now: Time) -> Result<usize, ForgetError> {
        self.context.now = now;
        let mut is_any = false;
        let mut down = Vec::new();
        for socket in self.sockets.iter() {
            let record = self.record_of(socket);
            if record
                .plugin
                .is_some_and(|it| it.kind == kind && it.name == name)
            {
                is_any = true;
                if record.state == State::Down {
                    down.push(socket.id);
                }
            }
        }
        if down.is_empty() {
            return Err(if is_any {
                ForgetError::NotDown
            } else {
                ForgetError::NotFound
            });
        }
        for id in &down {
            let Some(socket) = self.sockets.get_mut(*id) else {
                continue;
            };
            if let Some(registered) = &mut socket.registered {
                registered.health.end_grace();
                self.names.set_up(&registered.plugin, *id, false);
            }
            self.sockets.mark_dirty(*id, &mut self.context);
            self.sockets.withdraw_announced(*id, &mut self.context);
        }
        self.run_until_idle();
        Ok(down.len())
    }
}
