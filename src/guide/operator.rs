//! The operator's reference: what `plugind run` does with directories, mounts, locks, descriptors,
//! the log, the state file and programs. The README is the introduction.
//!
//! # Users and permissions
//!
//! The daemon requires no privilege, only access: it must be able to read, search and create the
//! plugins directory, and to connect to the plugins' sockets, which requires write permission on
//! them. Most plugins run as root and create their sockets with mode 0700, so the daemon usually
//! runs as root. Programs of `--exec` run as the same user.
//!
//! # The sandbox
//!
//! Once it has started, and before it connects to the first plugin, the daemon gives up what it
//! does not need, unless `--sandbox off` is given. `plugind status` and a line of the log show
//! that. Without programs (`--exec`), which would inherit it:
//!
//! - **Landlock** (Linux 5.13) keeps it to its directories. It can list and make directories up to
//!   two levels above the plugins directories and that of `kubelet.sock`, so that these can be
//!   removed and made again; make and remove sockets there; write in the run directory, in that of
//!   the state file and in that of CDI files; and read in that of the configuration file and in
//!   `/proc`. It can execute no file; code that it has in memory stays in the sandbox. With Linux
//!   6.7 it has no TCP, with 6.12 it can signal no other process. It may connect to any Unix
//!   socket: `--trust` is about that.
//! - **Capabilities** are dropped if it runs as root, and it can gain none. CAP_DAC_OVERRIDE stays,
//!   without which sockets of mode 0755 of other users cannot be connected to. With `--trust
//!   strict` and neither `--allow-uid` nor `--allow-name`, that goes, too; the error of a socket
//!   that cannot be reached then names the option. `plugind doctor` counts the sockets that only
//!   root can connect to.
//!
//! A reload cannot widen the sandbox. A plugins directory elsewhere, the first program, and users
//! whose sockets would need the capability are reported as `needs-restart`; what was in force
//! stays. A restart is also needed if a directory further above is replaced or mounted over, or if
//! the run directory or that of the state file or of CDI files was removed. A configuration file
//! that is a link is read only in its own directory and in the one to which it led at the start.
//! Users and groups that are added later are known by their ids only.
//!
//! # Strict mode
//!
//! Plugins that run as root, and have their sockets below kubelet's root directory, need no further
//! option to be trusted. These were registered with `--trust strict`, in the sandbox:
//!
//! | plugin | options | reason |
//! |---|---|---|
//! | node-driver-registrar, CSI hostpath driver | none | the endpoint is in `plugins/NAME` |
//! | the same, the endpoint elsewhere in DIR | `--endpoint-dir DIR` | it could be any socket |
//! | the same, the registrar as user 1000 | `--allow-uid 1000` | its process does not run as root |
//! | a DRA driver on kubelet's helper library | none | the endpoint is in `plugins/NAME` |
//! | kubelet's sample-device-plugin | `--device-plugins` | it calls Register |
//! | kubelet's test plugin, two in Python | `--device-plugins` | likewise |
//! | one on each [gRPC stack](super::testing) | those of its directories | endpoints in these |
//!
//! The plugins directories, the run directory and that of the state file have to be below ones that
//! only root and the daemon's user can change. A user with neither `XDG_RUNTIME_DIR` nor
//! `/run/user/UID` therefore needs `--run-dir`: the default is below `/tmp`.
//!
#![doc = include_str!("asking.md")]
//!
//! # Examining a node
//!
//! `plugind doctor` checks what this page asks of directories and plugins, and names a remedy for
//! each warning and each problem. It needs no daemon, and should run as the daemon's user, whose
//! permissions and limits of inotify it examines. It changes nothing: it watches the directories
//! for a moment, as a dry run does, and probes each plugin, for at most 3 s. A file system that may
//! not answer is not entered. The configuration is not read: plugins are judged by the defaults of
//! `run`.
//!
//! A kubelet is recognized by the name of its process, if root or this user runs it: `kubelet`,
//! `kubelite` (MicroK8s), `k3s-server` or `k3s-agent`. Its `--root-dir` is taken from the command
//! line; for the last three, the default of the distribution is assumed.
//!
//! # The kernel
//!
//! | Linux | feature | without it |
//! |---|---|---|
//! | 6.5 | `SO_PEERPIDFD` | a connection to each registered plugin stays open to notice its end |
//! | 5.18 | birth times on tmpfs | a socket on tmpfs is identified by inode and modification time |
//! | 5.13 | Landlock | the sandbox is without it: only capabilities are dropped |
//! | 5.12 | `RESOLVE_CACHED` | beside a mount that may hang, links to other mounts are refused |
//! | 5.6 | `openat2` | beside a mount that may hang, all symbolic links are refused |
//! | 5.3 | `pidfd_open` | the daemon does not start with `--exec` |
//! | 4.11 | `statx` | as for 5.18, on every file system |
//!
//! A filter of system calls that denies what it does not know has the same effect as an older
//! kernel.
//!
//! Without inotify, or when its limits are used up, plugins directories and the directory of
//! `kubelet.sock` are examined every second. Without `/proc`, sockets with paths of more than 107
//! bytes cannot be dialed, endpoints of device plugins cannot be links, `--state-file` is not used,
//! mounts are neither watched nor distinguished, neither an endpoint nor a registration socket in a
//! subdirectory counts as being in a trusted directory, and the process that holds a lock is not
//! named.
//!
//! Rust's standard library requires Linux 3.2. Tested on Linux 6.18, also with each of these
//! features taken away; the numbers of the versions are from the kernel's manual pages.
//!
//! # Directories
//!
//! `--root-dir /data/kubelet` is spelled like kubelet's own option and watches
//! `/data/kubelet/plugins_registry`; `--plugins-dir` names the directory itself. Both can be
//! repeated and combined. A directory that is named twice is watched once. A directory
//! inside another one, by its path or through a symbolic link, is refused.
//!
//! A socket is one plugin, however many hard or symbolic links lead to it. It is known by the path
//! that was seen first, or by its own path rather than by a symbolic link. Other paths are logged
//! and ignored. If the known path is removed, the plugin is deregistered, and registered again
//! through another path that is left.
//!
//! | limit | value |
//! |---|---|
//! | sockets in total | 2,048 |
//! | names of one directory that are read | 16,384 |
//! | names of sockets among them, of which a symbolic link counts as two | 1,536 |
//! | directories | 1,024 |
//! | levels of subdirectories | 16 |
//!
//! What exceeds a limit is ignored and logged, and looked for again after 1 s to 60 s; what was
//! found before stays. A name or a directory that changes all the time is examined after pauses
//! that grow up to 1 s and 5 s, so that it does not keep other plugins waiting.
//!
//! # Memory
//!
//! `--memory-budget SIZE` (default: `16Mi`, at least `1Mi`) limits what is held of all plugins
//! together. The daemon itself needs about 1 MiB more, and as much as the longest list of devices
//! while that is read.
//!
//! What counts is what plugins can make grow:
//!
//! - their connections: unfinished messages, header fields, unwritten octets;
//! - lists of devices, and what DRA drivers report of their devices.
//!
//! What would exceed the budget is refused at that moment, unless the connection or list holds less
//! than 16 KiB: so a small plugin registers whatever the others hold. Nothing is taken from another
//! plugin.
//!
//! - A call fails with RESOURCE_EXHAUSTED; an attempt to register is repeated with backoff.
//! - A list of devices is rejected, with a warning (`DevicesRejected`): what the plugin listed
//!   before stays in force, and its stream is opened again after pauses that double up to 122 s.
//! - The health of a DRA driver's devices is unknown until there is room.
//!
//! Raise the budget, or have the plugin list fewer devices.
//!
//! `plugind status` shows how much is held (`memory`); the metrics are
//! `plugind_memory_held_bytes`, `plugind_memory_budget_bytes` and
//! `plugind_limit_hits_total{limit="memory"}`.
//!
//! What has limits of its own does not count:
//!
//! | not counted | limit |
//! |---|---|
//! | sockets and names of the watch | 2,048 sockets, 1,024 directories, 16,384 names of each |
//! | descriptions of at most 1 KiB | counted, but always accepted: 2,048 |
//! | clients of the API | 16, with 24 KiB each; 4 places are for root and the daemon's user |
//! | events | 64 KiB for readers, and 256 until an embedder reads them |
//! | the log | 64 KiB while its reader does not read |
//! | processes whose sockets were removed | 16, with a connection each |
//! | clients of `kubelet.sock` below 16 KiB | counted, but never closed for that: 128 |
//!
//! # Device plugins
//!
//! Most device plugins are not found in a plugins directory: they announce themselves by calling
//! `v1beta1.Registration/Register` on `kubelet.sock` in kubelet's device-plugins directory, and
//! serve their devices on another socket beside it. With `--device-plugins-dir DIR`, or with
//! `--device-plugins` for `device-plugins` in the `--root-dir`, the daemon has that service:
//!
//! - At the start it removes the sockets in the directory and creates `kubelet.sock`. Running
//!   plugins notice one or the other, and announce themselves again. If another process listens on
//!   `kubelet.sock`, nothing is removed and the daemon does not start: it is probably a kubelet.
//!   Other files stay. The directory must not overlap with a plugins directory.
//! - Version and name are checked as by kubelet, with its error texts. The endpoint must be the
//!   name of a file in the directory (kubelet also accepts a path), and a symbolic link must not
//!   lead out of it. `--map-path` does not apply to it. It is dialed for up to 10 s, and the
//!   handler calls GetDevicePluginOptions before the call is answered.
//! - A plugin that is refused has to call again. A plugin that calls again replaces the earlier
//!   plugin of its name: with another endpoint once it is registered, with the same one before.
//! - Its socket in lists, events and programs is its endpoint. A second resource with the same
//!   endpoint is shown as `ENDPOINT?resource=NAME`.
//! - When the stream of its devices ends, all of them are unhealthy, the plugin is `Down`, and the
//!   stream is not opened again. The plugin is deregistered after 5 min, or the time that
//!   `--on-down deregister` sets, unless it has called again, and at once if another plugin serves
//!   its name. The same holds when its process ends.
//! - With `--state-file`, the plugins from before a restart stay registered for 5 min to announce
//!   themselves again.
//! - If `kubelet.sock` or its directory is removed, it is created again at once, and further times
//!   after pauses of 100 ms to 10 s. If another process listens there by then, that is an error in
//!   the log, and the daemon tries again every 10 s.
//!
//! At most 64 clients without a call in progress are connected to `kubelet.sock`, and 128 in all,
//! with up to 16 calls each. If others wait, a client of the process with the most clients is
//! closed. At most 1,024 plugins may announce themselves, 64 of one process; one that is down gives
//! way to another. In a dry run, `kubelet.sock` is not created. Only its owner may connect to it.
//! `plugind devices` lists the devices of all device plugins.
//!
//! # Devices for containers
//!
//! With `--cdi-dir DIR`, usually `/run/cdi`, container runtimes find the devices of device plugins
//! where they look for them: podman, Docker, containerd and CRI-O read the files of the Container
//! Device Interface (CDI) in that directory. `podman run --device example.com/gpu=gpu-0 IMAGE`
//! needs nothing else.
//!
//! - A resource `VENDOR/CLASS` has one file, `plugind-VENDOR-CLASS.json`, with the healthy devices
//!   of its current plugin. Hyphens in the name of the resource are doubled there. Both parts of
//!   the name have to begin with a letter.
//! - A device is named by its ID, if that is a valid name. Otherwise `x.` is put in front, and
//!   `_` and each octet that is not valid become `_` and two hexadecimal digits.
//! - It has what the plugin answers to `Allocate` for this device alone: variables, device nodes,
//!   mounts, annotations. The plugin is asked once, when it lists the device for the first time,
//!   about one device after another, with a limit of 10 s each. The file is written when all were
//!   asked. Devices that it refuses are missing; it is asked about them again after pauses of 1 s
//!   to 5 min.
//! - If the plugin names devices of other CDI files, these names are to be used: a device for which
//!   it answers nothing else is in no file.
//! - An answer must be about one container, be of at most 16 KiB, and have absolute paths without
//!   `..`, no control characters, and permissions of `rwm`. Any other is refused.
//! - A device that is removed or becomes unhealthy is removed from the file in the same turn, and
//!   the file with its last device. If an older plugin becomes current because the devices of the
//!   newer one were removed, the file has its devices at once, but those for which it has not
//!   answered yet only after its next list. Files of an earlier process are removed at the start;
//!   the end of the daemon leaves them, except those of commands.
//! - The directory is created if it is missing. It must not be a symbolic link, and only root and
//!   the daemon's user may be able to change it. One daemon uses it at a time. Changes that fail,
//!   as on a full disk, are repeated every 5 s. Another directory needs a restart.
//!
//! `plugind with example.com/gpu=2 -- COMMAND` runs a command that has two devices for itself, as
//! `flock` does with a file. They are taken from those that are healthy and free: the ones that the
//! plugin prefers (`GetPreferredAllocation`), or else of as few NUMA nodes as possible. The plugin
//! is asked about all of them together (`Allocate`, and `PreStartContainer` if it wants that), with
//! a limit of 10 s for each call.
//!
//! - The command finds the answer in `PLUGIND_ALLOCATION`, as the [API](super::api) has it, and in
//!   `PLUGIND_CDI_DEVICES` the names for `--device` of a container runtime, separated by commas:
//!   those in the plugin's answer and, with `--cdi-dir`, that of a file with the answer for exactly
//!   these devices, which is removed when the command has ended. If that file cannot be written, as
//!   on a full disk, the command is not run, and the status is 1.
//! - Devices are held by the connection to the daemon, so they are free when the command has ended,
//!   however it ended. Nothing is left behind: a command is killed with its `plugind with`, but its
//!   own children are not. In a shell, start a container runtime with `exec`, so that signals reach
//!   it; a container in the background (`podman run -d`) goes on without the devices.
//! - Without `--wait` or `--timeout`, a command that finds too few free devices ends with 75 and
//!   names the holders, as `plugind devices` does. Commands that wait are served in the order of
//!   their arrival: none gets devices of a resource for which an earlier one waits.
//! - A device that becomes unhealthy, or whose plugin goes, stays held, and the command goes on:
//!   that is an event (`DeviceLost`). It is granted again only if it is listed and healthy.
//! - If the daemon ends, the command goes on with a warning, and others may get the devices from
//!   the next daemon. Commands that wait go on waiting, for the next daemon, too.
//! - A container that is started with the file of a resource (`--device example.com/gpu=gpu-0`)
//!   holds nothing: only commands of `plugind with` exclude each other.
//! - Root and the daemon's user may do this, and the members of `--allocate-group`, if they can
//!   connect to the API socket (`--socket-group`).
//!
//! # Mounts
//!
//! When a mount is added or removed anywhere, the plugins directories are read again, at most once
//! a second: the mount may be at one of them, above it or below it. That costs nothing while no
//! mount changes.
//!
//! FUSE and remote file systems (NFS, CIFS, 9p, virtiofs, autofs and the like) may stop answering,
//! and then a system call on them does not return. What a plugin chooses never leads there: an
//! endpoint on such a file system is refused with that reason, a symbolic link to a socket on it is
//! ignored (`-v` logs why), and a subdirectory on it is not read, with a warning. While there is
//! such a mount, a link to another local mount is followed only if the kernel has the way in its
//! cache, as for every socket on which a process listens; a link on that way that no other process
//! has followed lately may be refused. Links on /proc are never followed: `/proc/PID/root` leads to
//! the mounts of another container.
//!
//! A directory named with `--plugins-dir`, `--root-dir` or `--map-path` may lie on such a file
//! system. The user decides this: if the file system hangs, the daemon hangs, too. A plugins
//! directory on such a file system, or on /proc or /sys, is also scanned every second, because
//! inotify does not report changes that are made elsewhere.
//!
//! # Endpoints
//!
//! A plugin reports its endpoint as a path in its own mount namespace, which may differ from the
//! node's: the plugin runs in a container, or was configured with `/var/lib/kubelet` on a node that
//! keeps that directory elsewhere (k0s, MicroK8s). With `--map-path
//! /var/lib/kubelet=/data/kubelet`, endpoints below the first directory are dialed below the
//! second. Matching is by path component; the longest prefix wins. Logs and programs get the path
//! that the plugin reported.
//!
//! # Types
//!
//! `--type` names the types that are accepted. Plugins of a type without a built-in handler are
//! registered without further work; `--exec` adds types. Plugins of any other type are notified
//! that no handler is registered for them, as by kubelet. With `--unknown-types accept` they are
//! registered, with `--unknown-types ignore` they are not notified. A plugin that reports more than
//! 256 versions, or one of more than 128 octets, is refused.
//!
//! # Dry run
//!
//! `--observe` finds plugins, calls GetInfo, validates them, and logs the outcome of each, with the
//! reason and what was not checked: it does not connect to endpoints. A plugin that would be
//! refused is called again for a minute, because it may not be ready yet. No plugin is notified or
//! registered, no program is run, and no state file is written, so this is safe beside a kubelet or
//! another `plugind`.
//!
//! # Locks
//!
//! A second `plugind run` on a directory waits up to a second for the first to end, and then fails;
//! the error names the lock file and the process that holds it. If that process has ended or is not
//! visible, it waits up to ten seconds: programs that a killed daemon was about to start hold its
//! locks until they are executed or have ended. A second daemon on a directory inside that of the
//! first, or above it, is not stopped: do not start one. Before another daemon gets a directory
//! that a reload has removed here, wait until `plugind list` does not show its plugins. A directory
//! that has the inode of a removed one counts as that one. `--observe` takes no lock. The lock
//! files are in `locks/` in the run directory, which only the daemon's user may change:
//!
//! | user | run directory |
//! |---|---|
//! | root | `/run/plugind` |
//! | another | `$XDG_RUNTIME_DIR/plugind` or `/run/user/UID/plugind`, else `/tmp/plugind-UID` |
//! | any | the directory that `--run-dir` names |
//!
//! A runtime directory that belongs to another user is not used. Daemons see each other's locks
//! only if they have the same run directory: mount the host's `/run/plugind` into containers that
//! may use the same plugins directory, and use one user. If systemd creates the directory
//! (`RuntimeDirectory=plugind`, as with `ProtectSystem=strict`), add
//! `RuntimeDirectoryPreserve=yes`, so that it is not removed while another daemon uses it. Lock
//! files that a killed daemon leaves behind are harmless.
//!
//! # Links by name
//!
//! `by-name/TYPE/NAME.sock` in the run directory is a symbolic link to the endpoint of the newest
//! registered plugin of that name, as dialed by the daemon (`--map-path`): a script needs no
//! parser, and a `.path` unit of systemd can wait for a plugin. A link is replaced atomically; it
//! goes with the last plugin of its name, and stays when the daemon stops. Links are changed once
//! per second. Two seconds after the first scan, links of plugins that did not return are removed;
//! with a state file, a plugin whose socket still exists keeps its link until it answers. Endpoints
//! in the abstract namespace have no link.
//!
//! Letters, digits and `-`, `.`, `_`, `+`, `@`, `:` stand for themselves; every other octet, and a
//! dot at the beginning, is `%` and two hexadecimal digits: `DevicePlugin/example.com%2Fgpu.sock`.
//! A name that is longer than 255 octets then has no link. Files that are not links are not
//! replaced. If links cannot be changed, for example on a full disk, one warning is logged, and
//! plugind retries every 5 s. Of several daemons with one run directory, the first maintains the
//! links; a dry run makes none.
//!
//! # The API socket
//!
//! [`api`](super::api) describes what the socket answers. `--socket PATH` names it, else the
//! environment variable `PLUGIND_API_SOCKET`, else it is `plugind.sock` in the run directory;
//! `--socket none` turns the API off. A dry run has one only if it is named, because it may run
//! beside another daemon. If a named socket cannot be used, the daemon does not start; if the
//! default one cannot be used, a warning is logged, or, with `--socket-group`, it does not start.
//!
//! The mode is 0660: the daemon's user and the group of `--socket-group` may connect and read
//! everything; changes are for root and the daemon's user, and devices also for the members of
//! `--allocate-group`, and each is logged. Only root and the daemon's user may be able to change
//! the directory of the socket, because others could put another socket in its place. A lock file
//! beside it, `SOCKET.lock`, keeps two daemons from using one socket: a socket that a killed daemon
//! left behind is replaced, one in use is not. Both files are removed when the daemon stops;
//! clients then have a second to read their last response.
//!
//! `/readyz` is 200 once the first scan is over and each socket that it found was dialed, or 2 s
//! after the scan, unless a plugins directory cannot be read. `POST /v1/log?filter=` takes what
//! `RUST_LOG` takes, except for words that are neither a level nor a module; an empty filter
//! restores that of the configuration, and so does a reload that changes `verbose`.
//!
//! # The configuration
//!
//! `plugind run --config FILE` reads options from a file, by default from
//! `/etc/plugind/plugind.conf` if that exists; `--config none` reads none. A line is a long option
//! of `run` without the dashes, and its value behind blanks, `=` or both; a flag stands alone. `#`
//! begins a comment at the beginning of a line and behind a blank. Quotes have no meaning: a value
//! may contain blanks, but not one with `#` behind it. A key that can be given only once must not
//! be repeated (`verbose` can be); on the command line, the last one counts. Paths are absolute.
//!
//! ```text
//! # /etc/plugind/plugind.conf
//! root-dir       /data/kubelet
//! device-plugins
//! exec           Toaster=/usr/lib/toasters/hook   # has to exist
//! on-down        deregister=5m
//! ```
//!
//! The command line has priority over the environment, and that over the file. The variable of an
//! option is `PLUGIND_` and its name, such as `PLUGIND_STATE_FILE`; `--socket` has
//! `PLUGIND_API_SOCKET`, because `PLUGIND_SOCKET` is about one plugin in programs of `--exec`. An
//! option without a value, such as `observe`, may have `1`, `true` or `yes`, and `0`, `false` or
//! `no`. An empty variable counts as unset; an unknown one that begins with `PLUGIND_` is a
//! problem, unless Kubernetes sets it in pods beside a service `plugind`; one of an option that can
//! be given several times has one value. Such an option replaces the whole list of a lower source;
//! `plugins-dir` and `root-dir` are one list.
//!
//! The file is a regular file, or a link to one, of at most 64 KiB of UTF-8. It belongs to root or
//! the daemon's user, and no other may write it, because it names programs. All invalid lines are
//! reported at once, up to 20; if there is none, programs and the directory of the state file that
//! do not exist. The daemon then ends with status 78.
//! `plugind check-config [OPTIONS] [FILE]` reports the same, or prints what is in force, with the
//! source of each value; its output is a configuration, in which values that no line can have are
//! comments.
//!
//! SIGHUP, `plugind reload` and `POST /v1/reload` read the file again. Options of the command line
//! and the environment keep their priority.
//!
//! | what changes | what happens |
//! |---|---|
//! | `plugins-dir`, `root-dir` | plugins of a directory that is taken out are deregistered |
//! | `type`, `unknown-types`, `exec` | see below |
//! | `csi-node-info` | CSI drivers are registered again |
//! | `trust`, `endpoint-dir`, `allow-uid`, `allow-name` | from the next attempt on |
//! | `map-path` | what failed is tried again; links by name follow; connections stay |
//! | `on-down` | also for plugins that are down already, counted from when they went down |
//! | `memory-budget` | from now on; what is held already stays |
//! | `verbose` | at once, unless `RUST_LOG` is about it |
//! | `device-plugins-dir`, `state-file`, `run-dir`, `cdi-dir` | a restart is needed |
//! | `observe`, `sandbox`, `socket`, `log-format` | a restart is needed |
//! | `socket-group`, `allocate-group` | a restart is needed |
//!
//! A plugin is touched only if its own type has another handler: another program, none, or one
//! instead of a built-in handler. It is deregistered by the handler that has registered it, and
//! then registered by the new one; if its type is an unknown one now, it is treated as such. Links
//! in the path of a program are followed again, so a program that another link replaces counts as
//! another one. What was refused is tried again.
//!
//! A configuration that cannot be used changes nothing: one with a problem, with a program that
//! others can change, or with a directory that another daemon uses. Directories that were created
//! before that was found stay. The events `ConfigReloaded` and
//! `ConfigRejected` name what has changed, what needs a restart, and the problems. With 1,000
//! registered plugins a reload takes up to 13 ms.
//!
//! # The service manager
//!
//! If `NOTIFY_SOCKET` names a socket (a path, or an abstract name behind `@`), the daemon notifies
//! the service manager as sd_notify(3) describes:
//!
//! | notification | when |
//! |---|---|
//! | `READY=1` | when `/readyz` is 200 for the first time, and after each reload |
//! | `STATUS=3 registered, 1 in backoff` | when it changes, at most once per second |
//! | `RELOADING=1` with `MONOTONIC_USEC` | when a reload begins |
//! | `STOPPING=1` | at SIGTERM and SIGINT |
//! | `WATCHDOG=1` | twice in `WATCHDOG_USEC`, if `WATCHDOG_PID` is this process or not set |
//!
//! Watchdog notifications are at least 10 ms and at most an hour apart. Without a watchdog, a
//! daemon at rest sends nothing. The daemon never waits for the service manager: while that does
//! not read, everything but the status is sent again every 250 ms. The first failure is a warning
//! in the log, later ones are not logged.
//!
//! With `LISTEN_PID` and `LISTEN_FDS` (sd_listen_fds(3)), the service manager passes in up to two
//! listening stream sockets, whose names are in `LISTEN_FDNAMES`:
//!
//! - `api`, or the one without a name (systemd names it after its unit): a Unix socket that serves
//!   the API in place of the one of `--socket`, in a dry run, too. Its file is left alone: the unit
//!   sets owner and mode. It is an error together with `--socket none`, because clients would wait
//!   forever, and with `--socket-group`.
//! - `metrics`: a Unix or TCP socket for `GET /metrics`, `/livez` and `/readyz`; everything else is
//!   404. The limits are those of the API, and its clients may be 8 of the 16.
//!
//! Another name, and what is not a listening stream socket, prevent the start. Programs of `--exec`
//! get neither the sockets nor these variables.
//!
//! `src/dist` has units for systemd. `plugind.service` runs as root without capabilities, which
//! suffices for sockets that belong to root. A plugin whose socket belongs to another user, and
//! whose mode keeps root's group and others out, needs `CapabilityBoundingSet=CAP_DAC_OVERRIDE`;
//! `--socket-group` with a group that root does not have needs CAP_CHOWN and the system call:
//! `SocketGroup=` in `plugind.socket` does not. `ProcSubset=pid` would hide the id of the boot,
//! without which the state file is not used.
//!
//! # Signals and the clock
//!
//! SIGTERM and SIGINT stop the daemon with status 0. Running operations have 2 s to finish; a
//! second signal stops it at once. SIGUSR1 logs one line of status, in which `longest_turn_us` is
//! the longest time that the loop was busy since the last status. SIGHUP reloads the configuration,
//! unless the daemon is stopping. The daemon also survives the end of its terminal, after which the
//! log is lost. SIGKILL ends the daemon at once, and its programs with it; the state file may lack
//! plugins of the last second, except for those with a program.
//!
//! Setting the clock changes only the times in the log. While the machine is suspended, deadlines
//! and pauses do not advance.
//!
//! # The log
//!
//! `--log-format` is one of
//!
//! - `text`: time, level and message;
//! - `json`: an object per line, with `time`, `level`, `target` (the module) and `message`, and
//!   with `socket`, `type`, `name`, `attempt` and `reason` if it is an event;
//! - `journald`: `<3>` (error), `<4>`, `<6>` or `<7>` (debug, trace) and the message. It is the
//!   default if `JOURNAL_STREAM` names the device and inode of standard error, else `text` is.
//!
//! Lines that plugins cause are limited to 16 KiB/s in total and 256 bytes/s for each socket or
//! plugin, each after a burst; a warning with `count=` reports how many lines were suppressed. The
//! daemon's own lines, such as those about its start, signals, reloads, the plugins directories and
//! security, have a share of their own, 4 KiB/s. A slow reader of standard error never makes the
//! daemon wait: up to 64 KiB are kept, then lines are dropped, and a warning reports how many once
//! there is room.
//!
//! # Descriptors
//!
//! The daemon raises its limit of open files to the hard limit (`ulimit -Hn`); programs of `--exec`
//! get the original one. Below 64, it does not start: 48 are reserved for itself, and more for
//! commands of `plugind with`: an eighth of all, at most 128. At most half of the others are used
//! for plugins that are registering; further plugins wait. Fewer than half are used for the streams
//! and connections that stay open to registered device and DRA plugins; further ones are retried
//! with backoff, and until then the devices of those plugins are not known. When descriptors run
//! short, registered plugins are called at intervals of 30 s or more instead of being watched
//! through their process. A warning once in 10 minutes reports that plugins, calls or streams wait
//! for descriptors.
//!
//! # The state file
//!
//! With `--state-file FILE`, the daemon records the registered plugins, and at its next start
//! deregisters those whose sockets have been removed. Plugins below a directory that cannot be read
//! stay registered until it can be. The file is written one second after a change and when the
//! daemon stops. It has at most 8 MiB, which is 4 KiB for each of 2,048 sockets and several times
//! what a plugin needs; plugins with larger entries are left out when the file is full, with a
//! warning. A file that is incomplete, from before a reboot, or writable by other users is reported
//! and not used. A file that can never be written prevents the start; so does a directory above it
//! that another user can change, as /tmp itself.
//!
//! With programs (`--exec`), it is also written before a program is started, if it has changed:
//! what the program may set up is known to the next daemon, unless the full file leaves it out. The
//! loop waits for that, so the file belongs in a file system in memory, such as that of `/run`:
//! writing it takes 0.1 ms with 100 plugins. If it cannot be written, an `add` is refused with that
//! reason and tried again; `re-add` and `del` are run nevertheless, because their plugin is saved
//! already.
//!
//! # Programs
//!
//! `--exec TYPE=PROGRAM` runs a program to register and deregister plugins of a type, in place of
//! the built-in handler. It is executed directly, without a shell, as
//!
//! ```text
//! PROGRAM add|re-add|del TYPE NAME ENDPOINT
//! ```
//!
//! | action | when |
//! |---|---|
//! | `add` | the plugin is to be registered |
//! | `re-add` | the same, but the program may know the plugin already |
//! | `del` | the plugin was removed |
//!
//! A program may know a plugin that was registered before a restart of the daemon (with
//! `--state-file`), or that is in use again because a newer instance of its name was removed. With
//! `--csi-node-info`, `re-add` is also run when a registered CSI driver has another node ID, volume
//! limit or topology than before; its JSON then has `node`, with `nodeId`, `maxVolumes` and
//! `topology`.
//!
//! The environment is `PATH` and `PLUGIND_ACTION`, `PLUGIND_TYPE`, `PLUGIND_NAME`,
//! `PLUGIND_ENDPOINT`, `PLUGIND_SOCKET` and `PLUGIND_VERSIONS` (separated by commas).
//! `PLUGIND_SOCKET` is the registration socket of the plugin; the commands that ask the daemon do
//! not read it. Standard input is one line of JSON, here broken into three:
//!
//! ```text
//! {"action":"add","type":"CSIPlugin","name":"disk.example","endpoint":"/run/disk.sock",
//! "versions":["1.0.0"],
//! "socket":"/var/lib/kubelet/plugins_registry/disk.example-reg.sock"}
//! ```
//!
//! An argument is never more than one word, an option or a path that leads out of a directory. A
//! plugin whose texts do not match this grammar is refused with that reason:
//!
//! | text | grammar |
//! |---|---|
//! | type, version | an ASCII letter or digit, then letters, digits and `. _ - + :` |
//! | name | one such word, or two with a `/` in between |
//! | endpoint, socket | an absolute path of letters, digits and `. _ - + : @ = , % ~` |
//!
//! A path has no component `.` or `..`.
//!
//! Status 0 registers the plugin. Any other status refuses it, and the first line of standard error
//! is the reason that is sent to the plugin; standard output is not read. The outcome of `del`, and
//! of `re-add` for a plugin that is registered already, is only logged. For one plugin name one
//! program runs at a time, in the order of events.
//!
//! A program has 30 s; then it is killed with its process group. Processes that it leaves in that
//! group when it ends are killed, too: start what is to stay with `setsid`. An `add` that was
//! killed is followed by a `del`; one that fails is expected to have undone its work. A `del` that
//! ran is not repeated, whatever its status. A `del` that cannot be started (the program is being
//! replaced, or memory is short) is retried after 500 ms, then after pauses that double up to
//! 122 s; after 16 tries it is given up with a warning. Until it has run, an `add` for the same
//! name is refused, and retried itself.
//!
//! Write programs so that they can run twice. `plugind-exec(7)` says what they may rely on. A
//! program does not outlive the daemon: if the daemon is killed, the kernel kills the program, but
//! not the program's children, nor a program that is set-user-ID. These may still run when the next
//! daemon runs `re-add` or `del` for the name.
//!
//! A user who can change the program can do everything as the daemon's user. So the program and
//! every directory above it must belong to root or that user and be writable by no other, or the
//! daemon does not start. Without `--trust strict`, a sticky directory such as `/tmp` may be
//! above that of the program.
