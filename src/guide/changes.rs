//! What has changed between versions, as far as a user, a plugin or an embedder can notice it.
//!
//! [`stability`](super::stability) lists what stays the same.
//!
//! # Since 0.1.0, not released yet
//!
//! - The daemon serves an API on a Unix socket (`--socket`, `--socket-group`). `list`, `devices`,
//!   `describe`, `watch`, `events`, `wait`, `status`, `metrics`, `retry`, `forget`, `rescan`,
//!   `reload` and `log-level` use it.
//! - `completion` prints the completions of a shell, and `config` a configuration file with every
//!   option as a comment.
//! - `probe` shows the events of a dry run. Its JSON has other keys, in camelCase, and exit status
//!   9 stands for any plugin at whose endpoint nothing listens.
//! - `doctor` examines a node, and `version` names the commit and the target of the program.
//! - Static binaries for aarch64 and armv7, Debian packages and container images (`make dist`).
//! - Manual pages, and completions for bash, zsh and fish.
//! - Device plugins register by calling `kubelet.sock` (`--device-plugins`,
//!   `--device-plugins-dir`).
//! - `simulate --legacy` is a device plugin that registers itself at `kubelet.sock`.
//! - `by-name/TYPE/NAME.sock` in the run directory is a link to the endpoint of a registered
//!   plugin.
//! - systemd is notified, and may pass in sockets for the API and for metrics. There are units,
//!   alert rules and a dashboard for Grafana. `--log-format` is `text`, `json` or `journald`.
//! - Sockets are distinguished by birth time in the static binary, too. The state file has format
//!   2, and one of format 1 is not used.
//! - Header lists of up to 64 KiB are accepted.
//! - Connections to plugins end without GOAWAY, except after a connection error.
//! - Plugins are refused in kubelet's words. A refusal is retried with backoff during a socket's
//!   first minute, and a call to an endpoint that is not ready is repeated for two seconds.
//! - An endpoint that is taken is a reason to refuse DRA drivers only.
//! - A socket to which several paths lead is one plugin, and registered once.
//! - A handler's answer that is pending for five seconds stops blocking other sockets of the name.
//! - Endpoints that begin with `@` are abstract sockets.
//! - Every `del` of a program runs, over restarts too, and also if the daemon was killed right
//!   after the `add`: the state file is written before. Programs end with the daemon.
//! - The action `old` of programs is called `re-add`: programs that match the action need that
//!   word.
//! - Mounts near a plugins directory are noticed, and a mount that does not answer blocks nothing.
//! - Locks are files in the run directory (`--run-dir`), not locks on the plugins directory.
//! - The log is rate-limited, and never waits for its reader.
//! - What is held of all plugins together has a budget (`--memory-budget`, 16 MiB).
//! - The daemon raises its limit of open files, and still registers plugins when descriptors run
//!   short.
//! - A program that embeds the plugin manager can add and remove directories at run time.
//! - Items of the library were renamed, and those that an embedder does not need are hidden.
//!   Devices in its inventory are sorted vectors. What a socket or a program lacks is a
//!   `SocketProblem` or a `ProgramProblem`, and an event of a plugin is in an `Arc`.
//!   `AcceptHandler` has no fields and keeps no record; it takes the place of `GenericHandler`, and
//!   `Manager::registered` that of `Inventory::others`. The version is 0.2.0-dev.
//! - Every release build knows its commit (`plugind version`), and packages have the licences of
//!   what the binary contains.
//! - The names of modules that `RUST_LOG` and `plugind log-level` take are others: `daemon` has
//!   folders (`plugind::daemon::fs`, `::process`, `::api`, `::event_loop`, `::service`).
//! - Directories that change all the time, are large or contain many links delay no other plugin.
//! - `--csi-node-info` asks registered CSI drivers for their volume limit and topology again. A
//!   program of such a driver is run with `re-add` when they change.
//! - `startTime` of the status stays the same when the clock is set.
//! - Container runtimes can use the devices of device plugins: files of the Container Device
//!   Interface (`--cdi-dir`). `simulate` answers `Allocate` with a device node, a mount and a
//!   variable, or as `--cdi-devices`, `--refuse-allocate` and `--delay-allocate` say.
//! - Plugins and endpoints that are not trusted cause a warning, with the option that allows them,
//!   or are refused (`--trust strict`, `--endpoint-dir`, `--allow-uid`, `--allow-name`). A record
//!   has `warnings`, and that of a plugin asked for by name the command and the cgroup of its
//!   process, which `describe` shows.
//! - The daemon gives up what it does not need once it has started, by Landlock and by dropping
//!   capabilities; a reload cannot add the first program, or a plugins directory elsewhere
//!   (`--sandbox off`). The status has `sandbox`.
//! - `plugind with` runs a command that uses devices exclusively, `POST /v1/allocate` is the same
//!   for programs, and `devices` shows the processes that hold them (`--allocate-group`).
//! - Every option of `run` has a variable of the environment, flags and `--type`, too, and a flag
//!   can have a value there and in the configuration file. An unknown variable `PLUGIND_*` is an
//!   error.
//! - `run` ends with status 78, as `check-config` does, if a program, a group or the directory of a
//!   state file does not exist. Paths in the file and the environment are absolute. The name of a
//!   type has no blanks, commas and quotes. `check-config` takes the options of `run`.
//! - A command shows the error of the daemon as it is, and `list` suggests the nearest type.
//! - `describe` shows the events of its sockets only, and `events TYPE/NAME` the first ones, too.
//! - A device plugin that ends ListAndWatch at `kubelet.sock` is `Down`. One process may announce
//!   64 plugins, and `kubelet.sock` has mode 0600.
//! - At most 8 programs of one type run at a time, and 4 of the 16 clients of the API are root or
//!   the user of the daemon. With a limit below 64 open files, the daemon does not start.
