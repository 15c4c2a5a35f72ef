//! `plugind run`: the options of the daemon.
//!
//! One function reads an option, wherever it stands, and the help text is the list of all of them.

use std::ffi::OsStr;

use super::arguments::{Arguments, UsageError, absolute, duration, options};
use super::plugins::{Chosen, Given};
use crate::config::{
    ApiSocket, DOWN_GRACE, DaemonConfig, LEAST_MEMORY_BUDGET, LogFormat, Mode, OnDown,
};

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

/// Reads the value of an option.
pub(super) fn read(
    chosen: &mut Chosen,
    option: &'static str,
    arguments: &mut Arguments,
) -> Result<(), UsageError> {
    let config = &mut chosen.config.manager;
    match option {
        "--config" => {
            let file = arguments.value(CONFIG)?;
            if file.is_empty() {
                return Err(arguments.invalid(&file, CONFIG));
            }
            chosen.file = Some(file);
        }
        "--plugins-dir" => chosen.dirs.push(arguments.path()?),
        "--device-plugins-dir" => config.device_plugins_dir = Some(arguments.path()?),
        "--device-plugins" => chosen.has_device_plugins = true,
        "--state-file" => config.state_file = Some(arguments.path()?),
        "--run-dir" => config.run_dir = Some(arguments.path()?),
        "--socket" => {
            config.api_socket = api_socket(&arguments.value(SOCKET)?)
                .ok_or_else(|| arguments.invalid("".as_ref(), SOCKET))?;
        }
        "--socket-group" => {
            let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
            config.socket_group = Some(arguments.parsed("a group", named)?);
        }
        "--observe" => config.mode = Mode::Observe,
        "--on-down" => config.on_down = arguments.parsed(ON_DOWN, on_down)?,
        "--memory-budget" => config.memory_budget = arguments.parsed(SIZE, size)?,
        "--verbose" => chosen.verbosity = chosen.verbosity.saturating_add(1),
        "--log-format" => {
            chosen.config.log_format = Some(arguments.parsed(LOG_FORMAT, LogFormat::named)?);
        }
        option => {
            chosen.read(option, arguments)?;
        }
    }
    Ok(())
}

/// Returns the options that a configuration file may have: its keys have no dashes.
pub(super) fn options_of_file() -> impl Iterator<Item = &'static str> {
    let all = options([HELP, ""]).map(|(_, option, _)| option);
    all.filter(|option| !["--config", "--help", "--version"].contains(option))
}

/// Returns the API socket of a path or of the word `none`, or `None` for the empty path.
fn api_socket(value: &OsStr) -> Option<ApiSocket> {
    if value == NONE {
        return Some(ApiSocket::None);
    }
    absolute(value).map(ApiSocket::At)
}

/// Parses the policy for a plugin that is down: `keep`, `deregister`, `deregister=30s`.
fn on_down(words: &str) -> Option<OnDown> {
    match words.split_once('=') {
        None if words == "keep" => Some(OnDown::Keep),
        None if words == "deregister" => Some(OnDown::Deregister(DOWN_GRACE)),
        Some(("deregister", grace)) => duration(grace).map(OnDown::Deregister),
        _ => None,
    }
}

/// Parses a size of at least [`LEAST_MEMORY_BUDGET`]: octets, or mebibytes as in Kubernetes.
fn size(words: &str) -> Option<usize> {
    let (number, unit) = match words.strip_suffix("Mi") {
        Some(number) => (number, 1 << 20),
        None => (words, 1),
    };
    let size = number.parse::<usize>().ok()?.checked_mul(unit)?;
    (size >= LEAST_MEMORY_BUDGET).then_some(size)
}

const LOG_FORMAT: &str = "text, json or journald";

/// The word for no file and no socket.
pub(super) const NONE: &str = "none";

const CONFIG: &str = "a path, or none";

const SOCKET: &str = "a path, or none";

const SIZE: &str = "a size of at least 1Mi, such as 16Mi or 20000000";

const ON_DOWN: &str = "keep, deregister or deregister=DURATION such as deregister=30s";

pub(super) const HELP: &str = "\
Watch directories for plugin sockets and register the plugins that appear
there. Stay in the foreground.

Usage: plugind run [OPTIONS]

