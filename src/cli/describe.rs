//! `plugind describe`: everything that is known about a plugin or socket.

use serde_json::Value;

use super::client::{Request, percent_encode, print};
use super::failure::Result;
use super::json::{
    Fields as _, escape_or_none, escape_or_unknown, format_value, items, join_or_none, map_or_none,
    record_keys, to_json_document,
};
use super::options::{Context, Format, now};
use super::table::{Column, Table, add_colour};
use super::{age, events, list};

/// Shows the plugin or socket.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let mut list = list::fetch_list(context)?;
    let records = items(&mut list)?;
    add_processes(records, context);
    let mut events = events::fetch_events(context)?;
    events.retain(|event| records.iter().any(|it| is_about(event, it)));
    if context.options.format == Format::Json {
        list["events"] = events.into();
        return print(to_json_document(&list));
    }
    let records = records.iter();
    let described = records.map(|it| describe(it, &events, now(), context.is_coloured));
    print(described.collect::<Vec<_>>().join("\n\n"))
}

/// Replaces the records of a plugin by those with its process, which the API returns only for a
/// single name. The records stay unchanged if that request fails, for example because the plugin
/// was removed meanwhile.
fn add_processes(records: &mut [Value], context: &Context<'_>) {
    let [kind, name, _] = records.first().map(record_keys).unwrap_or_default();
    if name.is_empty() {
        return; // The plugin is not known yet.
    }
    let [kind, name] = [kind, name].map(|text| percent_encode(text.as_bytes()));
    let path = format!("/v1/plugins/{kind}/{name}");
    let found = context.client.request_json(&Request::get(&path));
    let mut found = found.unwrap_or_default();
    for asked in items(&mut found).into_iter().flatten() {
        let mut records = records.iter_mut();
        if let Some(record) = records.find(|it| it["socket"] == asked["socket"]) {
            *record = asked.take();
        }
    }
}

/// Returns whether an event is about the socket of a record.
fn is_about(event: &Value, record: &Value) -> bool {
    event["socket"].is_string() && event["socket"] == record["socket"]
}

/// Returns the description of a record, with the events that belong to it.
fn describe(record: &Value, events: &[Value], now: u64, is_coloured: bool) -> String {
    let mut table = Table::new(is_coloured);
    table.add_lines(LINES, record, now);
    let lines = table.take_text("");

    let mut table = Table::default();
    table.add_entries("", &record["details"]);
    let details = format_section("Details:", &table.take_text("  "));

    let mut table = Table::default();
    let events: Vec<&Value> = events.iter().filter(|it| is_about(it, record)).collect();
    if !events.is_empty() {
        table.add_with_labels(EVENT, events, now);
    }
    lines + &details + &format_section("Events:", &table.take_text("  "))
}

/// Returns lines below a heading, or the heading with `<none>` if there are none.
fn format_section(heading: &str, lines: &str) -> String {
    match lines {
        "" => format!("{heading}  <none>\n"),
        lines => format!("{heading}\n{lines}"),
    }
}

const LINES: &[Column] = &[
    ("Name:", |it, _| escape_or_unknown(it, "name")),
    ("Type:", |it, _| escape_or_unknown(it, "type")),
    ("State:", |it, _| add_colour(escape_or_unknown(it, "state"))),
    ("Since:", |it, now| {
        map_or_none(it.text("since"), |then| {
            format!(
                "{} ({} ago)",
                escape_or_none(then),
                age::format_age(then, now)
            )
        })
    }),
    ("Socket:", |it, _| escape_or_unknown(it, "socket")),
    ("Endpoint:", |it, _| format_value(&it["endpoint"])),
    ("Versions:", |it, _| format_value(&it["versions"])),
    ("Process:", |it, _| {
        let pid = format_value(&it["pid"]);
        match it["otherPidNamespace"].as_bool() {
            Some(true) if it["pid"].is_null() => "in another PID namespace".into(),
            Some(true) => pid + ", in another PID namespace",
            _ => pid,
        }
    }),
    ("Command:", |it, _| format_value(&it["command"])),
    ("Cgroup:", |it, _| format_value(&it["cgroup"])),
    ("User:", |it, _| format_value(&it["uid"])),
    ("Warnings:", |it, _| join_or_none(&it["warnings"])),
    ("Attempts:", |it, _| format_value(&it["attempts"])),
    ("Last Error:", |it, _| join_or_none(&it["lastError"])),
    ("Next Try:", |it, now| {
        map_or_none(it.text("nextRetry"), |then| {
            format!(
                "{} (in {})",
                escape_or_none(then),
                age::format_time_left(then, now)
            )
        })
    }),
];

