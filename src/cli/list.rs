//! `plugind list`: lists the plugins.
//!
//! AGE is the time since `since` of the record, which `note_changes` in `manager/records.rs` sets
//! when the state changes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::arguments::did_you_mean;
use super::client::{Request, percent_encode};
use super::failure::{Failure, FailureKind, Result};
use super::json::{
    Fields, escape_or_none, escape_or_unknown, format_object, format_value, items, join_or_none,
    map_or_none, parse, record_keys,
};
use super::options::{Context, Format, Options, Target};
use super::table::{Column, add_colour, print_list, print_values};
use super::{UNKNOWN, age};
use crate::config::DEFAULT_TYPES;
use crate::manager::State;

/// Shows the plugins.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let options = context.options;
    let absent = format!("No plugins.{}\n", suggest_type(&options.target));
    if options.format != Format::Text {
        let (list, columns) = (fetch_list(context)?, columns(options.format));
        return print_list(context, list, columns, &absent);
    }
    let path = request_target(options);
    let body = context.client.request_body(&Request::get(&path))?;
    let mut rows = parse::<Rows<'_>>(&body)?.items;
    select_records(options, &mut rows)?;
    print_values(context, &rows, short_columns(), &absent)
}

/// A list of records, as far as a table shows it.
#[derive(serde::Deserialize)]
struct Rows<'a> {
    #[serde(borrow)]
    items: Vec<Row<'a>>,
}

/// The fields of a record that a table shows, in the order of [`FIELDS`]. A whole record takes
/// three times as long to decode.
#[derive(Default)]
struct Row<'a>([Text<'a>; FIELDS.len()]);

const FIELDS: [&str; 7] = [
    "type", "name", "state", "socket", "endpoint", "since", "reason",
];

/// A text that is borrowed from the JSON unless it has escape sequences.
#[derive(Default, serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Fields for Row<'_> {
    fn text(&self, key: &str) -> &str {
        let at = FIELDS.iter().position(|field| *field == key);
        at.map_or("", |at| &self.0[at].0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Row<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_map(Self::default())
    }
}

impl<'de: 'a, 'a> Visitor<'de> for Row<'a> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<Self, A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            match FIELDS.iter().position(|field| *field == key) {
                Some(at) => self.0[at] = map.next_value()?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self)
    }
}

/// Returns a hint at a built-in type with a similar name if the named type is not built in.
fn suggest_type(target: &Target) -> String {
    match target {
        Target::Type(kind) if !DEFAULT_TYPES.contains(&&**kind) => {
            did_you_mean(kind, DEFAULT_TYPES.into_iter())
        }
        _ => String::new(),
    }
}

/// Fetches the requested records, sorted.
pub(super) fn fetch_list(context: &Context<'_>) -> Result<Value> {
    let path = request_target(context.options);
    let mut list = context.client.request_json(&Request::get(&path))?;
    select_records(context.options, items(&mut list)?)?;
    Ok(list)
}

/// Sorts records, and removes those that are not requested. Returns an error if a plugin or socket
/// was named that does not exist or is not in the requested state.
fn select_records(options: &Options, all: &mut Vec<impl Fields>) -> Result<()> {
    all.retain(|record| options.target.includes(record_keys(record)));
    let exists = !all.is_empty();
    all.retain(|record| selects(options, record));
    sort_records(all);
    match options.target.display_name() {
        Some(named) if !exists => {
            let why = format!("{named} does not exist");
            Err(Failure::new(FailureKind::NotFound, why))
        }
        Some(named) if all.is_empty() => {
            let state = options.state.map_or(UNKNOWN, State::name);
            let why = format!("{named} is not in state {state}");
            Err(Failure::new(FailureKind::OtherState, why))
        }
        _ => Ok(()),
    }
}

/// Returns whether the options select a record.
pub(super) fn selects(options: &Options, record: &impl Fields) -> bool {
    let is_in_state = |state: State| record.text("state") == state.name();
    options.target.includes(record_keys(record)) && options.state.is_none_or(is_in_state)
}

/// Returns the path of the list in the API. Names and states are filtered here, not by the daemon:
/// the unfiltered list shows whether a plugin exists in another state.
fn request_target(options: &Options) -> String {
    match &options.target {
        Target::Plugin { kind, .. } | Target::Type(kind) => {
            format!("/v1/plugins?type={}", percent_encode(kind.as_bytes()))
        }
        _ => "/v1/plugins".to_owned(),
    }
}

