//! The options of `run` from all their sources: the command line, the environment and the
//! configuration file.
//!
//! An option is read in the same way wherever it stands: as an argument. A setting of the file or
//! of the environment becomes one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::Command;
use super::arguments::{Argument, Arguments, UsageError, absolute, did_you_mean, options};
use super::config_file::{self, Line};
use super::plugins::{Chosen, Given, Origin};
use super::run::{HELP, NONE, Options, options_of_file, read};
use crate::config::{ApiSocket, DEFAULT_CONFIG_FILE, MAX_CONFIG_PROBLEMS};
use crate::daemon;
use crate::escape;

/// The command line of the daemon, which is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    arguments: Vec<OsString>,
    /// The configuration file, as named.
    pub(super) file: Option<OsString>,
}

/// A configuration file that was read, and its content.
pub(super) type File<'a> = (&'a Path, &'a [u8]);

/// Returns the value of a variable of the environment.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Parses the arguments after `run`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let arguments = arguments.take_rest();
    let mut chosen = Chosen::default();
    if let Some(other) = read_all(&mut chosen, &arguments)? {
        return Ok(other);
    }
    let file = chosen.file.map(|file| match absolute(&file) {
        // It stays the same file when the working directory is another one.
        Some(path) if file != NONE => path.into(),
        _ => file,
    });
    Ok(Command::Run(CommandLine { arguments, file }))
}

impl CommandLine {
    /// Reads the configuration file, and returns what is in force with it: the command line has
    /// priority over the environment, and that over the file. An error is a line for each problem.
    pub fn load(&self) -> Result<Options, Vec<String>> {
        let environment: Environment<'_> = &|name| env::var_os(name);
        let named = self.file.clone();
        let named = named.or_else(|| variable("--config").and_then(|name| set(environment, &name)));
        if named.as_ref().is_some_and(|named| named == NONE) {
            return self.combine(None, environment);
        }
        let is_default = named.is_none();
        let path = named.unwrap_or_else(|| DEFAULT_CONFIG_FILE.into());
        let path = absolute(&path).unwrap_or_default();
        let content = daemon::config_file::read(&path, is_default).map_err(|error| vec![error])?;
        let file = content.as_ref().map(|content| (&*path, &**content));
        self.combine(file, environment)
    }

    /// Returns the options of a file, the environment and the command line together. An error is a
    /// line for each problem.
    pub fn combine(
        &self,
        file: Option<File<'_>>,
        environment: Environment<'_>,
    ) -> Result<Options, Vec<String>> {
        let mut chosen = Chosen::default();
        chosen.config.manager.api_socket = ApiSocket::Default;
        let mut problems = Vec::new();
        if let Some((path, content)) = file {
            for (number, line) in config_file::lines(content) {
                let read = line.map_err(str::to_owned);
                let read = read.and_then(|line| read_line(&mut chosen, line, number));
                if let Err(problem) = read {
                    problems.push(format!("{}:{number}: {problem}", escape::path(path)));
                }
            }
        }
        for (_, option, has_value) in options([HELP, ""]) {
            let Some(name) = variable(option).filter(|_| has_value) else {
                continue;
            };
            if let Some(value) = set(environment, &name) {
                let read = read_setting(&mut chosen, option, Some(&value), Origin::Environment);
                problems.extend(read.err().map(|problem| format!("{name}: {problem}")));
            }
        }
        let count = problems.len();
        if count > 0 {
            if count > MAX_CONFIG_PROBLEMS {
                problems.truncate(MAX_CONFIG_PROBLEMS);
                problems.push(format!("further problems: {}", count - MAX_CONFIG_PROBLEMS));
            }
            return Err(problems);
        }
        let read = read_all(&mut chosen, &self.arguments);
        read.map_err(|error| vec![error.to_string()])?;
        let given = chosen.take_given();
        let verbosity = chosen.verbosity;
        let mut config = chosen.complete();
        config.file = file.map(|(path, _)| path.to_owned());
        config.manager.links_by_name = true;
        Ok(Options {
            config,
            verbosity,
            given,
        })
    }
}

