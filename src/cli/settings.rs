//! The table of the options of `run`.
//!
//! From its rows come the command line, the help text and with it the manual and the completions,
//! the keys of the configuration file, the variables of the environment, what `check-config`
//! prints, and what needs a restart after a reload.
//!
//! Another option needs a row here, a parser for its value in `run_values.rs`, a field of
//! [`Config`](crate::config::Config) or [`DaemonConfig`], and either [`Setting::restart_if`] or a
//! comparison in `daemon/service/reload.rs`, which applies what a reload changes. Then
//! `make generate`.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::arguments::Argument;
use super::run_values::{
    FROM_TO, LOG_FORMATS, MEMORY_BUDGET, NODE_INFO, ON_DOWN, PINNED_NAME, SANDBOX, TRUST, TYPE,
    UNKNOWN_TYPES, USER, parse_api_socket, parse_exec, parse_group, parse_memory_budget,
    parse_node_info, parse_on_down, parse_path_mapping, parse_pinned_name, parse_plugin_type,
};
use super::values::{
    Parsed, invalid_value, parse_one_of, parse_path, parse_path_or_none, parse_with,
};
use crate::config::{
    DEFAULT_PLUGINS_DIR, DEFAULT_ROOT_DIR, DEFAULT_TYPES, DEVICE_PLUGINS_DIR, DaemonConfig, Mode,
    PLUGINS_DIR,
};
use crate::daemon::user_id;

/// An option of `run`.
#[derive(Debug)]
pub(super) struct Setting {
    /// The names, and the placeholder of the value, as in the help text.
    spelled: &'static str,
    help: &'static str,
    /// Parses the value and applies it.
    pub(super) read: fn(&mut Chosen, &OsStr) -> Parsed<()>,
    /// The values in force if none is given; empty if there are none, or if they depend on the
    /// system.
    pub(super) default: &'static [&'static str],
    /// Returns whether this option differs between two configurations and a reload does not apply
    /// it.
    restart: fn(&DaemonConfig, &DaemonConfig) -> bool,
}

/// Options are equal if their names are.
impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.spelled == other.spelled
    }
}

impl Eq for Setting {}

/// Creates an option without default values that does not need a restart.
const fn option(
    spelled: &'static str,
    help: &'static str,
    read: fn(&mut Chosen, &OsStr) -> Parsed<()>,
) -> Setting {
    Setting {
        spelled,
        help,
        read,
        default: &[],
        restart: |_, _| false,
    }
}

