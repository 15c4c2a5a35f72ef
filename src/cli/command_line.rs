//! The options of `run` from all their sources: the command line, the environment and the
//! configuration file.
//!
//! An option from a higher source replaces all options from lower sources that set the same value:
//! the whole list, if it can be given several times.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::Command;
use super::arguments::{Argument, Arguments, UsageError, did_you_mean};
use super::config_file::{self, Line};
use super::settings::{Chosen, Setting, file_settings, find_setting, spelled};
use super::values::{NONE, invalid_value, make_absolute};
use crate::config::{ApiSocket, DEFAULT_CONFIG_FILE, DaemonConfig, MAX_CONFIG_PROBLEMS};
use crate::daemon;
use crate::escape;

/// A valid command line of `run` or `check-config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    given: Vec<Given>,
    /// The path of the configuration file, or the text `none` to use no file; `None` if the command
    /// line names neither.
    file: Option<PathBuf>,
}

/// The options of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The configuration of the daemon.
    pub config: DaemonConfig,
    /// The number of `-v` options: the higher, the more is logged.
    pub verbosity: u8,
    /// The options in force that were given, each with its source.
    pub(super) given: Vec<Given>,
}

/// A given option: its value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) setting: &'static Setting,
    /// The value; empty for a flag that was given without a value.
    pub(super) value: OsString,
    pub(super) origin: Origin,
}

/// The source of an option, in ascending order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The line of the configuration file with this number.
    Line(usize),
    Environment,
    CommandLine,
}

impl Given {
    fn new(setting: &'static Setting, value: OsString, origin: Origin) -> Self {
        Self {
            setting,
            value,
            origin,
        }
    }

    /// Returns whether the option replaces `other`: it sets the same value, and comes from a higher
    /// source. Lines of one file do not replace each other.
    fn replaces(&self, other: &Self) -> bool {
        let is_higher = self.origin > other.origin && !matches!(self.origin, Origin::Line(_));
        is_higher && self.setting.purpose() == other.setting.purpose()
    }
}

/// The path of a configuration file, and its content.
pub(super) type File<'a> = (&'a Path, &'a [u8]);

/// The variables of the environment whose names are UTF-8.
pub(super) type Environment = Vec<(String, OsString)>;

/// Parses the arguments after `run`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    parse_as(Command::Run, false, arguments)
}

/// Parses the options of `run` for a command. `takes_file`: whether an argument may name the
/// configuration file, too.
pub(super) fn parse_as(
    command: fn(CommandLine) -> Command,
    takes_file: bool,
    arguments: &mut Arguments,
) -> Result<Command, UsageError> {
    let mut chosen = Chosen::default();
    let (mut given, mut file) = (Vec::new(), None);
    arguments.others = spelled().collect();
    while let Some(argument) = arguments.next()? {
        let setting = match (find_setting(&argument), argument) {
            (Some(setting), _) => setting,
            (_, Argument::Value(value)) if takes_file && file.is_none() && !value.is_empty() => {
                file = Some(value.into());
                continue;
            }
            (_, other) => return arguments.parse_standard(&other),
        };
        let mut value = OsString::new();
        if setting.is_flag() {
            let _ = (setting.read)(&mut chosen, &value); // A flag has no value to reject.
        } else {
            arguments.parse_value(|it| {
                it.clone_into(&mut value);
                (setting.read)(&mut chosen, it)
            })?;
        }
        given.push(Given::new(setting, value, Origin::CommandLine));
    }
    let file = file.or(chosen.file);
    Ok(command(CommandLine { given, file }))
}

impl CommandLine {
    /// Reads the configuration file, and combines its options with those of the environment and the
    /// command line. The programs have to be usable, and the directory of the state file has to
    /// exist or to be the run directory. The error lists the problems.
    pub fn load(&self) -> Result<Options, Vec<String>> {
        let options = self.read_and_combine()?;
        match daemon::path_problems(&options.config) {
            problems if problems.is_empty() => Ok(options),
            problems => Err(problems),
        }
    }