/// Sorts records by type, name and socket; sockets whose plugin is not known yet come last.
pub(super) fn sort_records(records: &mut [impl Fields]) {
    records.sort_by_cached_key(|record| {
        let keys = record_keys(record);
        (keys[0].is_empty(), keys.join("\0"))
    });
}

/// Returns the columns of a list of records in this format.
pub(super) fn columns(format: Format) -> &'static [Column] {
    match format {
        Format::Wide => WIDE_COLUMNS,
        Format::Name => &[("", |it, _| format_object(record_keys(it)))],
        _ => short_columns(),
    }
}

/// Returns the columns of the default format.
const fn short_columns<'a, T: Fields>() -> &'a [Column<T>] {
    &[
        ("TYPE", |it, _| escape_or_unknown(it, "type")),
        ("NAME", |it, _| escape_or_unknown(it, "name")),
        ("STATE", |it, _| add_colour(escape_or_unknown(it, "state"))),
        ("REASON", |it, _| escape_or_none(it.text("reason"))),
        ("AGE", |it, now| {
            age::format_age(it.text("since"), now).into()
        }),
        ("ENDPOINT", |it, _| match it.text("endpoint") {
            "" => escape_or_none(it.text("socket")),
            endpoint => escape_or_none(endpoint),
        }),
    ]
}

const WIDE_COLUMNS: &[Column] = &[
    short_columns()[0],
    short_columns()[1],
    short_columns()[2],
    short_columns()[3],
    short_columns()[4],
    ("ENDPOINT", |it, _| format_value(&it["endpoint"])),
    ("VERSIONS", |it, _| format_value(&it["versions"])),
    ("SOCKET", |it, _| match &it["socket"] {
        socket if *socket == it["endpoint"] => "<endpoint>".into(),
        socket => format_value(socket),
    }),
    ("PID", |it, _| format_value(&it["pid"])),
    ("RETRY-IN", |it, now| {
        map_or_none(it.text("nextRetry"), |at| age::format_time_left(at, now))
    }),
    ("LAST-ERROR", |it, _| join_or_none(&it["lastError"])),
];

/// The minimum widths of the columns while changes are followed, beginning with EVENT: enough for
/// most texts.
pub(super) const WIDTHS: &[usize] = &[8, 12, 24, 13, 18, 5, 40, 8, 40, 7, 8];

pub(super) const HELP: &str = "\
List the plugins that a running plugind knows, by type and name. A plugin that
is not registered is not an error without --state.

Usage: plugind list [OPTIONS] [TYPE[/NAME]]

Exits with 4 if TYPE/NAME does not exist, with 5 if it is not in STATE.