const SETTINGS: &[Setting] = &[
    option(
        "--config FILE|none",
        "read options from FILE, or from no file: a line of it is a long option without the \
               dashes, and its value; the command line has priority over variables of the \
               environment, such as PLUGIND_STATE_FILE for --state-file, and these over FILE; \
               plugind reload and SIGHUP read it again (default: /etc/plugind/plugind.conf if it \
               exists)",
        |it, value| set(&mut it.file, parse_path_or_none(value).map(Some)),
    ),
    option(
        "--plugins-dir DIR",
        "watch DIR and its subdirectories for plugin sockets; DIR is created if it does not \
               exist; can be given several times (default: /var/lib/kubelet/plugins_registry)",
        |it, value| push(&mut it.dirs, parse_path(value)),
    )
    .with_default(&[DEFAULT_PLUGINS_DIR]),
    option(
        "--root-dir DIR",
        "watch DIR/plugins_registry, DIR being the --root-dir of kubelet; can be given \
               several times, also with --plugins-dir",
        |it, value| push(&mut it.dirs, parse_path(value).map(|root| root.join(PLUGINS_DIR))),
    ),
    option(
        "--device-plugins-dir DIR",
        "let device plugins register by calling DIR/kubelet.sock, as they do with kubelet: \
               the sockets in DIR are removed at the start, so that plugins register again; not in \
               a dry run (default: they cannot)",
        |it, value| set(&mut it.config.manager.device_plugins_dir, parse_path(value).map(Some)),
    )
    .restart_if(|one, other| one.manager.device_plugins_dir != other.manager.device_plugins_dir),
    option(
        "--device-plugins",
        "the same with the directory of kubelet: device-plugins in the --root-dir (default: \
               /var/lib/kubelet/device-plugins)",
        |it, _| set(&mut it.has_device_plugins, Ok(true)),
    ),
    option(
        "--observe",
        "dry run: call GetInfo, validate and log the outcome; never notify or register; no \
               state file is written; safe beside kubelet or another plugind",
        |it, _| set(&mut it.config.manager.mode, Ok(Mode::Observe)),
    )
    .restart_if(|one, other| one.manager.mode != other.manager.mode),
    option(
        "--map-path FROM=TO",
        "dial an endpoint below FROM at the same path below TO, because a plugin reports a \
               path in its own mount namespace; matching is by path component, the longest FROM \
               wins; can be given several times (default: no mapping)",
        |it, value| {
            parse_with(value, FROM_TO, parse_path_mapping).map(|(from, to)| it.config.manager.path_map.add(from, to))
        },
    ),
    option(
        "--type NAME",
        "accept plugins of this type; can be given several times (default: CSIPlugin, \
               DevicePlugin, DRAPlugin)",
        |it, value| push(&mut it.types, parse_with(value, TYPE, parse_plugin_type)),
    )
    .with_default(&DEFAULT_TYPES),
    option(
        "--unknown-types ACTION",
        "what to do with plugins of other types: reject and notify them as kubelet does, \
               accept them, or ignore them without a notification (default: reject)",
        |it, value| set(&mut it.config.handlers.unknown_types, parse_one_of(value, UNKNOWN_TYPES)),
    )
    .with_default(&["reject"]),
    option(
        "--exec TYPE=PROGRAM",
        "have PROGRAM register and deregister plugins of TYPE: run PROGRAM add|re-add|del \
               TYPE NAME ENDPOINT, with PLUGIND_* in its environment and JSON on its standard \
               input; exit status 0 registers the plugin; one whose name, endpoint, socket or \
               versions are not plain words and absolute paths is refused; can be given several \
               times (default: none)",
        Chosen::add_program,
    ),
    option(
        "--csi-node-info DRIVER=PERIOD",
        "call NodeGetInfo on the registered CSI driver again and again, and report a new \
               volume limit or topology; a program of --exec is run with re-add then; DRIVER is a \
               name, or * for all others; PERIOD is at least 10s; can be given several times \
               (default: once, when the driver is registered)",
        |it, value| {
            let periods = &mut it.config.handlers.csi_node_info;
            push(periods, parse_with(value, NODE_INFO, parse_node_info))
        },
    ),
    option(
        "--on-down POLICY",
        "what to do with a registered plugin whose process has ended or that does not answer: \
               keep it registered (one of kubelet.sock for 5m only), or deregister[=DURATION] it once \
               it has been down for that time (default: keep; DURATION: 30s)",
        |it, value| set(&mut it.config.manager.on_down, parse_with(value, ON_DOWN, parse_on_down)),
    )
    .with_default(&["keep"]),
    option(
        "--trust MODE",
        "what to do with plugins that are not trusted: warn, or strict, which refuses them \
               (default: warn). Trusted are sockets and processes of root, the user of plugind and \
               those of --allow-uid and --allow-name; endpoints below the plugins directories, the \
               parent of one called plugins_registry, the targets of --map-path and --endpoint-dir; \
               and a name or an endpoint that no plugin of another user has",
        |it, value| set(&mut it.config.manager.trust.mode, parse_one_of(value, TRUST)),
    )
    .with_default(&["warn"]),
    option(
        "--endpoint-dir DIR|@",
        "trust endpoints below DIR, or abstract ones (@); can be given several times \
               (default: none)",
        |it, value| {
            let trust = &mut it.config.manager.trust;
            if value == "@" {
                return set(&mut trust.allows_abstract, Ok(true));
            }
            push(&mut trust.endpoint_dirs, parse_path(value))
        },
    ),
    option(
        "--allow-uid UID|USER",
        "trust this user with plugins of any name that --allow-name does not give to others; \
               can be given several times (default: none)",
        |it, value| push(&mut it.config.manager.trust.uids, parse_with(value, USER, user_id)),
    ),
    option(
        "--allow-name UID=TYPE/NAME",
        "trust this user with the plugins of this name, which may end with * for the rest of \
               it, and no other user but root and that of plugind; can be given several times \
               (default: none)",
        |it, value| push(&mut it.config.manager.trust.names, parse_with(value, PINNED_NAME, parse_pinned_name)),
    ),
    option(
        "--sandbox on|off",
        "on: after the start, keep plugind to its directories (Landlock) without TCP and, if it \
               runs as root, without capabilities but CAP_DAC_OVERRIDE, which it needs for sockets of \
               other users; programs of --exec turn that off (default: on)",
        |it, value| set(&mut it.has_no_sandbox, parse_one_of(value, SANDBOX)),
    )
    .with_default(&["on"])
    .restart_if(|one, other| one.sandbox != other.sandbox),
    option(
        "--memory-budget SIZE",
        "hold at most SIZE octets of all plugins together: what they report, their device \
               lists, unfinished messages; what would exceed it is refused and tried again \
               later, unless it is small; no plugin is deregistered for that; SIZE is a number of octets, or of mebibytes such as 32Mi, at least \
               1Mi; plugind itself needs 1Mi more, and up to 16Mi while it handles a long list \
               (default: 16Mi)",
        |it, value| set(&mut it.config.manager.memory_budget, parse_with(value, MEMORY_BUDGET, parse_memory_budget)),
    )
    .with_default(&["16Mi"]),
    option(
        "--state-file FILE",
        "store the registered plugins in FILE, so that plugins that disappear while plugind \
               is not running are deregistered at its next start (default: no file)",
        |it, value| set(&mut it.config.manager.state_file, parse_path(value).map(Some)),
    )
    .restart_if(|one, other| one.manager.state_file != other.manager.state_file),
    option(
        "--run-dir DIR",
        "keep in DIR the lock files that stop two daemons from using one plugins directory, \
               and links to the endpoints of registered plugins, DIR/by-name/TYPE/NAME.sock; DIR \
               must belong to the user and be writable by no other (default: /run/plugind; for \
               users other than root, plugind in $XDG_RUNTIME_DIR or /run/user/UID, else \
               /tmp/plugind-UID)",
        |it, value| set(&mut it.config.manager.run_dir, parse_path(value).map(Some)),
    )
    .restart_if(|one, other| one.manager.run_dir != other.manager.run_dir),
    option(
        "--cdi-dir DIR",
        "let container runtimes use the devices of device plugins: keep a file of the \
               Container Device Interface (CDI) in DIR for each resource, with what the plugin \
               answers to Allocate for each healthy device; DIR is usually /run/cdi, and only root \
               and the user may be able to change it (default: no files)",
        |it, value| set(&mut it.config.manager.cdi_dir, parse_path(value).map(Some)),
    )
    .restart_if(|one, other| one.manager.cdi_dir != other.manager.cdi_dir),
    option(
        "--socket PATH|none",
        "serve the API on a unix socket at PATH, with mode 0660, or not at all; a socket left \
               behind by a killed plugind is replaced; the environment variable PLUGIND_API_SOCKET \
               is used without this option (default: plugind.sock in the run directory; with \
               --observe: none)",
        |it, value| set(&mut it.config.manager.api_socket, parse_api_socket(value)),
    )
    .restart_if(|one, other| one.manager.api_socket != other.manager.api_socket),
    option(
        "--socket-group GROUP",
        "let GROUP connect to the API socket (default: the group of the process)",
        |it, value| set(&mut it.config.manager.socket_group, parse_group(value)),
    )
    .restart_if(|one, other| one.manager.socket_group != other.manager.socket_group),
    option(
        "--allocate-group GROUP",
        "let the members of this group use devices by plugind with, if they can connect to \
               that socket (default: only root and the user)",
        |it, value| set(&mut it.config.manager.allocate_group, parse_group(value)),
    )
    .restart_if(|one, other| one.manager.allocate_group != other.manager.allocate_group),
    option(
        "-v, --verbose",
        "log every step; -vv: log every event; the environment variable RUST_LOG overrides \
               this (default: log plugins that are registered and deregistered, and problems)",
        |it, _| {
            it.verbosity = it.verbosity.saturating_add(1);
            Ok(())
        },
    ),
    option(
        "--log-format FORMAT",
        "text; json: one object a line, with time, level, target and message, and with the \
               socket, type, name, attempt and reason of an event; or journald: \
               the priority in front, such as <6>, and no time (default: journald if JOURNAL_STREAM \
               names standard error, else text)",
        |it, value| set(&mut it.config.log_format, parse_one_of(value, LOG_FORMATS).map(Some)),
    )
    .restart_if(|one, other| one.log_format != other.log_format),
];