    fn read_and_combine(&self) -> Result<Options, Vec<String>> {
        let variables = env::vars_os();
        let environment =
            variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let environment = &environment.collect();
        let named = self.file.clone();
        let named = named.or_else(|| find_variable(environment, CONFIG).map(PathBuf::from));
        if named
            .as_ref()
            .is_some_and(|named| named.as_os_str() == NONE)
        {
            return self.combine(None, environment);
        }
        let is_default = named.is_none();
        let path = named.unwrap_or_else(|| DEFAULT_CONFIG_FILE.into());
        let path = make_absolute(path.as_os_str()).unwrap_or_default();
        let content = daemon::config_file::read(&path, is_default).map_err(|error| vec![error])?;
        let file = content.as_ref().map(|content| (&*path, &**content));
        self.combine(file, environment)
    }

    /// Combines the options of a file, the environment and the command line, which has the highest
    /// priority. The error lists the first [`MAX_CONFIG_PROBLEMS`] problems, and counts the others.
    pub fn combine(
        &self,
        file: Option<File<'_>>,
        environment: &Environment,
    ) -> Result<Options, Vec<String>> {
        let mut problems = Vec::new();
        let mut given = Vec::new();
        if let Some((path, content)) = file {
            let mut chosen = Chosen::default();
            for (number, line) in config_file::parse_lines(content) {
                let read = line.map_err(str::to_owned);
                let read = read.and_then(|line| apply_line(line, number, &mut chosen, &mut given));
                if let Err(problem) = read {
                    problems.push(format!("{}:{number}: {problem}", escape::path(path)));
                }
            }
        }
        for setting in file_settings() {
            let name = setting.variable();
            if let Some(value) = find_variable(environment, &name) {
                let read = apply_with_absolute_path(setting, &mut Chosen::default(), Some(&value));
                problems.extend(read.err().map(|problem| format!("{name}: {problem}")));
                given.push(Given::new(setting, value, Origin::Environment));
            }
        }
        problems.extend(
            environment
                .iter()
                .filter_map(|(name, value)| check_variable(name, value)),
        );
        let count = problems.len();
        // mutation: all problems of a configuration are listed
        if count > MAX_CONFIG_PROBLEMS {
            problems.truncate(MAX_CONFIG_PROBLEMS);
            problems.push(format!("further problems: {}", count - MAX_CONFIG_PROBLEMS));
        }
        if count > 0 {
            return Err(problems);
        }
        given.extend(self.given.iter().cloned());
        given.retain(|it| it.setting.long_name() != "config");
        let (config, verbosity) = apply_options(&mut given).map_err(|problem| vec![problem])?;
        let mut options = Options {
            config,
            verbosity,
            given,
        };
        options.config.file = file.map(|(path, _)| path.to_owned());
        options.config.manager.links_by_name = true;
        Ok(options)
    }
}

/// Drops the options that options of higher sources replace, and applies the rest. Returns the
/// configuration and the verbosity, or the first problem.
fn apply_options(given: &mut Vec<Given>) -> Result<(DaemonConfig, u8), String> {
    // `--device-plugins` needs the last `root-dir`, even if `plugins-dir` from a higher source
    // replaces that option.
    let root = given
        .iter()
        .rfind(|it| it.setting.long_name() == "root-dir");
    let root = root.and_then(|it| make_absolute(&it.value));
    let all = given.clone();
    given.retain(|it| !all.iter().any(|other| other.replaces(it)));
    let mut chosen = Chosen::default();
    chosen.config.manager.api_socket = ApiSocket::Default;
    for Given { setting, value, .. } in given {
        let value = (!value.is_empty()).then_some(&**value);
        setting.apply(&mut chosen, value)?;
    }
    let verbosity = chosen.verbosity;
    Ok((chosen.into_config(root), verbosity))
}

