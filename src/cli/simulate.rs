//! `plugind simulate`: a plugin for testing a node.
//!
//! Parses the arguments, runs the simulated plugin, and prints a line for each of its events, which
//! begins with the plugin's name.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use super::Command;
use super::arguments::{Argument, Arguments, UsageError};
use super::values::{make_absolute, parse_duration, parse_path, parse_text, parse_with};
use crate::daemon::simulate::{Ending, Simulation};
use crate::escape;
use crate::simulate::{PluginKind, Profile};

/// Parses the arguments after `simulate`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let mut profile = Profile {
        kind: "CSIPlugin".to_owned(),
        ..Profile::default()
    };
    let (mut dir, mut name, mut versions) = (None, None, None);
    while let Some(argument) = arguments.next()? {
        let Argument::Option(option) = argument else {
            return Err(arguments.unexpected_argument(&argument));
        };
        let faults = &mut profile.faults;
        match option {
            "--type" => profile.kind = arguments.parse_value(parse_text)?,
            "--name" => name = Some(arguments.parse_value(parse_text)?),
            "--versions" => versions = Some(arguments.parse_value(parse_text)?),
            "--dir" => dir = Some(arguments.parse_value(parse_path)?),
            "--endpoint" => {
                // `make_absolute` returns `None` for an empty path: the service is then served on
                // the registration socket.
                let path = make_absolute(arguments.parse_value(parse_text)?.as_ref());
                profile.endpoint = path.map(|path| path.to_string_lossy().into_owned());
            }
            "--toggle-health" => {
                profile.toggle_health = Some(arguments.parse_value(parse_duration)?);
            }
            "--fail-getinfo" => {
                faults.fail_get_info =
                    arguments.parse_value(|it| parse_with(it, "a number", |n| n.parse().ok()))?;
            }
            "--delay" => faults.delay = arguments.parse_value(parse_duration)?,
            "--crash-after" => faults.crash_after = Some(arguments.parse_value(parse_duration)?),
            "--refuse-allocate" => faults.refuse_allocate = true,
            "--delay-allocate" => faults.delay_allocate = arguments.parse_value(parse_duration)?,
            "--cdi-devices" => {
                profile.cdi_devices = split_names(&arguments.parse_value(parse_text)?);
            }
            "--legacy" => profile.is_legacy = true,
            "--reject-notify" => faults.reject_notify = true,
            "--stale" => faults.stale = true,
            _ => return arguments.parse_standard(&argument),
        }
    }
    let dir = dir.ok_or_else(|| arguments.error("missing option --dir"))?;
    let usual = PluginKind::of_type(&profile.kind);
    validate_options(&profile, usual).map_err(|problem| arguments.error(problem))?;
    profile.name = name.unwrap_or_else(|| usual.usual_name().to_owned());
    let versions = versions.unwrap_or_else(|| usual.usual_versions().to_owned());
    profile.versions = split_names(&versions);
    profile.socket = dir.join(file_name(&profile.name, profile.is_legacy));
    Ok(Command::Simulate(profile))
}

/// Splits a list of names at its commas.
fn split_names(names: &str) -> Vec<String> {
    names.split_terminator(',').map(str::to_owned).collect()
}

/// Rejects options that contradict each other or the type, and a `--toggle-health` of 0.
fn validate_options(profile: &Profile, usual: PluginKind) -> Result<(), &'static str> {
    let faults = &profile.faults;
    if profile.toggle_health == Some(Duration::ZERO) {
        return Err("invalid value for --toggle-health, expected more than 0");
    }
    if profile.toggle_health.is_some() && !usual.has_devices() {
        return Err("--toggle-health requires --type DevicePlugin or DRAPlugin");
    }
    let allocates = faults.refuse_allocate || !faults.delay_allocate.is_zero();
    if usual != PluginKind::Device && (allocates || !profile.cdi_devices.is_empty()) {
        return Err(
            "--cdi-devices, --refuse-allocate and --delay-allocate require --type DevicePlugin",
        );
    }
    if profile.is_legacy && usual != PluginKind::Device {
        return Err("--legacy requires --type DevicePlugin");
    }
    let has_registration_options =
        profile.endpoint.is_some() || faults.fail_get_info > 0 || faults.reject_notify;
    if profile.is_legacy && has_registration_options {
        return Err(
            "--legacy excludes --endpoint, --fail-getinfo and --reject-notify: the plugin has only \
             one socket, and does not serve the registration",
        );
    }
    Ok(())
}