/// The values of the options that were parsed so far.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) config: DaemonConfig,
    has_no_sandbox: bool,
    /// The plugins directories; if any, they replace the default one.
    pub(super) dirs: Vec<PathBuf>,
    /// Whether device plugins may register in `device-plugins` of kubelet's root directory.
    has_device_plugins: bool,
    /// The plugin types; if any, they replace the default ones.
    types: Vec<String>,
    /// The number of `--verbose` options.
    pub(super) verbosity: u8,
    /// The absolute path of the configuration file, or the text `none` to use no file; `None` if no
    /// option names either.
    pub(super) file: Option<PathBuf>,
}

impl Chosen {
    /// Adds a plugin type with its program. Rejects a second program for the same type.
    fn add_program(&mut self, value: &OsStr) -> Parsed<()> {
        let new = parse_with(value, "TYPE=PROGRAM", parse_exec)?;
        let programs = &mut self.config.handlers.exec;
        if programs.iter().any(|exec| exec.kind == new.kind) {
            return Err("one program for each type".to_owned());
        }
        programs.push(new);
        Ok(())
    }

    /// Returns the configuration, with the defaults for all options that were not given. `root` is
    /// kubelet's root directory if it is not the default one.
    pub(super) fn into_config(self, root: Option<PathBuf>) -> DaemonConfig {
        let mut config = self.config;
        if self.has_device_plugins {
            let root = root.unwrap_or_else(|| DEFAULT_ROOT_DIR.into());
            let dir = &mut config.manager.device_plugins_dir;
            dir.get_or_insert_with(|| root.join(DEVICE_PLUGINS_DIR));
        }
        if !self.dirs.is_empty() {
            config.manager.plugins_dirs = self.dirs;
        }
        if !self.types.is_empty() {
            config.handlers.types = self.types;
        }
        config.sandbox = !self.has_no_sandbox;
        config
    }
}