/// Adds the option in a line of the configuration file to `given`, and applies it to `chosen`.
/// Returns the problem with the line, if any.
fn apply_line(
    (key, value): Line<'_>,
    number: usize,
    chosen: &mut Chosen,
    given: &mut Vec<Given>,
) -> Result<(), String> {
    let setting = file_settings().find(|setting| setting.long_name() == key);
    let setting = setting.ok_or_else(|| {
        if key == "config" {
            return "a configuration file cannot name another one".to_owned();
        }
        let hint = did_you_mean(key, file_settings().map(Setting::long_name));
        format!("unknown key {}{hint}", escape::text(key))
    })?;
    let same = |it: &&Given| it.setting.purpose() == setting.purpose();
    let first = given.iter().find(same).map(|it| it.origin);
    let value = value.map(OsStr::new);
    let new = value.unwrap_or_default().to_owned();
    given.push(Given::new(setting, new, Origin::Line(number)));
    apply_with_absolute_path(setting, chosen, value)?;
    match first {
        Some(Origin::Line(line)) if !setting.is_list() => Err(format!(
            "{} is given a second time, first in line {line}",
            setting.long_name()
        )),
        _ => Ok(()),
    }
}

/// Applies a setting of a file or of the environment, where a path has to be absolute: the
/// working directory of a service is not that of the user.
fn apply_with_absolute_path(
    setting: &Setting,
    chosen: &mut Chosen,
    value: Option<&OsStr>,
) -> Result<(), String> {
    setting.apply(chosen, value)?;
    let path = value.map(|value| (setting.placeholder(), value.to_str().unwrap_or("/")));
    let path = path.and_then(|(kind, text)| match kind {
        "DIR" | "FILE" => Some(text),
        "DIR|@" => Some(text).filter(|it| *it != "@"),
        "PATH|none" => Some(text).filter(|it| *it != NONE),
        "FROM=TO" | "TYPE=PROGRAM" => text.split_once('=').map(|(_, path)| path),
        _ => None,
    });
    match (path, value) {
        (Some(path), Some(value)) if !path.starts_with('/') => Err(invalid_value(
            value,
            setting.long_name(),
            "an absolute path",
        )),
        _ => Ok(()),
    }
}

/// Returns the value of a variable, or `None` if the variable is not set or is empty.
fn find_variable(environment: &Environment, name: &str) -> Option<OsString> {
    let mut set = environment.iter().filter(|(_, value)| !value.is_empty());
    let (_, value) = set.find(|(it, _)| it == name)?;
    Some(value.clone())
}

/// Returns the problem with a variable that begins with `PLUGIND_` and is unknown, unless it is
/// empty. `PLUGIND_SERVICE_*`, `PLUGIND_PORT` and `PLUGIND_PORT_*` are not a problem: in a pod,
/// Kubernetes sets them for a service that is called `plugind`.
fn check_variable(name: &str, value: &OsStr) -> Option<String> {
    let own = name.strip_prefix("PLUGIND_")?;
    let is_kubernetes = own.starts_with("SERVICE_") || own.split('_').next() == Some("PORT");
    let others = PROGRAM_VARIABLES.iter().chain([&CONFIG]);
    let known = || {
        file_settings()
            .map(Setting::variable)
            .chain(others.clone().map(|&it| it.to_owned()))
    };
    if value.is_empty() || is_kubernetes || known().any(|it| it == name) {
        return None;
    }
    let hint = did_you_mean(name, known());
    Some(format!("unknown variable {}{hint}", escape::text(name)))
}

/// Variables that plugind sets for programs of `--exec` and commands of `with`, and that are not
/// options: accepted, because such a program may run plugind.
const PROGRAM_VARIABLES: &[&str] = &[
    "PLUGIND_ACTION",
    "PLUGIND_NAME",
    "PLUGIND_ENDPOINT",
    "PLUGIND_SOCKET",
    "PLUGIND_VERSIONS",
    "PLUGIND_CDI_DEVICES",
    "PLUGIND_ALLOCATION",
];

