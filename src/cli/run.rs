//! `plugind run`: what may be chosen for the daemon.

use std::ffi::{OsStr, OsString};
use std::path::{self, PathBuf};
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt as _};
use lexopt::{Error, Parser};

use super::{Command, standard};
use crate::config::{Config, DOWN_GRACE, Exec, Mode, OnDown, PLUGINS_DIR, UnknownTypes};

/// How to run the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What it works on.
    pub config: Config,
    /// How often `-v` was given: the more, the more is logged.
    pub verbosity: u8,
}

/// Reads what comes after `run`.
pub(super) fn parse(parser: &mut Parser) -> Result<Command, Error> {
    let (mut dirs, mut types) = (Vec::new(), Vec::new());
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("plugins-dir") => dirs.push(absolute(&parser.value()?, "--plugins-dir")?),
            Long("root-dir") => {
                dirs.push(absolute(&parser.value()?, "--root-dir")?.join(PLUGINS_DIR));
            }
            Long("map-path") => {
                let (from, to) = moved(parser.value()?)?;
                options.config.path_map.add(from, to);
            }
            Long("state-file") => {
                let file = absolute(&parser.value()?, "--state-file")?;
                options.config.state_file = Some(file);
            }
            Long("observe") => options.config.mode = Mode::Observe,
            Long("type") => types.push(plugin_type(parser.value()?)?),
            Long("unknown-types") => {
                options.config.unknown_types = parser.value()?.parse_with(unknown_types)?;
            }
            Long("exec") => add_exec(&mut options.config.exec, parser.value()?)?,
            Long("on-down") => options.config.on_down = parser.value()?.parse_with(on_down)?,
            Short('v') | Long("verbose") => {
                options.verbosity = options.verbosity.saturating_add(1);
            }
            other => return standard(&other, HELP).ok_or_else(|| other.unexpected()),
        }
    }
    if !dirs.is_empty() {
        options.config.plugins_dirs = dirs;
    }
    if !types.is_empty() {
        options.config.types = types;
    }
    Ok(Command::Run(options))
}

/// The value of `option` as an absolute path, so that what is logged and what handlers are told is
/// true wherever they are.
pub(super) fn absolute(value: &OsStr, option: &str) -> Result<PathBuf, Error> {
    if value.is_empty() {
        return Err(format!("{option} needs a path").into());
    }
    path::absolute(value).map_err(|error| Error::ParsingFailed {
        value: value.to_string_lossy().into_owned(),
        error: error.into(),
    })
}

/// The name of a plugin type.
pub(super) fn plugin_type(value: OsString) -> Result<String, Error> {
    let name = value.string()?;
    if name.is_empty() {
        return Err("--type needs the name of a plugin type".into());
    }
    Ok(name)
}

/// What becomes of plugins of other types.
fn unknown_types(word: &str) -> Result<UnknownTypes, &'static str> {
    match word {
        "reject" => Ok(UnknownTypes::Reject),
        "accept" => Ok(UnknownTypes::Accept),
        "ignore" => Ok(UnknownTypes::Ignore),
        _ => Err("it is reject, accept or ignore"),
    }
}

/// One more plugin type with a program, which can't have two.
fn add_exec(programs: &mut Vec<Exec>, value: OsString) -> Result<(), Error> {
    let new = exec(value)?;
    if programs.iter().any(|exec| exec.kind == new.kind) {
        return Err(format!("--exec names two programs for {:?}", new.kind).into());
    }
    programs.push(new);
    Ok(())
}

/// A plugin type and its program: `TYPE=PROGRAM`.
fn exec(value: OsString) -> Result<Exec, Error> {
    let words = value.string()?;
    match words.split_once('=') {
        Some((kind, program)) if !kind.is_empty() => Ok(Exec {
            kind: kind.to_owned(),
            program: absolute(program.as_ref(), "--exec")?,
        }),
        _ => Err("--exec needs TYPE=PROGRAM".into()),
    }
}

/// A directory in plugins' words, and where it is: `FROM=TO`.
fn moved(value: OsString) -> Result<(PathBuf, PathBuf), Error> {
    let words = value.string()?;
    match words.split_once('=') {
        Some((from, to)) if from.starts_with('/') => {
            Ok((from.into(), absolute(to.as_ref(), "--map-path")?))
        }
        _ => Err("--map-path needs FROM=TO, and FROM must be absolute".into()),
    }
}