impl Setting {
    const fn with_default(self, default: &'static [&'static str]) -> Self {
        Self { default, ..self }
    }

    const fn restart_if(self, restart: fn(&DaemonConfig, &DaemonConfig) -> bool) -> Self {
        Self { restart, ..self }
    }

    /// Returns the long name without dashes, which is the key in the configuration file.
    pub(super) fn long_name(&self) -> &'static str {
        let long = self.spelled.rsplit("--").next().unwrap_or_default();
        long.split(' ').next().unwrap_or_default()
    }

    /// Returns the value's placeholder in the help text, such as `DIR`; empty for a flag.
    pub(super) fn placeholder(&self) -> &'static str {
        self.spelled
            .rsplit("--")
            .next()
            .and_then(|it| it.split_once(' '))
            .map_or("", |it| it.1)
    }

    /// Returns whether the option can be given several times.
    pub(super) fn is_list(&self) -> bool {
        self.help.contains("several times") || self.long_name() == "verbose"
    }

    /// Applies a setting, or returns the problem with its value. A flag without a value is set; the
    /// values `0`, `false` and `no` of a flag change nothing.
    pub(super) fn apply(&self, chosen: &mut Chosen, value: Option<&OsStr>) -> Result<(), String> {
        let (option, is_flag) = (self.long_name(), self.is_flag());
        let Some(value) = value.or_else(|| is_flag.then_some("yes".as_ref())) else {
            return Err(format!("missing value for {option}"));
        };
        let read = match value.to_str() {
            _ if !is_flag => (self.read)(chosen, value),
            Some("1" | "true" | "yes") => (self.read)(chosen, value),
            Some("0" | "false" | "no") => Ok(()),
            _ => Err("1, true, yes, 0, false or no".to_owned()),
        };
        read.map_err(|expected| invalid_value(value, option, &expected))
    }

    pub(super) fn is_flag(&self) -> bool {
        self.placeholder().is_empty()
    }

    /// Returns the name that is common to the options that set the same value: `root-dir`, for
    /// example, is another form of `plugins-dir`.
    pub(super) fn purpose(&self) -> &'static str {
        match self.long_name() {
            "root-dir" => "plugins-dir",
            "device-plugins" => "device-plugins-dir",
            other => other,
        }
    }

    /// Returns the environment variable for the option. `--socket` has `PLUGIND_API_SOCKET`,
    /// because `PLUGIND_SOCKET` is a plugin's socket in the environment of programs of `--exec`.
    pub(super) fn variable(&self) -> String {
        let name = match self.long_name() {
            "socket" => "api-socket",
            other => other,
        };
        let name = name.replace('-', "_").to_ascii_uppercase();
        format!("PLUGIND_{name}")
    }

    /// Returns the lines of the option in the help text.
    fn help(&self) -> String {
        let head = format!("  {}", self.spelled);
        let margin = " ".repeat(20);
        let indent = margin.len();
        // The text begins on the next line if the option takes the whole margin.
        let width = if head.len() < indent { indent } else { WIDTH };
        wrap_words(format!("{head:indent$}"), width, &margin, self.help)
    }

    /// Returns the comments of a configuration file that explain the option and show its default.
    fn comment(&self) -> String {
        let mut text = wrap_words("\n#".to_owned(), 1, "#", self.help);
        let values = [self.placeholder()];
        let values = if self.default.is_empty() {
            &values
        } else {
            self.default
        };
        for value in values {
            text = text + format!("#{} {value}", self.long_name()).trim_end() + "\n";
        }
        text
    }
}

