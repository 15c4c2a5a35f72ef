//! Whose turn it is to speak to a handler about a plugin name.
//!
//! Pure. The handler's contract is kept per plugin name, whatever sockets the plugins of that name
//! have: an operation takes a turn before its first question and keeps it until it ends.

use std::ops::Range;
use std::sync::Arc;

use super::execute::AttemptId;
use crate::handler::{Plugin, line};

/// The operations that hold or await a turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By plugin name and type, and of one name in the order in which they came: the first one
    /// holds the turn.
    waiting: Vec<(Arc<Plugin>, AttemptId)>,
}

impl Turns {
    /// The operation gets in line. True when its turn has come at once.
    pub(super) fn take(&mut self, plugin: &Arc<Plugin>, attempt: AttemptId) -> bool {
        let line = self.line(plugin);
        self.waiting.insert(line.end, (plugin.clone(), attempt));
        line.is_empty()
    }

    /// That operation leaves the line. Returns the one whose turn has come because of it.
    pub(super) fn leave(&mut self, plugin: &Plugin, attempt: AttemptId) -> Option<AttemptId> {
        let line = self.line(plugin);
        let mut waiting = self.waiting[line.clone()].iter();
        let place = waiting.position(|(_, waiting)| *waiting == attempt)?;
        self.waiting.remove(line.start + place);
        let is_any_left = line.len() > 1;
        (place == 0 && is_any_left).then(|| self.waiting[line.start].1)
    }

    /// The operation that holds the turn for this plugin's name.
    pub(super) fn holder(&self, plugin: &Plugin) -> Option<AttemptId> {
        let (_, attempt) = self.waiting[self.line(plugin)].first()?;
        Some(*attempt)
    }

    /// Where the line for this plugin's name is, or would be.
    fn line(&self, plugin: &Plugin) -> Range<usize> {
        line(&self.waiting, |(it, _)| it.key().cmp(&plugin.key()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::proto::pluginregistration::PluginInfo;

    fn plugin(kind: &str, name: &str) -> Arc<Plugin> {
        let info = PluginInfo {
            r#type: kind.into(),
            name: name.into(),
            ..PluginInfo::default()
        };
        Arc::new(Plugin::from_info(info, Path::new("/r/a").into()).expect("it has a name"))
    }

    #[test]
    fn of_one_name_and_type_one_operation_at_a_time_has_the_turn() {
        let [a, other_type, other_name] =
            [("K", "a"), ("L", "a"), ("K", "b")].map(|(kind, name)| plugin(kind, name));
        let mut turns = Turns::default();
        assert!(turns.take(&a, AttemptId(1)));
        assert!(turns.take(&other_type, AttemptId(2)) && turns.take(&other_name, AttemptId(3)));
        assert!(!turns.take(&a, AttemptId(4)) && !turns.take(&a, AttemptId(5)));
        assert_eq!(turns.holder(&a), Some(AttemptId(1)));
        assert_eq!(turns.leave(&a, AttemptId(4)), None, "it had no turn yet");
        assert_eq!(turns.leave(&a, AttemptId(1)), Some(AttemptId(5)));
        assert_eq!(turns.leave(&a, AttemptId(1)), None, "it has left");
        assert_eq!(turns.leave(&a, AttemptId(5)), None, "nobody is left");
        assert_eq!(turns.holder(&a), None);
        assert_eq!(turns.holder(&other_type), Some(AttemptId(2)));
    }
}
