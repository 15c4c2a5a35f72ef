//! The options of `run` that decide about plugins, which `probe` has, too.

use std::ffi::OsString;
use std::mem;
use std::path::PathBuf;

use super::arguments::{Arguments, UsageError, absolute};
use crate::config::{
    DEFAULT_ROOT_DIR, DEVICE_PLUGINS_DIR, DaemonConfig, Exec, PLUGINS_DIR, PathMap, UnknownTypes,
};
use crate::escape;

/// The user's choices so far.
///
/// They come from up to three sources ([`Origin`]). An option of a higher one replaces that of a
/// lower one; an option that can be given several times, the whole list.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// The options with a single value, and those whose values are added to a default.
    pub(super) config: DaemonConfig,
    /// The directories, which replace the default.
    pub(super) dirs: Vec<PathBuf>,
    /// The last of kubelet's root directories.
    root: Option<PathBuf>,
    /// Whether device plugins may register in that root directory.
    pub(super) has_device_plugins: bool,
    /// The plugin types, which replace the default.
    types: Vec<String>,
    /// The number of `--verbose`.
    pub(super) verbosity: u8,
    /// The configuration file, as named.
    pub(super) file: Option<OsString>,
    /// The options in force, in the order in which they were given.
    given: Vec<Given>,
}

/// An option that is given, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) option: &'static str,
    /// The value; that of a flag is empty, and that of the command line is left out.
    pub(super) value: OsString,
    pub(super) origin: Origin,
}

/// The source of an option, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// This line of the configuration file.
    Line(usize),
    Environment,
    CommandLine,
}

impl Origin {
    fn is_below(self, other: Self) -> bool {
        self < other && !matches!(other, Self::Line(_))
    }
}

impl Chosen {
    /// Notes that an option is given, whose value is read next. Returns the line of the file that
    /// has given it before, if it can be given there only once.
    pub(super) fn give(&mut self, new: Given) -> Option<usize> {
        let (name, option) = (same(new.option), new.option);
        let count = self.given.len();
        let is_kept = |it: &Given| !it.origin.is_below(new.origin) || same(it.option) != name;
        self.given.retain(is_kept);
        if self.given.len() < count {
            match name {
                "--plugins-dir" => self.dirs.clear(),
                "--type" => self.types.clear(),
                "--exec" => self.config.handlers.exec.clear(),
                "--map-path" => self.config.manager.path_map = PathMap::default(),
                "--verbose" => self.verbosity = 0,
                "--device-plugins-dir" => {
                    self.has_device_plugins = false;
                    self.config.manager.device_plugins_dir = None;
                }
                _ => {}
            }
        }
        let before = self.given.iter().find(|it| same(it.option) == name);
        let line = match before.map(|it| it.origin) {
            Some(Origin::Line(line)) if !LISTS.contains(&option) => Some(line),
            _ => None,
        };
        self.given.push(new);
        line
    }

    /// Removes and returns the options in force, in the order in which they were given.
    pub(super) fn take_given(&mut self) -> Vec<Given> {
        mem::take(&mut self.given)
    }

    /// Reads the value of `option`. Returns `false` if it is not one of these options.
    pub(super) fn read(
        &mut self,
        option: &str,
        arguments: &mut Arguments,
    ) -> Result<bool, UsageError> {
        match option {
            "--root-dir" => {
                let root = arguments.path()?;
                self.dirs.push(root.join(PLUGINS_DIR));
                self.root = Some(root);
            }
            "--map-path" => {
                let (from, to) = arguments.parsed(FROM_TO, from_to)?;
                self.config.manager.path_map.add(from, to);
            }
            "--type" => {
                let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
                self.types.push(arguments.parsed(TYPE, named)?);
            }
            "--unknown-types" => {
                self.config.handlers.unknown_types =
                    arguments.parsed("reject, accept or ignore", unknown_types)?;
            }
            "--exec" => self.add_exec(arguments)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds a plugin type with its program. A type can have only one.
    fn add_exec(&mut self, arguments: &mut Arguments) -> Result<(), UsageError> {
        let new = arguments.parsed("TYPE=PROGRAM", exec)?;
        let programs = &mut self.config.handlers.exec;
        if programs.iter().any(|exec| exec.kind == new.kind) {
            let option = arguments.option();
            let kind = escape::text(&new.kind);
            let problem = format!("{option} names two programs for type {kind:?}");
            return Err(arguments.error(problem));
        }
        programs.push(new);
        Ok(())
    }

    /// Returns the configuration, with the defaults for all options that were not given.
    pub(super) fn complete(self) -> DaemonConfig {
        let Self {
            mut config,
            dirs,
            root,
            has_device_plugins,
            types,
            ..
        } = self;
        if has_device_plugins {
            let root = root.unwrap_or_else(|| DEFAULT_ROOT_DIR.into());
            let dir = &mut config.manager.device_plugins_dir;
            dir.get_or_insert_with(|| root.join(DEVICE_PLUGINS_DIR));
        }
        if !dirs.is_empty() {
            config.manager.plugins_dirs = dirs;
        }
        if !types.is_empty() {
            config.handlers.types = types;
        }
        config
    }
}

/// Returns the option that has the same purpose.
pub(super) fn same(option: &'static str) -> &'static str {
    match option {
        "--root-dir" => "--plugins-dir",
        "--device-plugins" => "--device-plugins-dir",
        other => other,
    }
}

fn unknown_types(word: &str) -> Option<UnknownTypes> {
    match word {
        "reject" => Some(UnknownTypes::Reject),
        "accept" => Some(UnknownTypes::Accept),
        "ignore" => Some(UnknownTypes::Ignore),
        _ => None,
    }
}

/// Parses a plugin type and its program.
fn exec(words: &str) -> Option<Exec> {
    let (kind, program) = words.split_once('=')?;
    (!kind.is_empty()).then_some(Exec {
        kind: kind.to_owned(),
        program: absolute(program.as_ref())?,
    })
}

/// Parses a directory's path for plugins, and its path in this process.
fn from_to(words: &str) -> Option<(PathBuf, PathBuf)> {
    let (from, to) = words.split_once('=')?;
    let to = absolute(to.as_ref())?;
    from.starts_with('/').then(|| (from.into(), to))
}

/// The options that can be given several times.
const LISTS: [&str; 6] = [
    "--plugins-dir",
    "--root-dir",
    "--map-path",
    "--type",
    "--exec",
    "--verbose",
];

const TYPE: &str = "the name of a plugin type";

const FROM_TO: &str = "FROM=TO, with FROM an absolute path";