/// What becomes of a plugin that is down: `keep`, `deregister`, `deregister=30s`.
fn on_down(words: &str) -> Result<OnDown, &'static str> {
    match words.split_once('=') {
        None if words == "keep" => Ok(OnDown::Keep),
        None if words == "deregister" => Ok(OnDown::Deregister(DOWN_GRACE)),
        Some(("deregister", grace)) => duration(grace).map(OnDown::Deregister),
        _ => Err("it is either keep or deregister, or deregister=DURATION"),
    }
}

/// A whole number and its unit, such as `500ms`, `30s`, `5m` or `1h`. At most a year, which keeps
/// every moment that is reckoned from it within what a clock can show.
pub(super) fn duration(words: &str) -> Result<Duration, &'static str> {
    millis(words)
        .map(Duration::from_millis)
        .filter(|duration| *duration <= LONGEST)
        .ok_or("a duration is a whole number of ms, s, m or h, such as 30s")
}

/// How many milliseconds a number and its unit are.
fn millis(words: &str) -> Option<u64> {
    let digits = words.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = words.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis)
}

/// The longest duration that is taken for meant.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

const HELP: &str = "\
Watch directories and register the plugins that appear there, in the foreground.

Usage: plugind run [OPTIONS]

Options:
  --plugins-dir DIR  watch DIR and all below it for plugin sockets; it is created
                     if it is missing; may be given several times
                     (default: /var/lib/kubelet/plugins_registry)
  --observe          only look on: ask plugins who they are and log what would
                     become of them; tell them nothing, register nothing, keep no
                     state file; also where a kubelet or another plugind works
  --root-dir DIR     watch DIR/plugins_registry, as kubelet with that option; may be
                     given several times, and beside --plugins-dir
  --map-path FROM=TO
                     dial endpoints below the directory FROM, in plugins' words,
                     below TO; may be given several times, the longest FROM decides
  --type NAME        accept plugins of this type; may be given several times
                     (default: CSIPlugin, DevicePlugin, DRAPlugin)
  --unknown-types WHAT
                     what becomes of plugins of other types: reject them and tell
                     them so, as kubelet does, accept them, or ignore them and tell
                     them nothing (default: reject)
  --exec TYPE=PROGRAM
                     have PROGRAM do the work for plugins of TYPE: it is called as
                     PROGRAM add|old|del TYPE NAME ENDPOINT, with PLUGIND_* in its
                     environment and JSON on its standard input; status 0 registers
                     the plugin; may be given several times
  --on-down WHAT     what becomes of a registered plugin whose process has gone or
                     does not answer: keep it, or deregister[=DURATION] it when
                     it has been down for that long, such as 500ms, 30s (taken
                     when none is given), 5m or 1h (default: keep)
  --state-file FILE  keep the registered plugins in FILE, so that those that go
                     while the daemon is down are deregistered at its next start
  -v, --verbose      log more: -v every step, -vv every event; the environment
                     variable RUST_LOG has the last word
  -h, --help         this text
  -V, --version      the version