/// Reads all arguments of a command line. Returns another command if one asks for that.
fn read_all(chosen: &mut Chosen, line: &[OsString]) -> Result<Option<Command>, UsageError> {
    let mut arguments = Arguments::of_command("run", [HELP, ""], line.to_vec());
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option(option) if !["--help", "--version"].contains(&option) => {
                chosen.give(Given {
                    option,
                    value: OsString::new(),
                    origin: Origin::CommandLine,
                });
                read(chosen, option, &mut arguments)?;
            }
            other => return arguments.standard(&other).map(Some),
        }
    }
    Ok(None)
}

/// Reads a line of the configuration file.
fn read_line(chosen: &mut Chosen, line: Line<'_>, number: usize) -> Result<(), String> {
    let option = options_of_file().find(|option| option[2..] == *line.key);
    let option = option.ok_or_else(|| {
        if line.key == "config" {
            return "a configuration file cannot name another one".to_owned();
        }
        let known = options_of_file().map(|option| &option[2..]);
        let hint = did_you_mean(line.key, known);
        format!("unknown key {}{hint}", escape::text(line.key))
    })?;
    read_setting(
        chosen,
        option,
        line.value.map(OsStr::new),
        Origin::Line(number),
    )
}

/// Reads a setting of the configuration file or of the environment.
fn read_setting(
    chosen: &mut Chosen,
    option: &'static str,
    value: Option<&OsStr>,
    origin: Origin,
) -> Result<(), String> {
    let first = chosen.give(Given {
        option,
        value: value.unwrap_or_default().to_owned(),
        origin,
    });
    let mut arguments = Arguments::of_setting(option, value, [HELP, ""]);
    let done = arguments.next();
    let done = done.and_then(|_| read(chosen, option, &mut arguments));
    // A value that a flag cannot have is found behind the flag.
    let done = done.and_then(|()| arguments.next());
    done.map_err(UsageError::into_problem)?;
    match first {
        Some(line) => Err(format!(
            "{} is given a second time, first in line {line}",
            &option[2..]
        )),
        None => Ok(()),
    }
}

/// Returns the variable of the environment for an option, or `None` if it has none: `PLUGIND_TYPE`
/// and `PLUGIND_SOCKET` are about one plugin, in the environment of programs of `--exec`.
fn variable(option: &str) -> Option<String> {
    let option = match option {
        "--type" => return None,
        "--socket" => "api-socket",
        other => &other[2..],
    };
    let mut name = "PLUGIND_".to_owned();
    for byte in option.bytes() {
        name.push(if byte == b'-' {
            '_'
        } else {
            byte.to_ascii_uppercase().into()
        });
    }
    Some(name)
}