Options:
  --config FILE|none
                     read options from FILE, or from no file: a line of it is a
                     long option without the dashes, and its value; the command
                     line has priority over variables of the environment, such
                     as PLUGIND_STATE_FILE for --state-file, and these over
                     FILE; plugind reload and SIGHUP read it again (default:
                     /etc/plugind/plugind.conf if it exists)
  --plugins-dir DIR  watch DIR and its subdirectories for plugin sockets; DIR is
                     created if it does not exist; can be given several times
                     (default: /var/lib/kubelet/plugins_registry)
  --root-dir DIR     watch DIR/plugins_registry, DIR being the --root-dir of
                     kubelet; can be given several times, also with
                     --plugins-dir
  --device-plugins-dir DIR
                     let device plugins register by calling DIR/kubelet.sock, as
                     they do with kubelet: the sockets in DIR are removed at the
                     start, so that plugins register again; not in a dry run
                     (default: they cannot)
  --device-plugins   the same with the directory of kubelet: device-plugins in
                     the --root-dir (default: /var/lib/kubelet/device-plugins)
  --observe          dry run: call GetInfo, validate and log the outcome; never
                     notify or register; no state file is written; safe beside
                     kubelet or another plugind
  --map-path FROM=TO
                     connect to endpoints below FROM at paths below TO: a plugin
                     reports its endpoint as a path in its own mount namespace;
                     matching is by path component, the longest FROM wins; can
                     be given several times (default: no mapping)
  --type NAME        accept plugins of this type; can be given several times
                     (default: CSIPlugin, DevicePlugin, DRAPlugin)
  --unknown-types ACTION
                     what to do with plugins of other types: reject and notify
                     them as kubelet does, accept them, or ignore them without
                     a notification (default: reject)
  --exec TYPE=PROGRAM
                     have PROGRAM register and deregister plugins of TYPE: run
                     PROGRAM add|re-add|del TYPE NAME ENDPOINT, with PLUGIND_*
                     in its environment and JSON on its standard input; exit
                     status 0 registers the plugin; one whose name, endpoint,
                     socket or versions are not plain words and absolute paths
                     is refused; can be given several times (default: none)
  --on-down POLICY   what to do with a registered plugin whose process has ended
                     or that does not answer: keep it registered, or
                     deregister[=DURATION] it once it has been down for that
                     time (default: keep; DURATION: 30s)
  --memory-budget SIZE
                     hold at most SIZE octets of all plugins together: what they
                     report, their device lists, unfinished messages; beyond
                     that, a plugin that grows or holds most is not registered
                     yet, or loses its device list until there is room, but is
                     not deregistered; SIZE is a number of octets, or of
                     mebibytes such as 32Mi, at least 1Mi; plugind itself needs
                     1Mi more, and up to 16Mi while it handles a long list
                     (default: 16Mi)
  --state-file FILE  store the registered plugins in FILE, so that plugins that
                     disappear while plugind is not running are deregistered at
                     its next start (default: no file)
  --run-dir DIR      keep lock files in DIR, so that two daemons never use the
                     same plugins directory, and links to the endpoints of
                     registered plugins, DIR/by-name/TYPE/NAME.sock; DIR must
                     belong to the user and be writable by no other (default:
                     /run/plugind; for users other than root, plugind in
                     $XDG_RUNTIME_DIR or /run/user/UID, else /tmp/plugind-UID)
  --socket PATH|none
                     serve the API on a unix socket at PATH, with mode 0660, or
                     not at all; a socket left behind by a killed plugind is
                     replaced; the environment variable PLUGIND_API_SOCKET is
                     used without this option (default: plugind.sock in the
                     run directory; with --observe: none)
  --socket-group GROUP
                     let this group connect to that socket (default: the group
                     of the process)
  -v, --verbose      log every step; -vv: log every event; the environment
                     variable RUST_LOG overrides this (default: log plugins that
                     are registered and deregistered, and problems)
  --log-format FORMAT
                     text; json: one object a line, with time, level, target
                     and message; or journald: the priority in front, such as
                     <6>, and no time (default: journald if JOURNAL_STREAM names
                     standard error, else text)
  -h, --help         print this help
  -V, --version      print the version