SIGTERM and SIGINT end it. Exit codes: 0 ended by a signal, 1 could not start or
go on, 2 wrong usage.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        match super::parse(&mut Parser::from_args(arguments)) {
            Ok(Command::Run(options)) => Ok(options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn kubelets_directory_and_types_are_the_default() {
        let options = parse(&[]).unwrap();
        let registry = PathBuf::from("/var/lib/kubelet/plugins_registry");
        assert_eq!(options.config.plugins_dirs, [registry]);
        assert_eq!(
            options.config.types,
            ["CSIPlugin", "DevicePlugin", "DRAPlugin"]
        );
        assert_eq!(options.verbosity, 0);
    }

    #[test]
    fn several_directories_and_types_replace_the_default() {
        let line = [
            "--plugins-dir",
            "/a",
            "--plugins-dir=/b",
            "--type",
            "X",
            "-vv",
        ];
        let options = parse(&line).unwrap();
        assert_eq!(
            options.config.plugins_dirs,
            [PathBuf::from("/a"), PathBuf::from("/b")]
        );
        assert_eq!(options.config.types, ["X"]);
        assert_eq!(options.verbosity, 2);
    }

    #[test]
    fn a_plugin_that_is_down_is_kept_unless_the_user_wants_otherwise() {
        let on_down = |words: &str| parse(&["--on-down", words]).map(|it| it.config.on_down);
        let after = |millis| Ok(OnDown::Deregister(Duration::from_millis(millis)));
        assert_eq!(parse(&[]).unwrap().config.on_down, OnDown::Keep);
        assert_eq!(on_down("keep"), Ok(OnDown::Keep));
        assert_eq!(on_down("deregister"), after(30_000));
        assert_eq!(on_down("deregister=0s"), after(0));
        assert_eq!(on_down("deregister=500ms"), after(500));
        assert_eq!(on_down("deregister=5m"), after(300_000));
        assert_eq!(on_down("deregister=1h"), after(3_600_000));
        for nonsense in [
            "forget",
            "keep=1s",
            "deregister=",
            "deregister=30",
            "deregister=s",
            "deregister=-1s",
            "deregister=1.5s",
            "deregister=9999999h",
            "deregister=99999999999999999999s",
        ] {
            assert!(on_down(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_relative_path_is_made_absolute() {
        let options = parse(&["--plugins-dir", "a/b", "--state-file", "c/d"]).unwrap();
        let file = options.config.state_file.unwrap();
        for (path, end) in [(&options.config.plugins_dirs[0], "a/b"), (&file, "c/d")] {
            assert!(path.is_absolute() && path.ends_with(end));
        }
    }

    #[test]
    fn a_root_directory_is_spelt_as_kubelet_does_and_stands_beside_others() {
        let options = parse(&["--root-dir", "/data/kubelet", "--plugins-dir=/b"]).unwrap();
        let expected = ["/data/kubelet/plugins_registry", "/b"].map(PathBuf::from);
        assert_eq!(options.config.plugins_dirs, expected);
    }

    #[test]
    fn a_moved_directory_is_kept_with_where_it_is() {
        let options = parse(&["--map-path=/var/lib/kubelet=/data/kubelet"]).unwrap();
        let found = options.config.path_map.find("/var/lib/kubelet/a".as_ref());
        assert_eq!(found, PathBuf::from("/data/kubelet/a"));
        for bad in ["", "/a", "a=/b", "/a=", "=/b"] {
            let error = parse(&["--map-path", bad]).unwrap_err();
            assert!(error.contains("--map-path"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn plugins_are_registered_unless_they_are_only_to_be_observed() {
        assert_eq!(parse(&[]).unwrap().config.mode, Mode::Register);
        assert_eq!(parse(&["--observe"]).unwrap().config.mode, Mode::Observe);
    }

    #[test]
    fn a_type_may_have_a_program() {
        let options = parse(&["--exec", "X=/lib/hook", "--exec", "Y=hooks/a=b"]).unwrap();
        let [x, y] = &options.config.exec[..] else {
            panic!("{options:?}");
        };
        assert_eq!((&*x.kind, &*y.kind), ("X", "Y"));
        assert_eq!(x.program, PathBuf::from("/lib/hook"));
        assert!(y.program.is_absolute() && y.program.ends_with("hooks/a=b"));
        for bad in ["", "X", "X=", "=/lib/hook"] {
            let error = parse(&["--exec", bad]).unwrap_err();
            assert!(error.contains("--exec"), "{bad:?}: {error}");
        }
        let twice = parse(&["--exec", "X=/a", "--exec", "X=/b"]);
        assert!(twice.unwrap_err().contains("two programs for \"X\""));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert!(
            parse(&["--plugins-dir", ""])
                .unwrap_err()
                .contains("--plugins-dir")
        );
        assert!(parse(&["--type", ""]).unwrap_err().contains("--type"));
        assert!(parse(&["--type"]).unwrap_err().contains("--type"));
        assert!(parse(&["--fast"]).unwrap_err().contains("--fast"));
        assert!(parse(&["left-over"]).unwrap_err().contains("left-over"));
    }

    #[test]
    fn plugins_of_other_types_are_rejected_accepted_or_ignored() {
        let chosen = |word| parse(&["--unknown-types", word]).map(|it| it.config.unknown_types);
        assert_eq!(
            parse(&[]).unwrap().config.unknown_types,
            UnknownTypes::Reject
        );
        assert_eq!(chosen("reject"), Ok(UnknownTypes::Reject));
        assert_eq!(chosen("accept"), Ok(UnknownTypes::Accept));
        assert_eq!(chosen("ignore"), Ok(UnknownTypes::Ignore));
        assert!(chosen("keep").unwrap_err().contains("\"keep\""));
    }
}