/// Returns the option of `run` that an argument names, or `None`.
pub(super) fn find_setting(argument: &Argument) -> Option<&'static Setting> {
    let Argument::Option(option) = argument else {
        return None;
    };
    SETTINGS
        .iter()
        .find(|setting| setting.long_name() == &option[2..])
}

/// Returns the options that a configuration file may have.
pub(super) fn file_settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS
        .iter()
        .filter(|setting| setting.long_name() != "config")
}

/// Returns the list of the options in the help text.
pub(super) fn help() -> String {
    SETTINGS.iter().map(Setting::help).collect()
}

/// Returns the names of every option with the placeholder of its value.
pub(super) fn spelled() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.spelled)
}

/// Returns the lines of a configuration file that has every option as a comment.
pub(super) fn template() -> String {
    file_settings().map(Setting::comment).collect()
}

/// Appends words to a text whose last line has this width. Further lines begin with `margin`.
fn wrap_words(mut text: String, mut width: usize, margin: &str, words: &str) -> String {
    for word in words.split(' ') {
        if width + 1 + word.len() > WIDTH {
            text = text + "\n" + margin;
            width = margin.len();
        }
        text = text + " " + word;
        width += 1 + word.len();
    }
    text + "\n"
}

/// Returns the keys of the options that differ and that a reload does not apply.
pub fn settings_needing_restart(one: &DaemonConfig, other: &DaemonConfig) -> Vec<String> {
    let settings = SETTINGS.iter().filter(|it| (it.restart)(one, other));
    settings
        .map(|setting| setting.long_name().to_owned())
        .collect()
}

/// Sets an option to a parsed value.
fn set<T>(option: &mut T, value: Parsed<T>) -> Parsed<()> {
    *option = value?;
    Ok(())
}

/// Adds a parsed value to the list of an option.
fn push<T>(list: &mut Vec<T>, value: Parsed<T>) -> Parsed<()> {
    list.push(value?);
    Ok(())
}

/// The maximum length of a line.
const WIDTH: usize = 80;
