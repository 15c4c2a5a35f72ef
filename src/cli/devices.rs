//! `plugind devices`: the devices that device plugins and DRA drivers report.

use super::client::{Request, percent_encode};
use super::failure::Result;
use super::json::format_value;
use super::options::{Context, Target};
use super::table::{Column, add_colour, print_list};

/// Shows the devices in the order in which the daemon returns them: those of device plugins by
/// resource and ID, then those of DRA drivers.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let path = request_target(&context.options.target);
    let list = context.client.request_json(&Request::get(&path))?;
    print_list(context, list, COLUMNS, "No devices.\n")
}

/// Returns the path of the list in the API. If a resource is named and does not exist, the daemon
/// returns 404.
fn request_target(target: &Target) -> String {
    match target {
        Target::Text(name) => format!("/v1/devices?name={}", percent_encode(name.as_bytes())),
        _ => "/v1/devices".to_owned(),
    }
}

const COLUMNS: &[Column] = &[
    ("RESOURCE", |it, _| format_value(&it["resource"])),
    ("DEVICE", |it, _| format_value(&it["id"])),
    ("HEALTH", |it, _| add_colour(format_value(&it["health"]))),
    ("HOLDER", |it, _| format_value(&it["holder"]["pid"])),
    ("NUMA", |it, _| format_value(&it["numaNodes"])),
    ("SOCKET", |it, _| format_value(&it["socket"])),
];

pub(super) const HELP: &str = "\
List the devices of device plugins, by resource and ID. Of several plugins of a
resource, the newest lists its devices. They are unhealthy while the plugin does
not list them. The devices of DRA drivers that report their health follow, by
driver and POOL/DEVICE.

Usage: plugind devices [OPTIONS] [RESOURCE]

Exits with 4 if RESOURCE, such as example.com/gpu, does not exist.

Options:
  -o, --output FORMAT  table: RESOURCE, DEVICE, HEALTH, HOLDER (the process of
                       plugind with), NUMA (nodes), SOCKET of the plugin
                       (default); json: the response of the API;
                       jsonl: a device per line
  --no-headers         leave out the line with the names of the columns
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::table::{Table, json_or};
    use super::super::testing::{context, parse_options};
    use super::*;

    /// Returns what the command prints for three devices.
    fn output_of(line: &[&str], is_coloured: bool) -> String {
        let all = [
            json!({
                "resource": "example.com/gpu", "id": "gpu-0", "health": "Healthy",
                "numaNodes": [0, 1], "holder": {"pid": 812, "uid": 0}, "socket": "/r/gpu-reg.sock",
            }),
            json!({
                "resource": "example.com/gpu", "id": "gpu-1\u{1b}[2J\t", "health": "Unhealthy",
                "socket": "/r/gpu-reg.sock",
            }),
            json!({"resource": "example.com/nic", "id": "", "health": "Healthy"}),
        ];
        let options = parse_options(line);
        let columns = json_or(options.format, COLUMNS);
        let mut rows = Table::of(&context(&options, is_coloured), columns, &[]);
        for device in all {
            rows.add_value(columns, &device, 0);
        }
        rows.take_text("")
    }

    #[test]
    fn a_table_has_a_row_for_each_device() {
        let expected = "\
RESOURCE         DEVICE            HEALTH     HOLDER  NUMA    SOCKET
example.com/gpu  gpu-0             Healthy    812     0,1     /r/gpu-reg.sock
example.com/gpu  gpu-1\\u{1b}[2J\\t  Unhealthy  <none>  <none>  /r/gpu-reg.sock
example.com/nic  <none>            Healthy    <none>  <none>  <none>
";
        assert_eq!(output_of(&["devices"], false), expected);
        let (_, rows) = expected.split_once('\n').unwrap();
        let coloured = output_of(&["devices", "--no-headers"], true);
        assert!(
            coloured.contains("  \x1b[32mHealthy\x1b[0m    812"),
            "{coloured}"
        );
        assert!(
            coloured.contains("  \x1b[31mUnhealthy\x1b[0m  <none>"),
            "{coloured}"
        );
        let plain = coloured.replace("\x1b[31m", "").replace("\x1b[32m", "");
        assert_eq!(plain.replace("\x1b[0m", ""), rows);
    }

    #[test]
    fn json_lines_are_the_devices_in_ascii() {
        let shown = output_of(&["devices", "-o", "jsonl"], false);
        let lines: Vec<&str> = shown.lines().collect();
        let expected = "{\"health\":\"Unhealthy\",\"id\":\"gpu-1\\u001b[2J\\t\",\
                        \"resource\":\"example.com/gpu\",\"socket\":\"/r/gpu-reg.sock\"}";
        assert_eq!((lines.len(), lines[1]), (3, expected));
    }

    #[test]
    fn a_resource_is_requested_by_its_whole_name() {
        for (line, expected) in [
            (&["devices"][..], "/v1/devices"),
            (&["devices", "a.b/c d"], "/v1/devices?name=a.b%2Fc%20d"),
            (&["devices", "gpu"], "/v1/devices?name=gpu"),
        ] {
            assert_eq!(request_target(&parse_options(line).target), expected);
        }
    }
}
