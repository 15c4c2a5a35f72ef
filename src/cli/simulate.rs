//! `plugind simulate`: a plugin to try a node with.
//!
//! Reads the arguments, has the plugin simulated, and prints what happens to it, a line for each
//! thing with the plugin's name in front.

use std::error::Error as StdError;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::{Long, ValueExt as _};
use lexopt::{Error, Parser};

use super::run::{absolute, duration};
use super::{Command, standard};
use crate::daemon::simulate::{Ending, Simulation};
use crate::escape;
use crate::simulate::{Faults, Kind, Profile};

/// Reads what comes after `simulate`.
pub(super) fn parse(parser: &mut Parser) -> Result<Command, Error> {
    let mut chosen = Chosen::default();
    let mut faults = Faults::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("type") => chosen.kind = Some(text(parser)?),
            Long("name") => chosen.name = Some(text(parser)?),
            Long("versions") => chosen.versions = Some(text(parser)?),
            Long("dir") => chosen.dir = Some(absolute(&parser.value()?, "--dir")?),
            Long("endpoint") => chosen.endpoint = path(&parser.value()?)?,
            Long("toggle-health") => chosen.toggle_health = Some(time(parser)?),
            Long("fail-getinfo") => faults.fail_get_info = parser.value()?.parse()?,
            Long("delay") => faults.delay = time(parser)?,
            Long("crash-after") => faults.crash_after = Some(time(parser)?),
            Long("reject-notify") => faults.reject_notify = true,
            Long("stale") => faults.stale = true,
            other => return standard(&other, HELP).ok_or_else(|| other.unexpected()),
        }
    }
    Ok(Command::Simulate(chosen.complete(faults)?))
}

/// What the user chose. The type decides the rest.
#[derive(Default)]
struct Chosen {
    kind: Option<String>,
    name: Option<String>,
    versions: Option<String>,
    dir: Option<PathBuf>,
    endpoint: Option<String>,
    toggle_health: Option<Duration>,
}

impl Chosen {
    /// The plugin, if what was chosen goes together.
    fn complete(self, faults: Faults) -> Result<Profile, Error> {
        let dir = self.dir.ok_or("simulate needs --dir")?;
        let kind = self.kind.unwrap_or_else(|| "CSIPlugin".to_owned());
        let usual = Kind::named(&kind);
        if self.toggle_health == Some(Duration::ZERO) {
            return Err("--toggle-health needs some time".into());
        }
        if self.toggle_health.is_some() && !usual.has_devices() {
            return Err("--toggle-health is for a DevicePlugin or a DRAPlugin".into());
        }
        let name = self.name.unwrap_or_else(|| usual.usual_name().to_owned());
        let versions = self.versions.as_deref();
        let versions = versions.unwrap_or_else(|| usual.usual_versions());
        Ok(Profile {
            socket: dir.join(file_name(&name)),
            kind,
            name,
            versions: versions.split_terminator(',').map(str::to_owned).collect(),
            endpoint: self.endpoint,
            toggle_health: self.toggle_health,
            faults,
        })
    }
}

/// Is the plugin until it ends, and says what to end with. That nobody reads what happens to it is
/// no failure.
pub fn run(profile: &Profile) -> Result<ExitCode, Box<dyn StdError>> {
    let name = escape::text(&profile.name);
    let say = |what: &dyn fmt::Display| {
        let _ = writeln!(io::stdout(), "{name}: {what}");
    };
    Ok(match Simulation::new(profile, &say)?.run(&say)? {
        Ending::Asked => ExitCode::SUCCESS,
        Ending::Crashed => ExitCode::from(KILLED),
    })
}

/// The file of a registration socket, as plugins call it. A resource's name has a slash.
fn file_name(name: &str) -> String {
    format!("{}-reg.sock", name.replace('/', "_"))
}

/// The path of a service's own socket; none for nothing. The plugin says it, so it must be text.
fn path(value: &OsStr) -> Result<Option<String>, Error> {
    if value.is_empty() {
        return Ok(None);
    }
    let path = absolute(value, "--endpoint")?;
    let path = path.into_os_string().into_string();
    path.map(Some).map_err(Error::NonUnicodeValue)
}