/// Returns the value of a variable that is set and not empty.
fn set(environment: Environment<'_>, name: &str) -> Option<OsString> {
    environment(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use lexopt::Parser;

    use super::*;
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
            panic!("it is not a command line of run");
        };
        let file = (Path::new(FILE), file);
        line.combine(Some(file), &|name| {
            let value = environment.iter().find(|it| it.0 == name);
            value.map(|it| it.1.into())
        })
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_file_has_the_options_of_the_command_line() {
        let file = b"# all of them\nplugins-dir=/a\nroot-dir /b\ndevice-plugins-dir = /c\nobserve\n\
            map-path /d=/e\ntype X\ntype Y\nunknown-types accept\nexec X=/f\non-down=deregister=1s\n\
            memory-budget 1Mi\nstate-file /g\nrun-dir /h\nsocket none\nsocket-group i\nverbose\n\
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
            "--on-down=deregister=1s",
            "--memory-budget=1Mi",
            "--state-file=/g",
            "--run-dir=/h",
            "--socket=none",
            "--socket-group=i",
            "-vv",
            "--log-format=json",
        ];
        let (of_file, of_line) = (combine(file, &[], &[]), combine(b"", &[], &line));
        let (of_file, of_line) = (of_file.unwrap(), of_line.unwrap());
        assert_eq!(of_file.config, of_line.config);
        assert_eq!(of_file.verbosity, of_line.verbosity);
        let count = options_of_file().count() - 1; // Without device-plugins.
        let text = String::from_utf8_lossy(file);
        let is_in_file = |option: &&str| text.contains(&format!("\n{}", &option[2..]));
        assert_eq!(options_of_file().filter(is_in_file).count(), count + 1);
    }

    #[test]
    fn a_directory_of_device_plugins_is_named_once() {
        let file = b"device-plugins\ndevice-plugins-dir /a";
        let problem = "/etc/a.conf:2: device-plugins-dir is given a second time, first in line 1";
        assert_eq!(combine(file, &[], &[]), Err(vec![problem.to_owned()]));
    }

    #[test]
    fn the_command_line_is_over_the_environment_and_that_is_over_the_file() {
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
        // The root directory of the file is not lost: another one may be that of a kubelet.
        let dir = config.manager.device_plugins_dir;
        assert_eq!(dir, Some("/b/device-plugins".into()));
        assert_eq!(config.handlers.types, ["Z"]);
        assert_eq!(config.handlers.exec.len(), 1);
        assert_eq!(config.handlers.exec[0].program, Path::new("/g"));
        let moved = |path: &str| config.manager.path_map.find(Path::new(path)).into_owned();
        assert_eq!((moved("/d"), moved("/i")), ("/d".into(), "/j".into()));
        assert_eq!(options.verbosity, 1);
    }

    #[test]
    fn an_option_has_a_variable_unless_programs_are_given_that_one() {
        let environment = [
            ("PLUGIND_STATE_FILE", "/a"),
            ("PLUGIND_API_SOCKET", "none"),
            ("PLUGIND_UNKNOWN_TYPES", "ignore"),
            ("PLUGIND_TYPE", "X"),
            ("PLUGIND_SOCKET", "/b"),
            ("PLUGIND_OBSERVE", "1"),
        ];
        let config = combine(b"", &environment, &[]).unwrap().config;
        assert_eq!(config.manager.state_file, Some("/a".into()));
        assert_eq!(config.manager.api_socket, ApiSocket::None);
        assert_eq!(config.manager.mode, Mode::Register);
        assert_eq!(config.handlers.unknown_types, UnknownTypes::Ignore);
        assert_eq!(config.handlers.types.len(), 3);
    }

    #[test]
    fn every_problem_is_named_with_its_place() {
        let file = b"on-dwon keep\nstate-file\ntype\r\nobserve yes\nconfig /b\n--observe\n\
            exec X\nexec X=/a\nexec X=/b\nstate-file /a\nstate-file /b\nhelp\na\x00\nv\n\
            socket /a\nmemory-budget = 1\n\x1b = 1\nroot-dir =\n";
        let environment = [("PLUGIND_ON_DOWN", "x"), ("PLUGIND_RUN_DIR", "/r")];
        let problems = combine(file, &environment, &[]).unwrap_err();
        let expected = [
            "/etc/a.conf:1: unknown key on-dwon (did you mean on-down?)",
            "/etc/a.conf:2: missing value for state-file, expected a path",
            "/etc/a.conf:3: missing value for type, expected the name of a plugin type",
            "/etc/a.conf:4: unexpected value \"yes\" for observe",
            "/etc/a.conf:5: a configuration file cannot name another one",
            "/etc/a.conf:6: unknown key --observe (did you mean observe?)",
            "/etc/a.conf:7: invalid value \"X\" for exec, expected TYPE=PROGRAM",
            "/etc/a.conf:9: exec names two programs for type \"X\"",
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
        assert_eq!(help, Command::Print([HELP, ""]));
    }
}
