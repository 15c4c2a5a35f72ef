//! Readers of the records: a reader that applies the changes to a list has the records of a fresh
//! list.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use plugind::handler::Plugin;
use plugind::manager::{
    Change, ChangeCursor, Expired, Generation, Manager, Process, Record, RecordCursor, State,
};
use plugind::time::Time;

/// A reader that follows the records: it reads a list, and then the changes since that.
#[derive(Debug, Default)]
pub(super) struct Reader {
    records: BTreeMap<Arc<Path>, Shown>,
    /// The list, until it is read to its end.
    list: Option<RecordCursor>,
    /// The changes since the list began; `None` before that.
    changes: Option<ChangeCursor>,
}

/// A record as the reader keeps it.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    plugin: Option<Arc<Plugin>>,
    state: State,
    since: Time,
    generation: Generation,
    attempts: u32,
    last_error: Option<String>,
    next_retry: Option<Time>,
    process: Option<Process>,
}

impl Shown {
    fn of(record: &Record<'_>) -> Self {
        Self {
            plugin: record.plugin.cloned(),
            state: record.state,
            since: record.since,
            generation: record.generation,
            attempts: record.attempts,
            last_error: record.last_error.map(|error| error.to_string()),
            next_retry: record.next_retry,
            process: record.process,
        }
    }
}

impl Reader {
    /// Reads the next record or change. Returns whether there was one.
    fn read_next(&mut self, manager: &Manager) -> bool {
        let changes = self.changes.get_or_insert_with(|| {
            self.records.clear();
            self.list = Some(RecordCursor::default());
            ChangeCursor::after(manager.generation())
        });
        if let Some(cursor) = &mut self.list {
            match manager.records().next_record(cursor) {
                Some(record) => {
                    let before = self
                        .records
                        .insert(record.socket.clone(), Shown::of(&record));
                    let is_newer = before.is_none_or(|it| it.generation < record.generation);
                    assert!(is_newer, "{:?} is listed twice", record.socket);
                }
                None => self.list = None,
            }
            return true;
        }
        let change = match manager.records().next_change(changes) {
            Ok(Some(change)) => change,
            Ok(None) => return false,
            Err(Expired) => {
                self.changes = None;
                return true;
            }
        };
        match &change {
            Change::Set { record, is_new } => {
                let before = self
                    .records
                    .insert(record.socket.clone(), Shown::of(record));
                assert!(*is_new || before.is_some(), "{record:?} was not added");
            }
            Change::Removed { socket, .. } => {
                self.records.remove(*socket);
            }
        }
        true
    }

    /// Reads everything, and compares it with a fresh list.
    pub(super) fn check(&mut self, manager: &Manager) {
        while self.read_next(manager) {}
        let fresh: BTreeMap<_, _> = manager
            .records()
            .iter()
            .map(|record| (record.socket.clone(), Shown::of(&record)))
            .collect();
        assert_eq!(self.records, fresh, "what a fresh list has");
    }
}
