//! `plugind run`: what may be chosen for the daemon.

use std::ffi::{OsStr, OsString};
use std::path::{self, PathBuf};

use lexopt::prelude::{Long, Short, ValueExt as _};
use lexopt::{Error, Parser};

use super::{Command, standard};
use crate::config::Config;

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
            Long("state-file") => {
                let file = absolute(&parser.value()?, "--state-file")?;
                options.config.state_file = Some(file);
            }
            Long("type") => types.push(plugin_type(parser.value()?)?),
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
fn absolute(value: &OsStr, option: &str) -> Result<PathBuf, Error> {
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

const HELP: &str = "\
Watch directories and register the plugins that appear there, in the foreground.

Usage: plugind run [OPTIONS]

Options:
  --plugins-dir DIR  watch DIR and all below it for plugin sockets; it is created
                     if it is missing; may be given several times
                     (default: /var/lib/kubelet/plugins_registry)
  --type NAME        accept plugins of this type; may be given several times
                     (default: CSIPlugin, DevicePlugin, DRAPlugin)
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
    fn a_relative_path_is_made_absolute() {
        let options = parse(&["--plugins-dir", "a/b", "--state-file", "c/d"]).unwrap();
        let file = options.config.state_file.unwrap();
        for (path, end) in [(&options.config.plugins_dirs[0], "a/b"), (&file, "c/d")] {
            assert!(path.is_absolute() && path.ends_with(end));
        }
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
}