/// Runs the simulated plugin until it ends, and returns the exit status. Failures to print events
/// are ignored.
#[inline(never)]
pub fn run(profile: &Profile) -> Result<ExitCode, Box<dyn StdError>> {
    let name = escape::text(&profile.name);
    let report = |event: &dyn fmt::Display| {
        let _ = writeln!(io::stdout(), "{name}: {event}");
    };
    Ok(match Simulation::new(profile, &report)?.run(&report)? {
        Ending::Asked => ExitCode::SUCCESS,
        // As shells return after SIGKILL. The init process of a container cannot kill itself.
        Ending::Crashed => ExitCode::from(128 + 9),
    })
}

/// Returns the file name of the plugin's socket: the plugin's name, with `_` for a slash, and a
/// suffix. Because of the suffix, the file name is never `kubelet.sock`.
fn file_name(name: &str, is_legacy: bool) -> String {
    let suffix = if is_legacy { "plugin" } else { "reg" };
    format!("{}-{suffix}.sock", name.replace('/', "_"))
}

pub(super) const HELP: &str = "\
Simulate a plugin, to test a node and its handlers without a driver and without
a cluster. Print one line for each call and event.

Usage: plugind simulate --dir DIR [OPTIONS]

Options:
  --dir DIR          serve the registration on DIR/NAME-reg.sock; DIR has to
                     exist; / in NAME becomes _; a dead socket is replaced
  --type NAME        CSIPlugin, DevicePlugin, DRAPlugin or a type of your own,
                     which has no service (default: CSIPlugin)
  --name NAME        the name of the driver or resource (default: a valid name
                     for the type)
  --endpoint PATH    serve the plugin's service on PATH; if PATH is empty, on
                     the registration socket (default: empty)
  --legacy           with --type DevicePlugin: serve on DIR/NAME-plugin.sock and
                     call Register on DIR/kubelet.sock, as device plugins in
                     /var/lib/kubelet/device-plugins do; and again after each
                     failure, and when kubelet.sock is created again
  --versions V,V...  the supported versions to report (default: those of a real
                     plugin of the type; DRA drivers report their services)
  --toggle-health DURATION
                     break or repair a device after each DURATION (default:
                     never); SIGUSR1 does the same at once
  --cdi-devices N,N...
                     with --type DevicePlugin: answer Allocate with these names
                     of CDI devices (default: with a device node, which is
                     /dev/null, a mount of DIR and a variable)

Failures to simulate:
  --fail-getinfo N   return an error for the first N GetInfo calls (default: 0)
  --delay DURATION   wait that long before each reply (default: 0s)
  --crash-after DURATION
                     exit after that time as if killed, and leave the sockets
                     behind (default: never)
  --refuse-allocate  reply to Allocate with an error
  --delay-allocate DURATION
                     wait that time, and --delay, before each reply to
                     Allocate (default: 0s); with 1h it hangs
  --reject-notify    reply to NotifyRegistrationStatus with an error
  --stale            leave the sockets behind on exit
Also: --type, --name or --versions reports an unusual type, name or version.

A DURATION is a whole number and a unit, such as 500ms, 30s, 5m or 1h.
Stop it with SIGTERM or SIGINT, which also remove its sockets. Exit status:
0 stopped by a signal, 1 cannot start or continue, 2 wrong usage, 137 crashed as
requested.
";

#[cfg(test)]
mod tests {
    use lexopt::Parser;

    use super::*;
    use crate::simulate::Faults;

