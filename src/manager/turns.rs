//! Whose turn it is to speak to a handler about a plugin name.
//!
//! Pure. The handler's contract is kept per plugin name, whatever sockets the plugins of that name
//! have: an operation takes a turn before its first question and keeps it until it ends.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

use crate::handler::Plugin;

/// The operations that hold or await a turn, by plugin type and name; the first one holds it.
#[derive(Debug, Default)]
pub(super) struct Turns {
    lines: LiteMap<Name, VecDeque<Arc<Path>>>,
}

type Name = (String, String);

fn name_of(plugin: &Plugin) -> Name {
    (plugin.kind.clone(), plugin.name.clone())
}

impl Turns {
    /// The operation on the socket at `path` gets in line. True when its turn has come at once.
    pub(super) fn take(&mut self, plugin: &Plugin, path: &Arc<Path>) -> bool {
        let line = self.lines.entry(name_of(plugin)).or_default();
        line.push_back(path.clone());
        line.len() == 1
    }

    /// That operation leaves the line. Returns the one whose turn has come because of it.
    pub(super) fn leave(&mut self, plugin: &Plugin, path: &Path) -> Option<Arc<Path>> {
        let name = name_of(plugin);
        let line = self.lines.get_mut(&name)?;
        let place = line.iter().position(|waiting| **waiting == *path)?;
        line.remove(place);
        let next = line.front().cloned();
        if next.is_none() {
            self.lines.remove(&name);
        }
        if place == 0 { next } else { None }
    }

    /// The operation that holds the turn for this plugin's name.
    pub(super) fn holder(&self, plugin: &Plugin) -> Option<&Arc<Path>> {
        self.lines.get(&name_of(plugin))?.front()
    }
}
