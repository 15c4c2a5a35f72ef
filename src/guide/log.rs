//! Every line of the log at info and above, and every event: what it means and what to do.
//!
//! Words in braces stand for values. The level follows and, for events, the reason that `plugind
//! events` shows. The page plugind-log(7) of the manual is made from this one (`make generate`),
//! and `tests/tidy` finds a line that is missing here and an entry that is not logged. A line about
//! a socket has its path in front, and one of an attempt to register has the number of the attempt.
//!
//! # The daemon
//!
//! - `plugind {version} starting pid={pid} {config}` (info): The daemon starts; the options in
//!   force follow. All earlier lines are of another process.
//! - `serving {what} socket={path}` (info): Clients can connect to this socket: the commands that
//!   ask a daemon, and others.
//! - `cannot serve the API on {path}: {problem}; {remedy}` (warn): The default API socket cannot be
//!   used, and the daemon runs without it. Do what the line says and restart, or turn the API off
//!   with `--socket none`.
//! - `{mode} the plugins directory path={dir}` (info): The directory is watched: its plugins are
//!   registered or, in a dry run, only examined.
//! - `using a program as the handler type={type} program={path}` (info): Plugins of the type are
//!   registered by this program.
//! - `the sandbox is {sandbox}` (info): Whether the daemon has given up what it does not need, and
//!   the version of Landlock in force. It is off with `--sandbox off`, and with programs.
//! - `cannot drop capabilities, keeping them: {error}` (warn): The daemon keeps the
//!   capabilities of root. A filter of system calls denies capset(2): let it, or start the daemon
//!   without capabilities.
//! - `dry run: device plugins cannot register in {dir}` (info): With `--observe`, `kubelet.sock` is
//!   not created. Leave out one of the two options.
//! - `{change} requested through the API{target} pid={pid} uid={uid}` (info): A process has asked
//!   for a change, such as `plugind retry` does.
//! - `status {status} longest_turn_us={us}` (info): The answer to SIGUSR1: numbers of plugins, and
//!   the longest time that the loop was busy since the last status.
//! - `received SIGHUP, reloading the configuration` (info): The outcome follows in another line.
//! - `ignoring SIGHUP: the daemon is stopping` (info): The daemon ends, and does not reload.
//! - `reloaded the configuration:` (info, ConfigReloaded): The keys follow that have changed, and
//!   those that need a restart. Restart the daemon to have the latter in force.
//! - `cannot reload the configuration, so the one before stays in force:` (warn, ConfigRejected):
//!   The problems follow. Nothing has changed; mend them, and reload again.
//! - `cannot notify the service manager (NOTIFY_SOCKET): {why}` (warn): The service manager is
//!   not notified that the daemon is ready or alive, and may restart it. Check the unit's
//!   `NotifyAccess=`.
//! - `received {signal}, stopping` (info): The daemon stops when running operations have finished,
//!   within 2 s. A second signal stops it at once.
//! - `stopped` (info): The daemon has ended as asked. Plugins stay registered.
//! - `dropped while {state}: the daemon is stopping` (warn, OperationDropped): An operation did
//!   not finish within 2 s after the signal. The plugin is registered again at the next start;
//!   nothing has to be done.
//! - `low on file descriptors: {shortage}; raise the hard limit on open files (ulimit -Hn)`
//!   (warn, DescriptorsShort): Plugins wait, or are called less often. Raise the limit
//!   (`LimitNOFILE=` in a unit) and restart.
//! - `{subject}: lines suppressed, because they exceed the rate limit count={count}` (warn): The
//!   socket or plugin has caused more lines than are logged; `log` stands for all of them together.
//!   `plugind events` shows what happened; look for a plugin that restarts again and again.
//! - `log: lines dropped, because standard error could not be written count={count}` (warn): The
//!   reader of the log was too slow or stood still. Lines are missing here.
//!
//! # Errors that end the daemon
//!
//! These lines have `plugind: ` in front, neither a time nor a level, and the daemon ends with
//! status 1.
//!
//! - `cannot create the event loop: {error}` (exit status 1): The kernel has refused a descriptor,
//!   usually at the limit of open files. Raise it.
//! - `cannot set up signal handling: {error}` (exit status 1): As before.
//! - `cannot start with a limit of {limit} open files; at least {needed} are needed: raise the hard
//!   limit (ulimit -Hn, LimitNOFILE=)` (exit status 1): The daemon would be ready, and have no
//!   descriptor for a plugin.
//! - `cannot use the plugins directory {dir}: {problem}; {remedy}` (exit status 1): Plugins cannot
//!   be found in it. Do what the line says.
//! - `cannot use the plugins directory {dir}: another plugind uses it; stop that plugind first, or
//!   use --observe for a dry run lock={lock}{pid}` (exit status 1): Two daemons would notify every
//!   plugin twice. The process that holds the lock is named, if it is visible.
//! - `cannot use the run directory {dir}: {problem}; {remedy}` (exit status 1): It holds the locks,
//!   so the daemon does not run without it. It must belong to the user and be writable by no other.
//! - `cannot serve the API on {path}: {problem}; {remedy}` (exit status 1): The socket of
//!   `--socket`, or the default one with `--socket-group`, cannot be used.
//! - `cannot trust the directory {dir}: {problem}; {remedy}, or use --trust warn` (exit status 1):
//!   With `--trust strict`, only root and the daemon's user may be able to change the directories
//!   of plugins, locks and state, and those above them.
//! - `cannot use the program {program}: {problem}; {remedy}` (exit status 1): The program of an
//!   option `--exec` does not exist, or other users could change it. `run` ends with 78 for this.
//! - `cannot write the state file {file}: {error}; name a file in a directory that exists and is
//!   writable` (exit status 1): Trying again would not help. If the directory is missing, the
//!   status is 78.
//! - `cannot use the state file {file}: {problem}; name a file in a directory that only root and
//!   the daemon's user can change` (exit status 1): Other users could replace the file, as in /tmp.
//! - `cannot serve device plugins on kubelet.sock in {dir}: {problem}; {remedy}` (exit status 1):
//!   Another process listens there, usually a kubelet, or the directory cannot be used. Stop the
//!   kubelet first.
//! - `cannot use the CDI directory {dir}: {why}` (exit status 1): The directory of `--cdi-dir`
//!   cannot be used, or another daemon uses it. Do what the line says.
//! - `cannot watch programs of --exec: {error}; Linux 5.3 or later is required` (exit status 1):
//!   The kernel is too old, or a filter of system calls forbids `pidfd_open`. `run` ends with 78
//!   for this.
//! - `cannot use the socket {name} that the service manager has passed: {problem}` (exit status 1):
//!   Correct the `.socket` unit.
//! - `cannot listen on {socket}: {problem}` (exit status 1): A simulated plugin cannot create its
//!   socket. Create the directory, or name another one with `--dir`.
//!
//! # Directories
//!
//! A line about a directory is its path, a problem of this list, and what helps. While a directory
//! cannot be listed completely, plugins in it from before a restart stay registered.
//!
//! - `{dir}: the plugins directory was named twice; watching it once same_as={dir}` (info): Two
//!   options name one directory. Remove one of them.
//! - `{dir}: watching the plugins directory` (info): A directory was added while the daemon
//!   runs.
//! - `{dir}: stopped watching the plugins directory` (info): A directory was removed while the
//!   daemon runs. Its plugins are deregistered.
//! - `directory is being watched again` (info, DirectoryRecovered): The problem of the directory
//!   that was logged before is solved.
//! - `it does not exist` (warn, DirectoryLost): The plugins directory was removed. The daemon
//!   creates it again; find out what removes it.
//! - `it is not a directory` (warn, DirectoryLost): Another file has its name. Remove the file, or
//!   name another directory.
//! - `it cannot be created: {cause}` (warn, DirectoryLost): The directory is missing, and the
//!   daemon may not create it. Create it, or start the daemon as root.
//! - `it cannot be read: {cause}` (warn, DirectoryLost): New plugins in it are not found until it
//!   can be read. Check its permissions.
//! - `it cannot be watched and is scanned every {pause}: {cause}` (warn, DirectoryPolled): Plugins
//!   are found with a delay. The usual cause is a limit of inotify, and the line names it.
//! - `it contains names that cannot be examined, so it is scanned every {pause}` (warn,
//!   DirectoryPolled): The daemon may not look at some files in it. `-v` logs which.
//! - `its file system does not report all changes, so it is scanned every {pause}
//!   file_system={type}` (warn, DirectoryPolled): It is on a remote or a virtual file system, and
//!   plugins are found with a delay. Name a directory on a local one, or accept the delay.
//! - `its file system may not answer, so it is not read file_system={type}` (warn, DirectoryLost):
//!   A file system that hangs would stop the daemon. Use a local one, or name the directory with
//!   `--plugins-dir` if that is intended.
//! - `it is already watched as {dir}` (warn, DirectoryLost): A mount or link makes one directory
//!   appear twice. Its plugins are found once; nothing is lost.
//! - `it overlaps with the plugins directory {dir}, and none may be inside another` (exit status
//!   1): Two options name directories of which one is inside the other. Name the outer one alone.
//! - `it contains directories more than {depth} levels deep, which are ignored` (warn,
//!   DirectoryLimited): Sockets below that depth are not found. Move them up.
//! - `there are more than {count} plugin sockets; the rest are ignored` (warn, DirectoryLimited):
//!   The limit for all directories is reached. Remove dead sockets; `plugind doctor` lists them.
//! - `there are more than {count} directories; the rest are ignored` (warn, DirectoryLimited):
//!   Sockets in further directories are not found. Remove directories that do not belong there.
//! - `it contains more than {count} names, or {count} that may be sockets; the rest are ignored`
//!   (warn, DirectoryLimited): Sockets among the other names are not found. Remove files that do
//!   not belong there, and find the program that creates them.
//!
//! # Sockets and registration
//!
//! - `{path}: ignored: it leads to a socket that is already known socket={path}` (info): One socket
//!   is one plugin, whatever links lead to it. This path is used when the other one is removed.
//! - `found a socket` (debug, SocketFound): A socket was found, and its plugin is asked next.
//! - `the socket was replaced` (debug, SocketReplaced): The plugin has restarted. It is registered
//!   again.
//! - `the socket was removed` (debug, SocketLost): The plugin has gone. It is deregistered if it
//!   was registered.
//! - `{error}{yet}; retrying for {seconds} s` (info, NotConnected): The socket exists, but cannot
//!   be connected to. Normal while a plugin starts; a socket that a killed plugin has left behind
//!   should be removed.
//! - `registered {plugin} at {endpoint}` (info, Registered): The plugin can be used, and was
//!   notified.
//! - `{plugin} is in use again` (info, Promoted): The newer plugin of this name was deregistered,
//!   and this one takes its place. Normal at the end of a rolling update that was undone.
//! - `the handler has not answered for {time}; another socket of the same plugin name goes ahead`
//!   (info, HandlerStalled): A call or a program takes long. If the line is repeated, look at the
//!   plugin or program.
//! - `{plugin} takes the place of a plugin of another user; uid={uid} previous_uid={uid}
//!   previous_socket={path}` (warn, TakenOver): The name is now served by a process of another
//!   user. Check that this is intended: any user who can create sockets in the directory can take a
//!   name.
//! - `other users can change a directory: {problem}` (warn, Untrusted): A user who can change the
//!   directory of plugins can register any plugin. With `--trust strict`, the plugins there are
//!   refused until that is mended, and all plugins if it is the directory of locks or of state.
//! - `{plugin} would be refused with --trust strict: {reason}` (warn, Untrusted): The plugin
//!   works as with kubelet, but its user or the place of its endpoint is not one that you have
//!   named. Check that it is yours, and use the option at the end of the line. It is logged once
//!   for each reason.
//! - `{failure}; next try in {pause}` (warn): An attempt to register has failed; the reason is one
//!   of those below. It is logged once, and repeated attempts with the same reason at level debug.
//! - `{failure}; the plugin has to announce itself again` (warn): The same for a device plugin that
//!   has called `kubelet.sock`. Restart the plugin if it does not call again.
//! - `would register {plugin} at {endpoint}` (info, WouldRegister): Dry run: the plugin is
//!   accepted. What follows was not checked.
//! - `would refuse the plugin: {refusal}` (info, WouldRefuse): Dry run: the plugin is not accepted,
//!   for this reason.
//!
//! # Reasons of failed attempts
//!
//! - `cannot connect: {error}` (warn, ConnectFailed): Nothing answers on the socket. Check that the
//!   plugin runs and listens; remove the socket if the plugin was killed.
//! - `{reason}; the plugin has to register again` (warn, Down): `ListAndWatch has ended`: a device
//!   plugin that registered through `kubelet.sock` sends no more lists, although its process may
//!   live.
//! - `the driver's process at {endpoint} has ended` (warn, Down): The registrar answers, but
//!   nothing listens on the endpoint of the driver that it has registered. The plugin is up again
//!   when the endpoint answers.
//! - `cannot connect to the driver at {endpoint}: {error}` (warn, Down): The same for another
//!   reason.
//! - `GetInfo failed: {error}` (warn, GetInfoFailed): The plugin has not answered its first call,
//!   or with an error. If it is UNIMPLEMENTED, the socket is not for registration and should be
//!   elsewhere.
//! - `the plugin's reply to GetInfo is not a PluginInfo: {error}` (warn, GetInfoFailed): The reply
//!   cannot be decoded. Update or repair the plugin.
//! - `plugin refused: {refusal}` (warn, ValidationFailed or RegistrationFailed): The plugin is not
//!   accepted, for the reason that follows; it was notified. If the type has no handler, name it
//!   with `--type` or `--exec`.
//! - `NotifyRegistrationStatus failed: {error}` (warn, NotifyFailed): The plugin could not be
//!   notified that it is registered, so it is not; the attempt is repeated. Look at the log of the
//!   plugin.
//! - `the plugin's reply to NotifyRegistrationStatus is not a RegistrationStatusResponse: {error}`
//!   (warn, NotifyFailed): The reply cannot be decoded. Update or repair the plugin.
//!
//! # Registered plugins
//!
//! - `{plugin} is down: {failure}; {consequence}` (warn, Down): The plugin was registered and does
//!   not answer any more. Restart it; what becomes of the registration stands at the end.
//! - `{plugin} ({process}) is down: {failure}; {consequence}` (warn, Down): The same, with the
//!   process that served it.
//! - `{plugin} is up again` (info, Up): It answers again, and stayed registered.
//! - `another plugin answers on the socket of {plugin}` (warn, PluginChanged): The plugin behind a
//!   socket has changed without a new socket. The old one is deregistered, and the new one is
//!   registered.
//!
//! # Deregistration
//!
//! - `deregistered {plugin}` (info, Deregistered): The plugin is not used any more: its socket was
//!   removed, or it was down for too long.
//! - `not found below the watched directories after the restart; deregistering` (info,
//!   SocketMissing): The plugin has gone while the daemon was not running.
//! - `deregistered {plugin}, but its handler did not clean up: {reason};
//!   endpoint={endpoint}` (warn, DeregistrationFailed): The handler or program has failed to
//!   deregister it. Undo by hand what it has set up.
//! - `did not register {plugin}, and its handler did not clean up: {reason}` (warn,
//!   DeregistrationFailed): A registration has failed, and so has its undoing. Undo by hand what
//!   the handler has set up.
//! - `cannot clean up after {plugin}, which was registered before the restart: plugins of its type
//!   have no program any more` (warn, DebtDropped): An option `--exec` was removed while a
//!   `del` was due. Run the program with `del` by hand.
//!
//! # Device plugins
//!
//! - `received a device list {changes}` (info, DevicesChanged): Devices were added, removed, or
//!   have changed their health.
//! - `rejected its device list; {advice}: {why}` (warn, DevicesRejected): The list cannot be
//!   decoded, or exceeds a limit or the memory budget: the line says what becomes of the devices
//!   and what can be done. The plugin is asked again after a pause.
//! - `does not implement ListAndWatch, so none of its devices can be used; the method is not called
//!   again until the plugin registers again: {error}` (warn, DevicesUnavailable): The endpoint is
//!   not that of a device plugin. Check what the plugin has registered.
//! - `all devices are unhealthy: {why}` (info, DevicesUnhealthy): The stream of devices has ended.
//!   It is opened again; a plugin that has announced itself has to register again.
//! - `removed its devices: it has sent no device list in time grace={time}` (info, DevicesRemoved):
//!   The stream of devices was not opened again in time. Restart the plugin if it runs.
//! - `a device in use cannot be used now: {id} pid={pid}` (warn, DeviceLost): The device has become
//!   unhealthy, or its plugin has gone, while that process holds it (`plugind with`). It stays held
//!   until the process ends. Look at the device, and at the command.
//! - `a command was refused devices: {why} pid={pid}` (warn, AllocateFailed): The plugin has
//!   refused the devices, has not answered within 10 s, or its answer is not valid.
//! - `containers cannot be given some of its devices, asking again: Allocate of {id}: {why}` (warn,
//!   AllocateFailed): The plugin has refused a device, or its answer is not valid. The device is
//!   not in the file for container runtimes. Others may be missing, too: this is logged once.
//! - `containers cannot be given its devices: a part of the resource's name does not begin with a
//!   letter, as CDI requires` (warn, AllocateFailed): Give the resource another name.
//! - `{dir}: cannot update the CDI files, retrying: {error}` (warn): Container runtimes may
//!   see devices that have gone, or not see new ones. Make room in the directory, or make it
//!   writable.
//! - `{dir}: the CDI files can be updated again` (info): The problem before is solved.
//! - `{plugin} has announced itself` (debug, Announced): A device plugin has called `kubelet.sock`.
//!   It is asked next.
//! - `{plugin} did not announce itself again; deregistering` (info, NotAnnounced): It was
//!   registered before the restart and has not called within 5 min. Restart the plugin if it runs.
//! - `{dir}: rejected a device plugin: {reason}` (warn): The call to `kubelet.sock` was refused,
//!   and the plugin was given the reason. Repair or configure the plugin.
//! - `{dir}: rejected a device plugin: {reason} pid={pid} uid={uid}` (warn): The same, with the
//!   process that has called.
//! - `{dir}: kubelet.sock was removed or replaced, creating it again` (warn): Another process has
//!   removed the socket. If that is a kubelet, stop one of the two.
//! - `{dir}: cannot serve kubelet.sock, retrying: {problem}` (error): `kubelet.sock` cannot be
//!   created, usually because a kubelet listens on it. Stop the kubelet.
//! - `{dir}: device plugins can register again` (info): `kubelet.sock` was created again after a
//!   problem.
//! - `{dir}: cannot watch the directory; polling kubelet.sock every second: {error}` (warn): The
//!   removal of the socket is noticed with a delay. The usual cause is a limit of inotify: raise
//!   `fs.inotify.max_user_watches`.
//!
//! # CSI and DRA drivers
//!
//! - `received node information {driver}` (info, NodeInfoReceived): The CSI driver has answered
//!   NodeGetInfo.
//! - `node information has changed {driver}` (info, NodeInfoChanged): The CSI driver was asked
//!   again (`--csi-node-info`), and its volume limit or the topology is another one.
//! - `selected the DRA service to call service={service}` (info, ServiceSelected): The version of
//!   the interface that is used with this DRA driver.
//! - `connected` (info, Connected): The DRA driver can be called.
//! - `disconnected` (info, Disconnected): The connection to the DRA driver has ended. It is opened
//!   again.
//! - `received device health devices={total} healthy={healthy}` (info, DeviceHealthChanged): The
//!   DRA driver has reported the health of its devices.
//! - `device health was not reported in time devices={total}` (warn, DeviceHealthExpired): The DRA
//!   driver is connected, and has not reported the health of some devices in the time that it
//!   names. Look at the log of the driver.
//! - `device health is unknown: {why}` (info, DeviceHealthUnknown): The stream of health reports
//!   has ended. It is opened again.
//! - `device health is not available: the driver lists the health service, but does not implement
//!   it` (info, DeviceHealthUnavailable): The driver works, but its devices have no health. Update
//!   the driver, or have it list only what it serves.
//!
//! # Programs of --exec
//!
//! - `{action} succeeded after failed tries program={program} tries={tries}` (info,
//!   ProgramSucceeded): A `del` that could not be started has run now.
//! - `{action} failed: {why} program={program}` (warn, ProgramFailed): The program has ended with
//!   another status than 0, and is not run again for this. Check what it has left behind.
//! - `del failed and is retried with backoff: {reason} retry_in={pause}` (warn, ProgramFailed): The
//!   program cannot be started. Check that it exists and can be executed.
//! - `giving up del, so the program did not clean up: {reason} tries={tries}` (warn,
//!   ProgramGivenUp): The program could not be started for 16 min. Run it with `del` by hand.
//! - `not running del, so the program cannot clean up what it set up before the restart: {reason}`
//!   (warn, ProgramNotRun): The plugin was registered by an older version, and its texts are not
//!   accepted as arguments any more. Undo by hand what the program has set up.
//! - `not running re-add: {reason} program={program}` (warn, ProgramNotRun): The same, for a plugin
//!   that is in use again.
//!
//! # The state file
//!
//! - `{file}: restored plugins from the state file count={count}` (info): These plugins were
//!   registered before the restart. Those that have gone are deregistered.
//! - `{file}: the state file is ignored: {error}; plugins that disappeared while plugind was not
//!   running are not deregistered` (warn): It is incomplete, from before a reboot, or other users
//!   may change it. It is written again; check its permissions.
//! - `{file}: the state file is neither read nor written: cannot read the boot ID from {path}:
//!   {problem}; mount /proc` (warn): Without `/proc` it is not known whether the file is of this
//!   boot.
//! - `{file}: cannot write the state file, retrying: {error}` (warn): The disk may be full. Until
//!   it can be written, changes are lost if the daemon ends.
//! - `{file}: the state file can be written again` (info): The problem that was logged before is
//!   solved.
//! - `{path}: the last changes were not saved, so some plugins may be neither restored nor
//!   deregistered after the next start: {error}` (warn): The state file could not be
//!   written when the daemon stopped.
//! - `{file}: left plugins out of the state file: they do not fit, or a path is not UTF-8; they are
//!   not deregistered if they disappear while plugind is not running count={count}` (warn): Rename
//!   their sockets, or remove plugins.
//!
//! # Locks and links by name
//!
//! - `another plugind maintains the links to plugins by name, so this one does not
//!   lock={lock}{pid}` (info): Two daemons have one run directory, and the first makes the links.
//!   Name another one with `--run-dir` if this one has to make them.
//! - `cannot maintain the links to plugins by name: {error}` (warn): The run directory or the lock
//!   file in it cannot be used, and the daemon runs without links. Check their owner and
//!   permissions.
//! - `{dir}: cannot update the links to plugins by name, retrying: {error}` (warn): The disk may be
//!   full. Links may be missing or lead to plugins that have gone.
//! - `{dir}: the links to plugins by name can be updated again` (info): The problem that was logged
//!   before is solved.
