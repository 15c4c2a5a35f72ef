//! The states of plugins that operators see, and the changes of records, for readers that follow
//! them.
//!
//! Events and changes of records are counted together: the count is the generation. Each
//! record has the generation of its last change, so a reader that has seen everything up to a
//! generation asks for the next change after it, and gets the latest state of each record, however
//! slowly it reads. A reader keeps only a generation, and the manager keeps nothing for a reader.
//!
//! Records that were removed are remembered, up to limits. A reader that has not seen a removal
//! before it was forgotten has to list the records again (`Expired`).

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::event::Generation;
use super::ids::{Process, SocketId};
use crate::config::REMOVED_RECORDS;
use crate::time::Time;

/// The state of a plugin, as an operator sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The socket was found. In a dry run, if the plugin is known: it would be registered.
    #[default]
    Discovered,
    /// The daemon connects to the socket, or waits for the reply to GetInfo.
    Connecting,
    /// The handler validates or registers the plugin, or the plugin is notified of the outcome.
    Registering,
    /// The plugin is registered, and is the one to use for its name.
    Registered,
    /// The plugin is registered, but a newer one of its name is used.
    Standby,
    /// The plugin is registered, but does not answer, or its handler has given it up.
    Down,
    /// The last attempt failed; the next one follows after a pause.
    Backoff,
    /// The plugin was refused, or would be in a dry run; it is asked again after a pause, or when
    /// the cause may have been removed.
    Rejected,
    /// The plugin is being deregistered.
    Deregistering,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Discovered,
        Self::Connecting,
        Self::Registering,
        Self::Registered,
        Self::Standby,
        Self::Down,
        Self::Backoff,
        Self::Rejected,
        Self::Deregistering,
    ];

    /// Returns the name of the state in CamelCase.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discovered => "Discovered",
            Self::Connecting => "Connecting",
            Self::Registering => "Registering",
            Self::Registered => "Registered",
            Self::Standby => "Standby",
            Self::Down => "Down",
            Self::Backoff => "Backoff",
            Self::Rejected => "Rejected",
            Self::Deregistering => "Deregistering",
        }
    }

    /// Returns the state of that name, in upper or lower case, or `None` if no state has that name.
    pub fn parse(name: &str) -> Option<Self> {
        let mut states = Self::ALL.into_iter();
        states.find(|state| state.name().eq_ignore_ascii_case(name))
    }
}

/// The part of a record that can change and depends on the socket alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    /// The state, except that [`State::Standby`] counts as [`State::Registered`].
    pub(super) state: State,
    /// Whether the plugin is known. This may change although the state does not, if the plugin is
    /// deregistered within one step.
    pub(super) has_plugin: bool,
    pub(super) attempts: u32,
    pub(super) next_retry: Option<Time>,
    pub(super) process: Option<Process>,
    /// The number of reasons not to trust the plugin.
    pub(super) distrusted: u32,
}

/// The changes of records.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) generation: Generation,
    /// The generation of each record's last change, with the record's socket, oldest first. Between
    /// them are earlier changes, and changes of removed records, with [`OUTDATED`] as the socket.
    last: VecDeque<(Generation, SocketId)>,
    /// The number of these others in `last`.
    outdated: usize,
    /// The records that were removed, oldest first.
    removed: VecDeque<Removed>,
    /// The total length of the paths of the removed records, in octets.
    removed_len: usize,
    /// The generation of the newest removal that was forgotten; 0 if none was.
    expired: Generation,
}

/// The last change of a record, which readers may have seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// The generation of the last change; 0 before the first.
    pub(super) generation: Generation,
    /// The generation of the first change.
    pub(super) created: Generation,
    /// The time at which the state was entered.
    pub(super) since: Time,
    /// `None` before the first visit.
    pub(super) summary: Option<Summary>,
}

#[derive(Debug)]
pub(super) struct Removed {
    pub(super) generation: Generation,
    pub(super) socket: Arc<Path>,
}

impl Changes {
    /// Starts the next generation, and returns it.
    pub(super) fn advance_generation(&mut self) -> Generation {
        self.generation += 1;
        self.generation
    }

    /// Notes that a record has changed.
    pub(super) fn note_change(&mut self, id: SocketId, seen: &mut Seen) {
        let generation = self.advance_generation();
        if seen.generation == 0 {
            seen.created = generation;
        } else {
            self.remove_last(seen);
        }
        self.last.push_back((generation, id));
        seen.generation = generation;
    }

    /// Notes the removal of a record, if readers may have seen the record.
    pub(super) fn note_removal(&mut self, socket: &Arc<Path>, seen: &Seen) {
        if seen.generation == 0 {
            return;
        }
        self.remove_last(seen);
        let generation = self.advance_generation();
        self.removed_len += socket.as_os_str().len();
        self.removed.push_back(Removed {
            generation,
            socket: socket.clone(),
        });
        while REMOVED_RECORDS.is_exceeded_by(self.removed.len(), self.removed_len) {
            let Some(oldest) = self.removed.pop_front() else {
                break;
            };
            self.removed_len -= oldest.socket.as_os_str().len();
            self.expired = oldest.generation;
        }
    }

    fn remove_last(&mut self, seen: &Seen) {
        let place = self.last.binary_search_by_key(&seen.generation, |it| it.0);
        if let Ok(place) = place {
            self.last[place].1 = OUTDATED;
            self.outdated += 1;
        }
        if self.outdated > self.last.len() / 2 {
            self.last.retain(|it| it.1 != OUTDATED);
            self.outdated = 0;
        }
    }

    /// Returns whether a reader that has seen this generation can get every later change: the
    /// generation is not in the future, and no later removal was forgotten.
    pub(super) fn can_resume_after(&self, seen: Generation) -> bool {
        (self.expired..=self.generation).contains(&seen)
    }

    /// Returns the last change of each record that has changed after a generation, oldest first.
    pub(super) fn changed_after(
        &self,
        seen: Generation,
    ) -> impl Iterator<Item = (Generation, SocketId)> {
        let start = self.last.partition_point(|it| it.0 <= seen);
        let changes = self.last.range(start..).copied();
        changes.filter(|it| it.1 != OUTDATED)
    }

    /// Returns the first removal after a generation, even if the record was also created after
    /// that: a reader may have seen the record in a list that it began to read at that generation.
    pub(super) fn removed_after(&self, seen: Generation) -> Option<&Removed> {
        let start = self.removed.partition_point(|it| it.generation <= seen);
        self.removed.get(start)
    }
}

/// Stands for the socket of a change that is not the last one of its record, or whose record was
/// removed. No socket has this ID.
const OUTDATED: SocketId = SocketId(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_found_by_its_name() {
        for state in State::ALL {
            assert_eq!(State::parse(state.name()), Some(state));
            assert_eq!(State::parse(&state.name().to_lowercase()), Some(state));
        }
        assert_eq!(State::parse("Ready"), None);
    }
}