A DURATION is a whole number and a unit, such as 500ms, 30s, 5m or 1h.
A service manager is notified (NOTIFY_SOCKET, WATCHDOG_USEC) and may pass in
sockets (LISTEN_FDS): api, in place of --socket, and metrics.
Stop it with SIGTERM or SIGINT. Exit status: 0 stopped by a signal, 1 cannot
start or continue, 2 wrong usage, 78 the configuration is not valid.
";

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use lexopt::Parser;

    use super::super::Command;
    use super::*;
    use crate::config::UnknownTypes;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let line = [&["run"], arguments].concat();
        match Command::parse(Parser::from_args(line)) {
            Ok(Command::Run(line)) => Ok(line.combine(None, &|_| None).unwrap()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn kubelets_directory_and_types_are_the_default() {
        let options = parse(&[]).unwrap();
        let registry = PathBuf::from("/var/lib/kubelet/plugins_registry");
        assert_eq!(options.config.manager.plugins_dirs, [registry]);
        assert_eq!(
            options.config.handlers.types,
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
            options.config.manager.plugins_dirs,
            [PathBuf::from("/a"), PathBuf::from("/b")]
        );
        assert_eq!(options.config.handlers.types, ["X"]);
        assert_eq!(options.verbosity, 2);
    }

    #[test]
    fn a_plugin_that_is_down_is_kept_unless_the_user_wants_otherwise() {
        let on_down =
            |words: &str| parse(&["--on-down", words]).map(|it| it.config.manager.on_down);
        let after = |millis| Ok(OnDown::Deregister(Duration::from_millis(millis)));
        assert_eq!(parse(&[]).unwrap().config.manager.on_down, OnDown::Keep);
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
    fn the_memory_budget_is_a_size_of_at_least_a_mebibyte() {
        let budget = |words: &str| {
            let options = parse(&["--memory-budget", words]);
            options.map(|it| it.config.manager.memory_budget)
        };
        assert_eq!(parse(&[]).unwrap().config.manager.memory_budget, 16 << 20);
        assert_eq!(budget("1048576"), Ok(1 << 20));
        assert_eq!(budget("64Mi"), Ok(64 << 20));
        for nonsense in [
            "",
            "Mi",
            "1048575",
            "16M",
            "1.5Mi",
            "-1Mi",
            "16mi",
            "16 Mi",
            "99999999999999999999",
        ] {
            let error = budget(nonsense).unwrap_err();
            assert!(error.contains("expected a size of at least 1Mi"), "{error}");
        }
    }

    #[test]
    fn a_relative_path_is_made_absolute() {
        let options = parse(&["--plugins-dir", "a/b", "--state-file", "c/d"]).unwrap();
        let file = options.config.manager.state_file.unwrap();
        for (path, end) in [
            (&options.config.manager.plugins_dirs[0], "a/b"),
            (&file, "c/d"),
        ] {
            assert!(path.is_absolute() && path.ends_with(end));
        }
    }

    #[test]
    fn rs1_a_relative_directory_of_device_plugins_is_made_absolute() {
        let dir = |line: &[&str]| parse(line).unwrap().config.manager.device_plugins_dir;
        let named = dir(&["--device-plugins-dir", "a/b"]).unwrap();
        assert!(named.is_absolute() && named.ends_with("a/b"));
        assert_eq!(dir(&[]), None);
        let default = PathBuf::from("/var/lib/kubelet/device-plugins");
        assert_eq!(dir(&["--device-plugins"]), Some(default));
        let line = ["--device-plugins", "--root-dir=/data/kubelet"];
        assert_eq!(dir(&line), Some("/data/kubelet/device-plugins".into()));
    }

    #[test]
    fn a_root_directory_is_spelt_as_kubelet_does_and_stands_beside_others() {
        let options = parse(&["--root-dir", "/data/kubelet", "--plugins-dir=/b"]).unwrap();
        let expected = ["/data/kubelet/plugins_registry", "/b"].map(PathBuf::from);
        assert_eq!(options.config.manager.plugins_dirs, expected);
    }

    #[test]
    fn a_moved_directory_is_kept_with_where_it_is() {
        let options = parse(&["--map-path=/var/lib/kubelet=/data/kubelet"]).unwrap();
        let found = options
            .config
            .manager
            .path_map
            .find("/var/lib/kubelet/a".as_ref());
        assert_eq!(found, PathBuf::from("/data/kubelet/a"));
        for bad in ["", "/a", "a=/b", "/a=", "=/b"] {
            let error = parse(&["--map-path", bad]).unwrap_err();
            assert!(error.contains("--map-path"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn plugins_are_registered_unless_they_are_only_to_be_observed() {
        assert_eq!(parse(&[]).unwrap().config.manager.mode, Mode::Register);
        assert_eq!(
            parse(&["--observe"]).unwrap().config.manager.mode,
            Mode::Observe
        );
    }

    #[test]
    fn the_api_socket_is_the_default_one_or_named_or_none() {
        let options = |line: &[&str]| parse(line).map(|it| it.config.manager);
        let socket = |line: &[&str]| options(line).map(|it| it.api_socket);
        assert_eq!(socket(&[]), Ok(ApiSocket::Default));
        assert_eq!(socket(&["--socket=none"]), Ok(ApiSocket::None));
        assert_eq!(socket(&["--socket", "/a"]), Ok(ApiSocket::At("/a".into())));
        let Ok(ApiSocket::At(path)) = socket(&["--socket=./none"]) else {
            panic!("it is not a path");
        };
        assert!(path.is_absolute() && path.ends_with("none"));
        assert_eq!(
            socket(&["--socket="]).unwrap_err(),
            "invalid value \"\" for --socket, expected a path, or none; see plugind run --help"
        );
        let group = options(&["--socket-group", "adm"]).unwrap().socket_group;
        assert_eq!(group.as_deref(), Some("adm"));
        assert!(options(&["--socket-group="]).is_err());
    }

    #[test]
    fn a_type_may_have_a_program() {
        let options = parse(&["--exec", "X=/lib/hook", "--exec", "Y=hooks/a=b"]).unwrap();
        let [x, y] = &options.config.handlers.exec[..] else {
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
        assert!(twice.unwrap_err().contains("two programs for type \"X\""));
    }

    #[test]
    fn wrong_usage_names_the_option_the_value_and_what_is_accepted() {
        for (line, expected) in [
            (
                &["--unknown-types", "keep"][..],
                "invalid value \"keep\" for --unknown-types, expected reject, accept or ignore",
            ),
            (
                &["--on-down", "x"],
                "invalid value \"x\" for --on-down, \
                 expected keep, deregister or deregister=DURATION such as deregister=30s",
            ),
            (
                &["--type"],
                "missing value for --type, expected the name of a plugin type",
            ),
            (
                &["--type="],
                "invalid value \"\" for --type, expected the name of a plugin type",
            ),
            (
                &["--plugins-dir", ""],
                "invalid value \"\" for --plugins-dir, expected a path",
            ),
            (
                &["--exec", "X"],
                "invalid value \"X\" for --exec, expected TYPE=PROGRAM",
            ),
            (&["--observe=no"], "unexpected value \"no\" for --observe"),
            (&["--fast"], "unknown option --fast"),
            (
                &["--observ"],
                "unknown option --observ (did you mean --observe?)",
            ),
            (&["-x"], "unknown option -x"),
            (&["left-over"], "unexpected argument \"left-over\""),
            (&["a\nb"], "unexpected argument \"a\\nb\""),
        ] {
            let expected = format!("{expected}; see plugind run --help");
            assert_eq!(parse(line).unwrap_err(), expected, "{line:?}");
        }
    }

    #[test]
    fn plugins_of_other_types_are_rejected_accepted_or_ignored() {
        let chosen =
            |word| parse(&["--unknown-types", word]).map(|it| it.config.handlers.unknown_types);
        assert_eq!(
            parse(&[]).unwrap().config.handlers.unknown_types,
            UnknownTypes::Reject
        );
        assert_eq!(chosen("reject"), Ok(UnknownTypes::Reject));
        assert_eq!(chosen("accept"), Ok(UnknownTypes::Accept));
        assert_eq!(chosen("ignore"), Ok(UnknownTypes::Ignore));
        assert!(chosen("keep").unwrap_err().contains("\"keep\""));
    }

    #[test]
    fn the_log_has_the_format_that_is_named() {
        let chosen = |word| parse(&["--log-format", word]).map(|it| it.config.log_format);
        assert_eq!(parse(&[]).unwrap().config.log_format, None);
        assert_eq!(chosen("text"), Ok(Some(LogFormat::Text)));
        assert_eq!(chosen("json"), Ok(Some(LogFormat::Json)));
        assert_eq!(chosen("journald"), Ok(Some(LogFormat::Journald)));
        let error = chosen("JSON").unwrap_err();
        assert!(error.contains("expected text, json or journald"), "{error}");
    }
}
