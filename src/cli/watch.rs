//! `plugind watch`, and `plugind list --watch`: lists the plugins, then shows each change.

use std::mem;

use serde_json::{Value, json};

use super::client::{Request, print};
use super::failure::{Failure, FailureKind, Result};
use super::json::{Fields as _, format_value, to_json_line};
use super::list::{self, WIDTHS, columns, selects, sort_records};
use super::options::{Context, Format, Options, now};
use super::table::{Column, Table};

/// Lists the plugins. With `watch` or `--watch`, then shows each change until the daemon stops.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    if !context.options.follows {
        return list::run(context);
    }
    let mut seen = Seen::new(context);
    loop {
        let mut response = context.client.send_request(&Request::follow(PATH))?;
        loop {
            let change = response.next_json()?.ok_or_else(Failure::daemon_stopped)?;
            if change["event"] == "EXPIRED" {
                break;
            }
            seen.apply_change(change, now());
            if !response.has_line() && seen.is_listed {
                print(seen.rows.take_text(""))?;
            }
        }
        if !seen.restart_list() {
            let why = "the daemon returns nothing but EXPIRED";
            return Err(Failure::new(FailureKind::Failed, why));
        }
    }
}

/// The path of the stream of changes.
pub(super) const PATH: &str = "/v1/watch";

/// Removes and returns the record of a socket.
pub(super) fn take_record(records: &mut Vec<Value>, socket: &Value) -> Option<Value> {
    let at = records.iter().position(|it| it["socket"] == *socket)?;
    Some(records.swap_remove(at))
}

/// The latest records from the daemon, and the rows to print about their changes.
struct Seen<'a> {
    options: &'a Options,
    columns: Vec<Column>,
    rows: Table,
    records: Vec<Value>,
    /// Whether the daemon has sent all records since the last request.
    is_listed: bool,
    /// Whether the first list of records was added to the rows.
    is_shown: bool,
    /// The records of the previous request that the daemon has not sent again. Those that are left
    /// at the bookmark, the end of the list, were deleted meanwhile.
    stale: Vec<Value>,
}

impl<'a> Seen<'a> {
    fn new(context: &Context<'a>) -> Self {
        let mut columns = columns(context.options.format).to_vec();
        if context.options.format != Format::Name {
            columns.insert(0, ("EVENT", |it, _| format_value(&it["event"])));
        }
        Self {
            options: context.options,
            rows: Table::of(context, &columns, WIDTHS),
            columns,
            records: Vec::new(),
            is_listed: false,
            is_shown: false,
            stale: Vec::new(),
        }
    }

    /// Prepares for a new list of all records. Returns whether the previous list was complete.
    fn restart_list(&mut self) -> bool {
        self.stale = mem::take(&mut self.records);
        mem::take(&mut self.is_listed)
    }

    /// Applies a change that the daemon has sent.
    fn apply_change(&mut self, mut change: Value, now: u64) {
        let record = change["record"].take();
        let generation = &change["generation"];
        let is_set = match change.text("event") {
            "ADDED" | "MODIFIED" => true,
            "DELETED" => false,
            "BOOKMARK" => return self.handle_bookmark(generation, now),
            _ => return,
        };
        let known = take_record(&mut self.records, &record["socket"]);
        let known = known.or_else(|| take_record(&mut self.stale, &record["socket"]));
        let selects = is_set && selects(self.options, &record);
        let (event, shown) = match known {
            None if !selects => return,
            None => ("ADDED", &record),
            // A record may be listed again without having changed.
            Some(known) if selects && known["generation"] == record["generation"] => {
                return self.records.push(record);
            }
            Some(_) if selects => ("MODIFIED", &record),
            Some(_) if is_set => ("DELETED", &record),
            Some(known) => ("DELETED", &mark_deleted(known)),
        };
        if self.is_shown {
            self.add_change(event, generation, Some(shown), now);
        }
        if selects {
            self.records.push(record);
        }
    }

    /// Handles the end of the list of all records, and later bookmarks.
    fn handle_bookmark(&mut self, generation: &Value, now: u64) {
        self.is_listed = true;
        if !mem::replace(&mut self.is_shown, true) {
            let mut all = self.records.clone();
            sort_records(&mut all);
            for record in &all {
                self.add_change("ADDED", &record["generation"], Some(record), now);
            }
        }
        for stale in mem::take(&mut self.stale) {
            self.add_change("DELETED", generation, Some(&mark_deleted(stale)), now);
        }
        self.add_change("BOOKMARK", generation, None, now);
    }

    /// Adds a row for an event of this generation about a record. An event without a record has a
    /// row only in the format JSON.
    fn add_change(&mut self, event: &str, generation: &Value, record: Option<&Value>, now: u64) {
        let mut row = record.cloned().unwrap_or_default();
        if self.options.format == Format::JsonLines {
            let mut change = json!({ "event": event, "generation": generation });
            if record.is_some() {
                change["record"] = row;
            }
            self.rows.add([to_json_line(&change)]);
        } else if record.is_some() {
            row["event"] = event.into();
            self.rows.add_value(&self.columns, &row, now);
        }
    }
}

/// Returns the last known record of a removed socket, with the state `Deleted`.
fn mark_deleted(mut record: Value) -> Value {
    record["state"] = "Deleted".into();
    record
}

pub(super) const HELP: &str = "\
Show the plugins of a running plugind, and then a line for each change, until
Ctrl-C or until the daemon stops.

Usage: plugind watch [OPTIONS] [TYPE[/NAME]]

