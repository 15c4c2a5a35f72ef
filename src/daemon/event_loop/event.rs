//! The events that an embedder has not read yet.

use std::collections::VecDeque;

pub use crate::api::Event;

/// The events that were not read yet, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct UnreadEvents {
    pub(crate) queue: VecDeque<Event>,
    limit: usize,
    /// The number of events that were dropped before they were read.
    pub(crate) dropped: u64,
}

impl UnreadEvents {
    /// Creates a queue with this limit.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Sets the maximum number of events to keep, and drops the oldest events beyond that number.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.drop_oldest_beyond(limit);
        self.queue.shrink_to(limit);
    }

    /// Adds an event; drops the oldest one if there are as many as the limit. If the limit is 0,
    /// the event is not kept, and does not count as dropped.
    pub(crate) fn push(&mut self, event: Event) {
        if self.limit == 0 {
            return;
        }
        self.drop_oldest_beyond(self.limit - 1);
        self.queue.push_back(event);
    }

    fn drop_oldest_beyond(&mut self, limit: usize) {
        let excess = self.queue.len().saturating_sub(limit);
        self.dropped += excess as u64;
        self.queue.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::watch::Report;

    fn event(dir: &str) -> Event {
        let dir = Path::new(dir).into();
        Event::Directory(Box::new(Report::Recovered { dir }))
    }

    #[test]
    fn the_newest_events_are_kept_up_to_the_limit() {
        let mut events = UnreadEvents::default();
        events.push(event("/0"));
        assert_eq!((events.queue.pop_front(), events.dropped), (None, 0));
        events.set_limit(2);
        for dir in ["/1", "/2", "/3"] {
            events.push(event(dir));
        }
        assert_eq!(events.dropped, 1);
        assert_eq!(events.queue.pop_front(), Some(event("/2")));
        events.push(event("/4"));
        events.set_limit(1);
        assert_eq!(
            (events.queue.pop_front(), events.dropped),
            (Some(event("/4")), 2)
        );
        assert_eq!(events.queue.pop_front(), None);
    }
}
