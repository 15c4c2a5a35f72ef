//! What was decided and why, and what was given up for it.
//!
//! Each entry begins with the decision. "Given up" names what was tried or considered instead, so
//! that it is not tried again without a new reason. Figures are from the commits that made the
//! change, on x86_64; the README has those of today.
//!
//! # The shape
//!
//! - **Pure core, small shell.** Bytes and moments are arguments; what is to be done is a value in
//!   a queue. A simulator runs thousands of plugin lives in a second and replays each from a seed.
//!   Given up: an async runtime with a task for each plugin, whose order of events depends on a
//!   scheduler.
//! - **One thread, one loop, one deadline.** Readiness reconciles at once; deadlines are derived
//!   from states. A daemon at rest wakes up 0 times in 60 s, kubelet's plugin manager 1,630 times.
//!   Given up: kubelet's tick of 1 s, which remains only for directories that cannot be watched or
//!   that report no changes.
//! - **One typed stream of events.** What an operator is to see is a value
//!   ([`PluginEvent`](crate::manager::PluginEvent)) that is emitted once, where it happens; the log
//!   line is its text. It is logged at once, so that lines stay in order with those that only help
//!   to debug. Given up: log lines written by the shell when it reads the outputs, after all debug
//!   lines of the same step.
//! - **A library first.** [`PluginManager`](crate::daemon::PluginManager) is one descriptor, a
//!   deadline and a turn; the binary is its smallest user.
//! - **Two kinds of layers**: those of the core decide, and the shell (`daemon`) acts. A layer may
//!   call those in the last column and whatever these may call; `tests/tidy` holds it. All may use
//!   `config`, `backoff`, `budget`, `escape`, `octets` and `time`.
//!
//!   | layer | what for | calls |
//!   |---|---|---|
//!   | `hpack`, `http2`, `grpc` | octets to calls and back, for both ends | each the one before |
//!   | `proto` | the messages | |
//!   | `handler` | what is done with a plugin, by type | `grpc`, `proto` |
//!   | `watch` | changes of directories to sockets found and lost | |
//!   | `manager` | what to do next with each socket | `handler`, `watch` |
//!   | `api` | requests of operators to responses | `manager` |
//!   | `registration` | calls on `kubelet.sock` | `manager` |
//!   | `simulate` | a plugin without a driver | `grpc`, `proto` |
//!   | `daemon` | descriptors, files, processes, the clock | all of these |
//!   | `cli` | the commands | `daemon` |
//!
//! - **The shell has six folders**, each of which may call those above it; all may use `clock`,
//!   `source` (the tokens of the loop) and `connection` (from a descriptor to a protocol):
//!
//!   | folder of `daemon` | what for |
//!   |---|---|
//!   | `log` | writes lines |
//!   | `fs` | looks at, opens, locks and writes files |
//!   | `process` | starts programs, watches processes, knows this one |
//!   | `api` | serves the API socket, and is the client of the commands |
//!   | `event_loop` | joins these in one value, the plugin manager |
//!   | `service` | the binary around that value, and the commands that look at a node |
//!
//! - **Collections whose order can be seen are sorted** (`BTreeMap`), so that outputs never depend
//!   on a hasher. Given up: vectors of sorted runs of our own, which were some 120 kB smaller.
//! - **What is only looked up, by a path or a name, is a hash map**: beside 2,000 plugins, one that
//!   comes and goes takes 5 % more instructions than alone, and with sorted maps 18 %. The hasher
//!   is `foldhash`, with a seed of its own in each process. After thousands of plugins have gone,
//!   the maps keep up to 1.2 MiB. Given up: the standard library's hasher, with which a
//!   registration takes 8 % more instructions, and `rustc-hash`, for which keys can be computed
//!   that collide: a turn with 2,048 of them takes 40 ms.
//! - **Paths and names as keys are compared from their end** (`octets`), and sorted when they are
//!   shown. musl's `memcmp` compares one octet at a time, and paths have long beginnings in common:
//!   that took a third of the instructions of a registration. Given up: a `memcmp` of our own.
//! - **Numbers of operations, connections and tickets are never reused.** A late event of something
//!   that has ended is dropped by its number, which is the key of an ordered map. Given up: slots
//!   that are used again (`slab`), whose numbers need a generation beside the slot.
//!
//! # What is shipped
//!
//! - **HTTP/2 and gRPC are part of the crate.** Rust's HTTP/2 libraries need the traits of an async
//!   runtime. A client on `h2` needs 25,216 KiB to register 1,000 plugins at once, this program
//!   2,852. `h2` remains as an independent peer of the tests and fuzz targets.
//! - **Few packages, weighed in octets.** `lexopt` reads the command line (12 kB), `httparse` the
//!   heads of the API, `serde_json` reads and writes JSON, `env_logger` reads and applies the log
//!   filter, `smallvec` holds the one call of a connection and joins a path without an allocation,
//!   `memchr` splits a path (`serde_json` needs it, too), `foldhash` hashes keys, and `thiserror`
//!   writes what shows an error beside each of its kinds. Given up: `clap` (190 kB), `toml` (160
//!   kB), the feature `regex` of `env_logger` (700 kB), and a reader and writer of JSON of our own,
//!   which was 45 kB smaller.
//! - **`rustix` only where `nix` lacks the call**: statx, pidfd_open, capset, accept4 with an owned
//!   descriptor, and the digits of a descriptor without a format string. Given up: the accept of
//!   `mio`, which also reads the peer's address, and fails if that is of a TCP socket, or a path of
//!   108 octets.
//! - **`-o json` sorts the keys of an object**, as kubectl does. Given up: the order of the API, by
//!   the feature `preserve_order` of `serde_json` with its four packages.
//! - **The commands keep what the server writes as JSON**, so that `-o json` of an older client
//!   prints the keys of a newer daemon, too. The default table of `list` alone decodes only the
//!   texts that it shows and borrows them, which takes half of the instructions. Given up: derived
//!   structs for all formats, whose decoders took 32 kB.
//! - **The configuration file is the command line**, an option in each line: what reads the one
//!   reads the other, so keys, values and errors cannot differ. A new option is a row of one table,
//!   from which its key, its variable and its help text come, too. Given up: TOML, at 115 kB to 160
//!   kB for flat keys.
//! - **A reload follows the difference of two configurations.** A type whose own line did not
//!   change keeps its handler. Given up: a new table of handlers, which registered every plugin
//!   again.
//! - **Generated messages are checked in**, and a test generates them again. Given up: a build
//!   script and `protoc` on every machine.
//! - **`opt-level = "s"`, aborting on panic, without unwinding tables.** The tables were 90 kB of
//!   936. Given up: level 2, whose registration takes 15 % fewer instructions and whose binary is
//!   31 % larger, also if only this crate is built so. The table is in `Cargo.toml`.
//! - **`#[inline]` where a registration calls a small function often**: at this level the compiler
//!   does not inline such a function by itself. That is 4 % of the instructions, and 12 kB.
//! - **The static file is built as any other**: full RELRO, code apart from constants, musl's own
//!   entry point and functions, the linker's defaults; at most 1,500,000 octets. Given up: a file
//!   of 1,000,000 octets, which only a build of its own kind reaches, and a `memcpy` of our own:
//!   musl's takes 40 ns for any short copy on x86-64, ten times as long as glibc's, and a tenth of
//!   the CPU time of a registration.
//! - **A list that is short or seldom changed, or whose keys only grow, is a sorted `Vec`**, the
//!   others are ordered maps: each type of a map is 4 to 8 kB of the file, and a look-up by number
//!   takes twice as long in it. Given up: one collection for everything.
//! - **The standard library is built for size** (`optimize_for_size`): 82 kB less, and as many
//!   instructions. Given up: sorting large lists fast, and `opt-level = "z"`, which is 180 kB less
//!   and takes half as many instructions again.
//! - **Debian packages and images are written by `dpkg-deb`, `tar` and `printf`** (`src/dist/`).
//!   Given up: cargo-deb and image builders, which are more to install than the program.
//!
//! - **The feature `cli` is what a process needs, and an embedder does not**: the commands, the
//!   log, signals, `simulate`. Without it 32 packages are built instead of 35 (`cargo tree -e
//!   normal`), and 6,600 lines less. Given up: a feature for the API server, which would leave out
//!   no package, because `httparse` also recognises peers that speak HTTP/1, and would make a field
//!   of `PluginManager` conditional in nine files.
//! - **`Config` is not `#[non_exhaustive]`**: outside the crate, `Config { run_dir, ..default }`
//!   would not compile any more, which is how embedders write it. With that form, a new field
//!   breaks nothing.
//! - **A library locks only where it is told to** (`Config::run_dir`); the daemon always does.
//!   Given up: the daemon's run directory as the default, which made a program that embeds the
//!   plugin manager create `/run/plugind`.
//!
//! # Sockets
//!
//! - **A socket is its identity**: device, inode and birth time, or the time of modification on
//!   file systems without birth times. Given up: the change time, which moves with the chmod that
//!   most plugins do after bind.
//! - **A plugin that announces itself is a socket**, with another origin: the operation leaves out
//!   GetInfo and answers the call instead of NotifyRegistrationStatus, and everything else is
//!   shared. Its key is the path of its endpoint, and its identity the number of its call. Given
//!   up: a table of resources beside the sockets, as kubelet's device manager has one, with a
//!   second set of rules for names, restarts and liveness.
//! - **The endpoint of a call is dialed before its handler is asked**, although the handler dials
//!   it again: so a refusal is the same for every handler, and the peer process is known. The
//!   connection becomes the source of liveness, and nothing is sent on it where the process can be
//!   watched.
//! - **`kubelet.sock` is watched as a plugins directory is**: its directory, and the one above it
//!   for the name. Given up: every directory on the path.
//! - **The directory above a plugins directory is watched for its name.** Given up: counting what a
//!   directory is watched for; one that is both is watched anew when one purpose ends.
//! - **The mount table is as old as the turn at most**: it is polled once in a turn, and not for
//!   each path that is opened. Given up: a mount that appears within the same turn, of 20 ms, is
//!   seen by the next one.
//! - **A change of the mount table scans all plugins directories**, at most once a second. Given
//!   up: telling which mounts are near a directory, so a mount anywhere causes a scan.
//! - **One remedy for every doubt**: scan the directory again and compare. It serves the start,
//!   lost events, moves and directories without a watch.
//! - **A name that vanished is examined before that is believed.** Two directories that change
//!   places lost their plugins for 300 s otherwise. It costs one `statx` for each removal.
//! - **A directory is read at once**, up to limits that keep a turn of the loop short, and what
//!   changes all the time is examined after pauses that double.
//! - **No plugins directory is inside another one.** Given up: a tree of its own for each, cut out
//!   of the outer one.
//! - **What a plugin chooses never leads to a mount that may not answer.** A system call on such a
//!   mount does not return. The kernel resolves the path, on one mount or from its cache. Given up:
//!   a resolver of our own, which followed links across mounts on every kernel, and refused a link
//!   to an idle automount before that mounts anything.
//! - **A quota of sockets for each directory**, and one for all. A directory that is full leaves
//!   room for the others. Given up: quotas of whole parts of the tree; sockets on which nothing
//!   listens make room for others.
//! - **A socket has one path.** A further path to it is ignored; when the first one is removed, the
//!   directory of the further one is scanned, and it is a new socket. Given up: a plugin whose
//!   first path is removed or renamed stays registered through the other one; a memory of all such
//!   paths, so one in a third directory is found by the next resync.
//! - **A directory under two paths is watched under one**, and the other is tried again after 1 s
//!   to 60 s. Given up: following two directories that are exchanged at once; their sockets are
//!   found at their new paths within 1 s.
//!
//! # Registering
//!
//! - **A plugin is asked as soon as its socket is there**: 0.19 ms from listen to the notification
//!   (median), kubelet 496 ms. Most plugins were written for kubelet's tick, so the first second is
//!   lenient: dialing pauses for 5 µs at first, every failure climbs the backoff for a minute, and
//!   a call to an endpoint that is not ready is repeated for 2 s.
//! - **Backoff belongs to the identity.** Given up: backoff by path, which makes a new plugin wait
//!   for its predecessor's failures.
//! - **Questions are ordered for each plugin name**, as kubelet documents it. Given up: strict
//!   order. Two sockets that never answered held up an honest plugin for 239 s; a question that is
//!   open for 5 s now lets the next socket go ahead, and the honest plugin waits 10 s.
//! - **16 permits for operations that wait for their plugin.** What operations need at once in
//!   memory stays with the process. An operation gives up its permit after 5 ms if others wait. The
//!   others wait in order of arrival: 2,047 silent sockets hold a plugin up for 640 ms. Given up:
//!   64 operations at most, which 640 silent sockets held for 50 s, and a limit that adapts itself.
//! - **A connection ends without GOAWAY**, except after a connection error or a timeout. RFC 9113
//!   §6.8 asks for one "so that the remote peer can know whether a stream has been partially
//!   processed or not", and a server has no streams of its own. Given up: one for each connection,
//!   which woke the plugin once more: 4 % of the CPU time of a registration.
//! - **A refusal that depends only on what the plugin reports is sent once**, and tried again at
//!   the longest backoff. In 130 s kubelet sends it 8 times. Given up: the longest backoff from the
//!   first refusal on, because a plugin that was not ready when it was asked then waited for 122 s.
//! - **Effects belong to a plugin**, and the manager cancels them when the plugin is refused or
//!   deregistered. The number of an effect begins with its owner, so those of a plugin are
//!   neighbours and no list of them is kept. What handlers do for a plugin name or finish after a
//!   plugin, such as programs, is detached. Given up: handlers that cancel their effects, each with
//!   its own map from effects to plugins.
//! - **A panic of a handler ends the process**, and its supervisor starts it again: plugins stay
//!   registered over a restart. Given up: handlers that are dropped when they panic, where panics
//!   unwind, which the binary's do not.
//! - **What kubelet does not call is not called.** Given up: a CSI driver's GetPluginInfo and
//!   NodeGetCapabilities, whose replies were only shown (`simulate` does not serve them either);
//!   and a connection to the endpoint in a dry run, which `plugind probe` makes.
//! - **`plugind probe` is a dry run with one socket**: the same plugin manager, whose events are
//!   the steps, so the two cannot disagree. Given up: calls of its own, which also showed the mode
//!   of the file, the process and the SETTINGS; and the words of a dry run that no connection to
//!   the endpoint was made.
//! - **`plugind doctor` looks for six things**: a directory that cannot be used, plugins that
//!   would not be registered, those that are not trusted, sockets below another root, a kubelet
//!   beside it, and no daemon. It probes the plugins. Given up: checks of the kernel's features,
//!   which have a table in [`operator`](super::operator); of the run directory, the locks and the
//!   limit of descriptors, which `run` names; and notes on birth times, owners and modes.
//!   An API socket to which this user may not connect is a warning, and unknown types count as
//!   acceptable.
//! - **A list of devices is decoded by `prost` and compared with the one before**, both sorted. Of
//!   lists within 100 ms the newest is applied; one of more than 16,384 devices is rejected. Given
//!   up: lists of 65,536 devices.
//! - **A device has one answer to `Allocate` for its file**, which is kept while the device is
//!   listed, healthy or not: a device that flips costs no call. One call is open at a time. Given
//!   up: one call for all devices, because some plugins were only ever asked about one container;
//!   and asking again when a device recovers.
//! - **A device that needs nothing is in no CDI file**, because CDI does not allow one without
//!   edits. Given up: a variable of our own, which would differ from what the plugin has answered.
//! - **Devices are held by a connection to the API.** The kernel ends it with the process, however
//!   that ends. Given up: files of leases with a time, which have to be renewed or removed; a
//!   lease that outlives the daemon; and executing the command in place of `plugind with`, because
//!   `sudo` and many daemons close the descriptors that they inherit.
//! - **Clients that wait for devices of a resource are served in order of arrival**, also if others
//!   would fit in front.
//!   Given up: letting small wishes pass large ones, which might then wait for ever.
//! - **NodeGetInfo is repeated only if the user asks for it** (`--csi-node-info`), because the
//!   `CSIDriver` objects that say so to kubelet are in the API server. Then drivers that have a
//!   program are asked, too, which otherwise are not called at all.
//! - **A list of devices that is refused does not end its stream**, and the health of a device that
//!   a report leaves out stays until it expires, as with kubelet. Given up: a report as the list of
//!   all devices.
//! - **A taken endpoint is a rule of DRA drivers alone.** Given up: the rule for all types, which
//!   refused a device plugin for good that came back through another socket.
//!
//! # Registered plugins
//!
//! - **The process behind the connection is watched** by its pidfd (Linux 6.5), else the connection
//!   is held. Given up: PING frames, because grpc-go, C-core and grpc-java end a connection after a
//!   few. A driver beside its registrar is watched likewise, by the connection on which its handler
//!   has called it, and a plugin whose stream breaks is checked with its endpoint. Given up: a
//!   driver that is watched once for several registrations, which its handlers refuse anyway.
//! - **A plugin that is down stays registered**, as with kubelet, unless the user asks otherwise.
//! - **What was registered survives a restart in a file** that is valid for one boot only and is
//!   written a second after a change, as a whole. Given up: `fsync`, because the file is worth
//!   nothing after a reboot.
//! - **The state file is written before a program is started**, as a whole and at most once a turn:
//!   an `add` of the last second had no `del` if the daemon was killed. It lies in memory (`/run`)
//!   and takes 0.1 ms with 100 plugins. Given up: a journal, which kept a slow disk from holding up
//!   other plugins; and refusing a `del` or `re-add` whose plugin cannot be saved, because a full
//!   disk must not keep what is to be undone.
//! - **A `del` of a program is owed until it has run.** Before, one that could not be started
//!   counted as done.
//!
//! # Hostile neighbours
//!
//! - **Every buffer that a peer can fill has a limit in [`config`](crate::config)**, which an
//!   allocator that counts checks in `tests/allocation_bounds.rs`.
//! - **What is held of all plugins together has a budget**, because the sum of those limits is not
//!   one. What would exceed it is refused, unless it is small. Given up: taking lists and
//!   connections away from the plugin that holds most, and counting descriptions, failures and
//!   waiting programs, whose own limits are low.
//! - **Whom to trust is asked before the handler is**, and where an endpoint is when it is dialed:
//!   the open file is examined that is connected to, by its path on `/proc`, which takes one system
//!   call. By default what is not trusted works as with kubelet, and is reported once for each
//!   socket and reason. Root and the daemon's user may take a name from another user, because that
//!   user could keep it otherwise. A directory in which others may only add names, as `/tmp`, is
//!   not a reason to warn, but strict mode does not accept it above a directory that it relies on.
//!   Given up: the group of a process, which no option would allow; refusing endpoints that only a
//!   program of `--exec` dials; and ending registrations that a reload does not allow any more, as
//!   sshd leaves sessions.
//! - **The sandbox is entered before the first connection**, when all descriptors are open, by the
//!   package `landlock`, which leaves out what the kernel lacks. Rules are two levels above the
//!   directories that plugins have, because one that is removed and made again is another inode for
//!   the kernel, and one that a file system is mounted on is hidden. Given up: seccomp, which the
//!   unit has (`SystemCallFilter=`); the restriction of abstract sockets, which would cut off
//!   plugins and service managers; programs in the sandbox; and `/etc`, whose users and groups are
//!   read before.
//! - **CAP_DAC_OVERRIDE stays while sockets of other users are wanted**: in strict mode, once a
//!   user is allowed. Given up: dropping it there as well, so that `--allow-uid` alone would not
//!   suffice.
//! - **Each socket has a share of the log**, and the log never waits for its reader. One device
//!   that flipped its health wrote 26 MiB/s before, and 4 KiB/s since. `env_logger` only filters,
//!   because it would wait while it writes. Given up: a share for each directory, and formatting
//!   only those lines that are admitted.
//! - **Locks lie in the run directory**, which only the daemon's user can change. Given up: `flock`
//!   on the plugins directory, which every reader of it could hold: 28 of 150 restarts failed; and
//!   locks by which a daemon on a directory above or inside was recognized.
//! - **What is wrong with a setting is a text**, in `SetupError::Unusable`, except for directories
//!   and locks, about which a caller can do something. Given up: an enum for each kind of file and
//!   socket, of which no caller ever read a variant.
//! - **Every link below `by-name` that ends in `.sock` is the daemon's.** Given up: decoding file
//!   names, so that a link that no plugin can have stayed.
//! - **A lock is taken once.** Given up: taking that of the links again after the run directory was
//!   removed under a running daemon; the links themselves are made again.
//! - **The lock of a directory that is removed at run time is released at once.** Given up: with
//!   its last plugin. Before the directory is handed over to another daemon, that can be awaited.
//! - **Descriptors are counted against the limit**, with a share for each use. With a limit of 64,
//!   45 device plugins held all of them before, and a CSI plugin did not register.
//!
//! # Asking the daemon
//!
//! - **A record is a view of a socket**, made when it is read. Given up: a table of records beside
//!   the sockets, which would have to be kept in step with them.
//! - **A reader of changes is a number.** Each record has the generation of its last change, and
//!   the changes are one list for all readers; one that is slow gets the latest state of each
//!   record. Given up: a queue for each reader, which has to overflow, and a set of changed records
//!   for each.
//! - **Times are monotonic until they are read.** An edge node may boot in 1970 and set its clock
//!   later: earlier events are then shown with the right time, too.
//! - **The API is HTTP/1.1 on a Unix socket**, because `curl` and every language speak it. The
//!   framing is written here, as the rest of the wire, and `httparse` reads the heads. Given up:
//!   gRPC, whose clients need generated code.
//! - **A connection has one request, and a response is rendered as a whole**: 2,048 records take 3
//!   ms, and their metrics 1 ms. Given up: connections that persist, several requests at once,
//!   chunks, which the end of the connection replaces, and lists and metrics in pieces, whose parts
//!   showed different moments.
//! - **A request that is not understood gets an error with a body**, also if it began as `HEAD`.
//!   Given up: a parser that finds the method of what cannot be parsed.
//! - **`PLUGIND_API_SOCKET` names the socket of the API.** Given up: `PLUGIND_SOCKET`, which is the
//!   plugin's socket in programs of `--exec`: a script that runs `plugind list` would ask a plugin.
//! - **The daemon opens no network socket.** Prometheus reads a file that `plugind metrics` has
//!   written, through the textfile collector of node_exporter, or a socket that systemd has opened
//!   and passed in. That one serves three paths, and half of the clients at most.
//! - **The service manager is notified by hand**, with one `sendto` for each notification. Given
//!   up: `sd-notify`, at 4 kB for less; and a socket in the loop that reports when there is room,
//!   because a retry after 250 ms is enough.
//! - **Ready is one condition**, for `/readyz` and for systemd. A directory that is lost during the
//!   start delays both.
//! - **A passed socket together with `--socket none` is an error.** systemd would let clients
//!   connect, and none would be answered. Given up: to ignore one or the other.
//! - **The unit keeps the network namespace of the machine**, at an exposure of 1.2 instead of 0.7:
//!   an abstract endpoint of a plugin belongs to it. Given up for the same reason: a user of its
//!   own, who may not connect to sockets of root.
//! - **Metrics are measured where events are emitted**, and counted outside of the core.
//! - **Labels that plugins choose are bounded.** A type without a handler counts as `other`. Given
//!   up: sums in place of the series of sockets, of which there are at most six for each.
