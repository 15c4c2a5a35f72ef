//! Turns: which operation may ask a handler about a plugin name.
//!
//! Pure. The handler's contract holds per plugin name, whatever sockets the plugins of that name
//! have: an operation takes a turn before its first question and keeps it until it ends. A question
//! that stays open for [`STALLED_AFTER`] holds up no other socket: the next operation in line gets
//! a turn, too, and the stalled one continues when its answer arrives.

use std::ops::Range;
use std::sync::Arc;

use super::execute::AttemptId;
use super::operation::Event;
use super::{Manager, Wake};
use crate::config::STALLED_AFTER;
use crate::handler::{Plugin, line};
use crate::time::Time;

/// The operations that hold or await a turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Sorted by plugin name and type, and for each name in the order of arrival. At most one of a
    /// name is [`Place::Held`]; if none is, none is [`Place::Awaited`].
    waiting: Vec<InLine>,
}

/// An operation, and the plugin for whose name it holds or awaits a turn.
#[derive(Debug)]
struct InLine {
    plugin: Arc<Plugin>,
    attempt: AttemptId,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The operation awaits its turn.
    Awaited,
    /// The operation has its turn, and the others wait for it.
    Held,
    /// The operation has its turn, and the others do not wait for it.
    Stalled,
}

impl Turns {
    /// Adds the operation to the line. Returns whether it has its turn at once.
    pub(super) fn take(&mut self, plugin: &Arc<Plugin>, attempt: AttemptId) -> bool {
        let line = self.line(plugin);
        let mut others = self.waiting[line.clone()].iter();
        let is_free = others.all(|other| other.place == Place::Stalled);
        let place = if is_free { Place::Held } else { Place::Awaited };
        let plugin = plugin.clone();
        let in_line = InLine {
            plugin,
            attempt,
            place,
        };
        self.waiting.insert(line.end, in_line);
        is_free
    }

    /// Removes the operation from the line. Returns the one that gets its turn because of that.
    pub(super) fn leave(&mut self, plugin: &Plugin, attempt: AttemptId) -> Option<AttemptId> {
        let mut line = self.line(plugin);
        let at = self.find(line.clone(), attempt)?;
        let left = self.waiting.remove(at);
        line.end -= 1;
        (left.place == Place::Held).then(|| self.next(line))?
    }

    /// Lets the others pass an operation whose question is stalled. Returns the one that gets its
    /// turn because of that.
    fn stall(&mut self, plugin: &Plugin, attempt: AttemptId) -> Option<AttemptId> {
        let line = self.line(plugin);
        let at = self.find(line.clone(), attempt)?;
        if self.waiting[at].place != Place::Held {
            return None;
        }
        self.waiting[at].place = Place::Stalled;
        self.next(line)
    }

    /// Returns whether the operation may ask the handler about this plugin's name.
    pub(super) fn holds(&self, plugin: &Plugin, attempt: AttemptId) -> bool {
        let at = self.find(self.line(plugin), attempt);
        at.is_some_and(|at| self.waiting[at].place != Place::Awaited)
    }

    /// Gives the turn to the operation in that line that has awaited it longest, and returns it.
    fn next(&mut self, line: Range<usize>) -> Option<AttemptId> {
        let mut line = self.waiting[line].iter_mut();
        let next = line.find(|it| it.place == Place::Awaited)?;
        next.place = Place::Held;
        Some(next.attempt)
    }

    fn find(&self, mut line: Range<usize>, attempt: AttemptId) -> Option<usize> {
        line.find(|&at| self.waiting[at].attempt == attempt)
    }

    /// Returns the range of the line for this plugin's name; if it is empty, where to insert into
    /// it.
    fn line(&self, plugin: &Plugin) -> Range<usize> {
        line(&self.waiting, |it| it.plugin.key().cmp(&plugin.key()))
    }
}

impl Manager {
    /// Starts to watch how long a handler takes to answer the operation, or stops if `since` is
    /// `None`.
    pub(super) fn watch_question(&mut self, attempt: AttemptId, since: Option<Time>) {
        let at = since.map(|since| since + STALLED_AFTER);
        self.deadlines.set(Wake::Stalled(attempt), at);
    }

    /// Gives a turn to the next operation, because a handler has not answered for a while.
    pub(super) fn question_stalled(&mut self, id: AttemptId) {
        let Some(running) = self.operations.get_mut(id) else {
            return;
        };
        let next = running.operation.plugin();
        if let Some(next) = next.and_then(|plugin| self.turns.stall(plugin, id)) {
            log::info!(
                "{}: the handler has not answered for {STALLED_AFTER:?}; \
                 another socket of the same plugin name goes ahead",
                running.attempt
            );
            self.push_event(next, Event::TurnCame);
        }
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
        assert!(turns.holds(&a, AttemptId(1)) && !turns.holds(&a, AttemptId(5)));
        assert_eq!(turns.leave(&a, AttemptId(4)), None, "it had no turn yet");
        assert_eq!(turns.leave(&a, AttemptId(1)), Some(AttemptId(5)));
        assert_eq!(turns.leave(&a, AttemptId(1)), None, "it has left");
        assert_eq!(turns.leave(&a, AttemptId(5)), None, "the line is empty");
        assert!(!turns.holds(&a, AttemptId(5)));
        assert!(turns.holds(&other_type, AttemptId(2)));
    }

    #[test]
    fn a_stalled_operation_keeps_its_turn_and_the_next_gets_one_too() {
        let a = plugin("K", "a");
        let mut turns = Turns::default();
        assert!(turns.take(&a, AttemptId(1)));
        assert!(!turns.take(&a, AttemptId(2)) && !turns.take(&a, AttemptId(3)));
        assert_eq!(turns.stall(&a, AttemptId(2)), None, "it awaits its turn");
        assert_eq!(turns.stall(&a, AttemptId(1)), Some(AttemptId(2)));
        assert_eq!(turns.stall(&a, AttemptId(1)), None, "it is stalled");
        assert!(turns.holds(&a, AttemptId(1)) && turns.holds(&a, AttemptId(2)));
        assert_eq!(turns.leave(&a, AttemptId(1)), None, "the turn is another's");
        assert_eq!(turns.leave(&a, AttemptId(2)), Some(AttemptId(3)));
        assert_eq!(turns.stall(&a, AttemptId(3)), None, "the line is empty");
        assert!(
            turns.take(&a, AttemptId(4)),
            "only stalled ones are before it"
        );
    }
}