Options:
  -o, --output FORMAT  table: TYPE, NAME, STATE, REASON (of the last failure),
                       AGE (time in that state) and ENDPOINT (default); wide:
                       more columns, with SOCKET if it is not the endpoint;
                       json: the response of the API; jsonl: a record per line;
                       name: TYPE/NAME; of a plugin that is still unknown, table
                       and name show the socket
  --state STATE        only plugins in that state: Discovered, Connecting,
                       Registering, Registered, Standby, Down, Backoff,
                       Rejected or Deregistering
  --no-headers         leave out the line with the names of the columns
  -w, --watch          afterwards print a line for each change, as watch does
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::table::{Table, json_or};
    use super::super::testing::{NOW, context, parse_options, records};
    use super::*;

    /// Returns what the command prints for these records. The default format is decoded as a
    /// [`Row`], all others as JSON, and the columns of both are the same.
    fn output_of(line: &[&str], mut all: Vec<Value>, is_coloured: bool) -> String {
        let options = parse_options(line);
        let context = context(&options, is_coloured);
        let columns = json_or(options.format, columns(options.format));
        let mut rows = Table::of(&context, columns, WIDTHS);
        sort_records(&mut all);
        for record in all.iter().filter(|record| selects(&options, *record)) {
            rows.add_value(columns, record, NOW);
        }
        let shown = rows.take_text("");
        if options.format == Format::Text {
            let body = json!({ "kind": "PluginList", "items": all }).to_string();
            let mut all = parse::<Rows<'_>>(body.as_bytes()).unwrap().items;
            select_records(&options, &mut all).unwrap();
            let columns = short_columns::<Row<'_>>();
            let mut rows = Table::of(&context, columns, WIDTHS);
            for row in &all {
                rows.add_value(columns, row, NOW);
            }
            assert_eq!(rows.take_text(""), shown);
        }
        shown
    }

    #[test]
    fn a_table_is_sorted_and_marks_missing_values() {
        assert_eq!(
            output_of(&["list"], records(), false),
            "\
TYPE          NAME             STATE       REASON         AGE    ENDPOINT
CSIPlugin     ebs.csi.aws.com  Standby     <none>         2d     /r/b.sock
CSIPlugin     ebs.csi.aws.com  Registered  <none>         3m12s  /p/ebs.sock
DevicePlugin  example.com/gpu  Backoff     GetInfoFailed  5s     /r/gpu.sock
<unknown>     <unknown>        Connecting  <none>         0s     /r/new.sock
"
        );
    }

    #[test]
    fn a_wide_table_has_the_process_and_the_next_retry() {
        assert_eq!(
            output_of(&["list", "-o", "wide", "DevicePlugin"], records(), false),
            "\
TYPE          NAME             STATE    REASON         AGE  ENDPOINT     VERSIONS         SOCKET      PID  RETRY-IN  LAST-ERROR
DevicePlugin  example.com/gpu  Backoff  GetInfoFailed  5s   /r/gpu.sock  v1beta1,v1alpha  <endpoint>  812  12s       GetInfo: deadline \\u{1b}[31mexceeded
"
        );
        assert_eq!(
            output_of(
                &["list", "-o", "wide", "--no-headers", "--state=Connecting"],
                records(),
                false
            ),
            "<unknown>  <unknown>  Connecting  <none>  0s  <none>  <none>  /r/new.sock  <none>  <none>  <none>\n"
        );
    }

    #[test]
    fn names_are_what_other_commands_accept() {
        assert_eq!(
            output_of(&["list", "-o", "name"], records(), false),
            "\
CSIPlugin/ebs.csi.aws.com
CSIPlugin/ebs.csi.aws.com
DevicePlugin/example.com/gpu
/r/new.sock
"
        );
    }

    #[test]
    fn json_lines_are_the_records_in_ascii() {
        let record = json!({"type": "A", "name": "é\u{9b}", "socket": "/r/a"});
        assert_eq!(
            output_of(&["list", "-o", "jsonl"], vec![record], false),
            "{\"name\":\"\\u00e9\\u009b\",\"socket\":\"/r/a\",\"type\":\"A\"}\n"
        );
    }

    #[test]
    fn the_state_has_a_colour_on_a_terminal_only() {
        let shown = output_of(&["list", "--no-headers", "DevicePlugin"], records(), true);
        let expected = "DevicePlugin  example.com/gpu  \x1b[31mBackoff\x1b[0m  GetInfoFailed  5s  /r/gpu.sock\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_text_with_escape_sequences_is_decoded() {
        let record = json!({"type": "A\"", "name": "é\u{1b}", "since": "", "socket": "\\"});
        let expected = "A\"  é\\u{1b}  <unknown>  <none>  <unknown>  \\\\\n";
        let shown = output_of(&["list", "--no-headers"], vec![record], false);
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_misspelt_type_gets_the_nearest_one_suggested() {
        let hint = |typed: &str| suggest_type(&Target::Type(typed.to_owned()));
        assert_eq!(hint("csiplugin"), " (did you mean CSIPlugin?)");
        assert_eq!(hint("DevicPlugin"), " (did you mean DevicePlugin?)");
        assert_eq!(hint("CSIPlugin"), "");
        assert_eq!(hint("Toaster"), "");
    }

    #[test]
    fn the_list_is_requested_by_type() {
        for (line, expected) in [
            (&["list"][..], "/v1/plugins"),
            (&["list", "A b"], "/v1/plugins?type=A%20b"),
            (&["list", "--state=Down"], "/v1/plugins"),
            (&["list", "A/b/c", "--state=Down"], "/v1/plugins?type=A"),
            (&["describe", "/r/a.sock"], "/v1/plugins"),
        ] {
            assert_eq!(request_target(&parse_options(line)), expected);
        }
    }

    #[test]
    fn an_empty_record_is_shown() {
        let shown = output_of(&["list", "--no-headers"], vec![json!({})], false);
        assert_eq!(
            shown,
            "<unknown>  <unknown>  <unknown>  <none>  <unknown>  <none>\n"
        );
    }
}