/// The text that comes next.
fn text(parser: &mut Parser) -> Result<String, Error> {
    parser.value()?.string()
}

/// The duration that comes next.
fn time(parser: &mut Parser) -> Result<Duration, Error> {
    parser.value()?.parse_with(duration)
}

/// What the process ends with when it crashes: what shells make of SIGKILL. The process ends by
/// itself, because the first one of a container cannot kill itself.
const KILLED: u8 = 128 + 9;

const HELP: &str = "\
Be a plugin, to try a node and its handlers without a driver and without a cluster.
What happens to it is printed, a line for each thing.

Usage: plugind simulate --dir DIR [OPTIONS]

Options:
  --dir DIR          listen for the registration on DIR/NAME-reg.sock; a slash in
                     NAME becomes _; a socket that was left behind is replaced
  --type NAME        CSIPlugin, DevicePlugin, DRAPlugin or one of your own, which has
                     no service (default: CSIPlugin)
  --name NAME        the name of the driver or resource (default: one that fits)
  --endpoint PATH    listen for the service on PATH; empty: on the registration socket
                     (default: empty)
  --versions V,V...  what it says it can speak (default: what plugins of its type say;
                     DRA drivers list the services that they serve)
  --toggle-health DURATION
                     every so often, break a device or repair it; SIGUSR1 does so, too
  -h, --help         this text
  -V, --version      the version

What goes wrong:
  --fail-getinfo N   fail the first N times it is asked who it is
  --delay DURATION   take that long for every answer
  --crash-after DURATION
                     end as if killed, and leave the sockets behind
  --reject-notify    answer with an error when told how the registration ended
  --stale            leave the sockets behind when asked to end

A duration is such as 500ms, 30s, 5m or 1h. SIGTERM and SIGINT end it and remove its
sockets. Exit codes: 0 ended by a signal, 1 could not start or go on, 2 wrong usage,
137 crashed as it was told to.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Profile, String> {
        match super::parse(&mut Parser::from_args(arguments)) {
            Ok(Command::Simulate(profile)) => Ok(profile),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_directory_is_enough_and_the_rest_is_what_plugins_of_the_type_say() {
        let said = |kind| {
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
            assert_eq!(said(kind), strings(expected));
        }
        let profile = parse(&["--dir", "/r"]).unwrap();
        assert_eq!(profile.kind, "CSIPlugin");
        assert_eq!(
            (profile.endpoint, profile.faults),
            (None, Faults::default())
        );
    }

    #[test]
    fn a_plugin_may_be_as_wrong_as_the_user_likes() {
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
    fn everything_that_can_go_wrong_can_be_asked_for() {
        let line = [
            "--dir=/r",
            "--fail-getinfo=2",
            "--delay=300ms",
            "--crash-after=1m",
            "--reject-notify",
            "--stale",
        ];
        let expected = Faults {
            fail_get_info: 2,
            delay: Duration::from_millis(300),
            crash_after: Some(Duration::from_secs(60)),
            reject_notify: true,
            stale: true,
        };
        assert_eq!(parse(&line).unwrap().faults, expected);
        let line = ["--dir=/r", "--type=DRAPlugin", "--toggle-health=5s"];
        let every = parse(&line).unwrap().toggle_health;
        assert_eq!(every, Some(Duration::from_secs(5)));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert!(parse(&[]).unwrap_err().contains("--dir"));
        assert!(parse(&["--dir", ""]).unwrap_err().contains("--dir"));
        for (option, named) in [
            ("--delay=soon", "a duration is"),
            ("--fail-getinfo=-1", "-1"),
            ("--toggle-health=1s", "for a DevicePlugin"),
            ("--toggle-health=0s", "some time"),
            ("--fast", "--fast"),
            ("left-over", "left-over"),
        ] {
            let error = parse(&["--dir=/r", option]).unwrap_err();
            assert!(error.contains(named), "{option}: {error}");
        }
    }
}