Options:
  -o, --output FORMAT  table: EVENT and the columns of list (default); wide:
                       more columns; name: as in list; jsonl: an object per
                       line with event (ADDED, MODIFIED, DELETED, or BOOKMARK
                       when all were listed), generation and record
  --state STATE        only plugins in that state, as in list; one that leaves
                       it is DELETED
  --no-headers         leave out the line with the names of the columns
";

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, context, parse_options, record};
    use super::*;

    /// Returns what the command prints for these changes; null stands for EXPIRED.
    fn output_of(line: &[&str], events: Vec<Value>) -> String {
        let options = parse_options(line);
        let mut seen = Seen::new(&context(&options, false));
        let mut shown = String::new();
        for event in events {
            if event == Value::Null {
                assert!(seen.restart_list());
                continue;
            }
            seen.apply_change(event, NOW);
            if seen.is_listed {
                shown.push_str(&seen.rows.take_text(""));
            }
        }
        shown
    }

    fn event(event: &str, generation: u64, mut record: Value) -> Value {
        record["generation"] = json!(generation);
        json!({"event": event, "generation": generation, "record": record})
    }

    fn bookmark(generation: u64) -> Value {
        json!({"event": "BOOKMARK", "generation": generation})
    }

    /// Returns the changes that a daemon sends about three plugins, one of which is deleted.
    fn sample_changes() -> Vec<Value> {
        vec![
            event("ADDED", 4, record("B", "b", "Registered", "/r/b")),
            event("ADDED", 2, record("A", "a", "Backoff", "/r/a")),
            bookmark(5),
            event("MODIFIED", 6, record("A", "a", "Registered", "/r/a")),
            event("DELETED", 7, json!({"socket": "/r/b"})),
            event("DELETED", 8, json!({"socket": "/r/never-seen"})),
            event("FUTURE", 8, json!({})),
            event("ADDED", 9, record("C", "longer-name", "Discovered", "/r/c")),
        ]
    }

    #[test]
    fn the_list_is_sorted_and_each_change_is_a_line() {
        assert_eq!(
            output_of(&["watch"], sample_changes()),
            "\
EVENT     TYPE          NAME                      STATE          REASON              AGE    ENDPOINT
ADDED     A             a                         Backoff        <none>              5s     /r/a
ADDED     B             b                         Registered     <none>              5s     /r/b
MODIFIED  A             a                         Registered     <none>              5s     /r/a
DELETED   B             b                         Deleted        <none>              5s     /r/b
ADDED     C             longer-name               Discovered     <none>              5s     /r/c
"
        );
        assert_eq!(
            output_of(&["list", "-w"], sample_changes()),
            output_of(&["watch"], sample_changes())
        );
        let wide = output_of(&["watch", "-owide"], sample_changes());
        let ends: Vec<usize> = wide.lines().map(|line| line.rfind("  ").unwrap()).collect();
        assert_eq!(ends, [ends[0]; 6], "{wide}");
        let names = "A/a\nB/b\nA/a\nB/b\nC/longer-name\n";
        assert_eq!(
            output_of(&["list", "-w", "-oname"], sample_changes()),
            names
        );
    }

    #[test]
    fn json_has_the_event_and_the_last_known_record() {
        let shown = output_of(&["watch", "-ojsonl"], sample_changes());
        let lines: Vec<Value> = shown
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut last = record("B", "b", "Deleted", "/r/b");
        last["generation"] = json!(4);
        let expected = [
            event("ADDED", 2, record("A", "a", "Backoff", "/r/a")),
            event("ADDED", 4, record("B", "b", "Registered", "/r/b")),
            bookmark(5),
            event("MODIFIED", 6, record("A", "a", "Registered", "/r/a")),
            json!({"event": "DELETED", "generation": 7, "record": last}),
            event("ADDED", 9, record("C", "longer-name", "Discovered", "/r/c")),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn only_requested_types_and_states_are_shown() {
        let shown = output_of(
            &["watch", "-o", "wide", "--no-headers", "B"],
            sample_changes(),
        );
        let states = |shown: &str| {
            let words = shown.lines().map(|line| line.split_whitespace());
            words
                .map(|mut it| (it.next().unwrap().to_owned(), it.nth(2).unwrap().to_owned()))
                .collect::<Vec<_>>()
        };
        let pair = |one: &str, two: &str| (one.to_owned(), two.to_owned());
        let expected = [pair("ADDED", "Registered"), pair("DELETED", "Deleted")];
        assert_eq!(states(&shown), expected);
        let shown = output_of(
            &["watch", "--no-headers", "--state=Backoff"],
            sample_changes(),
        );
        let expected = [pair("ADDED", "Backoff"), pair("DELETED", "Registered")];
        assert_eq!(states(&shown), expected);
    }

    #[test]
    fn after_an_expired_watch_only_the_difference_is_shown() {
        let mut changes = sample_changes();
        changes.extend([
            Value::Null,
            event("ADDED", 6, record("A", "a", "Registered", "/r/a")),
            event("ADDED", 30, record("D", "d", "Registered", "/r/d")),
            bookmark(31),
        ]);
        let shown = output_of(&["watch", "--no-headers"], changes);
        let last: Vec<&str> = shown.lines().skip(5).collect();
        assert_eq!(
            last,
            [
                "ADDED     D             d                         Registered     <none>              5s     /r/d",
                "DELETED   C             longer-name               Deleted        <none>              5s     /r/c"
            ]
        );
    }
}