    fn parse(arguments: &[&str]) -> Result<Profile, String> {
        let line = [&["simulate"], arguments].concat();
        match Command::parse(Parser::from_args(line)) {
            Ok(Command::Simulate(profile)) => Ok(profile),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn dir_is_the_only_required_option() {
        let defaults = |kind| {
            let profile = parse(&["--dir", "/r", "--type", kind]).unwrap();
            let socket = profile.socket.display().to_string();
            (profile.name, profile.versions.join(" "), socket)
        };
        let strings = |all: [&str; 3]| all.map(str::to_owned).into();
        for (kind, expected) in [
            (
                "CSIPlugin",
                [
                    "csi.simulated.example",
                    "1.0.0",
                    "/r/csi.simulated.example-reg.sock",
                ],
            ),
            (
                "DevicePlugin",
                [
                    "simulated.example/device",
                    "v1beta1",
                    "/r/simulated.example_device-reg.sock",
                ],
            ),
            (
                "DRAPlugin",
                [
                    "dra.simulated.example",
                    "v1.DRAPlugin v1beta1.DRAPlugin v1alpha1.DRAResourceHealth",
                    "/r/dra.simulated.example-reg.sock",
                ],
            ),
            (
                "Toaster",
                [
                    "simulated.example",
                    "1.0.0",
                    "/r/simulated.example-reg.sock",
                ],
            ),
        ] {
            assert_eq!(defaults(kind), strings(expected));
        }
        let profile = parse(&["--dir", "/r"]).unwrap();
        assert_eq!(profile.kind, "CSIPlugin");
        assert_eq!(
            (profile.endpoint, profile.faults),
            (None, Faults::default())
        );
    }

    #[test]
    fn any_type_name_and_versions_are_accepted() {
        let line = ["--dir=/r", "--type=", "--name=", "--versions="];
        let profile = parse(&line).unwrap();
        assert_eq!((&*profile.kind, &*profile.name), ("", ""));
        assert!(profile.versions.is_empty());
        let profile = parse(&["--dir=/r", "--versions", "a,,b"]).unwrap();
        assert_eq!(profile.versions, ["a", "", "b"]);
    }

    #[test]
    fn a_service_has_a_socket_of_its_own_only_if_one_is_named() {
        let endpoint = |value| parse(&["--dir=/r", "--endpoint", value]).unwrap().endpoint;
        assert_eq!(endpoint(""), None);
        assert_eq!(endpoint("/s/csi.sock").as_deref(), Some("/s/csi.sock"));
        assert!(endpoint("csi.sock").unwrap().starts_with('/'));
    }

    #[test]
    fn every_fault_has_an_option() {
        let line = [
            "--dir=/r",
            "--fail-getinfo=2",
            "--delay=300ms",
            "--crash-after=1m",
            "--reject-notify",
            "--stale",
        ];
        let line = [
            &line[..],
            &[
                "--type=DevicePlugin",
                "--refuse-allocate",
                "--delay-allocate=1h",
            ],
        ]
        .concat();
        let expected = Faults {
            fail_get_info: 2,
            delay: Duration::from_millis(300),
            crash_after: Some(Duration::from_secs(60)),
            reject_notify: true,
            refuse_allocate: true,
            delay_allocate: Duration::from_secs(3600),
            stale: true,
        };
        assert_eq!(parse(&line).unwrap().faults, expected);
        let line = ["--dir=/r", "--type=DRAPlugin", "--toggle-health=5s"];
        let every = parse(&line).unwrap().toggle_health;
        let line = [
            "--dir=/r",
            "--type=DevicePlugin",
            "--cdi-devices=a/b=c,a/b=d",
        ];
        assert_eq!(parse(&line).unwrap().cdi_devices, ["a/b=c", "a/b=d"]);
        assert_eq!(every, Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_legacy_device_plugin_registers_itself() {
        let line = ["--dir=/d", "--type=DevicePlugin", "--legacy"];
        let profile = parse(&line).unwrap();
        let socket = profile.socket.display().to_string();
        assert!(profile.is_legacy);
        assert_eq!(socket, "/d/simulated.example_device-plugin.sock");
        let line = [&line[..], &["--name=kubelet", "--stale", "--delay=1s"]].concat();
        let profile = parse(&line).unwrap();
        assert_eq!(profile.kubelet_socket(), Some("/d/kubelet.sock".into()));
        assert_ne!(profile.kubelet_socket(), Some(profile.socket));
        for served in ["--endpoint=/s", "--fail-getinfo=1", "--reject-notify"] {
            let error = parse(&[&line[..], &[served]].concat()).unwrap_err();
            assert!(
                error.starts_with("--legacy excludes --endpoint, "),
                "{error}"
            );
        }
    }

    #[test]
    fn wrong_usage_names_the_option_the_value_and_what_is_accepted() {
        let missing = "missing option --dir; see plugind simulate --help";
        assert_eq!(parse(&[]).unwrap_err(), missing);
        for (option, expected) in [
            (
                "--delay=soon",
                "invalid value \"soon\" for --delay, expected a duration such as 500ms, 30s, 5m or 1h",
            ),
            (
                "--fail-getinfo=-1",
                "invalid value \"-1\" for --fail-getinfo, expected a number",
            ),
            ("--dir=", "invalid value \"\" for --dir, expected a path"),
            (
                "--toggle-health=1s",
                "--toggle-health requires --type DevicePlugin or DRAPlugin",
            ),
            (
                "--toggle-health=0s",
                "invalid value for --toggle-health, expected more than 0",
            ),
            ("--legacy", "--legacy requires --type DevicePlugin"),
            (
                "--cdi-devices=a/b=c",
                "--cdi-devices, --refuse-allocate and --delay-allocate require --type DevicePlugin",
            ),
            ("--fast", "unknown option --fast"),
            ("--dela=1s", "unknown option --dela (did you mean --delay?)"),
            ("left-over", "unexpected argument \"left-over\""),
        ] {
            let expected = format!("{expected}; see plugind simulate --help");
            assert_eq!(parse(&["--dir=/r", option]).unwrap_err(), expected);
        }
    }
}