const EVENT: &[Column] = &[
    ("Type", |it, _| escape_or_unknown(it, "type")),
    ("Reason", |it, _| escape_or_unknown(it, "reason")),
    ("Age", |it, now| events::last_seen(it, now).into()),
    ("Message", |it, _| join_or_none(&it["message"])),
];

pub(super) const HELP: &str = "\
Show all that a running plugind knows about SOCKET (/PATH or ./PATH), or about
each socket of a plugin, with its events and the time of the next attempt.

Usage: plugind describe [OPTIONS] TYPE/NAME|SOCKET

Exits with 0 also if the plugin is not registered, with 4 if it does not exist.

Options:
  -o, --output FORMAT  text (default), or json: the list of its records, and its
                       events
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use std::os::unix::net::UnixListener;

    use super::super::testing::{NOW, context, events, parse_options, records};
    use super::*;

    #[track_caller]
    fn assert_described(record: &Value, expected: &str) {
        assert_eq!(describe(record, &events(), NOW, false), expected);
    }

    #[test]
    fn a_plugin_in_backoff_is_shown_with_its_events() {
        assert_described(
            &records()[1],
            "\
Name:        example.com/gpu
Type:        DevicePlugin
State:       Backoff
Since:       2026-01-31T11:59:55.000Z (5s ago)
Socket:      /r/gpu.sock
Endpoint:    /r/gpu.sock
Versions:    v1beta1,v1alpha
Process:     812
Command:     <none>
Cgroup:      <none>
User:        0
Warnings:    <none>
Attempts:    3
Last Error:  GetInfo: deadline \\u{1b}[31mexceeded
Next Try:    2026-01-31T12:00:12.500Z (in 12s)
Details:
  devices.connected:  true
  devices.healthy:    3
  devices.total:      4
Events:
  Type     Reason         Age               Message
  Normal   SocketFound    10m               found a socket
  Warning  GetInfoFailed  5s (x3 over 10m)  GetInfo failed: \\u{1b}[31mred
",
        );
    }

    #[test]
    fn a_socket_of_which_nothing_is_known_is_shown() {
        assert_described(
            &json!({"socket": "/r/none"}),
            "\
Name:        <unknown>
Type:        <unknown>
State:       <unknown>
Since:       <none>
Socket:      /r/none
Endpoint:    <none>
Versions:    <none>
Process:     <none>
Command:     <none>
Cgroup:      <none>
User:        <none>
Warnings:    <none>
Attempts:    <none>
Last Error:  <none>
Next Try:    <none>
Details:  <none>
Events:  <none>
",
        );
    }

    #[test]
    fn no_process_is_requested_for_an_unknown_plugin() {
        let dir = tempfile::tempdir().unwrap();
        let options = parse_options(&["describe", "/r/none"]);
        let mut context = context(&options, false);
        context.client.socket = dir.path().join("api.sock");
        context.client.timeout = std::time::Duration::ZERO;
        let listener = UnixListener::bind(&context.client.socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        add_processes(&mut [json!({"socket": "/r/none"})], &context);
        assert!(listener.accept().is_err());
    }

    #[test]
    fn the_state_has_a_colour_on_a_terminal_only() {
        let shown = describe(&records()[1], &[], NOW, true);
        assert_eq!(shown.matches('\x1b').count(), 2);
        assert!(
            shown.contains("State:       \x1b[31mBackoff\x1b[0m\n"),
            "{shown}"
        );
    }

    #[test]
    fn an_event_is_only_about_its_own_socket() {
        let record = json!({"type": "A", "name": "a", "socket": "/r/a"});
        for (event, expected) in [
            (json!({"socket": "/r/a"}), true),
            (
                json!({"socket": "/r/b", "plugin": {"type": "A", "name": "a"}}),
                false,
            ),
            (json!({"socket": "/r/b"}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_about(&event, &record), expected);
        }
    }
}
