//! The states of plugins that operators see.
//!
//! Pure: values only.

use super::process::Process;
use crate::time::Time;

/// The state of a plugin, as an operator sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The socket was found. In a dry run: the plugin would be registered, if it is known.
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
    /// The plugin is registered, but does not answer.
    Down,
    /// The last attempt failed; the next one follows after a pause.
    Backoff,
    /// The plugin was refused; it is asked again after a pause, or when handlers change.
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

    /// Returns the state of that name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        let mut states = Self::ALL.into_iter();
        states.find(|state| state.name().eq_ignore_ascii_case(name))
    }
}

/// What a change of a record can change, as far as the socket alone determines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// The state, except that [`State::Standby`] counts as [`State::Registered`].
    pub(super) state: State,
    /// Whether the plugin is known: a plugin that is deregistered at once may leave its socket in
    /// the state in which it was.
    pub(super) has_plugin: bool,
    pub(super) attempts: u32,
    pub(super) next_retry: Option<Time>,
    pub(super) process: Option<Process>,
}

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
