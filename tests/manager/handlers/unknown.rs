//! Plugins of unknown types, and of types with a handler of their own.

use log::Level;
use plugind::config::{BACKOFF, UnknownTypes};

use crate::handlers::node::Node;
use crate::script::Script;

const REG: &str = "/r/toaster-reg.sock";

#[test]
fn a_plugin_of_an_unknown_type_is_told_what_the_option_says() {
    let long = "T".repeat(60_000);
    let no_handler = "no handler registered for plugin type: Toaster at socket /r/toaster-reg.sock";
    let control = "plugin validation failed with err: plugin name contains a control character";
    let too_long = "plugin validation failed with err: plugin type is too long";
    for (unknown, kind, name, told) in [
        (
            UnknownTypes::Reject,
            "Toaster",
            "t.example",
            Err(no_handler),
        ),
        (UnknownTypes::Accept, "Toaster", "t.example", Ok(())),
        (
            UnknownTypes::Ignore,
            "Toaster",
            "t.example",
            Err("not notified"),
        ),
        // The type is looked up before the name is checked.
        (
            UnknownTypes::Reject,
            "Toaster",
            "bad\nname",
            Err(no_handler),
        ),
        (UnknownTypes::Accept, "Toaster", "bad\nname", Err(control)),
        (
            UnknownTypes::Ignore,
            "Toaster",
            "bad\nname",
            Err("not notified"),
        ),
        // No handler can have this one.
        (UnknownTypes::Ignore, &long, "t.example", Err(too_long)),
    ] {
        let mut node = Node::with(&["CSIPlugin"], unknown);
        node.world.appear(REG, Script::good(kind, name));
        assert_eq!(node.notified(REG), told, "{unknown:?} {name}");
        let mut events = node.world.events.iter();
        let refused = events.find(|it| it.reason() == "ValidationFailed");
        let is_wanted = unknown == UnknownTypes::Ignore && kind != long;
        let level = if is_wanted { Level::Info } else { Level::Warn };
        assert!(
            refused.is_none_or(|it| it.level() == level),
            "{unknown:?} {name}"
        );
        let registered = usize::from(told.is_ok());
        assert_eq!(node.world.counts(), (1, registered), "{unknown:?} {name}");
        node.world.advance(3 * BACKOFF.cap);
        assert_eq!(node.notified(REG), told, "{unknown:?} {name}, later");
        node.has_time_for_others();
    }
}