/// The variable of the environment that names the configuration file.
const CONFIG: &str = "PLUGIND_CONFIG";

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use lexopt::Parser;

    use super::*;
    use crate::cli::run;
    use crate::config::{Mode, UnknownTypes};

    const FILE: &str = "/etc/a.conf";

    /// Combines a file, variables of the environment, and a command line.
    fn combine(
        file: &[u8],
        environment: &[(&str, &str)],
        line: &[&str],
    ) -> Result<Options, Vec<String>> {
        let line = [&["run"], line].concat();
        let Ok(Command::Run(line)) = Command::parse(Parser::from_args(line)) else {
            panic!("not a command line of run");
        };
        let file = (Path::new(FILE), file);
        line.combine(Some(file), &variables(environment))
    }

    /// Returns an environment with these variables.
    pub(in crate::cli) fn variables(pairs: &[(&str, &str)]) -> Environment {
        let owned = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.into()));
        owned.collect()
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_file_has_the_options_of_the_command_line() {
        let file = b"# all of them\nplugins-dir=/a\nroot-dir /b\ndevice-plugins-dir = /c\nobserve\n\
            map-path /d=/e\ntype X\ntype Y\nunknown-types accept\nexec X=/f\ncsi-node-info=*=10s\non-down=deregister=1s\n\
            trust strict\nendpoint-dir /l\nendpoint-dir @\nallow-uid 7\nallow-name 8=X/y*\nsandbox off\nmemory-budget 1Mi\nstate-file /g\nrun-dir /h\ncdi-dir /k\nsocket none\nsocket-group 7\nallocate-group 8\nverbose\n\
            verbose\nlog-format=json\n";
        let line = [
            "--plugins-dir=/a",
            "--root-dir=/b",
            "--device-plugins-dir=/c",
            "--observe",
            "--map-path=/d=/e",
            "--type=X",
            "--type=Y",
            "--unknown-types=accept",
            "--exec=X=/f",
            "--csi-node-info=*=10s",
            "--on-down=deregister=1s",
            "--trust=strict",
            "--endpoint-dir=/l",
            "--endpoint-dir=@",
            "--allow-uid=7",
            "--allow-name=8=X/y*",
            "--sandbox=off",
            "--memory-budget=1Mi",
            "--state-file=/g",
            "--run-dir=/h",
            "--cdi-dir=/k",
            "--socket=none",
            "--socket-group=7",
            "--allocate-group=8",
            "-vv",
            "--log-format=json",
        ];
        let (of_file, of_line) = (combine(file, &[], &[]), combine(b"", &[], &line));
        let (of_file, of_line) = (of_file.unwrap(), of_line.unwrap());
        assert_eq!(of_file.config, of_line.config);
        assert_eq!(of_file.verbosity, of_line.verbosity);
        let text = String::from_utf8_lossy(file);
        for setting in file_settings() {
            assert!(text.contains(&format!("\n{}", setting.long_name())));
        }
    }

    #[test]
    fn a_directory_of_device_plugins_is_named_once() {
        let file = b"device-plugins\ndevice-plugins-dir /a";
        let problem = "/etc/a.conf:2: device-plugins-dir is given a second time, first in line 1";
        assert_eq!(combine(file, &[], &[]), Err(vec![problem.to_owned()]));
    }

    #[test]
    fn the_command_line_overrides_the_environment() {
        let on_down = |file: &[u8], environment: &[(&str, &str)], line: &[&str]| {
            let options = combine(file, environment, line).unwrap();
            options.config.manager.on_down.to_string()
        };
        let file = b"on-down deregister=1s";
        let variable = [("PLUGIND_ON_DOWN", "deregister=2s")];
        assert_eq!(on_down(b"", &[], &[]), "keep");
        assert_eq!(on_down(file, &[], &[]), "deregister=1s");
        assert_eq!(on_down(file, &variable, &[]), "deregister=2s");
        let line = ["--on-down=deregister=3s"];
        assert_eq!(on_down(file, &variable, &line), "deregister=3s");
        assert_eq!(
            on_down(file, &[("PLUGIND_ON_DOWN", "")], &[]),
            "deregister=1s"
        );
    }

    #[test]
    fn a_list_replaces_the_list_of_a_lower_source() {
        let file =
            b"plugins-dir /a\nroot-dir /b\ntype X\ntype Y\nexec X=/f\nmap-path /d=/e\nverbose\n\
            verbose\ndevice-plugins-dir /c";
        let config = combine(file, &[], &[]).unwrap().config;
        let expected = paths(&["/a", "/b/plugins_registry"]);
        assert_eq!(config.manager.plugins_dirs, expected);
        assert_eq!(config.handlers.types, ["X", "Y"]);
        let line = [
            "--type=Z",
            "--exec=X=/g",
            "--map-path=/i=/j",
            "-v",
            "--device-plugins",
        ];
        let environment = [("PLUGIND_PLUGINS_DIR", "/z")];
        let options = combine(file, &environment, &line).unwrap();
        let config = options.config;
        assert_eq!(config.manager.plugins_dirs, paths(&["/z"]));
        // `--plugins-dir` replaces the plugins directories of the file, but not kubelet's root
        // directory.
        let dir = config.manager.device_plugins_dir;
        assert_eq!(dir, Some("/b/device-plugins".into()));
        assert_eq!(config.handlers.types, ["Z"]);
        assert_eq!(config.handlers.exec.len(), 1);
        assert_eq!(config.handlers.exec[0].program, Path::new("/g"));
        let moved = |path: &str| {
            config
                .manager
                .path_map
                .translate(Path::new(path))
                .into_owned()
        };
        assert_eq!((moved("/d"), moved("/i")), ("/d".into(), "/j".into()));
        assert_eq!(options.verbosity, 1);
    }

    #[test]
    fn an_option_has_a_variable_and_socket_is_api_socket() {
        let environment = [
            ("PLUGIND_STATE_FILE", "/a"),
            ("PLUGIND_API_SOCKET", "none"),
            ("PLUGIND_UNKNOWN_TYPES", "ignore"),
            ("PLUGIND_TYPE", "X"),
            ("PLUGIND_SOCKET", "/b"),
            ("PLUGIND_OBSERVE", "true"),
            ("PLUGIND_DEVICE_PLUGINS", "no"),
        ];
        let file = b"device-plugins-dir /d\nobserve 0";
        let config = combine(file, &environment, &[]).unwrap().config;
        assert_eq!(config.manager.state_file, Some("/a".into()));
        assert_eq!(config.manager.api_socket, ApiSocket::None);
        assert_eq!(config.manager.mode, Mode::Observe);
        assert_eq!(config.manager.device_plugins_dir, None);
        assert_eq!(config.handlers.unknown_types, UnknownTypes::Ignore);
        assert_eq!(config.handlers.types, ["X"]);
    }

    #[test]
    fn every_problem_is_named_with_its_place() {
        let file = b"on-dwon keep\nstate-file\ntype\r\nobserve maybe\nconfig /b\n--observe\n\
            exec X\nexec X=/a\nexec X=/b\nstate-file /a\nstate-file /b\nhelp\na\x00\nv\n\
            socket /a\nmemory-budget = 1\n\x1b = 1\nroot-dir =\n";
        let environment = [("PLUGIND_ON_DOWN", "x"), ("PLUGIND_RUN_DIR", "/r")];
        let problems = combine(file, &environment, &[]).unwrap_err();
        let expected = [
            "/etc/a.conf:1: unknown key on-dwon (did you mean on-down?)",
            "/etc/a.conf:2: missing value for state-file",
            "/etc/a.conf:3: missing value for type",
            "/etc/a.conf:4: invalid value \"maybe\" for observe, expected 1, true, yes, 0, false or no",
            "/etc/a.conf:5: a configuration file cannot name another one",
            "/etc/a.conf:6: unknown key --observe (did you mean observe?)",
            "/etc/a.conf:7: invalid value \"X\" for exec, expected TYPE=PROGRAM",
            "/etc/a.conf:9: invalid value \"X=/b\" for exec, expected one program for each type",
            "/etc/a.conf:10: state-file is given a second time, first in line 2",
            "/etc/a.conf:11: state-file is given a second time, first in line 2",
            "/etc/a.conf:12: unknown key help",
            "/etc/a.conf:13: the line contains a control character",
            "/etc/a.conf:14: unknown key v",
            "/etc/a.conf:16: invalid value \"1\" for memory-budget, \
             expected a size of at least 1Mi, such as 16Mi or 20000000",
            "/etc/a.conf:17: the line contains a control character",
            "/etc/a.conf:18: invalid value \"\" for root-dir, expected a path",
            "PLUGIND_ON_DOWN: invalid value \"x\" for on-down, \
             expected keep, deregister or deregister=DURATION such as deregister=30s",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn an_unknown_variable_is_named_with_the_nearest_one() {
        let problems = |name| combine(b"", &[(name, "1")], &[]).err();
        for (name, expected) in [
            (
                "PLUGIND_OBSERV",
                "unknown variable PLUGIND_OBSERV (did you mean PLUGIND_OBSERVE?)",
            ),
            (
                "PLUGIND_NAMES",
                "unknown variable PLUGIND_NAMES (did you mean PLUGIND_NAME?)",
            ),
            ("PLUGIND_PORTAL", "unknown variable PLUGIND_PORTAL"),
            ("PLUGIND_\n", "unknown variable PLUGIND_\\n"),
        ] {
            assert_eq!(problems(name), Some(vec![expected.to_owned()]), "{name}");
        }
        // Set for programs of `--exec`, set by Kubernetes for a service, or without the prefix.
        for name in [
            "PLUGIND_NAME",
            "PLUGIND_SERVICE_HOST",
            "PLUGIND_PORT_80_TCP",
            "PLUGIND",
        ] {
            assert_eq!(problems(name), None, "{name}");
        }
        assert!(combine(b"", &[("PLUGIND_OBSERV", "")], &[]).is_ok());
    }

    #[test]
    fn a_file_and_the_environment_name_absolute_paths_only() {
        let file = b"plugins-dir a\nroot-dir ./b\nstate-file \"/c\"\nsocket none\nexec X=hook\n\
            map-path /d=e\nrun-dir '/f'\ntype A B\ntype a,b\ntype \"X\"\nexec A B=/g\n";
        let problems = combine(file, &[("PLUGIND_CDI_DIR", "c")], &[]).unwrap_err();
        let of_type = "expected the name of one plugin type, without blanks, commas and quotes";
        let of_path = "expected an absolute path";
        let expected = [
            format!("/etc/a.conf:1: invalid value \"a\" for plugins-dir, {of_path}"),
            format!("/etc/a.conf:2: invalid value \"./b\" for root-dir, {of_path}"),
            format!("/etc/a.conf:3: invalid value \"\\\"/c\\\"\" for state-file, {of_path}"),
            format!("/etc/a.conf:5: invalid value \"X=hook\" for exec, {of_path}"),
            format!("/etc/a.conf:6: invalid value \"/d=e\" for map-path, {of_path}"),
            format!("/etc/a.conf:7: invalid value \"'/f'\" for run-dir, {of_path}"),
            format!("/etc/a.conf:8: invalid value \"A B\" for type, {of_type}"),
            format!("/etc/a.conf:9: invalid value \"a,b\" for type, {of_type}"),
            format!("/etc/a.conf:10: invalid value \"\\\"X\\\"\" for type, {of_type}"),
            "/etc/a.conf:11: invalid value \"A B=/g\" for exec, expected TYPE=PROGRAM".to_owned(),
            format!("PLUGIND_CDI_DIR: invalid value \"c\" for cdi-dir, {of_path}"),
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn twenty_problems_are_listed_and_the_others_are_counted() {
        let problems = combine(&b"x\n".repeat(20), &[], &[]).unwrap_err();
        assert_eq!(problems.len(), 20);
        let problems = combine(&b"x\n".repeat(1000), &[], &[]).unwrap_err();
        assert_eq!(problems.len(), 21);
        assert_eq!(problems[20], "further problems: 980");
    }

    #[test]
    fn the_command_line_is_checked_before_any_file_is_read() {
        let parse = |line: &[&str]| Command::parse(Parser::from_args(line));
        let error = parse(&["run", "--config=/missing", "--on-down=x"]).unwrap_err();
        assert!(error.to_string().contains("--on-down"), "{error}");
        let error = parse(&["run", "--config="]).unwrap_err().to_string();
        let expected = "invalid value \"\" for --config, expected a path, or none; \
                        see plugind run --help";
        assert_eq!(error, expected);
        let help = parse(&["run", "--config=/missing", "--help"]).unwrap();
        assert_eq!(help, Command::Print(run::add_options(run::HELP)));
    }
}
