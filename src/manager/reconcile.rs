//! The reconciler: what to do next so that the actual state becomes the desired one.
//!
//! [`action`] examines one socket; the manager calls it for the sockets to which something has
//! happened, and from time to time for all of them.

use crate::watch::Identity;

/// The action that a socket needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The running operation is about a socket that was removed or replaced: cancel the operation.
    Cancel,
    /// A handler knows the socket's plugin, but the socket was removed or replaced: deregister the
    /// plugin.
    Deregister,
    /// The socket exists, and no handler knows its plugin: register the plugin.
    Register,
}

/// The purpose of the operation that runs on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To register the plugin behind the socket, or to observe it in a dry run.
    Registered,
    /// To check whether the registered plugin behind the socket still answers.
    Checked,
    /// To deregister the plugin, or to end after a cancellation.
    Gone,
}

/// Returns the action that a path needs: `desired` is the socket that exists there, `actual` the
/// socket whose plugin a handler knows, and `running` the purpose of the operation that runs, with
/// the socket that it is about. If a plugin must be deregistered although its socket exists, the
/// caller passes `None` as `desired`.
pub fn action(
    desired: Option<Identity>,
    actual: Option<Identity>,
    running: Option<(Target, Identity)>,
) -> Option<Action> {
    match (running, desired, actual) {
        (Some((Target::Gone, _)), _, _) => None,
        (Some((_, about)), desired, _) => (desired != Some(about)).then_some(Action::Cancel),
        (None, desired, Some(actual)) => (desired != Some(actual)).then_some(Action::Deregister),
        (None, Some(_), None) => Some(Action::Register),
        (None, None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Identity = Identity {
        device: 1,
        inode: 1,
        btime: 1,
    };
    const OTHER: Identity = Identity {
        device: 1,
        inode: 1,
        btime: 2,
    };

    #[test]
    fn each_state_of_a_socket_has_one_action() {
        use Action::{Cancel, Deregister, Register};
        let operation = |target| Some((target, ONE));
        let registering = operation(Target::Registered);
        let checking = operation(Target::Checked);
        let leaving = operation(Target::Gone);
        let table = [
            (None, None, None, None),
            (Some(ONE), None, None, Some(Register)),
            (Some(ONE), Some(ONE), None, None),
            (Some(OTHER), Some(ONE), None, Some(Deregister)),
            (None, Some(ONE), None, Some(Deregister)),
            (Some(ONE), None, registering, None),
            (Some(ONE), Some(ONE), registering, None),
            (Some(OTHER), None, registering, Some(Cancel)),
            (None, Some(ONE), registering, Some(Cancel)),
            (Some(ONE), Some(ONE), checking, None),
            (None, Some(ONE), checking, Some(Cancel)),
            (Some(ONE), None, leaving, None),
            (None, None, leaving, None),
        ];
        for (desired, actual, running, expected) in table {
            let got = action(desired, actual, running);
            assert_eq!(got, expected, "{desired:?} {actual:?} {running:?}");
        }
    }
}
