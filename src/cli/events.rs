//! `plugind events`: the events of plugins and sockets.

use serde_json::{Value, json};

use super::age;
use super::client::{Request, print};
use super::failure::{Failure, Result};
use super::json::{Fields as _, escape_or_unknown, event_keys, format_object, join_or_none};
use super::options::{Context, Target, now};
use super::table::{Column, Table, add_colour, json_or, print_list};

/// Shows the events. With `--watch`, shows those that the daemon keeps and then each new one, and
/// returns an error when the daemon stops.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let options = context.options;
    let is_plugin = matches!(options.target, Target::Plugin { .. });
    let past = if options.follows && !is_plugin {
        Vec::new()
    } else {
        fetch_events(context)?
    };
    let is_wanted = filter_of(&options.target, &past);
    if !options.follows {
        let generation = past.last().and_then(|it| it["generation"].as_u64());
        let generation = generation.unwrap_or_default();
        let items = past.into_iter().filter(|it| is_wanted(it));
        let items: Value = items.collect();
        let list = json!({ "kind": "EventList", "generation": generation, "items": items });
        return print_list(context, list, COLUMNS, "No events.\n");
    }
    let request = Request::follow("/v1/events?follow=1");
    let mut response = context.client.send_request(&request)?;
    let columns = json_or(options.format, COLUMNS);
    let mut rows = Table::of(context, columns, WIDTHS);
    while let Some(event) = response.next_json()? {
        if is_wanted(&event) {
            rows.add_value(columns, &event, now());
        }
        if !response.has_line() {
            print(rows.take_text(""))?;
        }
    }
    Err(Failure::daemon_stopped())
}

/// Returns the filter that selects the events of a target. Of a plugin, it also selects the first
/// events of its sockets in past events, which do not name a plugin yet.
fn filter_of<'a>(target: &'a Target, past: &[Value]) -> impl Fn(&Value) -> bool + 'a {
    let is_of_plugin =
        |event: &&Value| event["plugin"].is_object() && target.includes(event_keys(event));
    let sockets = past.iter().filter(is_of_plugin);
    let sockets: Vec<Value> = sockets.map(|event| event["socket"].clone()).collect();
    move |event| {
        let is_early = event["plugin"].is_null() && sockets.contains(&event["socket"]);
        is_early || target.includes(event_keys(event))
    }
}

/// Fetches all events that the daemon keeps, oldest first.
pub(super) fn fetch_events(context: &Context<'_>) -> Result<Vec<Value>> {
    let mut response = context.client.send_request(&Request::get(PATH))?;
    let mut events = Vec::new();
    while let Some(event) = response.next_json()? {
        events.push(event);
    }
    Ok(events)
}

/// The path of the events in the API.
const PATH: &str = "/v1/events";

const COLUMNS: &[Column] = &[
    ("LAST SEEN", |it, now| last_seen(it, now).into()),
    ("TYPE", |it, _| add_colour(escape_or_unknown(it, "type"))),
    ("REASON", |it, _| escape_or_unknown(it, "reason")),
    ("OBJECT", |it, _| format_object(event_keys(it))),
    ("MESSAGE", |it, _| join_or_none(&it["message"])),
];

/// Returns how long ago an event last happened and, if it was repeated, its count and the time
/// since it first happened.
pub(super) fn last_seen(event: &Value, now: u64) -> String {
    let last = age::format_age(event.text("lastTime"), now);
    match event["count"].as_u64() {
        Some(count @ 2..) => {
            let first = age::format_age(event.text("firstTime"), now);
            format!("{last} (x{count} over {first})")
        }
        _ => last,
    }
}

/// The minimum widths of the columns while events are followed: enough for most texts. The last
/// column needs none.
const WIDTHS: &[usize] = &[16, 7, 20, 40];

pub(super) const HELP: &str = "\
Show the events that a running plugind keeps, oldest first. A repeated event is
one line, with its count and the time since it occurred first. EventsDropped:
earlier events are not kept any more. A plugin or socket without events is not
an error.

Usage: plugind events [OPTIONS] [TYPE/NAME|SOCKET]

Options:
  -o, --output FORMAT  table (default); json: a list, with detail; jsonl: an
                       event per line
  --no-headers         leave out the line with the names of the columns
  -w, --watch          afterwards print each new event, until plugind stops
";

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, context, events, parse_options};
    use super::*;

    fn output_of(line: &[&str]) -> String {
        let options = parse_options(line);
        let mut rows = Table::of(&context(&options, false), COLUMNS, WIDTHS);
        let events = events();
        let is_wanted = filter_of(&options.target, &events);
        for event in events {
            if is_wanted(&event) {
                rows.add_value(COLUMNS, &event, NOW);
            }
        }
        rows.take_text("")
    }

    #[test]
    fn repeated_events_are_one_line_with_their_count() {
        assert_eq!(
            output_of(&["events"]),
            "\
LAST SEEN         TYPE     REASON         OBJECT                        MESSAGE
10m               Normal   SocketFound    /r/gpu.sock                   found a socket
5s (x3 over 10m)  Warning  GetInfoFailed  DevicePlugin/example.com/gpu  GetInfo failed: \\u{1b}[31mred
3m12s             Normal   Registered     CSIPlugin/ebs.csi.aws.com     registered
"
        );
    }

    #[test]
    fn the_events_of_one_plugin_or_socket_are_shown() {
        let of = |target| output_of(&["events", "--no-headers", target]);
        let of_plugin = of("DevicePlugin/example.com/gpu");
        let words: Vec<_> = of_plugin.split_whitespace().collect();
        assert!(words.contains(&"SocketFound") && words.contains(&"GetInfoFailed"));
        assert_eq!(of("/r/gpu.sock"), of_plugin);
        assert_eq!(of_plugin.lines().count(), 2);
        assert_eq!(of("DevicePlugin/example.com/g"), "");
    }

    #[test]
    fn an_empty_event_is_shown() {
        let options = parse_options(&["events", "--no-headers"]);
        let mut rows = Table::of(&context(&options, false), COLUMNS, WIDTHS);
        rows.add_value(COLUMNS, &json!({}), NOW);
        assert_eq!(
            rows.take_text(""),
            "<unknown>  <unknown>  <unknown>  <none>  <none>\n"
        );
    }
}
