//! Plugins of unknown types, and of types with a handler of their own.

use log::Level;
use plugind::config::{BACKOFF, UnknownTypes};
use plugind::manager::PluginEvent;

use crate::handlers::node::Node;
use crate::script::Script;

const REG: &str = "/r/toaster-reg.sock";

#[test]
fn a_plugin_of_an_unknown_type_is_told_what_the_option_says() {
    use UnknownTypes::{Accept, Ignore, Reject};
    let long = "T".repeat(60_000);
    let no_handler = "no handler registered for plugin type: Toaster at socket /r/toaster-reg.sock";
    let control = "plugin validation failed with err: plugin name contains a control character";
    let too_long = "plugin validation failed with err: plugin type is too long";
    let (good, bad) = ("t.example", "bad\nname");
    for (unknown, kind, name, told) in [
        (Reject, "Toaster", good, Err(no_handler)),
        (Accept, "Toaster", good, Ok(())),
        (Ignore, "Toaster", good, Err("not notified")),
        // The type is looked up before the name is checked.
        (Reject, "Toaster", bad, Err(no_handler)),
        (Accept, "Toaster", bad, Err(control)),
        (Ignore, "Toaster", bad, Err("not notified")),
        // No handler can have this one.
        (Ignore, &long, good, Err(too_long)),
    ] {
        let mut node = Node::with(&["CSIPlugin"], unknown);
        node.world.appear(REG, Script::good(kind, name));
        assert_eq!(node.notified(REG), told, "{unknown:?} {name}");
        let mut events = node.world.events.iter();
        let refused = events.find(|it| it.reason() == "ValidationFailed");
        let is_wanted = unknown == Ignore && kind != long;
        let level = if is_wanted { Level::Info } else { Level::Warn };
        let logged = refused.map(PluginEvent::level);
        let expected = told.is_err().then_some(level);
        assert_eq!(logged, expected, "{unknown:?} {name}");
        let registered = usize::from(told.is_ok());
        assert_eq!(node.world.counts(), (1, registered), "{unknown:?} {name}");
        node.world.advance(3 * BACKOFF.cap);
        assert_eq!(node.notified(REG), told, "{unknown:?} {name}, later");
        node.has_time_for_others();
    }
}
