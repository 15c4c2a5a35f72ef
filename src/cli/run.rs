//! The help text of `plugind run`.

use super::{Help, settings};

/// The help text without the options, whose list is created only to be shown: the daemon would keep
/// it in memory.
pub(super) const HELP: Help = [HEAD, TAIL];

/// Returns a help text, with the options in between if it is [`HELP`].
pub(super) fn add_options(help: Help) -> Help {
    match help {
        HELP => [[HEAD, &settings::help(), TAIL].concat().leak(), ""],
        other => other,
    }
}

const HEAD: &str = "\
Watch directories for plugin sockets and register the plugins that appear
there. Stay in the foreground.

Usage: plugind run [OPTIONS]

Options:
";

const TAIL: &str = "
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
    use super::super::command_line::Options;
    use crate::config::{ApiSocket, LogFormat, Mode, OnDown, UnknownTypes};

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let line = [&["run"], arguments].concat();
        match Command::parse(Parser::from_args(line)) {
            Ok(Command::Run(line)) => Ok(line.combine(None, &<_>::default()).unwrap()),
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
    fn a_plugin_that_is_down_is_kept_or_deregistered_after_a_time() {
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
    fn the_named_users_and_directories_are_trusted() {
        let trust = |line: &[&str]| parse(line).map(|it| it.config.manager.trust);
        let default = trust(&[]).unwrap();
        assert!(!default.is_strict() && default.uids.is_empty());
        assert!(trust(&["--trust=strict"]).unwrap().is_strict());
        let line = ["--allow-uid=root", "--allow-uid=7", "--endpoint-dir=@"];
        let named = trust(&line).unwrap();
        assert!(named.uids == [0, 7] && named.allows_abstract && named.endpoint_dirs.is_empty());
        let names = trust(&["--allow-name=7=T/example.com/a*"]).unwrap().names;
        assert_eq!((names[0].uid, &*names[0].kind), (7, "T"));
        assert_eq!(names[0].pattern, "example.com/a*");
        for bad in ["", "T/a", "x=T/a", "7=T", "7=T/", "7=/a"] {
            let error = trust(&["--allow-name", bad]).unwrap_err();
            assert!(error.contains("--allow-name"), "{bad:?}: {error}");
        }
        let error = trust(&["--allow-uid=no such user"]).unwrap_err();
        assert!(error.contains("a user of /etc/passwd"), "{error}");
    }

    #[test]
    fn root_dir_adds_the_plugins_registry_below_it() {
        let options = parse(&["--root-dir", "/data/kubelet", "--plugins-dir=/b"]).unwrap();
        let expected = ["/data/kubelet/plugins_registry", "/b"].map(PathBuf::from);
        assert_eq!(options.config.manager.plugins_dirs, expected);
    }

    #[test]
    fn a_mapped_path_is_replaced_by_its_target() {
        let options = parse(&["--map-path=/var/lib/kubelet=/data/kubelet"]).unwrap();
        let found = options
            .config
            .manager
            .path_map
            .translate("/var/lib/kubelet/a".as_ref());
        assert_eq!(found, PathBuf::from("/data/kubelet/a"));
        for bad in ["", "/a", "a=/b", "/a=", "=/b"] {
            let error = parse(&["--map-path", bad]).unwrap_err();
            assert!(error.contains("--map-path"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn plugins_are_registered_unless_observe_is_given() {
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
            panic!("not a path");
        };
        assert!(path.is_absolute() && path.ends_with("none"));
        assert_eq!(
            socket(&["--socket="]).unwrap_err(),
            "invalid value \"\" for --socket, expected a path, or none; see plugind run --help"
        );
        let group = options(&["--socket-group", "root"]).unwrap().socket_group;
        assert_eq!(group, Some(0));
        assert!(options(&["--socket-group=no-such-group"]).is_err());
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
        assert!(twice.unwrap_err().contains("one program for each type"));
    }

    #[test]
    fn wrong_usage_names_the_option_the_value_and_what_is_accepted() {
        for (line, expected) in [
            (
                &["--unknown-types", "keep"][..],
                "invalid value \"keep\" for --unknown-types, expected reject, accept or ignore",
            ),
            (
                &["--csi-node-info", "a=9s"],
                "invalid value \"a=9s\" for --csi-node-info, \
                 expected DRIVER=PERIOD of at least 10s, such as *=60s",
            ),
            (
                &["--on-down", "x"],
                "invalid value \"x\" for --on-down, \
                 expected keep, deregister or deregister=DURATION such as deregister=30s",
            ),
            (&["--type"], "missing value for --type"),
            (
                &["--type="],
                "invalid value \"\" for --type, \
                 expected the name of one plugin type, without blanks, commas and quotes",
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
