//! What to do next, so that the actual state becomes the desired one.
//!
//! Pure. [`action`] looks at one socket; the manager asks it about the sockets to which something
//! has happened, and about all of them now and then. [`plan`] looks at everything, in the order of
//! kubelet's reconciler: unregistrations first.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::actual::Actual;
use super::desired::Desired;
use crate::watch::Identity;

/// What a socket needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The operation that runs on it is about a socket that is not there any more: cancel it.
    Cancel,
    /// Its plugin is known to a handler, but the socket has gone or is another one: deregister.
    Deregister,
    /// It is there, and no handler knows its plugin: register.
    Register,
}

/// What the operation that runs on a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To register the plugin behind this socket.
    Registered(Identity),
    /// To see whether the registered plugin behind this socket is still there.
    Checked(Identity),
    /// To make the handler forget the plugin.
    Gone,
}

/// What a socket needs, from what is at its path, what a handler knows under that path, and what is
/// being done about it.
pub fn action(
    desired: Option<Identity>,
    actual: Option<Identity>,
    running: Option<Target>,
) -> Option<Action> {
    match (running, desired, actual) {
        (Some(Target::Gone), _, _) => None,
        (Some(Target::Registered(identity) | Target::Checked(identity)), desired, _) => {
            (desired != Some(identity)).then_some(Action::Cancel)
        }
        (None, desired, Some(actual)) => (desired != Some(actual)).then_some(Action::Deregister),
        (None, Some(_), None) => Some(Action::Register),
        (None, None, None) => None,
    }
}

/// Everything that would be done if nothing were running yet: unregistrations, then registrations.
pub fn plan(desired: &Desired, actual: &Actual) -> Vec<(Action, Arc<Path>)> {
    let sockets = desired.iter().map(|(path, _)| path);
    let plugins = actual.iter().map(|(path, _)| path);
    let mut steps: Vec<_> = sockets
        .chain(plugins)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter_map(|path| {
            let desired = desired.get(path).map(|socket| socket.identity);
            let actual = actual.get(path).map(|registered| registered.identity);
            Some((action(desired, actual, None)?, path.clone()))
        })
        .collect();
    steps.sort();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Identity = Identity {
        device: 1,
        inode: 1,
        born: (1, 0),
    };
    const OTHER: Identity = Identity {
        device: 1,
        inode: 1,
        born: (2, 0),
    };

    #[test]
    fn each_state_of_a_socket_has_one_action() {
        use Action::{Cancel, Deregister, Register};
        let table = [
            (None, None, None, None),
            (Some(ONE), None, None, Some(Register)),
            (Some(ONE), Some(ONE), None, None),
            (Some(OTHER), Some(ONE), None, Some(Deregister)),
            (None, Some(ONE), None, Some(Deregister)),
            (Some(ONE), None, Some(Target::Registered(ONE)), None),
            (Some(ONE), Some(ONE), Some(Target::Registered(ONE)), None),
            (
                Some(OTHER),
                None,
                Some(Target::Registered(ONE)),
                Some(Cancel),
            ),
            (None, Some(ONE), Some(Target::Registered(ONE)), Some(Cancel)),
            (Some(ONE), Some(ONE), Some(Target::Checked(ONE)), None),
            (None, Some(ONE), Some(Target::Checked(ONE)), Some(Cancel)),
            (Some(ONE), None, Some(Target::Gone), None),
            (None, None, Some(Target::Gone), None),
        ];
        for (desired, actual, running, expected) in table {
            let got = action(desired, actual, running);
            assert_eq!(got, expected, "{desired:?} {actual:?} {running:?}");
        }
    }
}
