//! Registered plugins that use up the descriptors.

use crate::row::Row;
use crate::support::plugin::Plugin;
use crate::until::Steps;

#[test]
fn more_plugins_than_descriptors_keep_no_other_from_registering() {
    let row = Row::new(
        "more plugins are registered than there are descriptors",
        "never registered",
    );
    row.after("ulimit -n 64").withstand(|dir, over| {
        let steps = Steps::new(over);
        let serve = |n| Plugin::serve(&dir.join(format!("{n}.sock")), &format!("p-{n}"));
        let plugins: Vec<_> = (0..PLUGINS).map(serve).collect();
        for plugin in &plugins {
            if steps.until_registered(plugin).is_none() {
                return;
            }
        }
        while steps.next() {}
    });
}

/// The number of plugins beside the honest one: each takes six descriptors of the test.
const PLUGINS: usize = 80;
