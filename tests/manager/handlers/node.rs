//! A node with the built-in handlers.

use std::path::Path;
use std::time::Duration;

use plugind::config::{DEFAULT_TYPES, UnknownTypes};
use plugind::handler::{Inventory, built_in};
use plugind::manager::Manager;

use crate::handlers::csi::driver;
use crate::script::Script;
use crate::world::World;

/// A world around the built-in handlers, and their inventory.
pub(crate) struct Node {
    pub(crate) world: World,
    pub(crate) knows: Inventory,
}

impl Node {
    /// Returns a node that accepts kubelet's three types.
    pub(crate) fn new() -> Self {
        Self::with(&DEFAULT_TYPES, UnknownTypes::Reject)
    }

    /// Returns a node that accepts these types, and treats plugins of other types as `unknown`.
    pub(crate) fn with(types: &[&str], unknown: UnknownTypes) -> Self {
        let types: Vec<String> = types.iter().map(|&kind| kind.to_owned()).collect();
        let (handlers, knows) = built_in(&types, unknown);
        let world = World::with(Manager::new(handlers));
        Self { world, knows }
    }

    /// Returns the last status sent to the plugin behind the socket: registered, or the error.
    #[track_caller]
    pub(crate) fn notified(&self, socket: &str) -> Result<(), &str> {
        match self.world.notification_of(Path::new(socket)) {
            Some((true, _)) => Ok(()),
            Some((false, why)) => Err(why.strip_prefix("RegisterPlugin error -- ").unwrap_or(why)),
            None => Err("not notified"),
        }
    }

    /// Asserts that a plugin is refused after this time and no sooner, with words that begin so,
    /// and that another plugin registers meanwhile.
    #[track_caller]
    pub(crate) fn refuses_after(&mut self, socket: &str, time: Duration, words: &str) {
        if let Some(before) = time.checked_sub(Duration::from_millis(1)) {
            self.world.advance(before);
            assert_eq!(self.notified(socket), Err("not notified"), "{words}");
            self.has_time_for_others();
            self.world.advance(Duration::from_millis(1));
        }
        let notified = self.notified(socket).unwrap_err();
        assert!(notified.starts_with(words), "{notified:?} is not {words:?}");
    }

    /// Asserts that another plugin registers at this moment, whatever else is going on.
    #[track_caller]
    pub(crate) fn has_time_for_others(&mut self) {
        let now = self.world.now;
        let other = Script {
            services: driver("other").services,
            ..Script::csi("other")
        };
        self.world.appear(OTHER, other);
        assert_eq!(self.notified(OTHER), Ok(()), "another plugin registers");
        assert_eq!(self.world.now, now);
        self.world.vanish(OTHER);
    }
}

/// What the plugin is notified of, after `rpc error: code = `, if a call of its service fails: the
/// service closes the connection.
pub(crate) const EOF: &str = "Unavailable desc = error reading from server: EOF";

/// The same of a service that never answers.
pub(crate) const LATE: &str = "DeadlineExceeded desc = context deadline exceeded";

/// The same of a service whose reply cannot be decoded.
pub(crate) const UNREADABLE: &str =
    "Internal desc = grpc: failed to unmarshal the received message: ";

/// Returns a duration of that many seconds.
pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The registration socket of another plugin.
const OTHER: &str = "/r/other-reg.sock";
